"""How the key and the identity of a row come from its columns, where Spark is not needed for it.

`rekindle.catalyst.hashing` says the same in Spark's expressions; both give the same numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.scalars import Call, Column, Scalar
from rekindle.catalyst.types import arrow_type, data_type
from rekindle.kernels.xxhash import is_hashable, row_hashes
from rekindle.spark.vectors import has_equal_bytes
from rekindle.traces.arrays import integers
from rekindle.traces.spread import spread


@dataclass(frozen=True, slots=True)
class Hashed:
    """The hash, by a seed, of the columns at some positions, or of rows of columns."""

    positions: tuple[int | tuple[int, ...], ...]
    seed: int

    @property
    def columns(self) -> set[int]:
        """All positions that have a part in it."""
        return {i for one in self.positions for i in ((one,) if isinstance(one, int) else one)}


@dataclass(frozen=True, slots=True)
class Copied:
    """The column at a position, as bigint."""

    position: int


@dataclass(frozen=True, slots=True)
class Spread:
    """The hash of an index with the lower bits of that of the row."""

    index: Hashed
    row: Hashed


Mark: TypeAlias = Hashed | Copied | Spread
Identity: TypeAlias = tuple[Mark, Mark, Mark]
"""How `_key`, `_id0` and `_id1` come from the columns."""


def identity_of(types: Sequence[str], *marks: Mark | None) -> Identity | None:
    """The identity of rows of such types, if it can be computed here."""
    key, first, second = marks
    if key is None or first is None or second is None:
        return None
    hashed = {i for mark in (key, first, second) for each in _hashes(mark) for i in each.columns}
    return (key, first, second) if all(_is_hashable(types[i]) for i in hashed) else None


def _hashes(mark: Mark) -> tuple[Hashed, ...]:
    match mark:
        case Hashed():
            return (mark,)
        case Spread():
            return (mark.index, mark.row)
        case Copied():
            return ()
    assert_never(mark)


def _is_hashable(type_: str) -> bool:
    # To Arrow a VARIANT is a struct of bytes; Spark hashes what it says.
    return "variant" not in type_.lower() and is_hashable(arrow_type(data_type(type_)))


def hashed_key(keys: Sequence[Scalar], seed: int) -> Hashed | None:
    """The hash of keys of types in which equal values have equal hashes.

    Such keys are columns, which may be structs of such types, or rows of columns.
    """
    found = [_place(key) for key in keys]
    known = tuple(place for place in found if place is not None)
    return Hashed(known, seed) if len(known) == len(keys) else None


def _place(key: Scalar) -> int | tuple[int, ...] | None:
    match key:
        case Column() if has_equal_bytes(key.type):
            return key.position
        case Call(function="row"):
            fields = [_place(field) for field in key.arguments]
            known = tuple(field for field in fields if isinstance(field, int))
            return known if len(known) == len(fields) else None
    return None


def marks(identity: Identity, columns: Sequence[Any], rows: int) -> list[Any]:
    """The marks of all rows; hashes of the same columns are computed together."""
    seeds: dict[tuple[int | tuple[int, ...], ...], list[int]] = {}
    for mark in (each for one in identity for each in _hashes(one)):
        if mark.seed not in seeds.setdefault(mark.positions, []):
            seeds[mark.positions].append(mark.seed)
    found = {}
    for positions, wanted in seeds.items():
        arrays = row_hashes([_taken(columns, place) for place in positions], wanted, rows)
        for seed, array in zip(wanted, arrays, strict=True):
            found[Hashed(positions, seed)] = array

    def marked(mark: Mark) -> pa.Array:
        match mark:
            case Hashed():
                return found[mark]
            case Spread():
                return pa.array(spread(integers(found[mark.index]), integers(found[mark.row])))
            case Copied():
                return pc.cast(columns[mark.position], pa.int64())
        assert_never(mark)

    return [marked(mark) for mark in identity]


def _taken(columns: Sequence[Any], place: int | tuple[int, ...]) -> Any:
    """A column, or several as one."""
    if isinstance(place, int):
        return columns[place]
    return pa.StructArray.from_arrays([columns[i] for i in place], [str(i) for i in place])
