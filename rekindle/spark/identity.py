"""How the key and the identity of a row come from its columns, where Spark is not needed for it.

`rekindle.spark.hashing` says the same in Spark's expressions; both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.scalars import Column, Scalar
from rekindle.kernels.xxhash import is_hashable, row_hashes
from rekindle.spark.types import arrow_type, data_type
from rekindle.spark.vectors import is_compared


@dataclass(frozen=True, slots=True)
class Hashed:
    """The hash, by a seed, of the columns at some positions."""

    positions: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Copied:
    """The column at a position, as bigint."""

    position: int


Mark: TypeAlias = Hashed | Copied
Identity: TypeAlias = tuple[Mark, Mark, Mark]
"""How `_key`, `_id0` and `_id1` come from the columns."""


def identity_of(types: Sequence[str], *marks: Mark | None) -> Identity | None:
    """The identity of rows of such types, if it can be computed here."""
    key, first, second = marks
    if key is None or first is None or second is None:
        return None
    hashed = {
        i for mark in (key, first, second) if isinstance(mark, Hashed) for i in mark.positions
    }
    return (key, first, second) if all(_is_hashable(types[i]) for i in hashed) else None


def _is_hashable(type_: str) -> bool:
    return is_hashable(arrow_type(data_type(type_)))


def hashed_key(keys: Sequence[Scalar], seed: int) -> Hashed | None:
    """The hash of keys that are columns, of types in which equal values have equal hashes."""
    found = [key.position for key in keys if isinstance(key, Column) and is_compared(key.type)]
    return Hashed(tuple(found), seed) if len(found) == len(keys) else None


def marks(identity: Identity, columns: Sequence[Any], rows: int) -> list[Any]:
    """The marks of all rows; hashes of the same columns are computed together."""
    seeds: dict[tuple[int, ...], list[int]] = {}
    for mark in identity:
        if isinstance(mark, Hashed) and mark.seed not in seeds.setdefault(mark.positions, []):
            seeds[mark.positions].append(mark.seed)
    found = {}
    for positions, wanted in seeds.items():
        arrays = row_hashes([columns[i] for i in positions], wanted, rows)
        for seed, array in zip(wanted, arrays, strict=True):
            found[Hashed(positions, seed)] = array
    return [
        found[mark] if isinstance(mark, Hashed) else pc.cast(columns[mark.position], pa.int64())
        for mark in identity
    ]
