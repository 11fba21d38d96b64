"""Reading a trace: by key, by row identity, or all of it, for one range of keys.

A reader is a list of run views. What bilinear operators need is `matches`, the raw rows run by run:
weights of one row add up in their output, so nothing is consolidated. Operators that look at a
row's total value use `lookup`; `probe` and `scan` give arranged tables.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import (
    IDENTITY,
    KEY,
    Booleans,
    Int64s,
    identity_columns,
    integers,
    ranges,
)
from rekindle.traces.between import Slices
from rekindle.traces.consolidate import (
    Identity,
    consolidate,
    distinct_keys,
    key_starts,
    segment_starts,
    sorted_identity,
)
from rekindle.traces.layout import TraceLayout
from rekindle.traces.packed import rows_at, unpacked
from rekindle.traces.paging import fetch
from rekindle.traces.partition import ALL_KEYS, KeyRange
from rekindle.traces.run_view import (
    Beyond,
    Held,
    MatchedRows,
    Reached,
    RunView,
    all_slices,
    cut,
    keys_of,
    matched,
    rows_of,
)
from rekindle.traces.store import Store
from rekindle.traces.threads import MANY_ROWS, each
from rekindle.traces.trace import Trace

SCAN_ROWS = 1_000_000
MOST = 4
"""A run with so many times the rows of all others has most of them."""
NO_BITS = np.int64(0)
SET_APART = 10_000
"""Fewer rows are put together at once, in their order."""


class Found(NamedTuple):
    """Arranged rows, and for each requested identity its row in `table`, or -1."""

    table: Any
    row: Int64s


class TraceReader:
    """The sum of some runs, limited to the keys of `key_range`."""

    def __init__(
        self, layout: TraceLayout, views: Sequence[RunView], key_range: KeyRange = ALL_KEYS
    ) -> None:
        self.layout = layout
        self.key_range = key_range
        self._views = tuple(views)

    @classmethod
    def of_trace(
        cls,
        trace: Trace,
        store: Store,
        key_range: KeyRange = ALL_KEYS,
        extra: Sequence[Any] = (),
    ) -> TraceReader:
        """A trace plus arranged tables in memory, such as a change not yet written."""
        views = [RunView.of_run(run, store, key_range, trace.layout) for run in trace.readable_runs]
        return cls(trace.layout, views, key_range).plus(extra)

    @classmethod
    def of_tables(
        cls, layout: TraceLayout, tables: Sequence[Any], key_range: KeyRange = ALL_KEYS
    ) -> TraceReader:
        """The sum of arranged tables in memory."""
        return cls(layout, (), key_range).plus(tables)

    def plus(self, tables: Sequence[Any]) -> TraceReader:
        """The sum of this and of arranged tables in memory."""
        if not tables:
            return self
        views = [RunView.of_table(table, self.key_range) for table in tables]
        return TraceReader(self.layout, [*self._views, *views], self.key_range)

    def matches(self, keys: Int64s) -> Iterator[MatchedRows]:
        """The stored rows of the sorted, distinct keys, run by run, not consolidated."""
        for view in self._views:
            yield from view.matches(keys)

    def leading(self, keys: Int64s, limit: int) -> Iterator[tuple[MatchedRows, Int64s]]:
        """The first stored rows of each key in each run, and which keys have more of them there."""
        for view in self._views:
            yield from view.leading(keys, limit)

    def preceding(self, keys: Int64s, orders: Int64s, limit: int) -> Iterator[Beyond]:
        """Stored rows of each key right before an order, in each run of an ordered trace."""
        for view in self._views:
            yield from view.preceding(keys, orders, limit)

    def following(self, keys: Int64s, orders: Int64s, limit: int) -> Iterator[Beyond]:
        """Stored rows of each key right after an order, in each run of an ordered trace."""
        for view in self._views:
            yield from view.following(keys, orders, limit)

    def sizes(self, keys: Int64s) -> Int64s:
        """How many rows are stored of each sorted key, in all runs."""
        found = np.zeros(len(keys), dtype=np.int64)
        for view in self._views:
            found += view.sizes(keys)
        return found

    def repeated(self, least: int, within: np.int64 = NO_BITS) -> Int64s:
        """Keys of which there are many rows: all that have at least so many, and maybe others.

        Keys that differ in the bits `within` only are one, and given without these bits.
        """
        stride = max(1, least // (2 * max(1, len(self._views))))
        found = [keys for view in self._views for keys in view.repeated(stride, within)]
        return np.unique(np.concatenate(found)) if found else np.zeros(0, dtype=np.int64)

    def between_keys(self, low: Int64s, high: Int64s) -> Int64s:
        """How many rows are stored with keys from `low` to `high`, for each pair of them."""
        found = np.zeros(len(low), dtype=np.int64)
        for view in self._views:
            found += view.between_keys(low, high)
        return found

    def share(self, number: int, of: int) -> TraceReader:
        """One of so many parts of the rows, all of about the same size.

        Rows that add up may be in different parts: it is for whoever is linear in them.
        """
        tables = []
        for piece in all_slices(self._views, *self.key_range):
            start, end = (len(piece) * i // of for i in (number, number + 1))
            tables += [piece.slice(start, end - start)] if start < end else []
        return TraceReader.of_tables(self.layout, tables, self.key_range)

    def weights(self, keys: Int64s) -> Int64s:
        """How many rows there are of each sorted key: the sum of their weights, in all runs."""
        found = np.zeros(len(keys), dtype=np.int64)
        for view in self._views:
            found += view.weights(keys)
        return found

    def held(self, keys: Int64s) -> Iterator[Held]:
        """Where the rows of each sorted key are, in all segments of all runs."""
        for view in self._views:
            yield from view.held(keys)

    def between(self, keys: Int64s, low: Int64s, high: Int64s) -> Any:
        """The arranged rows of an ordered trace in intervals of its order, each of a sorted key.

        The intervals of one key ascend and do not meet.
        """
        found = self.within(keys, low, high)
        return self._gather([rows_at(s.table, ranges(s.start, s.length)) for s in found])

    def within(self, keys: Int64s, low: Int64s, high: Int64s) -> Iterator[Slices]:
        """For each of the sorted keys its stored rows from `low` to `high`, run by run."""
        for view in self._views:
            yield from view.within(keys, low, high)

    def probe(self, keys: Int64s) -> tuple[Any, Int64s]:
        """The arranged rows of the sorted, distinct keys, and for each row the key's index."""

        def rows(reached: Reached) -> Any:
            match = matched(keys, reached)
            return None if match is None else rows_at(match.table, match.row)

        places = [reached for view in self._views for reached in view.reached(keys)]
        found = each(rows, places, together=len(keys) >= MANY_ROWS and len(places) > 1)
        table = self._gather([piece for piece in found if piece is not None])
        return table, np.searchsorted(keys, identity_columns(table)[0])

    def spanning(self, low: Int64s, high: Int64s) -> Any:
        """The arranged rows whose keys are in some spans, ascending, from `low` to `high`."""
        found = [
            rows_at(table, row) for view in self._views for table, row in view.spans(low, high)
        ]
        return self._gather(found)

    def lookup(self, identity: Identity) -> Found:
        """The total values of rows given by sorted, distinct identities."""
        wanted, id0, id1 = identity
        starts = key_starts(wanted)
        keys = wanted[starts]
        alone = len(starts) == len(wanted)
        pieces = []
        for table, row, probe in self.matches(keys):
            if alone:
                fetch(table, len(row), IDENTITY)
                # Other rows may share the key by collision, or because the key is coarser.
                same = (integers(table.column(IDENTITY[0]))[row] == id0[probe]) & (
                    integers(table.column(IDENTITY[1]))[row] == id1[probe]
                )
                if not same.all():
                    row = row[same]
            if len(row):
                pieces.append(rows_at(table, row))
        found = self._gather(pieces)
        return Found(found, _locate(identity_columns(found), identity))

    def scan(self, rows: int = SCAN_ROWS) -> Iterator[Any]:
        """Arranged tables of about `rows` rows or fewer, ascending, that together are the sum.

        Without other runs to add, the rows of a run are given as they are stored.
        """
        if len(self._views) == 1:
            for piece in self._views[0].slices(*self.key_range):
                for start in range(0, len(piece), rows):
                    yield unpacked(piece.slice(start, rows))
            return
        low, high = self.key_range
        while low < high:
            bound = cut(self._views, low, high, rows)
            table = self._gather([*map(unpacked, all_slices(self._views, low, bound))])
            if len(table):
                yield table
            low = bound

    def contents(self, rows: int = SCAN_ROWS) -> Iterator[Any]:
        """Tables of about `rows` rows or fewer that together are the sum, without identities.

        Many come in no order. Most rows of a trace are in one run, and few of these meet rows of
        another: only those are put together, all others are given as they are stored.
        """
        names = [n for n in self.layout.schema.names if n not in (KEY, *IDENTITY)]
        runs = [list(view.slices(*self.key_range)) for view in self._views]
        runs.sort(key=lambda pieces: sum(map(len, pieces)))
        *others, most = runs or [[]]
        few = [piece for pieces in others for piece in pieces]
        rows_most, rows_few = sum(map(len, most)), sum(map(len, few))
        if rows_most < SET_APART or rows_few * MOST > rows_most:
            for table in self.scan(rows):
                yield table.select(names)
            return
        keys = np.unique(np.concatenate([np.zeros(0, np.int64), *map(keys_of, few)]))
        met = [*map(unpacked, few)]
        for piece in most:
            row, _ = rows_of(keys_of(piece), keys)
            alone = np.ones(len(piece), dtype=bool)
            alone[row] = False
            if len(row):
                met.append(rows_at(piece, row))
            for start in range(0, len(piece), rows):
                some, kept = piece.slice(start, rows).select(names), alone[start : start + rows]
                yield unpacked(some if kept.all() else some.filter(pa.array(kept)))
        if met:
            yield self._gather(met).select(names)

    def chosen(self, names: Sequence[str], wanted: Callable[[Any], Booleans]) -> Any:
        """The arranged rows that are `wanted` by some of their columns.

        These columns are read of all rows, the others of those that are chosen.
        """
        pieces = []
        for piece in all_slices(self._views, *self.key_range):
            for start in range(0, len(piece), SCAN_ROWS):
                some = piece.slice(start, SCAN_ROWS)
                rows = np.flatnonzero(wanted(unpacked(some.select(list(names)))))
                if len(rows):
                    pieces.append(rows_at(some, rows))
        return self._gather(pieces)

    def of_columns(self, names: Collection[str]) -> TraceReader:
        """The same rows with some of their payload: what is added up has no other columns."""
        payload = [field for field in self.layout.payload if field.name in names]
        narrow = TraceLayout(self.layout.values, pa.schema(payload))
        views = [view.of_columns(narrow.schema.names) for view in self._views]
        return TraceReader(narrow, views, self.key_range)

    def whole(self) -> Any:
        """All of it as one arranged table."""
        tables = list(self.scan())
        return pa.concat_tables(tables) if tables else self.layout.empty()

    def scan_keys(self, rows: int = SCAN_ROWS) -> Iterator[Any]:
        """The same as `scan`, but no key stands in two tables."""
        tail: Any = None
        for table in self.scan(rows):
            if tail is not None:
                table = pa.concat_tables([tail, table])
            keys = integers(table.column(KEY))
            cut_at = int(keys.searchsorted(keys[-1]))
            if cut_at:
                yield table.slice(0, cut_at)
            tail = table.slice(cut_at)
        if tail is not None:
            yield tail

    def keys(self, rows: int = SCAN_ROWS) -> Iterator[Int64s]:
        """The keys that rows have, ascending and each once, so many rows at a time or fewer."""
        last: int | None = None
        for table in self.of_columns(()).scan(rows):
            keys = distinct_keys(table)
            # Rows of one run may be divided between two tables.
            keys = keys[1:] if keys[0] == last else keys
            if len(keys):
                yield keys
                last = int(keys[-1])

    def _gather(self, pieces: list[Any]) -> Any:
        if not pieces:
            return self.layout.empty()
        table = pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)
        return consolidate(table, self.layout)


def _locate(stored: Identity, wanted: Identity) -> Int64s:
    """The position of each wanted identity among the stored ones, or -1; both arranged."""
    if not len(stored[0]):
        return np.full(len(wanted[0]), -1, dtype=np.int64)
    if len(key_starts(stored[0])) == len(stored[0]):
        place = np.minimum(np.searchsorted(stored[0], wanted[0]), len(stored[0]) - 1)
        same = np.ones(len(place), dtype=bool)
        for have, want in zip(stored, wanted, strict=True):
            same &= have[place] == want
        return np.where(same, place, -1)
    both = tuple(np.concatenate(pair) for pair in zip(stored, wanted, strict=True))
    combined = (both[0], both[1], both[2])
    order, identity = sorted_identity(combined)
    starts = segment_starts(identity)
    ends = np.append(starts[1:], len(order)) - 1
    # Identities are distinct on each side, so a segment is one row or a stored and a wanted one.
    pairs = np.flatnonzero(ends > starts)
    first, second = order[starts[pairs]], order[ends[pairs]]
    located = np.full(len(wanted[0]), -1, dtype=np.int64)
    located[np.maximum(first, second) - len(stored[0])] = np.minimum(first, second)
    return located
