"""Accumulators: linear aggregates as ring values that turn into Spark's own buffers.

An accumulator lifts an input row into a ring value times the row's weight; the sum over a group is
kept in the trace, so a deletion is the addition of the negated value and undoes an insertion
exactly. `buffers` gives the values of the aggregation buffer that Spark would have after reading
the group, and Spark's own `evaluateExpression` makes the result from them.

This file has the protocol and the accumulators that count; sums are in `sums`, second moments in
`moments`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import Booleans, Int64s, integers
from rekindle.traces.values import Columns, ValueColumns, Weight


class Accumulator(Protocol):
    """A linear aggregate function over some input columns."""

    @property
    def inputs(self) -> tuple[str, ...]:
        """Names of the columns of the change that hold the evaluated arguments."""
        ...

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        """The Arrow types of Spark's aggregation buffer."""
        ...

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        """The ring values kept for a group, with names that begin with `prefix`."""
        ...

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        """The ring values of each row, in the order of `values`."""
        ...

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        """Spark's buffer for each group, from the group's ring values."""
        ...


@runtime_checkable
class Totalling(Accumulator, Protocol):
    """An accumulator that adds up rows faster than one after another."""

    def total(self, inputs: Sequence[Any], weights: Int64s, starts: Int64s) -> list[Columns]:
        """The ring values of each segment of rows: what `lift` gives, added up."""
        ...


class Extreme(Enum):
    """Which end of an order an aggregate asks for."""

    LEAST = "least"
    GREATEST = "greatest"


def valid_rows(inputs: Sequence[Any]) -> Booleans | None:
    """Where all inputs are non-NULL; None when that is everywhere."""
    valid: Booleans | None = None
    for column in inputs:
        if column.null_count:
            mask = column.is_valid().to_numpy(zero_copy_only=False)
            valid = mask if valid is None else valid & mask
    return valid


def counted(valid: Booleans | None, weights: Int64s) -> Int64s:
    """The weights where the row counts, zero elsewhere."""
    return weights if valid is None else weights * valid


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


def doubles(column: Any) -> Any:
    """A numeric column as float64, zero where it is NULL."""
    if column.null_count:
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
