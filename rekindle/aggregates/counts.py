"""count: the number of rows, or of those with no NULL argument."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator, counted, valid_rows
from rekindle.aggregates.base import Buffers, LinearAggregate, Use, called
from rekindle.traces.arrays import Int64s
from rekindle.traces.values import Columns, ValueColumns, Weight


class Count(LinearAggregate):
    """n."""

    tag = "count"
    calls = called("Count")
    is_mergeable = True

    def finished(self, count: int, *sums: Any) -> Any:
        return count

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return CountNonNull(inputs) if inputs else CountRows()


@dataclass(frozen=True, slots=True)
class CountRows:
    """count(*): the sum of the weights. Buffer: count."""

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.int64(),)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (Weight(f"{prefix}_count"),)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return [(pa.array(weights),)]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        return [values[0][0]]


@dataclass(frozen=True, slots=True)
class CountNonNull:
    """count(x, y...): the sum of the weights of rows with no NULL input. Buffer: count."""

    inputs: tuple[str, ...]

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.int64(),)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (Weight(f"{prefix}_count"),)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return [(pa.array(counted(valid_rows(inputs), weights)),)]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        return [values[0][0]]
