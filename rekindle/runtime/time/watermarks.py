"""What a transaction does to tables with a lateness: late rows are left out, old ones leave.

The law: what is late is decided by the watermark as it stood before the epoch, so the rows of an
epoch are late or not whatever else is in it; the watermark moves with the epoch, and never back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name, column_names
from rekindle.errors import ConstraintError
from rekindle.runtime.epochs.state import State, TableEntry
from rekindle.runtime.rows.conversion import show_row
from rekindle.runtime.time.lateness import (
    Late,
    Lateness,
    WatermarkRow,
    late_name,
    movement,
    watermark_name,
)
from rekindle.runtime.transactions.stepping import TableChange
from rekindle.spark.frames import to_arrow
from rekindle.traces.arrays import KEY, WEIGHT, Booleans, Int64s, integers
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store

_NEVER = np.iinfo(np.int64).max
"""Where a row without a time stands: it is never late, and never old."""


@dataclass(frozen=True, slots=True)
class Watermarks:
    """The tables of a state that have a lateness."""

    state: State
    store: Store
    node: Callable[[str], Table]
    arranged: Callable[[Table, pa.Table], pa.Table]
    row: Callable[[str], WatermarkRow | None]
    """What the watermark of a table is, by the table's name."""

    def applied(self, changes: Mapping[str, TableChange]) -> dict[str, TableChange]:
        """The changes without late rows, and with those of the watermarks that they move."""
        found = dict(changes)
        for name, change in changes.items():
            entry = self.state.entries[name]
            if isinstance(entry, TableEntry) and entry.lateness is not None:
                found |= self._applied(entry, entry.lateness, change, changes)
        return found

    def _applied(
        self,
        entry: TableEntry,
        lateness: Lateness,
        change: TableChange,
        given: Mapping[str, TableChange],
    ) -> dict[str, TableChange]:
        node, before = self.node(entry.name), self.row(entry.name)
        rows = self._rows(node, change)
        found: dict[str, TableChange] = {}
        late = 0
        if before is not None:
            is_late = late_rows(rows, node, lateness, before.watermark)
            if is_late.any():
                apart = rows.filter(pa.array(is_late))
                late = int(np.abs(integers(apart.column(WEIGHT))).sum())
                found |= self._apart(entry, lateness, apart, before, given)
                rows = rows.filter(pa.array(~is_late))
        after = moved(before, lateness, newest(rows, lateness), late)
        if before is not None and after is not None and after.kept_from != before.kept_from:
            rows = pa.concat_tables([rows, *self._leaving(node, lateness, after)])
        found[entry.name] = TableChange(rows=rows)
        if after is not None and after != before:
            kept = self.node(watermark_name(entry.name))
            moving = self.arranged(kept, movement(kept.schema, before, after))
            found[kept.name] = TableChange(rows=moving)
        return found

    def _rows(self, node: Table, change: TableChange) -> pa.Table:
        """The rows of a change in memory, each once."""
        rows = change.rows
        if change.frame is not None:
            stored = pa.schema([(WEIGHT, pa.int64()), *payload_schema(node.schema)])
            rows = to_arrow(change.frame).cast(stored)
        assert rows is not None
        return self.arranged(node, rows)

    def _apart(
        self,
        entry: TableEntry,
        lateness: Lateness,
        late: pa.Table,
        row: WatermarkRow,
        given: Mapping[str, TableChange],
    ) -> dict[str, TableChange]:
        """The change of the table of late rows, if they are kept, with what it was given itself."""
        if lateness.late is Late.REFUSED:
            shown = show_row(late.select(column_names(len(entry.schema))), 0)
            raise ConstraintError(
                f"a row of '{entry.name}' is late: {shown}",
                detail=f"{len(late)} row(s) are earlier than the watermark",
                hint="nothing was applied; tables made without late = 'refuse' leave late rows out",
            )
        target = self.state.entries.get(late_name(entry.name))
        if lateness.late is not Late.KEPT or not isinstance(target, TableEntry):
            return {}
        node = self.node(target.name)
        payload = payload_schema(node.schema)
        width = len(entry.schema)
        columns = [late.column(name).combine_chunks() for name in column_names(width)]
        watermark_type = payload.field(width + 1).type
        columns += [
            late.column(WEIGHT).combine_chunks(),
            pa.array(np.full(len(late), row.watermark)).cast(watermark_type),
        ]
        ones = pa.array(np.ones(len(late), dtype=np.int64))
        rows = pa.Table.from_arrays([ones, *columns], names=[WEIGHT, *payload.names])
        change = self.arranged(node, rows)
        if node.name in given:
            change = pa.concat_tables([self._rows(node, given[node.name]), change])
        return {node.name: TableChange(rows=change)}

    def _leaving(self, node: Table, lateness: Lateness, after: WatermarkRow) -> Iterator[pa.Table]:
        """The rows that are too old by now, as a change that removes them."""
        assert after.kept_from is not None
        reader = TraceReader.of_trace(self.state.traces[node.id], self.store)
        for rows in reader.scan():
            old = rows.filter(pa.array(times_of(rows, lateness) < after.kept_from))
            if len(old):
                weights = pa.array(-integers(old.column(WEIGHT)))
                yield old.set_column(old.column_names.index(WEIGHT), WEIGHT, weights)


def times_of(rows: pa.Table, lateness: Lateness) -> Int64s:
    """The time of each row, in microseconds."""
    times = rows.column(column_name(lateness.column)).cast(pa.int64())
    return np.asarray(pc.fill_null(times, _NEVER).to_numpy())


def late_rows(rows: pa.Table, node: Table, lateness: Lateness, watermark: int) -> Booleans:
    """Which rows of an arranged change are late; of one key, all are if any is."""
    late: Booleans = times_of(rows, lateness) < watermark
    if node.key and late.any():
        keys = integers(rows.column(KEY))
        late = np.isin(keys, keys[late])
    return late


def newest(rows: pa.Table, lateness: Lateness) -> int | None:
    """The greatest time of the rows that come."""
    times = times_of(rows, lateness)
    coming = times[(integers(rows.column(WEIGHT)) > 0) & (times != _NEVER)]
    return int(coming.max()) if len(coming) else None


def moved(
    before: WatermarkRow | None, lateness: Lateness, seen: int | None, late: int
) -> WatermarkRow | None:
    """The watermark after a time was seen; None if none has been seen yet."""
    reached = None if seen is None else seen - lateness.micros
    if before is None:
        return None if reached is None else WatermarkRow(reached)
    # What leaves is decided by the watermark before the epoch, as what is late is.
    kept_from = lateness.kept_from(before.watermark)
    if kept_from is not None and before.kept_from is not None:
        kept_from = max(kept_from, before.kept_from)
    watermark = before.watermark if reached is None else max(before.watermark, reached)
    return WatermarkRow(watermark, before.late + late, kept_from)
