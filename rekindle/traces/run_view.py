"""A run seen as one sorted sequence of rows, limited to a key range.

Binary search on mapped keys finds everything: the rows of given keys (`matches`), those of them in
a range of the trace's order (`within`), a slice of the key space (`slices`), or where the next so
many rows end (`cut`). Segments outside the range are never opened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, Booleans, Int64s, integers, ranges
from rekindle.traces.between import Slices, bisect, bounds, key_bounds
from rekindle.traces.layout import TraceLayout
from rekindle.traces.opened import OpenSegment
from rekindle.traces.paging import fetch
from rekindle.traces.partition import ALL_KEYS, KeyRange, position
from rekindle.traces.segment import Run, Segment
from rekindle.traces.store import Store

_SAMPLES = 1024


class MatchedRows(NamedTuple):
    """Rows of one segment: `table` row `row[i]` has the key that was asked for at `probe[i]`."""

    table: Any
    row: Int64s
    probe: Int64s


class Beyond(NamedTuple):
    """Rows of one run next to places: their order and weight, and the place they are next to."""

    probe: Int64s
    order: Int64s
    weight: Int64s
    more: Booleans
    """For each place, whether the run has more rows of its key on that side."""
    reached: Int64s
    """For each place with more of them, the order of the furthest row given."""


class Held(NamedTuple):
    """Where the rows of some of the keys asked for are in a segment."""

    opened: OpenSegment
    asked: slice
    """Which of the keys they are."""
    begin: Int64s
    end: Int64s

    @property
    def weight_before(self) -> Int64s:
        """The sum of the weights of all rows before those of each key."""
        return self.opened.weights.before(self.begin)


Reached = tuple[OpenSegment, int, int]
"""A segment, and the first of the keys that it may hold, and the one after the last."""


@dataclass(frozen=True, slots=True)
class _Part:
    low: int
    high: int
    open: Callable[[], OpenSegment]


@dataclass(frozen=True, slots=True)
class RunView:
    """The rows of a run, or of an arranged table, whose keys are in `key_range`."""

    parts: tuple[_Part, ...]
    key_range: KeyRange

    @classmethod
    def of_run(
        cls,
        run: Run,
        store: Store,
        key_range: KeyRange = ALL_KEYS,
        layout: TraceLayout | None = None,
    ) -> RunView:
        """The run; whoever knows what its rows look like is not given any others."""

        def part(segment: Segment) -> _Part:
            return _Part(segment.low, segment.high, lambda: opened(segment))

        def opened(segment: Segment) -> OpenSegment:
            found = store.open(segment)
            if layout is not None:
                found.refuse_misfit(segment, layout.schema)
            return found

        low, high = key_range
        return cls(
            tuple(part(s) for s in run.segments if s.low < high and s.high >= low), key_range
        )

    @classmethod
    def of_table(cls, table: Any, key_range: KeyRange = ALL_KEYS) -> RunView:
        opened = OpenSegment.of_table(table)
        if not len(opened.keys):
            return cls((), key_range)
        part = _Part(int(opened.keys[0]), int(opened.keys[-1]), lambda: opened)
        return cls((part,), key_range)

    def of_columns(self, names: Sequence[str]) -> RunView:
        """The same rows with some of their columns."""

        def narrow(part: _Part) -> _Part:
            return _Part(part.low, part.high, lambda: part.open().of_columns(names))

        return RunView(tuple(map(narrow, self.parts)), self.key_range)

    def matches(self, keys: Int64s) -> Iterator[MatchedRows]:
        """All rows with one of the sorted, distinct keys; one match per segment that has any."""
        for reached in self.reached(keys):
            match = matched(keys, reached)
            if match is not None:
                yield match

    def leading(self, keys: Int64s, limit: int) -> Iterator[tuple[MatchedRows, Int64s]]:
        """At most `limit` first rows of each sorted, distinct key, and the keys that have more.

        The rows of one key are in one segment, so a key has one beginning in a run.
        """
        for opened, start, end in self.reached(keys):
            left = np.searchsorted(opened.keys, keys[start:end], side="left")
            counts = np.searchsorted(opened.keys, keys[start:end], side="right") - left
            taken = np.minimum(counts, limit)
            if taken.any():
                row = ranges(left, taken)
                probe = np.repeat(np.arange(len(taken)), taken)
                more = np.flatnonzero(counts > limit)
                yield MatchedRows(opened.table, row, probe + start), more + start

    def preceding(self, keys: Int64s, orders: Int64s, limit: int) -> Iterator[Beyond]:
        """At most `limit` rows of each key right before an order, in an ordered run."""
        for opened, asked, first, last in self.held(keys):
            order = integers(opened.table.column(IDENTITY[0]))
            right = bisect(order, first, last, orders[asked], "left")
            left = np.maximum(first, right - limit)
            yield _beyond(opened, asked, left, right, left > first, left, len(keys))

    def following(self, keys: Int64s, orders: Int64s, limit: int) -> Iterator[Beyond]:
        """At most `limit` rows of each key right after an order, in an ordered run."""
        for opened, asked, first, last in self.held(keys):
            order = integers(opened.table.column(IDENTITY[0]))
            left = bisect(order, first, last, orders[asked], "right")
            right = np.minimum(last, left + limit)
            yield _beyond(opened, asked, left, right, right < last, right - 1, len(keys))

    def sizes(self, keys: Int64s) -> Int64s:
        """How many rows the run has of each sorted key."""
        found = np.zeros(len(keys), dtype=np.int64)
        for held in self.held(keys):
            found[held.asked] = held.end - held.begin
        return found

    def repeated(self, stride: int, within: np.int64) -> Iterator[Int64s]:
        """Keys that two of every `stride` rows have one after the other, segment by segment.

        Of every row it is all keys. The bits `within` of keys are looked over.
        """
        low, high = self.key_range
        for part in self.parts:
            keys = part.open().keys
            sample = keys[position(keys, low) : position(keys, high) : stride] & ~within
            yield np.unique(sample if stride == 1 else sample[1:][sample[1:] == sample[:-1]])

    def between_keys(self, low: Int64s, high: Int64s) -> Int64s:
        """How many rows there are from each key to another."""
        found = np.zeros(len(low), dtype=np.int64)
        for part in self.parts:
            keys = part.open().keys
            found += keys.searchsorted(high, "right") - keys.searchsorted(low, "left")
        return found

    def weights(self, keys: Int64s) -> Int64s:
        """The sum of the weights of the rows that the run has of each sorted key."""
        found = np.zeros(len(keys), dtype=np.int64)
        for held in self.held(keys):
            found[held.asked] = held.opened.weights.before(held.end) - held.weight_before
        return found

    def held(self, keys: Int64s) -> Iterator[Held]:
        """Where the rows of each sorted key are, segment by segment."""
        for opened, start, end in self.reached(keys):
            asked = slice(start, end)
            yield Held(opened, asked, *key_bounds(opened.keys, keys[asked]))

    def within(self, keys: Int64s, low: Int64s, high: Int64s) -> Iterator[Slices]:
        """For each of the sorted keys its rows from `low` to `high`, in the order of the trace."""
        for opened, first, last in self.reached(keys):
            asked = slice(first, last)
            order = integers(opened.table.column(IDENTITY[0]))
            start, end = bounds(opened.keys, order, keys[asked], low[asked], high[asked])
            probe = np.flatnonzero(start < end)
            if len(probe):
                yield Slices(opened.table, start[probe], (end - start)[probe], probe + first)

    def reached(self, keys: Int64s) -> Iterator[Reached]:
        """The segments that may hold some of the sorted keys, and which of the keys those are."""
        low, high = self.key_range
        for part in self.parts:
            start = position(keys, max(low, part.low))
            end = position(keys, min(high, part.high + 1))
            if start < end:
                opened = part.open()
                fetch(opened.table, end - start, (KEY,))
                yield opened, start, end

    def spans(self, low: Int64s, high: Int64s) -> Iterator[tuple[Any, Int64s]]:
        """The rows with keys in some spans that ascend and do not meet, segment by segment."""
        first, last = self.key_range[0], self.key_range[1] - 1
        for part in self.parts:
            start = position(high, max(first, part.low))
            end = position(low, min(last, part.high) + 1)
            if start < end:
                opened = part.open()
                fetch(opened.table, end - start, (KEY,))
                left = opened.keys.searchsorted(np.maximum(low[start:end], first), "left")
                right = opened.keys.searchsorted(np.minimum(high[start:end], last), "right")
                row = ranges(left, right - left)
                if len(row):
                    yield opened.table, row

    def slices(self, low: int, high: int) -> Iterator[Any]:
        """The rows with keys in [low, high) and in the view's range, without a copy."""
        low, high = max(low, self.key_range[0]), min(high, self.key_range[1])
        for part in self.parts:
            if part.low < high and part.high >= low:
                opened = part.open()
                start, end = position(opened.keys, low), position(opened.keys, high)
                if start < end:
                    yield opened.in_order.slice(start, end - start)

    def upcoming(self, low: int, rows: int, stride: int) -> Iterator[Int64s]:
        """Every `stride`-th key of about the next `rows` rows from `low` on."""
        for part in self.slices(low, self.key_range[1]):
            keys = OpenSegment.of_table(part).keys[:rows]
            yield keys[::stride]
            rows -= len(keys)
            if rows <= 0:
                return


