"""What the rows of a node are hashed and sorted by: key, then identity.

A row's key says in which range it is found, its identity tells it from other rows of the key. Both
are computed from its columns, by expressions of Spark or on Arrow columns (`spark/stages.py`).
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TypeAlias

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema


class Nulls(enum.Enum):
    """What an arrangement does with rows that have a NULL in their key."""

    LEFT_OUT = "left out"
    """They join nothing."""
    KEPT = "kept"
    """They form groups like any others."""


@dataclass(frozen=True, slots=True)
class ByColumns:
    """Rows by the columns of a primary key, or by the whole row where there are none."""

    schema: Schema
    columns: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class BySpread:
    """Rows by columns that any number of them may share, and among those by the whole row."""

    schema: Schema
    columns: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ByKeys:
    """Rows by expressions; those of one key in the order of a bigint column, if one is given."""

    schema: Schema
    keys: tuple[Scalar, ...]
    nulls: Nulls
    order: int | None


@dataclass(frozen=True, slots=True)
class ByStamps:
    """Rows by keys or the whole row, told apart by all columns but the last, which are stamps."""

    schema: Schema
    keys: tuple[Scalar, ...] | None
    stamps: int


@dataclass(frozen=True, slots=True)
class ByGroup:
    """Rows of `schema` as `scalars`, of which the first `keys` say to what group a row belongs."""

    schema: Schema
    scalars: tuple[Scalar, ...]
    keys: int


KeyedBy: TypeAlias = ByColumns | BySpread | ByKeys | ByStamps | ByGroup
