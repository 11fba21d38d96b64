"""Stages that only move columns and hash them, on Arrow columns and without the JVM.

Much of what joins, arrangements and recursions do to a row is to compare two columns, leave some
out and hash the rest. A call into the JVM costs milliseconds whatever the size, and more than the
work itself for many rows; these few shapes are done in the driver instead. Everything else is
Spark's (`segment.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.scalars import Call, Column, Literal, Scalar
from rekindle.calculus.schema import Schema
from rekindle.kernels.xxhash import is_hashable, row_hashes
from rekindle.spark.types import arrow_type, data_type
from rekindle.traces.arrays import WEIGHT

_COMPARED = ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp")
"""Types whose values Spark compares as Arrow does; zeros and NaNs of floats it does not."""


@dataclass(frozen=True, slots=True)
class Taken:
    """The column at a position."""

    position: int


@dataclass(frozen=True, slots=True)
class Widened:
    """The integers at a position, as bigint."""

    position: int


@dataclass(frozen=True, slots=True)
class Fixed:
    """One value in every row."""

    value: bool | int | str
    type: str


@dataclass(frozen=True, slots=True)
class Latest:
    """The greatest of some columns without NULLs."""

    positions: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Hashed:
    """The hash of some columns by a seed."""

    positions: tuple[int, ...]
    seed: int


Plain: TypeAlias = Taken | Widened | Fixed | Latest | Hashed


@dataclass(frozen=True, slots=True)
class Columnar:
    """Rows whose columns are pairwise `equal` and `present`, as named `outputs`."""

    outputs: tuple[tuple[str, Plain], ...]
    equal: tuple[tuple[int, int], ...] = ()
    present: tuple[int, ...] = ()

    def run(self, table: pa.Table) -> pa.Table:
        """The rows of a table of `_weight` and columns."""
        columns = table.columns[1:]
        kept = _kept(columns, self)
        if kept is not None:
            table = table.filter(kept)
            columns = table.columns[1:]
        hashed = _hashes(self, columns, len(table))
        given = [
            hashed[plain] if isinstance(plain, Hashed) else _column(plain, columns, len(table))
            for _, plain in self.outputs
        ]
        names = [WEIGHT, *(name for name, _ in self.outputs)]
        return pa.Table.from_arrays([table.column(0), *given], names=names)


def _kept(columns: Sequence[Any], stage: Columnar) -> Any | None:
    found = [pc.equal(columns[left], columns[right]) for left, right in stage.equal]
    found += [pc.is_valid(columns[i]) for i in stage.present if columns[i].null_count]
    kept = None
    for mask in found:
        kept = mask if kept is None else pc.and_(kept, mask)
    return kept


def _column(plain: Taken | Widened | Fixed | Latest, columns: Sequence[Any], rows: int) -> Any:
    match plain:
        case Taken():
            return columns[plain.position]
        case Widened():
            return pc.cast(columns[plain.position], pa.int64())
        case Fixed():
            return pa.repeat(pa.scalar(plain.value, arrow_type(data_type(plain.type))), rows)
        case Latest():
            return pc.max_element_wise(*(columns[i] for i in plain.positions))


def _hashes(stage: Columnar, columns: Sequence[Any], rows: int) -> dict[Hashed, pa.Array]:
    """The hashes that a stage gives; those of the same columns are computed together."""
    together: dict[tuple[int, ...], list[Hashed]] = {}
    for _, plain in stage.outputs:
        if isinstance(plain, Hashed) and plain not in together.setdefault(plain.positions, []):
            together[plain.positions].append(plain)
    found: dict[Hashed, pa.Array] = {}
    for positions, wanted in together.items():
        arrays = row_hashes([columns[i] for i in positions], [h.seed for h in wanted], rows)
        found |= dict(zip(wanted, arrays, strict=True))
    return found


def plain(scalar: Scalar) -> Plain | None:
    """The scalar as something that moves columns, if it is that."""
    match scalar:
        case Column():
            return Taken(scalar.position)
        case Literal() if isinstance(scalar.value, bool | int | str):
            return Fixed(scalar.value, scalar.type)
        case Call(function="greatest"):
            positions = [a.position for a in scalar.arguments if isinstance(a, Column)]
            return Latest(tuple(positions)) if len(positions) == len(scalar.arguments) else None
    return None


def projection(scalars: Sequence[Scalar], names: Sequence[str] | None = None) -> Columnar | None:
    """The stage that gives these scalars, as c0, c1... or by the given names."""
    found = [value for value in map(plain, scalars) if value is not None]
    if len(found) < len(scalars):
        return None
    names = names or [f"c{i}" for i in range(len(found))]
    return Columnar(tuple(zip(names, found, strict=True)))


def match(
    left_keys: Sequence[Scalar], right_keys: Sequence[Scalar], left_width: int, width: int
) -> Columnar | None:
    """The stage that keeps pairs of rows whose keys are equal."""
    equal = []
    for left, right in zip(left_keys, right_keys, strict=True):
        if not (isinstance(left, Column) and isinstance(right, Column)):
            return None
        if left.type != right.type or left.type not in _COMPARED:
            return None
        equal.append((left.position, left_width + right.position))
    return Columnar(_all(width), tuple(equal))


def identified(
    schema: Schema,
    key: Plain,
    first: Plain,
    second: Plain,
    present: Sequence[int] = (),
    names: Sequence[str] | None = None,
) -> Columnar | None:
    """The stage that adds `_key`, `_id0` and `_id1` to the columns, which it may name."""
    named = (("_key", key), ("_id0", first), ("_id1", second))
    hashed = {i for _, value in named if isinstance(value, Hashed) for i in value.positions}
    if not all(_is_hashable(schema.fields[i].type) for i in hashed):
        return None
    columns = _all(len(schema), names)
    return Columnar((*columns, *named), present=tuple(present))


def key_positions(keys: Sequence[Scalar]) -> tuple[int, ...] | None:
    """Where the keys stand, if they are columns of which equal ones have equal hashes."""
    found = [key.position for key in keys if isinstance(key, Column) and key.type in _COMPARED]
    return tuple(found) if len(found) == len(keys) else None


def _is_hashable(type_: str) -> bool:
    return "collate" not in type_ and is_hashable(arrow_type(data_type(type_)))


def _all(width: int, names: Sequence[str] | None = None) -> tuple[tuple[str, Plain], ...]:
    names = names or [f"c{i}" for i in range(width)]
    return tuple((name, Taken(i)) for i, name in enumerate(names))
