"""Changes of a recursion's relations that wait for the iteration at which they are due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import WEIGHT, integers
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout


@dataclass(frozen=True, slots=True)
class Turn:
    """What is due at an iteration: rows of `_weight` and columns, for some of the relations."""

    iteration: int
    rows: Mapping[str, Any]


class Waiting:
    """Arranged changes of relations, by the relation; the stamp is their last column."""

    def __init__(self, layouts: Mapping[str, TraceLayout]) -> None:
        self._layouts = layouts
        self._tables: dict[str, Any] = {}

    def add(self, relation: str, change: Any) -> None:
        """Let an arranged change wait; what cancels out is never due."""
        before = self._tables.pop(relation, None)
        if before is not None:
            change = consolidate(pa.concat_tables([before, change]), self._layouts[relation])
        if len(change):
            self._tables[relation] = change

    def next(self) -> Turn | None:
        """The changes of the least stamp, stamped one later (↑z⁻¹); None when nothing waits."""
        if not self._tables:
            return None
        stamps = {name: self._stamps(name) for name in self._tables}
        least = min(int(found.min()) for found in stamps.values())
        due = {}
        for name, found in stamps.items():
            table = self._tables.pop(name)
            now = found == least
            if now.any():
                due[name] = self._later(name, table.filter(pa.array(now)))
            if not now.all():
                self._tables[name] = table.filter(pa.array(~now))
        return Turn(least + 1, due)

    def _stamps(self, name: str) -> Any:
        column = self._layouts[name].payload.names[-1]
        return integers(pc.cast(self._tables[name].column(column), pa.int64()))

    def _later(self, name: str, rows: Any) -> Any:
        names = self._layouts[name].payload.names
        column = rows.column(names[-1])
        later = pc.add(column, pa.scalar(1, column.type))
        selected = rows.select([WEIGHT, *names])
        return selected.set_column(len(names), names[-1], later)
