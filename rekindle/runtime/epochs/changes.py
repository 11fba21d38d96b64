"""Reading changes, wherever they are: recent ones run by run, older ones as a range of epochs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.errors import CorruptionError
from rekindle.runtime.epochs.history import HASH, Changes
from rekindle.traces.arrays import KEY, WEIGHT, Int64s, integers, single_chunk
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.partition import ALL_KEYS, KEY_HIGH, KeyRange
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace


class Changed(NamedTuple):
    """Rows of a trace with their keys, and the epoch at which each changed."""

    rows: pa.Table
    epochs: pa.Array


def changed(
    changes: Changes, layout: TraceLayout, store: Store, key_range: KeyRange = ALL_KEYS
) -> Iterator[Changed]:
    """The rows of changes whose keys are in a range, older ones first; an epoch's are distinct.

    Older rows are sorted by epoch, so every range of keys is picked out of all of them.
    """
    if changes.older is not None:
        epochs = (changes.since + 1, changes.until + 1)
        yield from _older(changes.older, epochs, layout, store, key_range)
    for change in changes.recent:
        reader = TraceReader.of_trace(Trace(layout, (change.run,)), store, key_range)
        for table in reader.scan():
            yield Changed(table, pa.array(np.full(len(table), change.epoch, dtype=np.int64)))


def _older(
    older: Trace, epochs: KeyRange, layout: TraceLayout, store: Store, key_range: KeyRange
) -> Iterator[Changed]:
    for table in TraceReader.of_trace(older, store, epochs).scan():
        keys = _keys(table)
        if key_range != ALL_KEYS:
            low, high = key_range
            within = keys >= low
            if high < KEY_HIGH:
                within &= keys < high
            table = table.filter(pa.array(within))
        if len(table):
            yield Changed(_put_back(table, layout), single_chunk(table.column(KEY)))


def undoing(
    changes: Changes, layout: TraceLayout, store: Store, key_range: KeyRange
) -> list[pa.Table]:
    """Arranged tables that, added to contents, take changes back."""
    found = []
    for rows, _ in changed(changes, layout, store, key_range):
        position = rows.schema.get_field_index(WEIGHT)
        back = rows.set_column(position, WEIGHT, pc.negate(rows.column(WEIGHT)))
        found.append(consolidate(back, layout))
    return found


def touch_any(changes: Changes, layout: TraceLayout, store: Store, keys: Int64s) -> bool:
    """Do changes have a row of one of the sorted, distinct keys?"""
    runs = Trace(layout, tuple(change.run for change in changes.recent))
    rows, _ = TraceReader.of_trace(runs, store).probe(keys)
    if len(rows):
        return True
    older = Changes(changes.since, (), changes.older)
    return any(
        np.isin(integers(rows.column(KEY)), keys).any() for rows, _ in changed(older, layout, store)
    )


def _put_back(table: pa.Table, layout: TraceLayout) -> pa.Table:
    """Older rows in the layout of the contents."""
    position = table.schema.get_field_index(KEY)
    return layout.conform(table.set_column(position, KEY, table.column(HASH)))


def _keys(table: pa.Table) -> Int64s:
    if table.column(HASH).null_count:
        raise CorruptionError(
            "a row of the history has no key",
            detail="its files do not hold what was committed",
            hint="restore the database from a backup",
        )
    return integers(table.column(HASH))
