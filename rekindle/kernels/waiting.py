"""Changes of a recursion's relations that wait for the iteration at which they are due.

A recursion inside others is iterated anew at every iteration of those, so a change is due at a
vector of iterations, the outermost first. They are taken in the order of a dictionary: whatever is
at an earlier time in every part has been taken before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import WEIGHT, Booleans, single_chunk
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout

Time = tuple[int, ...]
Stamps = npt.NDArray[np.int32]


class Waiting:
    """Arranged changes of relations, by the relation; their last columns are `depth` stamps."""

    def __init__(self, layouts: Mapping[str, TraceLayout], depth: int = 1) -> None:
        self._layouts = layouts
        self._depth = depth
        self._tables: dict[str, Any] = {}

    def add(self, relation: str, change: Any) -> None:
        """Let an arranged change wait; what cancels out is never due."""
        before = self._tables.pop(relation, None)
        if before is not None:
            change = consolidate(pa.concat_tables([before, change]), self._layouts[relation])
        if len(change):
            self._tables[relation] = change

    def last_stamp(self, relation: str) -> str:
        """The column that says at which iteration of the innermost scope a row changes."""
        name: str = self._layouts[relation].payload.names[-1]
        return name

    def soonest(self, within: Time) -> int | None:
        """The least next part of a time that begins with `within` and at which anything is due.

        Changes are due one iteration later than they are stamped (↑z⁻¹), in the last part.
        """
        least = []
        for name in self._tables:
            here = self._stamps(name, len(within))
            if within:
                here = here[self._begin_with(name, within)]
            if len(here):
                least.append(int(here.min()))
        if not least:
            return None
        return min(least) + (len(within) == self._depth - 1)

    def take(self, time: Time) -> dict[str, Any]:
        """What is due at a time: rows of `_weight` and columns, for some of the relations."""
        due = {}
        for name, table in list(self._tables.items()):
            now = self._begin_with(name, (*time[:-1], time[-1] - 1))
            taken = np.flatnonzero(now)
            if len(taken) == len(table):
                del self._tables[name]
            elif len(taken):
                self._tables[name] = table.take(pa.array(np.flatnonzero(~now)))
                table = table.take(pa.array(taken))
            if len(taken):
                due[name] = self._later(name, table)
        return due

    def _begin_with(self, name: str, stamps: Time) -> Booleans:
        """Which rows have these first stamps."""
        same: Booleans = self._stamps(name, 0) == stamps[0]
        for place, stamp in enumerate(stamps[1:], start=1):
            same &= self._stamps(name, place) == stamp
        return same

    def _stamps(self, name: str, place: int) -> Stamps:
        column = self._layouts[name].payload.names[place - self._depth]
        found: Stamps = single_chunk(self._tables[name].column(column)).to_numpy()
        return found

    def _later(self, name: str, rows: Any) -> Any:
        names = self._layouts[name].payload.names
        column = rows.column(names[-1])
        later = pc.add(column, pa.scalar(1, column.type))
        selected = rows.select([WEIGHT, *names])
        return selected.set_column(len(names), names[-1], later)
