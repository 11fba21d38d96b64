"""Stages on Arrow columns, without the JVM, where they only need what Arrow and numpy have.

Much of what joins, arrangements and recursions do to a row is to compare two columns, leave some
out and hash the rest. A call into the JVM costs milliseconds whatever the size, and more than the
work itself for many rows. Every other stage is Spark's (`segment.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.scalars import Column, Scalar
from rekindle.frontends.spark_sql.jvm import JavaObject
from rekindle.kernels.xxhash import is_hashable, row_hashes
from rekindle.spark.types import arrow_type, data_type
from rekindle.spark.vectors import COMPARED, Vector, Vectors
from rekindle.traces.arrays import WEIGHT


@dataclass(frozen=True, slots=True)
class Hashed:
    """The hash, by a seed, of the outputs at some positions."""

    positions: tuple[int, ...]
    seed: int


@dataclass(frozen=True, slots=True)
class Copied:
    """The output at a position, as bigint."""

    position: int


Mark: TypeAlias = Hashed | Copied
Identity: TypeAlias = tuple[Mark, Mark, Mark]
"""How `_key`, `_id0` and `_id1` come from the outputs before them."""


@dataclass(frozen=True, slots=True)
class Columnar:
    """The rows on which `predicate` holds, as named `outputs`, and an identity for each."""

    names: tuple[str, ...]
    predicate: Vector | None
    outputs: tuple[Vector, ...]
    identity: Identity | None

    def run(self, table: pa.Table) -> pa.Table:
        """The rows of a table of `_weight` and columns."""
        if self.predicate is not None:
            table = table.filter(_expanded(self.predicate(table.columns[1:]), len(table)))
        columns = table.columns[1:]
        given = [_expanded(output(columns), len(table)) for output in self.outputs]
        marks = [] if self.identity is None else _marks(self.identity, given, len(table))
        return pa.Table.from_arrays([table.column(0), *given, *marks], names=[WEIGHT, *self.names])


def _expanded(value: Any, rows: int) -> Any:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def _marks(identity: Identity, columns: Sequence[Any], rows: int) -> list[Any]:
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


def columnar(
    attributes: Sequence[JavaObject],
    predicate: JavaObject | None,
    outputs: Sequence[tuple[str, JavaObject]],
    identity: Identity | None,
) -> Columnar | None:
    """The stage, if all of it has a shape that is known here."""
    columns = outputs if identity is None else outputs[: -len(identity)]
    vectors = Vectors(attributes)
    kept = None
    if predicate is not None:
        kept = vectors.vector(predicate)
        if kept is None:
            return None
    found = []
    for _, expression in columns:
        output = vectors.vector(expression)
        if output is None:
            return None
        found.append(output)
    return Columnar(tuple(name for name, _ in outputs), kept, tuple(found), identity)


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
    return "collate" not in type_ and is_hashable(arrow_type(data_type(type_)))


def hashed_key(keys: Sequence[Scalar], seed: int) -> Hashed | None:
    """The hash of keys that are columns, of types in which equal values have equal hashes."""
    found = [key.position for key in keys if isinstance(key, Column) and key.type in COMPARED]
    return Hashed(tuple(found), seed) if len(found) == len(keys) else None
