"""The rows of a key whose order lies between two bounds, found by binary search.

In an ordered trace `_id0` is an order: the rows of a key stand in it one after the other in every
run, so those from `low` to `high` are one slice of it. Both bounds belong to the slice, since equal
orders may stand for values that differ. Nothing is consolidated: what reads ranges is bilinear.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from rekindle.traces.arrays import Int64s

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""The ends of a range that is open."""
_FEW = 8
"""So many values are found one by one; of more, each step of the search is for all."""


class Slices(NamedTuple):
    """Rows of one segment: those from `start[i]` on, `length[i]` of them, were asked for at
    `probe[i]`."""

    table: Any
    start: Int64s
    length: Int64s
    probe: Int64s


def bounds(
    keys: Int64s, order: Int64s, wanted: Int64s, low: Int64s, high: Int64s
) -> tuple[Int64s, Int64s]:
    """Where, among rows sorted by key and order, those of each wanted key from low to high are.

    The wanted keys are sorted. A range without rows may end before it begins.

    >>> of_one_key = np.zeros(4, dtype=np.int64), np.array([1, 3, 3, 8])
    >>> start, end = bounds(*of_one_key, np.array([0, 0]), np.array([2, 9]), np.array([3, 4]))
    >>> start.tolist(), end.tolist()
    ([1, 4], [3, 3])
    """
    begins, ends = key_bounds(keys, wanted)
    if len(wanted) and wanted[0] == wanted[-1]:
        begin, end = int(begins[0]), int(ends[0])
        rows = order[begin:end]
        return (
            begin + np.searchsorted(rows, low, side="left"),
            begin + np.searchsorted(rows, high, side="right"),
        )
    return bisect(order, begins, ends, low, "left"), bisect(order, begins, ends, high, "right")


def key_bounds(stored: Int64s, keys: Int64s) -> tuple[Int64s, Int64s]:
    """Where, among sorted keys, those equal to each of some begin and end."""
    return np.searchsorted(stored, keys, "left"), np.searchsorted(stored, keys, "right")


def bisect(
    column: Int64s, low: Int64s, high: Int64s, values: Int64s, side: Literal["left", "right"]
) -> Int64s:
    """Where each value belongs among the ascending rows `low` to `high` of the column.

    >>> column = np.array([1, 3, 3, 0, 3])
    >>> bisect(column, np.array([0, 3]), np.array([3, 5]), np.array([3, 3]), "left").tolist()
    [1, 4]
    """
    if len(values) <= _FEW:
        places = zip(low, high, values, strict=True)
        return np.array([a + column[a:b].searchsorted(v, side) for a, b, v in places], np.int64)
    low, high = low.copy(), high.copy()
    while (open_ := np.flatnonzero(low < high)).size:
        middle = (low[open_] + high[open_]) // 2
        found = column[middle]
        before = found < values[open_] if side == "left" else found <= values[open_]
        low[open_[before]] = middle[before] + 1
        high[open_[~before]] = middle[~before]
    return low
