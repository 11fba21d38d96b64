"""The rows at given ranks of a key, without reading the others.

In an ordered trace `_id0` is an order: the rows of a key stand in it one after the other in every
run. How many of them are no later than some order is a difference of two sums of weights in each
run (`weight_sums`), so the order at a rank is found by bisection: the middle of the widest stretch
of rows that may still hold it halves that stretch, and cuts those of the other runs as well. An
order whose weights cancel out holds no rank, since the sums do not grow there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import (
    IDENTITY,
    KEY,
    WEIGHT,
    Booleans,
    Doubles,
    Int64s,
    identity_columns,
    integers,
)
from rekindle.traces.between import HIGHEST, bisect
from rekindle.traces.consolidate import key_starts
from rekindle.traces.reader import TraceReader
from rekindle.traces.run_view import Held
from rekindle.traces.weight_sums import WeightSums


class Levels(NamedTuple):
    """Orders, and for each how many rows of its key are no later."""

    order: Int64s
    rows: Int64s


class Standing(NamedTuple):
    """Some rows of keys, and for each how many rows of its key it stands for.

    They are itself, those level with it, and those after the row before; for the last one of a key
    those after it too.
    """

    rows: Any
    stands_for: Int64s


@dataclass(slots=True)
class _Stretch:
    """The rows of one segment, from `low` to `high` for each of some requests, that may hold it."""

    asked: slice
    order: Int64s
    weights: WeightSums
    weight_before: Int64s
    """Of all rows before those of the key."""
    low: Int64s
    high: Int64s

    @classmethod
    def of(cls, held: Held) -> _Stretch:
        order = integers(held.opened.table.column(IDENTITY[0]))
        weights = held.opened.weights
        return cls(held.asked, order, weights, held.weight_before, held.begin, held.end)

    def middles(self) -> Int64s:
        """The order in the middle of each; anything where nothing is left."""
        middle: Int64s = self.order[np.minimum((self.low + self.high) // 2, len(self.order) - 1)]
        return middle

    def up_to(self, order: Int64s) -> tuple[Int64s, Int64s]:
        """Where the rows after each order begin, and the weight of all rows of the key before."""
        place = bisect(self.order, self.low, self.high, order, "right")
        return place, self.weights.before(place) - self.weight_before

    def cut(self, order: Int64s, place: Int64s, earlier: Booleans) -> None:
        """Keep the rows before each order, or those from `place` on."""
        before = bisect(self.order, self.low, place, order, "left")
        self.low = np.where(earlier, self.low, place)
        self.high = np.where(earlier, before, self.high)


def at_fractions(
    reader: TraceReader, keys: Int64s, fractions: Sequence[float], value: str
) -> Standing:
    """What decides the values at fractions of the way from the first row of a key to its last.

    The keys are sorted and distinct. Rows with a NULL in the column `value`, which are the last,
    do not count; a key that has no others is one of them. Rows that are level have one value.
    """
    size = reader.weights(keys)
    nulls = _nulls(reader, keys, value)
    of_nulls = np.searchsorted(keys, integers(nulls.column(KEY)))
    np.subtract.at(size, of_nulls, integers(nulls.column(WEIGHT)))
    valued = np.flatnonzero(size > 0)
    ranks = _ranks(size[valued], np.array(fractions))
    asked = np.repeat(keys[valued], ranks.shape[1])
    order, up_to = levels_at(reader, asked, ranks.ravel())
    new = _changes(asked, order)
    key, order, up_to = asked[new], order[new], up_to[new]
    rows = reader.between(key, order, order)
    rows = rows.filter(rows.column(value).is_valid())
    rows = rows.filter(pa.array(_changes(*identity_columns(rows)[:2])))
    nulls = nulls.filter(pa.array(_changes(of_nulls) & (size[of_nulls] == 0)))
    return Standing(
        pa.concat_tables([rows, nulls]),
        np.append(_differences(key, up_to, size[valued]), np.ones(len(nulls), np.int64)),
    )


def _differences(key: Int64s, up_to: Int64s, size: Int64s) -> Int64s:
    """How many rows lie between the levels of each key, the last of which reaches to its end."""
    begin = key_starts(key)
    up_to[np.append(begin[1:], len(key))[: len(begin)] - 1] = size
    between = np.diff(up_to, prepend=0)
    between[begin] = up_to[begin]
    return between


def _nulls(reader: TraceReader, keys: Int64s, value: str) -> Any:
    """The rows of the keys that have no value; others may be level with them."""
    end = np.full(len(keys), HIGHEST)
    last = reader.between(keys, end, end)
    return last.filter(last.column(value).is_null())


def _ranks(sizes: Int64s, fractions: Doubles) -> Int64s:
    """For each size the ranks around each of the fractions, ascending."""
    place = (sizes[:, None] - 1) * fractions
    return np.sort(np.concatenate([np.floor(place), np.ceil(place)], axis=1)).astype(np.int64)


def _changes(*columns: Int64s) -> Booleans:
    """Where any of the columns is another than in the row before."""
    found = np.zeros(len(columns[0]), dtype=bool)
    found[:1] = True
    for column in columns:
        found[1:] |= column[1:] != column[:-1]
    return found


def levels_at(reader: TraceReader, keys: Int64s, ranks: Int64s) -> Levels:
    """For each of the sorted keys the level of the row that `ranks` rows of the key stand before.

    A key may be asked for several ranks; it must have them all.
    """
    stretches = [_Stretch.of(held) for held in reader.held(keys)]
    level, rows = np.full(len(keys), HIGHEST), np.zeros(len(keys), np.int64)
    while True:
        width, middle = np.zeros(len(keys), np.int64), np.zeros(len(keys), np.int64)
        for stretch in stretches:
            asked, left = stretch.asked, stretch.high - stretch.low
            wider = left > width[asked]
            middle[asked] = np.where(wider, stretch.middles(), middle[asked])
            width[asked] = np.where(wider, left, width[asked])
        if not width.any():
            return Levels(level, rows)
        places, up_to = [], np.zeros(len(keys), np.int64)
        for stretch in stretches:
            place, weight = stretch.up_to(middle[stretch.asked])
            places.append(place)
            up_to[stretch.asked] += weight
        earlier = up_to > ranks
        found = earlier & (width > 0)
        level, rows = np.where(found, middle, level), np.where(found, up_to, rows)
        for stretch, place in zip(stretches, places, strict=True):
            stretch.cut(middle[stretch.asked], place, earlier[stretch.asked])
