"""The history of a table or view: what changed at each retained epoch, in few files.

A step's run is its change: the same file serves the trace and the history. That is a file a step,
and a name a step in the state, so only the last few changes are kept like this (`recent`). The
others are in a trace of their own, `older`, in which the epoch is the key:

    recent:  epoch → run of (key, identity, weight, columns)
    older:   Σ of runs of (epoch, identity, weight, key, columns)

The trace merges as every trace does (`traces/trace.py`), so its files are logarithmic in its rows
but for pieces of a bounded size, and what changed after an epoch is a range of its keys. Changes
move from the one to the other, some at a time, in the steps of the table or view (`rolling.py`). A
change of more than `BULKY` rows stays where it is: it would be a file of its own there too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from rekindle.traces.layout import TraceLayout
from rekindle.traces.segment import Run, Segment
from rekindle.traces.trace import Trace

HASH = "_hash"
"""The column of an older change that holds what was the key of the row."""
BULKY = 2**14
"""Changes of more rows are never moved; it is the least that a merge writes as one piece."""
FOREVER = 2**62
"""As many epochs as nobody will see."""


@dataclass(frozen=True, slots=True)
class Change:
    """The run by which a table or view changed at an epoch."""

    epoch: int
    run: Run

    def to_json(self) -> dict[str, Any]:
        return {"epoch": self.epoch, "run": self.run.to_json()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Change:
        return cls(data["epoch"], Run.from_json(data["run"]))


@dataclass(frozen=True, slots=True)
class History:
    """The retained changes of a table or view: recent ones by epoch, older ones in a trace."""

    recent: tuple[Change, ...] = ()
    older: Trace | None = None

    def __bool__(self) -> bool:
        return bool(self.recent) or self.older is not None

    @property
    def small(self) -> list[Change]:
        """The recent changes that may be moved, the first ones first."""
        return [change for change in self.recent if change.run.rows <= BULKY]

    @property
    def segments(self) -> Iterator[Segment]:
        """Every file that the history needs."""
        for change in self.recent:
            yield from change.run.segments
        if self.older is not None:
            yield from self.older.segments

    def plus(self, change: Change) -> History:
        """The history with one more change at its end."""
        return replace(self, recent=(*self.recent, change))

    def since(self, epoch: int) -> Changes:
        """What changed after an epoch."""
        recent = tuple(change for change in self.recent if change.epoch > epoch)
        older = self.older
        if older is not None and not _rows_after(older, epoch):
            older = None
        return Changes(epoch, recent, older)

    def after(self, horizon: int) -> History:
        """The history without what only epochs up to the horizon need.

        Rows of such an epoch may stay in a file with others; `since` is never asked for them.
        """
        recent = self.recent
        if recent and recent[0].epoch <= horizon:
            recent = tuple(change for change in recent if change.epoch > horizon)
        older = None if self.older is None else above(self.older, horizon)
        if recent is self.recent and older is self.older:
            return self
        return History(recent, older)


@dataclass(frozen=True, slots=True)
class Changes:
    """What changed after an epoch, up to another; `older` may hold what is not asked for too."""

    since: int
    recent: tuple[Change, ...] = ()
    older: Trace | None = None
    until: int = FOREVER

    def up_to(self, epoch: int) -> Changes:
        """Those of them at epochs up to this one."""
        recent = tuple(change for change in self.recent if change.epoch <= epoch)
        older = self.older
        if older is not None and not any(s.low <= epoch for s in older.segments):
            older = None
        return replace(self, recent=recent, older=older, until=min(epoch, self.until))

    @property
    def rows(self) -> int:
        """An upper bound of their rows, exact for what has not been moved."""
        older = 0 if self.older is None else _rows_after(self.older, self.since)
        return sum(change.run.rows for change in self.recent) + older

    def __bool__(self) -> bool:
        return bool(self.recent) or self.older is not None


def older_layout(layout: TraceLayout) -> TraceLayout:
    """The rows of a trace by the epoch at which they changed; their key is a column."""
    return TraceLayout(layout.values, pa.schema([pa.field(HASH, pa.int64()), *layout.payload]))


def above(trace: Trace, horizon: int) -> Trace | None:
    """The trace without the files whose keys are all up to the horizon; None when none is left.

    What is being merged stays as it is, for a merge counts the rows that it has read.
    """
    if all(segment.high <= horizon for segment in trace.segments):
        return None
    if all(s.high > horizon for run in trace.runs for s in run.segments):
        return trace
    kept = (tuple(s for s in run.segments if s.high > horizon) for run in trace.runs)
    return replace(trace, runs=tuple(Run(segments) for segments in kept if segments))


def _rows_after(trace: Trace, epoch: int) -> int:
    return sum(s.rows for run in trace.readable_runs for s in run.segments if s.high > epoch)
