"""When each epoch was committed.

A record says when it was written, in microseconds of UTC, and later than the one before it whatever
the clock says: so the epochs are in the order of their times. The last ones are in the state, the
others in a trace like that of older changes (`history.py`), whose key is the epoch.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.runtime.epochs.history import above
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, integers
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.partition import KEY_HIGH
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Segment
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace
from rekindle.traces.values import Weight

LAYOUT = TraceLayout((Weight(),), pa.schema([]))
"""The epoch is the key; the first half of the identity is the time."""


@dataclass(frozen=True, slots=True)
class Times:
    """The times of retained epochs, as far as they are known: early databases have none."""

    recent: tuple[tuple[int, int], ...] = ()
    older: Trace | None = None

    @property
    def segments(self) -> tuple[Segment, ...]:
        return () if self.older is None else self.older.segments

    def plus(self, epoch: int, instant: int) -> Times:
        """The times with that of one more epoch at the end."""
        return replace(self, recent=(*self.recent, (epoch, instant)))

    def next(self) -> int:
        """The time of an epoch that is committed now."""
        now = time.time_ns() // 1000
        return max(now, self.recent[-1][1] + 1) if self.recent else now

    def after(self, horizon: int) -> Times:
        """The times of the epochs whose contents are retained: the horizon and all after it."""
        recent = self.recent
        # The last one stays in any case: the next time is later than it.
        if len(recent) > 1 and recent[0][0] < horizon:
            kept = tuple(each for each in recent if each[0] >= horizon)
            recent = kept or recent[-1:]
        older = None if self.older is None else above(self.older, horizon - 1)
        if recent is self.recent and older is self.older:
            return self
        return Times(recent, older)

    def known(self, store: Store, since: int = 0) -> Iterator[tuple[Any, Any]]:
        """Vectors of epochs from `since` on and of their times, ascending."""
        if self.older is not None:
            reader = TraceReader.of_trace(self.older, store, (since, KEY_HIGH))
            for table in reader.scan():
                yield integers(table.column(KEY)), integers(table.column(IDENTITY[0]))
        recent = [each for each in self.recent if each[0] >= since]
        if recent:
            epochs, instants = zip(*recent, strict=True)
            yield np.array(epochs, np.int64), np.array(instants, np.int64)

    def at(self, instant: int, store: Store) -> int | None:
        """The last epoch committed at an instant or before it, if its time is known."""
        found = None
        for epochs, instants in self.known(store):
            place = int(instants.searchsorted(instant, side="right"))
            if place:
                found = int(epochs[place - 1])
        return found

    def to_json(self) -> dict[str, Any]:
        return {
            "recent": [list(each) for each in self.recent],
            "older": None if self.older is None else self.older.to_json(),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Times:
        recent = tuple((epoch, instant) for epoch, instant in data["recent"])
        older = data["older"]
        return cls(recent, None if older is None else Trace.from_json(older))


def table_of(times: Sequence[tuple[int, int]]) -> Any:
    """Times as an arranged table."""
    epochs, instants = zip(*times, strict=True)
    columns = {
        KEY: epochs,
        IDENTITY[0]: instants,
        IDENTITY[1]: [0] * len(times),
        WEIGHT: [1] * len(times),
    }
    arrays = {name: pa.array(values, pa.int64()) for name, values in columns.items()}
    return consolidate(pa.table(arrays), LAYOUT)
