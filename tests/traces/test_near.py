"""The rows near a place, against counting in a plain list."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.traces import near
from rekindle.traces.near import (
    Places,
    Stretches,
    first_places,
    from_the_row_before,
    places_of,
    rows_around,
    values_around,
)
from rekindle.traces.reader import TraceReader
from tests.traces.test_first import LAYOUT, Row, _arranged

LEAST, GREATEST = -(2**63), 2**63 - 1
orders = st.one_of(st.integers(-3, 6), st.sampled_from((LEAST, GREATEST)))
rows = st.tuples(
    st.integers(0, 3), orders, st.integers(0, 2), st.sampled_from((-1, -1, 1, 1, 1, 2))
)
runs = st.lists(st.lists(rows, max_size=14), min_size=1, max_size=4)
places = st.sets(st.tuples(st.integers(0, 4), orders), max_size=6)


def _levels(given_: list[list[Row]]) -> dict[int, dict[int, int]]:
    """By key and order the number of rows; levels that cancel are absent."""
    total: dict[int, Counter[int]] = defaultdict(Counter)
    for run in given_:
        for key, order, _, weight in run:
            total[key][order] += weight
    return {
        key: {order: n for order, n in sorted(levels.items()) if n > 0}
        for key, levels in total.items()
    }


def _places(given_: set[tuple[int, int]]) -> Places:
    key, order = np.array(sorted(given_), dtype=np.int64).reshape(-1, 2).T
    return Places(key.copy(), order.copy())


def _reader(given_: list[list[Row]]) -> TraceReader:
    return TraceReader.of_tables(LAYOUT, [_arranged(run) for run in given_])


def _bounds(levels: dict[int, int], place: int, count: int) -> tuple[int, int]:
    """The nearest orders between which there are `count` rows on each side of the place."""
    if count == 0:
        return place, place
    low, high, below, above = LEAST, GREATEST, 0, 0
    for order in sorted((o for o in levels if o < place), reverse=True):
        below += levels[order]
        if below >= count:
            low = order
            break
    for order in sorted(o for o in levels if o > place):
        above += levels[order]
        if above >= count:
            high = order
            break
    return low, high


def _held(stretches: Stretches) -> list[tuple[int, int, int]]:
    return [(int(k), int(a), int(b)) for k, a, b in zip(*stretches, strict=True)]


@settings(max_examples=200, deadline=None)
@given(runs, places, st.integers(0, 4), st.integers(2, 9))
def test_the_reach_of_a_place_is_that_of_counting(
    given_: list[list[Row]], wanted: set[tuple[int, int]], count: int, more: int
) -> None:
    """Neither a level too few nor one too many, where a key is not read as a whole."""
    original, near._MORE = near._MORE, more
    try:
        reader, asked = _reader(given_), _places(wanted)
        low = near._reach(reader.preceding, asked, count, near._backwards, LEAST)
        high = near._reach(reader.following, asked, count, near._forwards, GREATEST)
    finally:
        near._MORE = original
    levels = _levels(given_)
    expected = [_bounds(levels.get(key, {}), order, count) for key, order in sorted(wanted)]
    assert list(zip(low.tolist(), high.tolist(), strict=True)) == expected


@settings(max_examples=200, deadline=None)
@given(runs, places, st.integers(0, 3))
def test_stretches_hold_the_rows_around_their_places_and_never_meet(
    given_: list[list[Row]], wanted: set[tuple[int, int]], count: int
) -> None:
    reader = _reader(given_)
    stretches = rows_around(reader, _places(wanted), count)
    held = _held(stretches)
    assert held == sorted(held)
    for (key, _, high), (other, low, _) in itertools.pairwise(held):
        assert key != other or high < low
    for key, order in wanted:
        low, high = _bounds(_levels(given_).get(key, {}), order, count)
        assert any(k == key and a <= low and high <= b for k, a, b in held)
    assert {k for k, _, _ in held} == {k for k, _ in wanted}


@settings(max_examples=200, deadline=None)
@given(runs, places, st.integers(0, 3))
def test_a_stretch_is_read_with_all_its_rows(
    given_: list[list[Row]], wanted: set[tuple[int, int]], distance: int
) -> None:
    stretches = values_around(_places(wanted), distance)
    table = stretches.read(_reader(given_))
    total: Counter[tuple[int, int, int]] = Counter()
    for run in given_:
        for key, order, hash_, weight in run:
            total[key, order, hash_] += weight
    expected = {
        row: weight
        for row, weight in total.items()
        if weight and any(k == row[0] and abs(o - row[1]) <= distance for k, o in wanted)
    }
    names = ("_key", "_id0", "_id1")
    identities = list(zip(*(table.column(n).to_pylist() for n in names), strict=True))
    assert dict(zip(identities, table.column("_weight").to_pylist(), strict=True)) == expected
    numbers = stretches.of_rows(table).tolist()
    held = _held(stretches)
    for (key, order, _), number in zip(identities, numbers, strict=True):
        assert held[number][0] == key and held[number][1] <= order <= held[number][2]


@settings(max_examples=150, deadline=None)
@given(runs, places)
def test_a_suffix_begins_at_the_last_level_before_the_first_place(
    given_: list[list[Row]], wanted: set[tuple[int, int]]
) -> None:
    change = _arranged([(key, order, 0, 1) for key, order in wanted])
    first = first_places(change)
    least = {key: min(o for k, o in wanted if k == key) for key, _ in wanted}
    assert dict(zip(first.key.tolist(), first.order.tolist(), strict=True)) == least
    stretches = from_the_row_before(_reader(given_), first)
    for key, low, high in _held(stretches):
        assert low == _bounds(_levels(given_).get(key, {}), least[key], 1)[0]
        assert high == GREATEST


@given(places)
def test_places_are_told_apart_by_key_and_order(wanted: set[tuple[int, int]]) -> None:
    rows_ = [(key, order, hash_, 1) for key, order in wanted for hash_ in (0, 1)]
    found = places_of(_arranged(rows_))
    assert list(zip(found.key.tolist(), found.order.tolist(), strict=True)) == sorted(wanted)


def test_few_rows_of_a_large_key_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = _reader([[(7, order, 0, 1) for order in range(20_000)]])
    looked = []
    for name in ("preceding", "following"):
        original = getattr(reader, name)

        def counted(*given_: object, original: object = original):  # type: ignore[no-untyped-def]
            for piece in original(*given_):  # type: ignore[operator]
                looked.append(len(piece.order))
                yield piece

        monkeypatch.setattr(reader, name, counted)
    stretches = rows_around(reader, _places({(7, 100), (7, 103), (7, 15_000)}), 3)
    assert _held(stretches) == [(7, 97, 106), (7, 14_997, 15_003)]
    assert len(stretches.read(reader)) == 10 + 7
    assert sum(looked) < 100


def test_many_places_of_a_small_key_are_one_stretch() -> None:
    reader = _reader([[(7, order, 0, 1) for order in range(50)]])
    stretches = rows_around(reader, _places({(7, 0), (7, 20), (7, 40)}), 1)
    assert _held(stretches) == [(7, LEAST, GREATEST)]


def test_nothing_is_near_no_places() -> None:
    reader, nowhere = _reader([[(1, 2, 3, 1)]]), _places(set())
    for stretches in (rows_around(reader, nowhere, 2), values_around(nowhere, 2)):
        assert len(stretches.read(reader)) == 0 and not len(stretches.key)
