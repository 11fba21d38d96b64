"""Accumulators: linear aggregates as ring values that turn into Spark's own buffers.

An accumulator lifts an input row into a ring value times the row's weight; the sum over a group is
kept in the trace, so a deletion is the addition of the negated value and undoes an insertion
exactly. `buffers` gives the values of the aggregation buffer that Spark would have after reading
the group, and Spark's own `evaluateExpression` makes the result from them.

This file has the protocol and what accumulators share; each stands in the file of its aggregate.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np

from rekindle.traces.arrays import Booleans, Int64s
from rekindle.traces.values import Columns, ValueColumns


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


def doubles(column: Any) -> Any:
    """A numeric column as float64, zero where it is NULL."""
    if column.null_count:
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
