"""bit_and, bit_or and bit_xor of whole numbers.

Kept are the number n of values and, for each bit, how many of them have it: cᵢ. A bit is in the
result of bit_and if cᵢ = n, of bit_or if cᵢ > 0, of bit_xor if cᵢ is odd. For the last the parities
are enough, one word of them (`traces.parities`). The counts of a group are one sparse integer
(`traces.exact_double`) with the digits of cᵢ at the places 2i and 2i + 1, so a bit that no value
has costs nothing.

Buffer: the result, of the argument's type, NULL for a group without non-NULL inputs.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator, counted, valid_rows
from rekindle.aggregates.base import Buffers, LinearAggregate, Use, called
from rekindle.traces.arrays import Booleans, Int64s, integers
from rekindle.traces.consolidate import key_starts
from rekindle.traces.exact_double import ExactDouble, Terms, collect, entries
from rekindle.traces.parities import Parities
from rekindle.traces.values import Columns, ValueColumns, Weight, check_weights

_WORD = 64
_DIGIT = 32
_BLOCK = 2**16
"""So many groups are counted at a time: each has up to a count for every bit."""


class _Bits(LinearAggregate):
    """n and the number of values with each bit."""

    sums = _WORD

    def lifted(self, *arguments: Any) -> tuple[Any, ...]:
        return tuple(arguments[0] >> bit & 1 for bit in range(_WORD))

    def finished(self, count: int, *sums: Any) -> Any:
        if not count:
            return None
        word = sum(1 << bit for bit, having in enumerate(sums) if self.holds(having, count))
        return word - (1 << _WORD) if word >> (_WORD - 1) else word

    @abstractmethod
    def holds(self, having: Any, count: Any) -> Any:
        """Is a bit in the result that so many of `count` values have?"""


class BitAnd(_Bits):
    """The bits that all values have, or NULL when n = 0."""

    tag = "bit_and"
    calls = called("BitAndAgg")

    def holds(self, having: Any, count: Any) -> Any:
        return having == count

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return EveryBit(inputs, buffers[0])


class BitOr(_Bits):
    """The bits that some value has, or NULL when n = 0."""

    tag = "bit_or"
    calls = called("BitOrAgg")

    def holds(self, having: Any, count: Any) -> Any:
        return having != 0

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return AnyBit(inputs, buffers[0])


class BitXor(_Bits):
    """The bits that an odd number of values have, or NULL when n = 0."""

    tag = "bit_xor"
    calls = called("BitXorAgg")

    def holds(self, having: Any, count: Any) -> Any:
        return having & 1

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return OddBits(inputs, buffers[0])


@dataclass(frozen=True, slots=True)
class _CountedBits:
    """What bit_and and bit_or share."""

    inputs: tuple[str, ...]
    type: Any
    aggregate: ClassVar[_Bits]

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (self.type,)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (Weight(f"{prefix}_count"), ExactDouble(f"{prefix}_bits"))

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return self.total(inputs, weights, np.arange(len(weights)))

    def total(self, inputs: Sequence[Any], weights: Int64s, starts: Int64s) -> list[Columns]:
        """The number of values of each segment of rows, and of those with each bit."""
        check_weights(weights)
        count = counted(valid_rows(inputs), weights)
        words = _words(inputs[0])
        ends = np.append(starts, len(words))
        found = []
        for first in range(0, len(starts), _BLOCK):
            part = slice(first, first + _BLOCK)
            rows = slice(ends[first], ends[min(first + _BLOCK, len(starts))])
            found.append(self._counts(words[rows], count[rows], starts[part] - ends[first]))
        number = np.add.reduceat(count, starts) if len(starts) else count
        bits = pa.concat_arrays(found) if found else collect(0, [])
        return [(pa.array(number),), (bits,)]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        count = integers(values[0][0])
        row, place, digit = entries(values[1][0])
        words = np.zeros(len(count), dtype=np.uint64)
        if len(row):
            first = key_starts(row * _WORD + place // 2)
            having = np.add.reduceat(digit << (_DIGIT * (place % 2)), first)
            row, bit = row[first], place[first] // 2
            held = np.flatnonzero(self.aggregate.holds(having, count[row]))
            np.bitwise_or.at(words, row[held], np.uint64(1) << bit[held].astype(np.uint64))
        return [_result(words.view(np.int64), count == 0, self.type)]

    def _counts(self, words: Int64s, weights: Int64s, starts: Int64s) -> Any:
        """How many values of each segment have each bit, as one column."""
        terms = []
        for bit in range(self.type.bit_width):
            having = (words >> bit) & 1
            if having.any():
                number = np.add.reduceat(having * weights, starts)
                row = np.flatnonzero(number)
                digits = number[row] & (2**_DIGIT - 1), number[row] >> _DIGIT
                terms += [
                    Terms(row, np.full(len(row), 2 * bit + i), digit)
                    for i, digit in enumerate(digits)
                ]
        return collect(len(starts), terms)


@dataclass(frozen=True, slots=True)
class EveryBit(_CountedBits):
    """bit_and."""

    aggregate: ClassVar[_Bits] = BitAnd()


@dataclass(frozen=True, slots=True)
class AnyBit(_CountedBits):
    """bit_or."""

    aggregate: ClassVar[_Bits] = BitOr()


@dataclass(frozen=True, slots=True)
class OddBits:
    """bit_xor."""

    inputs: tuple[str, ...]
    type: Any

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (self.type,)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (Weight(f"{prefix}_count"), Parities(f"{prefix}_bits"))

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        count = counted(valid_rows(inputs), weights)
        return [(pa.array(count),), Parities("").lift(_words(inputs[0]), count)]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        return [_result(integers(values[1][0]), integers(values[0][0]) == 0, self.type)]


def _words(column: Any) -> Int64s:
    """Whole numbers, zero where they are NULL."""
    filled = column.fill_null(0) if column.null_count else column
    words: Int64s = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return words


def _result(words: Int64s, absent: Booleans, type_: Any) -> Any:
    """The lowest bits of words as numbers of a type."""
    return pa.array(words.astype(type_.to_pandas_dtype()), type_, mask=absent)
