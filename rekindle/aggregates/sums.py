"""Sums and averages, exact under deletions whatever the input type.

Integers and decimals are added as wide integers, doubles as exact sums (`ExactDouble`), each beside
the count of non-NULL inputs; Spark's limits (int64, the result's precision, the range of doubles)
apply only when a buffer is made, to the group's exact total. So a group whose running total left
the range and came back is not an error, as it would not be for Spark on the present rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator, counted, doubles, valid_rows
from rekindle.aggregates.base import Buffers, LinearAggregate, Use, called
from rekindle.errors import EvaluationError
from rekindle.traces.arrays import Booleans, Int64s, integers
from rekindle.traces.exact_double import ExactDouble, nearest
from rekindle.traces.values import (
    Columns,
    ValueColumns,
    Weight,
    WideInteger,
    limbs_of_decimal128,
    limbs_of_int64,
)

_DECIMAL_LIMBS = 4


_SUMMED = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal", "interval")


class Sum(LinearAggregate):
    """n and Σx: Σx, or NULL when n = 0."""

    tag = "sum"
    calls = called("Sum")
    is_mergeable = True
    sums = 1

    def takes(self, types: Sequence[str], mode: str) -> bool:
        # A sum that is NULL where it overflows is not a function of the total alone.
        return types[0].startswith(_SUMMED) and mode != "TRY"

    def lifted(self, *arguments: Any) -> tuple[Any, ...]:
        return arguments

    def finished(self, count: int, *sums: Any) -> Any:
        return sums[0] if count else None

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        argument = use.arguments[0].type
        if argument.startswith("decimal"):
            return SumDecimal(inputs, buffers[0].precision, buffers[0].scale)
        if argument in ("float", "double"):
            return SumDouble(inputs)
        if argument.startswith("interval"):
            return SumInteger(inputs, type=buffers[0])
        return SumInteger(inputs, Overflow.WRAP if wraps_around(use) else Overflow.RAISE)


class Average(Sum):
    """n and Σx: Σx / n, or NULL when n = 0."""

    tag = "average"
    calls = called("Average")

    def finished(self, count: int, *sums: Any) -> Any:
        return quotient(sums[0], count) if count else None

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        argument = use.arguments[0].type
        if argument.startswith("decimal"):
            return AverageDecimal(inputs, buffers[0].precision, buffers[0].scale)
        if argument in ("float", "double"):
            return AverageDouble(inputs)
        if argument.startswith("interval"):
            return AverageInterval(inputs, buffers[0])
        return AverageInteger(inputs)


def wraps_around(use: Use) -> bool:
    """Does an integer sum beyond its type wrap around, as it does with ANSI mode off?"""
    return use.text.startswith("Sum/LEGACY")


def quotient(value: Any, count: int) -> Any:
    """Exact for whole numbers: a reference that rounds could not be compared with `==`."""
    return Fraction(value, count) if isinstance(value, int) else value / count


class Overflow(Enum):
    """What becomes of an integer total outside int64."""

    RAISE = "raise"
    WRAP = "wrap"
    NULL = "null"


_BIGINT = pa.int64()


@dataclass(frozen=True, slots=True)
class SumInteger:
    """sum of int8 to int64, or of an interval, which is a number of months or microseconds.

    Buffer: the sum in a `type` of 32 or 64 bits, NULL without non-NULL inputs.
    """

    inputs: tuple[str, ...]
    overflow: Overflow = Overflow.RAISE
    type: Any = _BIGINT

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (self.type,)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return _integer_values(prefix)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return _lift_integers(inputs[0], weights)

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        count, total = integers(values[0][0]), values[1]
        low, high = integers(total[0]), integers(total[1])
        outside = (high < -(2**31)) | (high >= 2**31)
        sums = (high << 32) | low
        if self.type.bit_width == 32:
            outside |= (sums < -(2**31)) | (sums >= 2**31)
        absent = count == 0
        if outside.any():
            match self.overflow:
                case Overflow.RAISE:
                    raise EvaluationError(
                        "[ARITHMETIC_OVERFLOW] long overflow",
                        detail=f"the sum of a group is {_as_python(total, outside)}",
                        hint="cast the argument of sum to DECIMAL or DOUBLE",
                    )
                case Overflow.NULL:
                    absent = absent | outside
                case Overflow.WRAP:
                    pass
        return [pa.array(sums, mask=absent).cast(self.type, safe=False)]


@dataclass(frozen=True, slots=True)
class AverageInterval:
    """avg of an interval. Buffers: sum in its `type`, count bigint."""

    inputs: tuple[str, ...]
    type: Any

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (self.type, pa.int64())

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return _integer_values(prefix)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return _lift_integers(inputs[0], weights)

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        return [*SumInteger(self.inputs, type=self.type).buffers(values), values[0][0]]


@dataclass(frozen=True, slots=True)
class AverageInteger:
    """avg of int8 to int64. Buffers: sum double, count bigint."""

    inputs: tuple[str, ...]

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.float64(), pa.int64())

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return _integer_values(prefix)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return _lift_integers(inputs[0], weights)

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        low, high = (integers(limb).astype(np.float64) for limb in values[1])
        return [pa.array(high * 2.0**32 + low), values[0][0]]


@dataclass(frozen=True, slots=True)
class SumDouble:
    """sum of float or double. Buffer: sum double, NULL without non-NULL inputs."""

    inputs: tuple[str, ...]

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.float64(),)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return _double_values(prefix)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return _lift_doubles(inputs[0], weights)

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        return [
            pa.array(nearest(values[1][0])[0], mask=integers(values[0][0]) == 0, from_pandas=False)
        ]


@dataclass(frozen=True, slots=True)
class AverageDouble:
    """avg of float or double. Buffers: sum double, count bigint."""

    inputs: tuple[str, ...]

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.float64(), pa.int64())

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return _double_values(prefix)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return _lift_doubles(inputs[0], weights)

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        return [pa.array(nearest(values[1][0])[0]), values[0][0]]


@dataclass(frozen=True, slots=True)
class SumDecimal:
    """sum of decimals of one scale. Buffers: sum decimal(precision, scale), is_empty boolean.

    `precision` is the buffer's. A total beyond it gives NULL with is_empty false, from which
    Spark's evaluation raises or returns NULL by its own settings.
    """

    inputs: tuple[str, ...]
    precision: int
    scale: int

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.decimal128(self.precision, self.scale), pa.bool_())

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return _decimal_values(prefix)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return _lift_decimals(inputs[0], weights)

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        total = _decimals(values[1], self.precision, self.scale)
        return [total, pa.array(integers(values[0][0]) == 0)]


@dataclass(frozen=True, slots=True)
class AverageDecimal:
    """avg of decimals. Buffers: sum decimal(precision, scale), NULL beyond it, and count bigint."""

    inputs: tuple[str, ...]
    precision: int
    scale: int

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.decimal128(self.precision, self.scale), pa.int64())

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return _decimal_values(prefix)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return _lift_decimals(inputs[0], weights)

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        return [_decimals(values[1], self.precision, self.scale), values[0][0]]


def _integer_values(prefix: str) -> tuple[ValueColumns, ...]:
    return (Weight(f"{prefix}_count"), WideInteger(f"{prefix}_sum", 2))


def _double_values(prefix: str) -> tuple[ValueColumns, ...]:
    return (Weight(f"{prefix}_count"), ExactDouble(f"{prefix}_sum"))


def _decimal_values(prefix: str) -> tuple[ValueColumns, ...]:
    return (Weight(f"{prefix}_count"), WideInteger(f"{prefix}_sum", _DECIMAL_LIMBS))


def _lift_integers(column: Any, weights: Int64s) -> list[Columns]:
    count = counted(valid_rows([column]), weights)
    filled = column.fill_null(0) if column.null_count else column
    values = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return [(pa.array(count),), WideInteger("", 2).lift(limbs_of_int64(values), count)]


def _lift_doubles(column: Any, weights: Int64s) -> list[Columns]:
    count = counted(valid_rows([column]), weights)
    return [(pa.array(count),), ExactDouble("").lift(doubles(column), count)]


def _lift_decimals(column: Any, weights: Int64s) -> list[Columns]:
    # A NULL's unscaled value is whatever the buffer holds; its count of zero removes it.
    count = counted(valid_rows([column]), weights)
    limbs = limbs_of_decimal128(column)
    return [(pa.array(count),), WideInteger("", _DECIMAL_LIMBS).lift(limbs, count)]


def _decimals(limbs: Columns, precision: int, scale: int) -> Any:
    """Wide integers as decimals, NULL where they need more than `precision` digits."""
    words = [integers(limb) for limb in limbs]
    bound = 10**precision
    outside = ~_below(words, bound) | _below(words, 1 - bound)
    data = np.empty((len(words[0]), _DECIMAL_LIMBS), dtype="<u4")
    for position, word in enumerate(words):
        data[:, position] = word & (2**32 - 1)
    validity = None
    if outside.any():
        validity = pa.py_buffer(np.packbits(~outside, bitorder="little").tobytes())
    return pa.Array.from_buffers(
        pa.decimal128(precision, scale), len(data), [validity, pa.py_buffer(data)]
    )


def _below(words: Sequence[Int64s], bound: int) -> Booleans:
    """Where the wide integer is less than `bound`, compared from the top limb down."""
    below = np.zeros(len(words[0]), dtype=bool)
    equal = np.ones(len(words[0]), dtype=bool)
    for position in reversed(range(len(words))):
        limb = bound >> (32 * position)
        if position < len(words) - 1:
            limb &= 2**32 - 1
        below |= equal & (words[position] < limb)
        equal &= words[position] == limb
    return below


def _as_python(limbs: Columns, mask: Booleans) -> int:
    row = int(np.flatnonzero(mask)[0])
    return sum(int(integers(limb)[row]) << (32 * i) for i, limb in enumerate(limbs))
