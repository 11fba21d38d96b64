"""The clock of a database: a table of one row, made when the first view asks for the time.

It shows the time of the day as of the last transaction, since each moves it in its own epoch, until
`db.advance_time` is called: from then on it is moved by hand alone. By hand it never goes back; it
may once, when it is taken from the time of the day.

The law: a view that asks for the time equals its query with the clock's time put in, after every
epoch. So reading a view never asks what time it is, and a database that nobody changes stays as it
is; whoever wants its views to follow the day without changes says `db.advance_time()`.
"""

from __future__ import annotations

import datetime as dt
import secrets
import time
from dataclasses import dataclass

import pyarrow as pa

from rekindle.catalyst.types import payload_schema, schema_of
from rekindle.circuit.nodes import Table
from rekindle.errors import DefinitionError
from rekindle.frontends.spark_sql.clock import CLOCK, COLUMNS
from rekindle.runtime.epochs.state import State, TableEntry
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store


@dataclass(frozen=True, slots=True)
class Time:
    """What the clock shows, in microseconds of UTC, and whether it is moved by hand alone."""

    instant: int
    by_hand: bool = False

    @property
    def datetime(self) -> dt.datetime:
        beginning = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
        return beginning + dt.timedelta(microseconds=self.instant)

    def __str__(self) -> str:
        return f"{self.datetime:%Y-%m-%d %H:%M:%S.%f} UTC"


def time_of_day() -> Time:
    """What the clock shows unless it is moved by hand."""
    return Time(time.time_ns() // 1_000)


def new_clock() -> TableEntry:
    """The table of a clock."""
    schema = schema_of(COLUMNS)
    table = Table(CLOCK, schema, (), secrets.token_hex(8))
    return TableEntry(CLOCK, schema, (), table.incarnation, table.id, 0)


def shown_by(state: State, store: Store) -> Time | None:
    """What the clock shows in a state; None if there is none yet."""
    entry = state.entries.get(CLOCK)
    if entry is None:
        return None
    rows = TraceReader.of_trace(state.traces[entry.node], store).whole()
    if not len(rows):
        return None
    return Time(rows.column("c0").cast(pa.int64())[0].as_py(), rows.column("c1")[0].as_py())


def movement(clock: Table, before: Time | None, after: Time) -> pa.Table:
    """The change by which the clock shows another time."""
    shown = [(1, after), *([] if before is None else [(-1, before)])]
    payload = payload_schema(clock.schema)
    instants = pa.array([each.instant for _, each in shown], pa.int64())
    return pa.table(
        [
            pa.array([weight for weight, _ in shown], pa.int64()),
            instants.cast(payload.field(0).type),
            pa.array([each.by_hand for _, each in shown]),
        ],
        schema=pa.schema([pa.field(WEIGHT, pa.int64()), *payload]),
    )


def moved_by_hand(before: Time | None, instant: int | None) -> Time:
    """What the clock shows once a user has moved it: to an instant, or to the time of the day."""
    if instant is None:
        after = time_of_day()
        if before is not None and before.by_hand:
            return _forward(before, after.instant)
        # A machine whose time is set back does not take the clock with it.
        return after if before is None or before.instant < after.instant else before
    if before is None or not before.by_hand:
        return Time(instant, by_hand=True)
    return _forward(before, instant)


def _forward(before: Time, instant: int) -> Time:
    if instant < before.instant:
        raise DefinitionError(
            f"the clock cannot go back to {Time(instant)}",
            detail=f"it shows {before}",
            hint="rows that have left views by it would have to come back; give a later time",
        )
    return Time(instant, by_hand=True)
