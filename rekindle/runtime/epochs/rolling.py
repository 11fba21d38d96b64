"""Recent changes become rows of the trace of older ones, some in each step.

A step adds a change to every table and view that it reaches, so all of them would be due at once.
It moves those of one in sixteen, the longest first; who has twice as many as allowed is due in any
case, so that no history is ever longer by more than a step brings. What is moved at once is limited
in changes and in rows: a step that finds a history of thousands, as early databases have it, does
not pay for all of it. A history of which a file is damaged stays as it is, for the present does not
need it.

All files are written under names of the step, before its record: a crash leaves both places as they
were.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import pyarrow as pa

from rekindle.errors import CorruptionError
from rekindle.runtime.epochs.history import BULKY, HASH, Change, History, older_layout
from rekindle.runtime.epochs.times import LAYOUT, Times, table_of
from rekindle.spark.step import StepContext
from rekindle.traces.arrays import KEY
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Durability
from rekindle.traces.trace import Trace, advance, fuel_for

RECENT = 32
"""From so many small changes on a history is due."""
SHARE = 16
"""One of so many histories that a step reaches is moved in it."""
TIMES = 64
"""From so many recent times on they are moved."""
TIMES_NODE = "times"
"""The directory of the times' files; no node is called so."""


@dataclass(slots=True)
class Rolled:
    """The histories after some of their changes were moved, and the files of that."""

    history: dict[str, History]
    times: Times
    written: list[str] = field(default_factory=list)
    passing: set[str] = field(default_factory=set)
    """Files that were written and are not needed any more, or that a trace no longer needs."""


def roll(
    history: Mapping[str, History],
    times: Times,
    touched: Collection[str],
    context: StepContext,
) -> Rolled:
    """Move what is due before the changes of a step that reaches the nodes `touched` are added."""
    rolled = Rolled(dict(history), times)
    for key in due(history, touched):
        with suppress(CorruptionError):
            rolled.history[key] = _shortened(key, history[key], context, rolled)
    if len(times.recent) >= TIMES:
        with suppress(CorruptionError):
            # The last one stays, for the next has to be later.
            rows = table_of(times.recent[:-1])
            older = _grown(times.older or Trace(LAYOUT), rows, TIMES_NODE, context, rolled)
            rolled.times = Times(times.recent[-1:], older)
    return rolled


def _shortened(key: str, past: History, context: StepContext, rolled: Rolled) -> History:
    """The history with its first small changes moved."""
    if key not in context.traces:
        return past
    layout = context.traces[key].layout
    tables = {change.epoch: by_epoch(change, layout, context) for change in movable(past)}
    readable = {epoch: table for epoch, table in tables.items() if table is not None}
    if not readable:
        return past
    wide = older_layout(layout)
    rows = consolidate(pa.concat_tables(readable.values()), wide)
    older = _grown(past.older or Trace(wide), rows, key, context, rolled)
    recent = tuple(change for change in past.recent if change.epoch not in readable)
    return History(recent, older)


def due(history: Mapping[str, History], touched: Collection[str]) -> list[str]:
    """The nodes whose changes are moved in a step."""
    long = [key for key, past in history.items() if len(past.recent) >= RECENT]
    small = {key: len(history[key].small) for key in long}
    long = sorted((key for key in long if small[key] >= RECENT), key=lambda key: -small[key])
    share = -(-len(touched) // SHARE)
    return long[:share] + [k for k in long[share:] if small[k] >= 2 * RECENT and k in touched]


def movable(past: History) -> list[Change]:
    """The first small changes, of not many more rows than the largest of them may have."""
    found: list[Change] = []
    rows = 0
    for change in past.small[:RECENT]:
        found.append(change)
        rows += change.run.rows
        if rows > BULKY:
            break
    return found


def by_epoch(change: Change, layout: TraceLayout, context: StepContext) -> pa.Table | None:
    """The rows of a change with its epoch as their key, and their key as a column.

    None of one whose file is damaged: it stays where it is, and is no reason for a step to fail.
    """
    try:
        whole = TraceReader.of_trace(Trace(layout, (change.run,)), context.store).whole()
    except CorruptionError:
        return None
    return keyed(whole, pa.array([change.epoch] * len(whole), pa.int64()))


def keyed(rows: pa.Table, epochs: pa.Array) -> pa.Table:
    """Arranged rows of a table or view as rows of an older change, not yet arranged."""
    hashes = rows.column(KEY)
    return rows.set_column(rows.schema.get_field_index(KEY), KEY, epochs).append_column(
        HASH, hashes
    )


def _grown(older: Trace, rows: pa.Table, key: str, context: StepContext, rolled: Rolled) -> Trace:
    numbers = itertools.count()

    def name() -> str:
        return context.path(key, f"h{next(numbers):05}.arrow")

    run = context.store.write_run(rows, name, Durability.DEFERRED)
    rolled.passing.update(run.paths)  # Unless the trace can be read and takes it in.
    grown = advance(older, run, fuel_for(run.rows), context.store, name, Durability.DEFERRED)
    rolled.written += [*run.paths, *grown.added]
    rolled.passing.difference_update(run.paths)
    rolled.passing.update(grown.dropped)
    return grown.trace
