"""Join: pairs of rows with equal keys, weights multiplied.

Bilinear, so Δ(a ⋈ b) = Δa ⋈ (b + Δb) + a ⋈ Δb (DBSP theorem 3.4): a change on one side
against the integral of the other. Both terms are `join_change` with the sides swapped; the caller
decides which integral includes this step's change.

Equal hashes are paired here; the caller re-checks the key columns themselves. The output is not
consolidated. A hot key multiplies, so `join_batches` bounds the rows of each output table; what it
holds besides is the row numbers of one segment's matches.
"""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, Int64s, integers, ranges, single_chunk
from rekindle.traces.consolidate import key_starts
from rekindle.traces.reader import TraceReader

BATCH_ROWS = 1_000_000


class ChangeSide(Enum):
    """On which side of the join the change is; the trace is on the other one."""

    LEFT = "l"
    RIGHT = "r"


def join_change(change: Any, reader: TraceReader, side: ChangeSide = ChangeSide.LEFT) -> Any:
    """The join of an arranged change with a trace, as one table."""
    batches = list(join_batches(change, reader, side))
    if batches:
        return pa.concat_tables(batches)
    return join_schema(change.schema, reader.layout.schema, side).empty_table()


def join_batches(
    change: Any,
    reader: TraceReader,
    side: ChangeSide = ChangeSide.LEFT,
    rows: int = BATCH_ROWS,
) -> Iterator[Any]:
    """The same in tables of at most `rows` rows, or as many as one trace row makes, if more.

    Columns: `_weight`, the left payload as `l0`.., the right payload as `r0`...
    """
    keys = integers(change.column(KEY))
    starts = key_starts(keys)
    if not len(starts):
        return
    counts = np.diff(np.append(starts, len(keys)))
    schema = join_schema(change.schema, reader.layout.schema, side)
    for table, row, probe in reader.matches(keys[starts]):
        copies = counts[probe]
        for first, last in _bounded(copies, rows):
            repeat = copies[first:last]
            in_change = ranges(starts[probe[first:last]], repeat)
            in_trace = np.repeat(row[first:last], repeat)
            yield _paired(change, in_change, table, in_trace, schema, side)


def join_schema(change: Any, trace: Any, side: ChangeSide) -> Any:
    """The schema of a join's output: `_weight`, then the left and the right payload."""
    left, right = (change, trace) if side is ChangeSide.LEFT else (trace, change)
    return pa.schema(
        [
            pa.field(WEIGHT, pa.int64()),
            *(pa.field(f"l{i}", field.type) for i, field in enumerate(_payload(left))),
            *(pa.field(f"r{i}", field.type) for i, field in enumerate(_payload(right))),
        ]
    )


def _payload(schema: Any) -> list[Any]:
    own = {KEY, *IDENTITY, WEIGHT}
    return [field for field in schema if field.name not in own]


def _bounded(copies: Int64s, rows: int) -> Iterator[tuple[int, int]]:
    """Consecutive ranges of matches that make at most `rows` output rows each, or one match."""
    ends = np.cumsum(copies)
    first = 0
    while first < len(ends):
        done = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, done + rows, side="right")))
        yield first, last
        first = last


def _paired(
    change: Any, in_change: Int64s, table: Any, in_trace: Int64s, schema: Any, side: ChangeSide
) -> Any:
    weights = integers(change.column(WEIGHT))[in_change] * integers(table.column(WEIGHT))[in_trace]
    both = [
        [
            single_chunk(source.column(field.name)).take(pa.array(indices))
            for field in _payload(source.schema)
        ]
        for source, indices in ((change, in_change), (table, in_trace))
    ]
    left, right = both if side is ChangeSide.LEFT else reversed(both)
    return pa.Table.from_arrays([pa.array(weights), *left, *right], schema=schema)
