"""Changes of a recursion's relations that wait for the iteration at which they are due.

A recursion inside others is iterated anew at every iteration of those, so a change is due at a
vector of iterations, the outermost first. They are taken in the order of a dictionary: whatever is
at an earlier time in every part has been taken before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import WEIGHT, Booleans, Int64s, integers
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout

Time = tuple[int, ...]


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

    def soonest(self, within: Time) -> int | None:
        """The least next part of a time that begins with `within` and at which anything is due.

        Changes are due one iteration later than they are stamped (↑z⁻¹), in the last part.
        """
        least = []
        for name in self._tables:
            here = self._stamps(name, len(within))[self._begin_with(name, within)]
            if len(here):
                least.append(int(here.min()))
        if not least:
            return None
        return min(least) + (len(within) == self._depth - 1)

    def take(self, time: Time) -> dict[str, Any]:
        """What is due at a time: rows of `_weight` and columns, for some of the relations."""
        due = {}
        for name in list(self._tables):
            now = self._begin_with(name, (*time[:-1], time[-1] - 1))
            table = self._tables[name]
            if now.all():
                del self._tables[name]
            elif now.any():
                self._tables[name] = table.filter(pa.array(~now))
                table = table.filter(pa.array(now))
            if now.any():
                due[name] = self._later(name, table)
        return due

    def _begin_with(self, name: str, stamps: Time) -> Booleans:
        """Which rows have these first stamps."""
        same = np.ones(len(self._tables[name]), dtype=bool)
        for place, stamp in enumerate(stamps):
            same &= self._stamps(name, place) == stamp
        return same

    def _stamps(self, name: str, place: int) -> Int64s:
        column = self._layouts[name].payload.names[place - self._depth]
        return integers(pc.cast(self._tables[name].column(column), pa.int64()))

    def _later(self, name: str, rows: Any) -> Any:
        names = self._layouts[name].payload.names
        column = rows.column(names[-1])
        later = pc.add(column, pa.scalar(1, column.type))
        selected = rows.select([WEIGHT, *names])
        return selected.set_column(len(names), names[-1], later)
