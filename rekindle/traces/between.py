"""The rows of a key whose order lies between two bounds, found by binary search.

In an ordered trace `_id0` is an order: the rows of a key stand in it one after the other in every
run, so those from `low` to `high` are one slice of it. Both bounds belong to the slice, since equal
orders may stand for values that differ. Nothing is consolidated: what reads ranges is bilinear.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rekindle.traces.arrays import Int64s

LOWEST, HIGHEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
"""The ends of a range that is open."""


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
    begins = np.searchsorted(keys, wanted, side="left")
    ends = np.searchsorted(keys, wanted, side="right")
    if len(wanted) and wanted[0] == wanted[-1]:
        begin, end = int(begins[0]), int(ends[0])
        rows = order[begin:end]
        return (
            begin + np.searchsorted(rows, low, side="left"),
            begin + np.searchsorted(rows, high, side="right"),
        )
    after_low = _first_from(order, begins, ends, low)
    # No order is above the highest one, so what follows it is the end of the key.
    closed = high != HIGHEST
    after_high = np.where(closed, _first_from(order, begins, ends, high + closed), ends)
    return after_low, after_high


def _first_from(order: Int64s, begins: Int64s, ends: Int64s, bound: Int64s) -> Int64s:
    """For each slice of `order`, all of which ascend, the first place that is not below a bound."""
    low, high = begins.copy(), ends.copy()
    while (open_ := np.flatnonzero(low < high)).size:
        middle = (low[open_] + high[open_]) // 2
        below = order[middle] < bound[open_]
        low[open_[below]] = middle[below] + 1
        high[open_[~below]] = middle[~below]
    return low
