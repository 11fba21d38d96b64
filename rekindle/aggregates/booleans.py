"""min and max of booleans, which are bool_and and bool_or: true if all are, or if any is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator
from rekindle.aggregates.base import Buffers, LinearAggregate, Use, called
from rekindle.aggregates.extremes import Extreme
from rekindle.traces.arrays import Int64s, integers
from rekindle.traces.values import Columns, ValueColumns, Weight


class All(LinearAggregate):
    """n and how many are true: all of them, or NULL when n = 0."""

    tag = "all"
    calls = called("Min")
    sums = 1

    def takes(self, types: Sequence[str], mode: str) -> bool:
        return list(types) == ["boolean"]

    def lifted(self, *arguments: Any) -> tuple[Any, ...]:
        return (int(arguments[0]),)

    def finished(self, count: int, *sums: Any) -> Any:
        return bool(sums[0] == count) if count else None

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return BooleanExtreme(inputs, Extreme.LEAST)


class Some(All):
    """The same: some of them, or NULL when n = 0."""

    tag = "any"
    calls = called("Max")

    def finished(self, count: int, *sums: Any) -> Any:
        return bool(sums[0] != 0) if count else None

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return BooleanExtreme(inputs, Extreme.GREATEST)


@dataclass(frozen=True, slots=True)
class BooleanExtreme:
    """min or max of booleans (bool_and, bool_or) by counting both. Buffer: the value or NULL."""

    inputs: tuple[str, ...]
    extreme: Extreme

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.bool_(),)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (Weight(f"{prefix}_true"), Weight(f"{prefix}_false"))

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        column = inputs[0]
        true = column.fill_null(False).to_numpy(zero_copy_only=False)
        false = ~column.fill_null(True).to_numpy(zero_copy_only=False)
        return [(pa.array(weights * true),), (pa.array(weights * false),)]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        true, false = (integers(columns[0]) > 0 for columns in values)
        result = true if self.extreme is Extreme.GREATEST else ~false
        return [pa.array(result, mask=~(true | false))]