def matched(keys: Int64s, reached: Reached) -> MatchedRows | None:
    """The rows of a segment with one of the sorted, distinct keys, if it has any."""
    opened, start, end = reached
    row, probe = rows_of(opened.keys, keys[start:end])
    return MatchedRows(opened.table, row, probe + start) if len(row) else None


def cut(views: Sequence[RunView], low: int, high: int, rows: int) -> int:
    """A bound such that the views hold about `rows` rows in [low, bound); `high` when no more.

    It never divides the rows of one key, and there is a row below it whenever there is one at all.
    """
    stride = max(1, rows // _SAMPLES)
    pieces = [piece for view in views for piece in view.upcoming(low, rows + stride, stride)]
    samples = np.concatenate(pieces) if pieces else np.zeros(0, dtype=np.int64)
    rank = rows // stride
    if len(samples) <= rank:
        return high
    bound = int(np.partition(samples, rank)[rank])
    return min(high, max(bound, int(samples.min()) + 1))


def all_slices(views: Iterable[RunView], low: int, high: int) -> list[Any]:
    """The slices of all views in [low, high)."""
    return [piece for view in views for piece in view.slices(low, high)]


def _beyond(
    opened: OpenSegment,
    asked: slice,
    left: Int64s,
    right: Int64s,
    more: Booleans,
    furthest: Int64s,
    places: int,
) -> Beyond:
    order = integers(opened.table.column(IDENTITY[0]))
    weight = integers(opened.table.column(WEIGHT))
    row = ranges(left, right - left)
    everywhere = np.zeros(places, dtype=bool)
    everywhere[asked] = more
    reached = np.zeros(places, dtype=np.int64)
    reached[asked] = order[np.where(more, furthest, 0)]
    probe = np.repeat(np.arange(asked.start, asked.stop), right - left)
    return Beyond(probe, order[row], weight[row], everywhere, reached)


def keys_of(table: Any) -> Int64s:
    """The keys of arranged rows."""
    return OpenSegment.of_table(table).keys


def rows_of(stored: Int64s, keys: Int64s) -> tuple[Int64s, Int64s]:
    """Positions in `stored` of every key, and for each which key it was; both ascending."""
    if len(stored) < len(keys):
        place = np.minimum(np.searchsorted(keys, stored), len(keys) - 1)
        row = np.flatnonzero(keys[place] == stored)
        return row, place[row]
    left = np.searchsorted(stored, keys)
    probe = np.flatnonzero(stored[np.minimum(left, len(stored) - 1)] == keys)
    left = left[probe]
    following = np.minimum(left + 1, len(stored) - 1)
    if not ((stored[following] == keys[probe]) & (following > left)).any():
        return left, probe
    counts = np.searchsorted(stored, keys[probe], side="right") - left
    return ranges(left, counts), np.repeat(probe, counts)
