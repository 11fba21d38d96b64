"""Heavy keys are found by a sample and counted; the parts of their rows are all of them, once."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.traces import TraceReader
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, Int64s
from rekindle.traces.heavy import Heavy, even_ranges, heavy_keys, shares, threshold, without
from rekindle.traces.partition import KEY_HIGH, KEY_LOW, key_ranges
from rekindle.traces.spread import WITHIN, spread
from tests.traces.model import LAYOUT, arranged, batches, key_of, summed


def readers_of(given_: list[list[list[tuple[int, int]]]]) -> list[TraceReader]:
    return [TraceReader.of_tables(LAYOUT, list(map(arranged, runs))) for runs in given_]


@given(st.lists(st.lists(batches, max_size=4), min_size=1, max_size=3), st.integers(1, 6))
def test_every_key_of_many_rows_is_found(
    runs: list[list[list[tuple[int, int]]]], least: int
) -> None:
    readers = readers_of(runs)
    stored = [Counter(key_of(row) for batch in each for row in summed(batch)) for each in runs]
    expected = sorted(
        (key, tuple(each[key] for each in stored))
        for key in set().union(*stored)
        if max(each[key] for each in stored) >= least
    )
    assert [(each.key, each.rows) for each in heavy_keys(readers, least)] == expected


@given(st.lists(batches, max_size=4), st.integers(1, 5))
def test_shares_are_all_rows_once(runs: list[list[tuple[int, int]]], of: int) -> None:
    (reader,) = readers_of([runs])
    parts = [reader.share(number, of) for number in range(of)]
    rows = [row for part in parts for table in part.scan() for row in table.to_pylist()]
    found: Counter[int] = Counter()
    for row in rows:
        found[row["c2"]] += row["_weight"]
    assert {row: weight for row, weight in found.items() if weight} == summed(
        itertools.chain(*runs)
    )


def test_shares_of_a_key_are_even() -> None:
    rows = [(row, 1) for row in range(3000)]
    (reader,) = readers_of([[rows[::2], rows[1::2]]])
    sizes = [sum(map(len, reader.share(number, 4).scan())) for number in range(4)]
    assert sum(sizes) == len(rows) and max(sizes) - min(sizes) <= 2


@given(
    st.lists(
        st.tuples(st.integers(0, 9), st.integers(0, 40), st.integers(0, 40)),
        unique_by=lambda t: t[0],
    ),
    st.integers(1, 50),
    st.integers(1, 8),
)
def test_no_share_has_more_than_the_limit(
    keys: list[tuple[int, int, int]], limit: int, most: int
) -> None:
    heavy = [Heavy(key, (one, other)) for key, one, other in keys]
    found = shares(heavy, limit, most)
    for each in heavy:
        parts = [share for share in found if share.key == each.key]
        assert bool(parts) == (each.load > limit)
        assert [share.number for share in parts] == list(range(len(parts)))
        assert {share.of for share in parts} <= {len(parts)}
        assert all(each.rows[share.trace] == max(each.rows) for share in parts)
        if parts:
            assert each.load <= limit * len(parts) or len(parts) == most


@given(st.lists(st.integers(-20, 20)), st.integers(-20, 20), st.integers(-20, 20))
def test_what_is_left_of_a_range(keys: list[int], low: int, high: int) -> None:
    left = without((low, high), sorted(set(keys)))
    found = [key for first, last in left for key in range(first, last)]
    assert found == [key for key in range(low, high) if key not in keys]


@given(st.lists(st.integers(KEY_LOW, KEY_HIGH - 1)), st.sampled_from([1, 2, 8]))
def test_ranges_are_all_keys_once(keys: list[int], partitions: int) -> None:
    ranges = even_ranges(np.array(keys, dtype=np.int64), partitions)
    assert (ranges[0][0], ranges[-1][1]) == (KEY_LOW, KEY_HIGH)
    assert all(low < high for low, high in ranges) and len(ranges) <= partitions
    assert all(one[1] == other[0] for one, other in itertools.pairwise(ranges))


def test_a_heavy_label_is_cut_between_its_rows() -> None:
    """Its elements are near each other among all keys: a range of equal width has it whole."""
    random = np.random.default_rng(7)

    def anywhere(count: int) -> Int64s:
        return random.integers(KEY_LOW, KEY_HIGH - 1, count, dtype=np.int64)

    label = np.full(9_000, 3 << 40, dtype=np.int64)
    keys = np.concatenate([spread(label, anywhere(9_000)), anywhere(1_000)])

    def largest(ranges: list[tuple[int, int]]) -> int:
        return max(int(((keys >= low) & (keys < high)).sum()) for low, high in ranges)

    assert even_ranges(anywhere(1_000), 8) == key_ranges(8)
    assert largest(key_ranges(8)) > 9_000
    assert largest(even_ranges(keys[::10], 8)) < 1_500


def test_labels_that_are_spread_are_counted_as_one() -> None:
    labels = np.repeat(np.array([5 << 30, 9 << 50], dtype=np.int64), [400, 3])
    keys = np.sort(spread(labels, np.random.default_rng(1).integers(0, 2**62, 403)))
    numbers = pa.array(np.arange(403))
    columns = {KEY: pa.array(keys), **dict.fromkeys(IDENTITY, numbers), WEIGHT: numbers}
    payload = {name: numbers for name in LAYOUT.payload.names}
    reader = TraceReader.of_tables(LAYOUT, [pa.table({**columns, **payload})])
    low = reader.repeated(100, WITHIN)
    assert low.tolist() == [(5 << 30) & ~int(WITHIN)]
    assert reader.between_keys(low, low | WITHIN).tolist() == [400]
    assert len(reader.repeated(100)) == 0  # Apart from each other there are few of each.


@pytest.mark.parametrize(("rows", "tasks", "least"), [(10, 4, 500_000), (80_000_000, 8, 5_000_000)])
def test_the_threshold_follows_the_size(rows: int, tasks: int, least: int) -> None:
    assert threshold(rows, tasks) == least
