"""Aggregate: linear aggregates per group, and the change of their buffers.

The state is a trace that maps each group to ring values: the group's total weight (whether it
exists) and what its accumulators keep. It is a linear function of the input, so its change is a
segmented sum of the lifted rows, and the new state of a touched group is its old one plus that.
The output is not linear but per key: f(x + Δx) - f(x) on the groups that Δx touches, that is minus
the old buffers of groups that existed, plus the new buffers of those that exist now.

Work is proportional to the change: the groups' other rows are never read.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator, Totalling
from rekindle.errors import RekindleError
from rekindle.traces.arrays import (
    WEIGHT,
    Int64s,
    identity_columns,
    integers,
    single_chunk,
    take,
)
from rekindle.traces.consolidate import is_zero, segment_starts, sort_order
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.values import Columns, Weight


class Existence(Enum):
    """When a group gives a row: while it has rows, or always, as the group of no keys does."""

    WITH_ROWS = "with rows"
    ALWAYS = "always"


class Aggregated(NamedTuple):
    """The change of the state, arranged, and the change of the buffers."""

    state: Any
    output: Any


def aggregate_layout(groups: Any, accumulators: Sequence[Accumulator]) -> TraceLayout:
    """The layout of the state of these accumulators over groups of the given schema."""
    kept = (
        value
        for position, accumulator in enumerate(accumulators)
        for value in accumulator.values(f"a{position}")
    )
    return TraceLayout((Weight(), *kept), groups)


def buffer_fields(accumulators: Sequence[Accumulator]) -> list[Any]:
    """The buffer columns of an output: `b{accumulator}_{position}`."""
    return [
        pa.field(f"b{i}_{j}", buffer_type)
        for i, accumulator in enumerate(accumulators)
        for j, buffer_type in enumerate(accumulator.buffer_types)
    ]


def empty_buffers(accumulators: Sequence[Accumulator]) -> Any:
    """One row of the buffers of an empty group: a global aggregate over no rows."""
    layout = aggregate_layout(pa.schema([]), accumulators)
    values = [ring.zeros(1) for ring in layout.values]
    return pa.Table.from_arrays(
        _buffers(accumulators, values), schema=pa.schema(buffer_fields(accumulators))
    )


def buffer_schema(layout: TraceLayout, accumulators: Sequence[Accumulator]) -> Any:
    """The schema of an output: `_weight`, the group payload and the buffers."""
    return pa.schema([layout.schema.field(WEIGHT), *layout.payload, *buffer_fields(accumulators)])


def aggregate_change(
    change: Any,
    reader: TraceReader,
    accumulators: Sequence[Accumulator],
    existence: Existence = Existence.WITH_ROWS,
    merged: str | None = None,
) -> Aggregated:
    """The change of state and of output; `reader` is the state before, in `aggregate_layout`.

    `change` has one row per input row, in any order: the group's identity and payload, `_weight`,
    and the input columns that the accumulators name. The output has `_weight`, the group payload
    and the buffers. The column `merged`, if given, says how many rows each row stands for.
    """
    state = state_change(change, reader.layout, accumulators, merged)
    return Aggregated(state, buffer_change(state, reader, accumulators, existence))


def buffer_change(
    state: Any,
    reader: TraceReader,
    accumulators: Sequence[Accumulator],
    existence: Existence = Existence.WITH_ROWS,
) -> Any:
    """The change of output that follows from a change of state, arranged and consolidated."""
    layout = reader.layout
    schema = buffer_schema(layout, accumulators)
    if not len(state):
        return schema.empty_table()
    delta = layout.value_columns(state)
    found = reader.lookup(identity_columns(state))
    before = layout.value_columns(found.table)
    after = _added(layout, before, delta, found.row)
    old_weights, new_weights = integers(before[0][0]), integers(after[0][0])
    if (new_weights < 0).any():
        raise RekindleError(
            "internal error: a group has fewer rows than were deleted from it",
            detail=f"{int((new_weights < 0).sum())} groups with a negative number of rows",
            hint="run db.check on the view and report this",
        )
    if existence is Existence.ALWAYS:
        return _always(layout, accumulators, before, after, schema)
    # `found` may hold other groups that share a key, so only the rows asked for are retracted.
    known = found.row[found.row >= 0]
    left = known[old_weights[known] > 0]
    entered = np.flatnonzero(new_weights > 0)
    weights = np.repeat(np.array([-1, 1], dtype=np.int64), [len(left), len(entered)])
    payload = [
        pa.concat_arrays([take(found.table.column(name), left), take(state.column(name), entered)])
        for name in layout.payload.names
    ]
    values = [
        tuple(
            pa.concat_arrays([take(old, left), take(new, entered)])
            for old, new in zip(olds, news, strict=True)
        )
        for olds, news in zip(before, after, strict=True)
    ]
    return pa.Table.from_arrays(
        [pa.array(weights), *payload, *_buffers(accumulators, values)], schema=schema
    )


def _always(
    layout: TraceLayout,
    accumulators: Sequence[Accumulator],
    before: Sequence[Columns],
    after: Sequence[Columns],
    schema: Any,
) -> Any:
    """The one group without keys: its old buffers, of no rows if need be, against the new ones."""
    old = before if len(before[0][0]) else [ring.zeros(1) for ring in layout.values]
    values = [
        tuple(pa.concat_arrays(pair) for pair in zip(olds, news, strict=True))
        for olds, news in zip(old, after, strict=True)
    ]
    weights = pa.array([-1, 1], pa.int64())
    return pa.Table.from_arrays([weights, *_buffers(accumulators, values)], schema=schema)


def state_change(
    change: Any,
    layout: TraceLayout,
    accumulators: Sequence[Accumulator],
    merged: str | None = None,
) -> Any:
    """The arranged sum of the lifted rows of each group."""
    if not len(change):
        return layout.empty()
    identity = identity_columns(change)
    order = sort_order(identity)

    def column(name: str) -> Any:
        values = single_chunk(change.column(name))
        return values if order is None else take(values, order)

    if order is not None:
        identity = (identity[0][order], identity[1][order], identity[2][order])
    starts = segment_starts(identity)
    weights = integers(column(WEIGHT))
    rows = weights if merged is None else weights * integers(column(merged))
    lifted: list[Columns] = [(pa.array(np.add.reduceat(rows, starts)),)]
    for accumulator in accumulators:
        inputs = [column(name) for name in accumulator.inputs]
        if isinstance(accumulator, Totalling):
            lifted += accumulator.total(inputs, weights, starts)
            continue
        found = accumulator.lift(inputs, weights)
        if merged is not None:
            # What can be merged counts rows in its first value, and adds up in the others.
            found[0] = accumulator.lift(inputs, rows)[0]
        if len(starts) < len(weights):
            rings = accumulator.values("")
            found = [ring.reduce(one, starts) for ring, one in zip(rings, found, strict=True)]
        lifted += found
    kept = np.flatnonzero(~is_zero(layout, lifted))
    if len(kept) < len(starts):
        lifted = [tuple(take(values, kept) for values in columns) for columns in lifted]
        starts = starts[kept]
    first = starts if order is None else order[starts]
    return layout.assemble(
        [pa.array(values[starts]) for values in identity],
        lifted,
        [take(change.column(name), first) for name in layout.payload.names],
    )


def _added(
    layout: TraceLayout, before: Sequence[Columns], delta: Sequence[Columns], row: Int64s
) -> list[Columns]:
    """Row i of `delta` plus row `row[i]` of `before`, or plus zero when that is -1."""
    known = row >= 0
    if not known.any():
        return list(delta)
    ends = np.cumsum(known + 1)
    indices = np.empty(int(ends[-1]), dtype=np.int64)
    indices[ends - 1] = len(before[0][0]) + np.arange(len(row))
    indices[ends[known] - 2] = row[known]
    starts = ends - known - 1
    return [
        ring.reduce(
            [take(pa.concat_arrays(pair), indices) for pair in zip(old, new, strict=True)], starts
        )
        for ring, old, new in zip(layout.values, before, delta, strict=True)
    ]


def _buffers(accumulators: Sequence[Accumulator], values: Sequence[Columns]) -> list[Any]:
    """The buffers of each group; the first value is the group's weight, which none owns."""
    columns: list[Any] = []
    position = 1
    for accumulator in accumulators:
        width = len(accumulator.values(""))
        columns += accumulator.buffers(values[position : position + width])
        position += width
    return columns
