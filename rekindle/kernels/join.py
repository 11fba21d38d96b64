"""Join: pairs of rows with equal keys, weights multiplied.

Bilinear, so Δ(a ⋈ b) = Δa ⋈ (b + Δb) + a ⋈ Δb (DBSP theorem 3.4): a change on one side
against the integral of the other. Both terms are `join_change` with the sides swapped; the caller
decides which integral includes this step's change.

Equal hashes are paired here; the caller re-checks the key columns themselves. The output is not
consolidated. A hot key multiplies, so `join_batches` bounds the rows of each output table; what it
holds besides is the row numbers of one segment's matches.

Where the trace is ordered, a row of the change may meet only a range of its key's rows (`Span`),
which binary search finds; the caller re-checks the condition that the range was made from. What of
the ranges cancels out is not looked up (`kernels.spans`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.kernels.spans import Span
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, Int64s, integers, ranges
from rekindle.traces.consolidate import key_starts
from rekindle.traces.packed import rows_at
from rekindle.traces.reader import TraceReader

BATCH_ROWS = 1_000_000


class ChangeSide(Enum):
    """On which side of the join the change is; the trace is on the other one."""

    LEFT = "l"
    RIGHT = "r"


@dataclass(frozen=True, slots=True)
class Probe:
    """How a change meets a trace: on which side it is, and which rows and columns are paired.

    `widths` are the numbers of columns that the left and the right rows give, where they have more:
    those by which ranges are found.
    """

    side: ChangeSide = ChangeSide.LEFT
    span: Span | None = None
    widths: tuple[int, int] | None = None

    def schema(self, change: Any, trace: Any) -> Any:
        """The schema of the output: `_weight`, then the left and the right payload."""
        ours, theirs = self._payloads(change, trace)
        left, right = (ours, theirs) if self.side is ChangeSide.LEFT else (theirs, ours)
        return pa.schema(
            [
                pa.field(WEIGHT, pa.int64()),
                *(pa.field(f"l{i}", field.type) for i, field in enumerate(left)),
                *(pa.field(f"r{i}", field.type) for i, field in enumerate(right)),
            ]
        )

    def _payloads(self, change: Any, trace: Any) -> tuple[list[Any], list[Any]]:
        """The fields that the change and the trace give."""
        ours, theirs = _payload(change), _payload(trace)
        if self.widths is None:
            return ours, theirs
        left, right = self.widths
        if self.side is ChangeSide.LEFT:
            return ours[:left], theirs[:right]
        return ours[:right], theirs[:left]

    def batches(
        self,
        change: Any,
        reader: TraceReader,
        rows: int = BATCH_ROWS,
        wanted: Sequence[int] | None = None,
    ) -> Iterator[Any]:
        """The pairs in tables of about `rows` rows.

        Columns: `_weight`, the left payload as `l0`.., the right payload as `r0`...; of the payload
        only what is at the positions `wanted`, ascending, if these are given.
        """
        if not len(change):
            return
        schema = self.schema(change.schema, reader.layout.schema)
        ours, theirs = self._payloads(change.schema, reader.layout.schema)
        sides = [(True, ours), (False, theirs)]
        if self.side is ChangeSide.RIGHT:
            sides.reverse()
        columns = [(mine, field.name) for mine, fields in sides for field in fields]
        if wanted is not None:
            columns = [columns[i] for i in wanted]
            schema = pa.schema([schema.field(0), *(schema.field(1 + i) for i in wanted)])
        found = _by_key(change, reader, rows)
        if self.span is not None:
            found = _by_range(change, reader, self.span, rows)
        for in_change, weight, table, in_trace in found:
            weights = weight * integers(table.column(WEIGHT))[in_trace]
            gathered = {
                True: rows_at(change.select([name for mine, name in columns if mine]), in_change),
                False: rows_at(table.select([n for mine, n in columns if not mine]), in_trace),
            }
            pairs = [gathered[mine].column(name) for mine, name in columns]
            yield pa.Table.from_arrays([pa.array(weights), *pairs], schema=schema)


def join_change(change: Any, reader: TraceReader, side: ChangeSide = ChangeSide.LEFT) -> Any:
    """The join of an arranged change with a trace, as one table."""
    batches = list(join_batches(change, reader, side))
    if batches:
        return pa.concat_tables(batches)
    return Probe(side).schema(change.schema, reader.layout.schema).empty_table()


def join_batches(
    change: Any,
    reader: TraceReader,
    side: ChangeSide = ChangeSide.LEFT,
    rows: int = BATCH_ROWS,
) -> Iterator[Any]:
    """The same in tables of at most `rows` rows, or as many as one trace row makes, if more."""
    return Probe(side).batches(change, reader, rows)


Pairs = tuple[Int64s, Int64s, Any, Int64s]
"""Rows of the change with their weights, and the table and the rows of it that they meet."""


def _by_key(change: Any, reader: TraceReader, rows: int) -> Iterator[Pairs]:
    """The pairs of equal keys."""
    keys, weights = integers(change.column(KEY)), integers(change.column(WEIGHT))
    starts = key_starts(keys)
    counts = np.diff(np.append(starts, len(keys)))
    for table, row, probe in reader.matches(keys[starts]):
        copies = counts[probe]
        for first, last in _bounded(copies, rows):
            repeat = copies[first:last]
            in_change = ranges(starts[probe[first:last]], repeat)
            yield in_change, weights[in_change], table, np.repeat(row[first:last], repeat)


def _by_range(change: Any, reader: TraceReader, span: Span, rows: int) -> Iterator[Pairs]:
    """The pairs of equal keys whose stored row is in the range of the changed one."""
    row, low, high, weight = span.pieces(change)
    keys = integers(change.column(KEY))[row]
    for table, start, length, probe in reader.within(keys, low, high):
        ends = np.cumsum(length)
        for first in range(0, int(ends[-1]), rows):
            pair = np.arange(first, min(first + rows, int(ends[-1])))
            asked = np.searchsorted(ends, pair, side="right")
            piece = probe[asked]
            yield row[piece], weight[piece], table, start[asked] + pair - (ends - length)[asked]


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
