"""Vectorised rings: how the values of a collection are stored in columns, added and compared.

A collection maps rows to ring values. Here a ring is a group of Arrow columns (`ValueColumns`) with
a segmented sum, so that consolidation is one `reduce` over sorted rows whatever the ring. Addition
of every kind is exact, hence associative and commutative: a trace means the same however its runs
were merged, and deleting what was inserted gives exactly zero. `is_zero` looks at every component,
because a value with count 0 and a non-zero sum is not absent.

`Weight` is the ring of integers (Z-sets, DBSP section 4.1); the sums that aggregates keep are in
`WideInteger` (integers and decimals) and in `exact_double.ExactDouble`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rekindle.errors import EvaluationError
from rekindle.traces.arrays import WEIGHT, Booleans, Int64s, integers

Columns = Sequence[Any]
"""The physical columns of one value, as `pa.Array`s in the order of `ValueColumns.fields`."""

WEIGHT_LIMIT = 2**31
"""A multiplicity of this size or more would overflow a limb product."""

_LIMB_BITS = 32
_LIMB_MASK = 2**_LIMB_BITS - 1


class ValueColumns(Protocol):
    """A ring stored in columns."""

    @property
    def name(self) -> str: ...

    @property
    def fields(self) -> tuple[pa.Field, ...]: ...

    def zeros(self, rows: int) -> Columns: ...

    def reduce(self, columns: Columns, starts: Int64s) -> Columns:
        """The sum of each segment; segment i begins at row `starts[i]`, and none is empty."""
        ...

    def is_zero(self, columns: Columns) -> Booleans: ...

    def negate(self, columns: Columns) -> Columns: ...

    def to_json(self) -> dict[str, Any]: ...


def check_weights(weights: Int64s) -> None:
    """Every multiplicity is small enough for exact products."""
    if len(weights) and max(int(weights.max()), -int(weights.min())) >= WEIGHT_LIMIT:
        raise EvaluationError(
            "a row's multiplicity is too large to aggregate",
            detail=f"multiplicities must stay below {WEIGHT_LIMIT} in one change",
            hint="split the change into several transactions",
        )


@dataclass(frozen=True, slots=True)
class Words:
    """What all groups of one int64 column have in common; nothing is the word 0."""

    name: str

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(self.name, pa.int64()),)

    def zeros(self, rows: int) -> Columns:
        return (pa.array(np.zeros(rows, dtype=np.int64)),)

    def is_zero(self, columns: Columns) -> Booleans:
        mask: Booleans = integers(columns[0]) == 0
        return mask


@dataclass(frozen=True, slots=True)
class Weight(Words):
    """The integers: one int64 column."""

    name: str = WEIGHT

    def reduce(self, columns: Columns, starts: Int64s) -> Columns:
        return (pa.array(np.add.reduceat(integers(columns[0]), starts)),)

    def negate(self, columns: Columns) -> Columns:
        return (pa.array(-integers(columns[0])),)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "weight", "name": self.name}


@dataclass(frozen=True, slots=True)
class WideInteger:
    """Exact integers in base 2^32, little endian: limbs in [0, 2^32) below a signed top limb.

    Two limbs hold the sum of up to 2^31 int64 values, four that of as many decimal128 ones.
    The form is canonical, so a value is zero exactly when all limbs are.
    """

    name: str
    limbs: int

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return tuple(pa.field(f"{self.name}_{limb}", pa.int64()) for limb in range(self.limbs))

    def zeros(self, rows: int) -> Columns:
        return (pa.array(np.zeros(rows, dtype=np.int64)),) * self.limbs

    def reduce(self, columns: Columns, starts: Int64s) -> Columns:
        return self._carried([np.add.reduceat(integers(column), starts) for column in columns])

    def is_zero(self, columns: Columns) -> Booleans:
        mask: Booleans = integers(columns[0]) == 0
        for column in columns[1:]:
            mask &= integers(column) == 0
        return mask

    def negate(self, columns: Columns) -> Columns:
        return self._carried([-integers(column) for column in columns])

    def lift(self, limbs: Sequence[Int64s], weights: Int64s) -> Columns:
        """The value of each row, given in canonical limbs, times its weight."""
        check_weights(weights)
        return self._carried([limb * weights for limb in limbs])

    def to_json(self) -> dict[str, Any]:
        return {"kind": "wide_integer", "name": self.name, "limbs": self.limbs}

    def _carried(self, limbs: list[Int64s]) -> Columns:
        for position in range(self.limbs - 1):
            limbs[position + 1] = limbs[position + 1] + (limbs[position] >> _LIMB_BITS)
            limbs[position] = limbs[position] & _LIMB_MASK
        return tuple(pa.array(limb) for limb in limbs)


def limbs_of_int64(values: Int64s) -> tuple[Int64s, Int64s]:
    """An int64 vector as two canonical limbs."""
    return values & _LIMB_MASK, values >> _LIMB_BITS


def limbs_of_decimal128(column: Any) -> tuple[Int64s, Int64s, Int64s, Int64s]:
    """The unscaled values of a decimal128 array as four canonical limbs; NULLs are garbage."""
    data = np.frombuffer(column.buffers()[1], dtype="<u4", count=4 * (column.offset + len(column)))
    words = data.reshape(-1, 4)[column.offset :]
    low, second, third = (words[:, limb].astype(np.int64) for limb in range(3))
    return low, second, third, words[:, 3].astype(np.int32).astype(np.int64)
