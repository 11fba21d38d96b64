"""The first rows of each key, without reading the others.

In an ordered trace `_id0` is not a hash but an order: the rows of a key stand in it one after the
other in every run. A few rows are taken from the beginning of each run; what is certain are the
rows before the earliest point at which any run was left. Keys for which that is not enough are
asked again for more, so the rows read follow the rows wanted and those that cancel out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import IDENTITY, WEIGHT, Int64s, identity_columns, integers
from rekindle.traces.consolidate import consolidate
from rekindle.traces.packed import rows_at
from rekindle.traces.reader import TraceReader

_MORE = 8
_END = np.iinfo(np.int64).max


def first_rows(reader: TraceReader, keys: Int64s, count: int) -> Any:
    """The first `count` rows of the sorted, distinct keys, and all rows level with the last.

    Rows count as often as their weight; those of negative weight do not count. Arranged.
    """
    found = []
    limit = count + _MORE
    while len(keys):
        pieces = []
        horizon = np.full(len(keys), _END)
        for match, left in reader.leading(keys, limit):
            pieces.append(rows_at(match.table, match.row))
            _lower(horizon, match, left)
        rows = (
            consolidate(pa.concat_tables(pieces), reader.layout)
            if pieces
            else reader.layout.empty()
        )
        mask, unsettled = _settled(rows, keys, horizon, count)
        found.append(rows.filter(pa.array(mask)))
        keys = keys[unsettled]
        limit *= _MORE
    return consolidate(pa.concat_tables(found), reader.layout) if found else reader.layout.empty()


def _lower(horizon: Int64s, match: Any, left: Int64s) -> None:
    """Take note of where the keys with more rows were left: at the order of their last row."""
    if not len(left):
        return
    last = np.searchsorted(match.probe, left, side="right") - 1
    order = integers(match.table.column(IDENTITY[0]))[match.row[last]]
    np.minimum.at(horizon, left, order)


def _settled(
    rows: Any, keys: Int64s, horizon: Int64s, count: int
) -> tuple[np.ndarray[Any, np.dtype[np.bool_]], Int64s]:
    """Which rows are wanted for certain, and which keys need another look."""
    if not len(rows):
        return np.zeros(0, dtype=bool), np.flatnonzero(horizon != _END)
    stored, order, _ = identity_columns(rows)
    key = np.searchsorted(keys, stored)
    certain = (horizon[key] == _END) | (order < horizon[key])
    weights = np.where(certain, np.maximum(integers(rows.column(WEIGHT)), 0), 0)
    running = np.cumsum(weights)
    begins = np.searchsorted(key, np.arange(len(keys)), side="left")
    ends = np.searchsorted(key, np.arange(len(keys)), side="right")
    before = np.where(begins > 0, running[np.maximum(begins - 1, 0)], 0)
    total = np.where(ends > begins, running[np.maximum(ends - 1, 0)] - before, 0)
    enough = total >= count
    unsettled = ~enough & (horizon != _END)
    # The row at which the count is reached decides up to which order rows are wanted.
    target = before + count
    place = np.minimum(np.searchsorted(running, target, side="left"), len(rows) - 1)
    bound = np.where(enough, order[place], _END)
    wanted = certain & (order <= bound[key]) & ~unsettled[key]
    return wanted, np.flatnonzero(unsettled)
