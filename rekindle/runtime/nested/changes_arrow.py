"""The change feed of a nested table or view in Arrow: rows before and after each epoch.

What changed at an epoch are rows of parts. A label is touched where a row of its bag changed, or
holds a label that is touched; in the same way a row of the top is, by its identity. The touched
rows are nested once as they were before the epoch and once as they are after it, and what is the
same on both sides cancels. So it does no harm to take too many: labels are compared by hashes.

    moments of a part:   contents now − changes, at `since`;   each change, at its epoch

The rows of a part at a moment are the sum of what stands there up to it. `table_feed.py` and
`view_feed.py` say the same in Spark's words, for what is larger than one process.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.columns import column_names
from rekindle.nested.levels import Level
from rekindle.runtime.epochs.changes import changed
from rekindle.runtime.nested.arrow import nested_rows
from rekindle.runtime.nested.stored_parts import Nested, Part, at, hashes_of
from rekindle.runtime.reading.contents import repeated
from rekindle.traces.arrays import IDENTITY, WEIGHT, Booleans, Int64s, integers, ranges
from rekindle.traces.consolidate import consolidate
from rekindle.traces.store import Store

Touched = dict[int, Int64s]
"""By epoch the sorted codes of what it touched: identities in the top, hashes of labels below."""


def changed_at(nested: Nested, store: Store) -> Iterator[tuple[int, pa.Table, pa.Array]]:
    """For each epoch that changed something, its rows with what was added or taken of each."""
    moments = _Moments.of(nested, nested.level, "", store)
    touched = moments.touched()
    schema = nested.columns
    for epoch in sorted(touched):
        sides = [moments.rows_at(touched[epoch], last) for last in (epoch - 1, epoch)]
        before, after = (nested_rows(nested.level, side.__getitem__) for side in sides)
        both = pa.concat_tables([before.cast(schema), after.cast(schema)])
        rows, weights = _difference(both, len(before))
        if len(rows):
            yield epoch, rows, weights


def _difference(both: pa.Table, before: int) -> tuple[pa.Table, pa.Array]:
    """The rows of which there are not as many before as after, and how many more or fewer."""
    weights: Counter[str] = Counter()
    first: dict[str, int] = {}
    for place, row in enumerate(both.to_pylist()):
        text = repr(row)
        weights[text] += -1 if place < before else 1
        first.setdefault(text, place)
    kept = [(first[text], weight) for text, weight in weights.items() if weight]
    rows = both.take(pa.array([place for place, _ in kept], pa.int64()))
    return rows, pa.array([weight for _, weight in kept], pa.int64())


@dataclass(frozen=True, slots=True)
class _Moments:
    """What a part held and how it changed: rows sorted by code, each with the epoch it stands at.

    The code is the hash of the label of a row's bag; in the top it is the row's identity.
    """

    part: Part
    level: Level
    rows: pa.Table
    """Arranged rows, with weights."""
    at: Int64s
    codes: Int64s
    held: tuple[Int64s, ...]
    """For each bag in a row the code of its label; 0 where there is none."""
    is_held: tuple[Booleans, ...]
    below: tuple[_Moments, ...]

    @staticmethod
    def of(nested: Nested, level: Level, path: str, store: Store) -> _Moments:
        part = nested.part(level.view)
        assert part.changes is not None
        layout = part.trace.layout
        since = part.changes.since
        pieces = list(part.reader(store).scan())
        when = [np.full(len(piece), since, dtype=np.int64) for piece in pieces]
        for rows, epochs in changed(part.changes, layout, store):
            pieces.append(rows)
            when.append(integers(epochs))
        whole = pa.concat_tables([layout.empty(), *pieces]).combine_chunks()
        named = part.named([whole.select(column_names(len(part.schema)))])
        codes = hashes_of(named.column(0)) if path else integers(whole.column(IDENTITY[0]))
        order = np.argsort(codes, kind="stable")
        held, is_held = [], []
        for column, _ in level.bags:
            labels = at(named, column)
            there = np.asarray(labels.is_valid())
            found = np.zeros(len(labels), dtype=np.int64)
            found[there] = hashes_of(labels.filter(pa.array(there)))
            held.append(found[order])
            is_held.append(there[order])
        return _Moments(
            part,
            level,
            whole.take(pa.array(order)),
            np.concatenate([np.zeros(0, np.int64), *when])[order],
            codes[order],
            tuple(held),
            tuple(is_held),
            tuple(_Moments.of(nested, below, column, store) for column, below in level.bags),
        )

    def touched(self) -> Touched:
        """The codes that each epoch touched."""
        assert self.part.changes is not None
        own = self.at > self.part.changes.since
        pairs = [np.stack([self.at[own], self.codes[own]])]
        for held, there, below in zip(self.held, self.is_held, self.below, strict=True):
            places = np.flatnonzero(there)
            places = places[np.argsort(held[places], kind="stable")]
            labels = held[places]
            for epoch, codes in below.touched().items():
                begin, end = np.searchsorted(labels, codes), np.searchsorted(labels, codes, "right")
                rows = places[ranges(begin, end - begin)]
                pairs.append(np.stack([np.full(len(rows), epoch), self.codes[rows]]))
        found = np.unique(np.concatenate(pairs, axis=1), axis=1)
        epochs, starts = np.unique(found[0], return_index=True)
        if not len(epochs):
            return {}
        return dict(zip(epochs.tolist(), np.split(found[1], starts[1:]), strict=True))

    def rows_at(self, codes: Int64s, last: int) -> dict[str, pa.Table]:
        """The rows of some codes after the epoch `last`, and of the parts below what is in them."""
        begin, end = np.searchsorted(self.codes, codes), np.searchsorted(self.codes, codes, "right")
        places = ranges(begin, end - begin)
        places = places[self.at[places] <= last]
        summed = consolidate(self.rows.take(pa.array(places)), self.part.trace.layout)
        summed = summed.filter(pc.greater(summed.column(WEIGHT), 0))
        found: dict[str, Any] = {
            self.level.view: self.part.named([repeated(summed, len(self.part.schema))])
        }
        for held, there, below in zip(self.held, self.is_held, self.below, strict=True):
            labels = np.unique(held[places][there[places]])
            found |= below.rows_at(labels, last)
        return found
