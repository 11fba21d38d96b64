"""The rows near given places of an ordered trace, without reading the others.

A *place* is an order of a key: all rows that are level there. A *stretch* is an interval of orders
of a key, both ends included, so that it never divides rows that are level. What a place needs is
found from orders and weights alone: a few rows beyond it are looked at in each run, and what is
certain are those nearer than any run was left; places for which that is not enough are looked at
again, further. Only then are the rows of the stretches read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from rekindle.traces.arrays import Int64s, identity_columns
from rekindle.traces.consolidate import key_starts
from rekindle.traces.reader import TraceReader
from rekindle.traces.run_view import Beyond

_MORE = 8
_LEAST, _GREATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max


class Places(NamedTuple):
    """Orders of keys, ascending, each once."""

    key: Int64s
    order: Int64s


class Stretches(NamedTuple):
    """Intervals of the order of keys, ascending, none of which meet."""

    key: Int64s
    low: Int64s
    high: Int64s

    def read(self, reader: TraceReader) -> Any:
        """Their rows, arranged."""
        return reader.between(self.key, self.low, self.high)

    def of_rows(self, rows: Any) -> Int64s:
        """For each arranged row of a stretch, the number of that stretch."""
        key, order, _ = identity_columns(rows)
        first = np.searchsorted(self.key, key, "left")
        last = np.searchsorted(self.key, key, "right")
        number = first.copy()
        # Few keys have many stretches: this ends after the logarithm of the most.
        while (open_ := last - number > 1).any():
            middle = (number + last) // 2
            later = open_ & (self.low[np.where(open_, middle, 0)] <= order)
            number = np.where(later, middle, number)
            last = np.where(open_ & ~later, middle, last)
        return number


def places_of(rows: Any) -> Places:
    """Where the rows of an arranged, ordered table are."""
    key, order, _ = identity_columns(rows)
    if not len(key):
        return Places(key, order)
    new = np.append(True, (key[1:] != key[:-1]) | (order[1:] != order[:-1]))
    return Places(key[new], order[new])


def first_places(rows: Any) -> Places:
    """Where the first row of each key is, in an arranged, ordered table."""
    key, order, _ = identity_columns(rows)
    starts = key_starts(key)
    return Places(key[starts], order[starts])


def rows_around(reader: TraceReader, places: Places, count: int) -> Stretches:
    """Stretches with at least `count` rows before and after each place, if there are as many.

    A key with so many places that its stretches would hardly be less is one stretch.
    """
    if not len(places.key):
        return Stretches(places.key, places.order, places.order)
    starts = key_starts(places.key)
    numbers = np.diff(np.append(starts, len(places.key)))
    dear = reader.sizes(places.key[starts]) <= numbers * 2 * (count + _MORE)
    whole = np.repeat(dear, numbers)
    low = np.full(len(places.key), _LEAST)
    high = np.full(len(places.key), _GREATEST)
    some = Places(places.key[~whole], places.order[~whole])
    low[~whole] = _reach(reader.preceding, some, count, _backwards, _LEAST)
    high[~whole] = _reach(reader.following, some, count, _forwards, _GREATEST)
    return _merged(places.key, low, high)


def values_around(places: Places, distance: int) -> Stretches:
    """Stretches of the orders that are at most `distance` from each place."""
    low = np.where(places.order < _LEAST + distance, _LEAST, places.order - distance)
    high = np.where(places.order > _GREATEST - distance, _GREATEST, places.order + distance)
    return _merged(places.key, low, high)


def from_the_row_before(reader: TraceReader, places: Places) -> Stretches:
    """From the last rows before each place, one place a key, to the end of the key."""
    low = _reach(reader.preceding, places, 1, _backwards, _LEAST)
    return to_the_end(Places(places.key, low))


def to_the_end(places: Places) -> Stretches:
    """From each place, one place a key, to the end of the key."""
    return Stretches(places.key, places.order, np.full(len(places.key), _GREATEST))


def _merged(key: Int64s, low: Int64s, high: Int64s) -> Stretches:
    """Stretches of ascending places, those that meet as one."""
    if not len(key):
        return Stretches(key, low, high)
    new = np.append(True, (key[1:] != key[:-1]) | (low[1:] > high[:-1]))
    last = np.append(np.flatnonzero(new)[1:], len(key)) - 1
    return Stretches(key[new], low[new], high[last])


def _forwards(order: Int64s) -> Int64s:
    return order


def _backwards(order: Int64s) -> Int64s:
    # The complement turns the order around; the negative of the least integer is itself.
    return ~order


def _reach(
    look: Callable[[Int64s, Int64s, int], Iterator[Beyond]],
    places: Places,
    count: int,
    direction: Callable[[Int64s], Int64s],
    end: int,
) -> Int64s:
    """The order up to which each place has `count` rows beyond it, or `end` where it has not.

    Rows count as often as their weight; a level whose weights add up to nothing does not count.
    """
    if count == 0:
        return places.order.copy()
    bounds = np.full(len(places.key), end)
    waiting = np.arange(len(places.key))
    limit = count + _MORE
    while len(waiting):
        found = list(look(places.key[waiting], places.order[waiting], limit))
        horizon = np.full(len(waiting), _GREATEST)
        more = np.zeros(len(waiting), dtype=bool)
        for piece in found:
            more |= piece.more
            reached = direction(piece.reached)
            horizon = np.where(piece.more, np.minimum(horizon, reached), horizon)
        bound, enough = _counted(found, horizon, more, count, direction)
        bounds[waiting[enough]] = direction(bound[enough])
        waiting = waiting[~enough & more]
        limit *= _MORE
    return bounds


def _counted(
    found: list[Beyond],
    horizon: Int64s,
    more: Any,
    count: int,
    direction: Callable[[Int64s], Int64s],
) -> tuple[Int64s, Any]:
    """For each place the level at which the count is reached, and whether it certainly is."""
    places = len(horizon)
    probe = np.concatenate([np.zeros(0, np.int64), *(piece.probe for piece in found)])
    order = direction(np.concatenate([np.zeros(0, np.int64), *(piece.order for piece in found)]))
    weight = np.concatenate([np.zeros(0, np.int64), *(piece.weight for piece in found)])
    certain = ~more[probe] | (order < horizon[probe])
    probe, order, weight = probe[certain], order[certain], weight[certain]
    if not len(probe):
        return np.zeros(places, np.int64), np.zeros(places, dtype=bool)
    sort = np.lexsort((order, probe))
    probe, order, weight = probe[sort], order[sort], weight[sort]
    new = np.append(True, (probe[1:] != probe[:-1]) | (order[1:] != order[:-1]))
    levels = np.flatnonzero(new)
    running = np.cumsum(np.maximum(np.add.reduceat(weight, levels), 0))
    probe, order = probe[levels], order[levels]
    first = np.searchsorted(probe, np.arange(places), "left")
    last = np.searchsorted(probe, np.arange(places), "right")
    before = np.where(first > 0, running[np.maximum(first - 1, 0)], 0)
    place = np.searchsorted(running, before + count, "left")
    return order[np.minimum(place, len(order) - 1)], place < last
