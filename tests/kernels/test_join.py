"""Join against nested loops, after every step, by the bilinear law."""

from __future__ import annotations

import tempfile
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.kernels import ChangeSide, join_batches, join_change
from rekindle.kernels.join import Probe
from rekindle.traces import TraceReader, key_ranges
from tests.traces.model import (
    LAYOUT,
    PAYLOAD,
    Stepper,
    arranged,
    batches,
    key_of,
    payload_of,
    small_levels,
    summed,
    tuples,
    within,
)


def pairs(table: pa.Table) -> Counter[tuple[int, int]]:
    assert table.column_names == ["_weight", "l0", "l1", "l2", "r0", "r1", "r2"]
    total: Counter[tuple[int, int]] = Counter()
    for weight, *columns in tuples(table):
        left, right = columns[2], columns[5]
        assert tuple(columns[:3]) == payload_of(left) and tuple(columns[3:]) == payload_of(right)
        total[left, right] += weight
    return total


def joined(left: dict[int, int], right: dict[int, int]) -> dict[tuple[int, int], int]:
    return {
        (a, b): v * w for a, v in left.items() for b, w in right.items() if key_of(a) == key_of(b)
    }


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(batches, batches), max_size=8), st.integers(0, 8), st.integers(1, 9))
def test_the_change_of_a_join(stream: list, fuel: int, limit: int) -> None:
    with (
        tempfile.TemporaryDirectory() as first,
        tempfile.TemporaryDirectory() as second,
        small_levels(),
    ):
        left, right = Stepper(first), Stepper(second)
        everything: tuple[list, list] = ([], [])
        output: Counter[tuple[int, int]] = Counter()
        for batch in stream:
            changes = [arranged(rows) for rows in batch]
            before = TraceReader.of_trace(left.trace, left.store)
            after = TraceReader.of_trace(right.trace, right.store, extra=[changes[1]])
            for change, reader, side in (
                (changes[0], after, ChangeSide.LEFT),
                (changes[1], before, ChangeSide.RIGHT),
            ):
                whole = join_change(change, reader, side)
                pieces = list(join_batches(change, reader, side, limit))
                assert pairs(pa.concat_tables([whole.slice(0, 0), *pieces])) == pairs(whole)
                output.update(pairs(whole))
            for stepper, change, rows, kept in zip(
                (left, right), changes, batch, everything, strict=True
            ):
                stepper.step(change, fuel)
                kept += rows
            expected = joined(*(summed(rows) for rows in everything))
            assert {pair: weight for pair, weight in output.items() if weight} == expected


@pytest.mark.parametrize("side", ChangeSide)
@pytest.mark.parametrize("wanted", [(), (0,), (1, 2, 4), (5,)])
def test_only_wanted_columns_are_gathered(side: ChangeSide, wanted: tuple[int, ...]) -> None:
    change = arranged((row, 1) for row in range(0, 40, 2))
    reader = TraceReader.of_tables(LAYOUT, [arranged((row, 2) for row in range(0, 40, 3))])
    whole = join_change(change, reader, side)
    (narrow,) = Probe(side).batches(change, reader, wanted=wanted)
    assert len(narrow) and narrow.equals(whole.select([0, *(1 + i for i in wanted)]))


def test_partitions_join_apart() -> None:
    change = arranged((row, 1) for row in range(0, 40, 2))
    trace = arranged((row, 2) for row in range(0, 40, 3))
    whole = join_change(change, TraceReader.of_tables(LAYOUT, [trace]))
    parts = []
    for key_range in key_ranges(4):
        reader = TraceReader.of_tables(LAYOUT, [trace], key_range)
        parts.append(join_change(within(change, key_range), reader))
        # Keys outside the reader's range find nothing, so the filter is not what limits it.
        assert pairs(join_change(change, reader)) == pairs(parts[-1])
    assert pairs(pa.concat_tables(parts)) == pairs(whole)


@pytest.mark.parametrize("limit", [1000, 100_000])
def test_a_hot_key_comes_in_bounded_batches(limit: int) -> None:
    rows = 3000
    columns = [[5] * rows, list(range(rows)), [0] * rows, [1] * rows]
    layout = type(LAYOUT)(LAYOUT.values, pa.schema([("c0", pa.int64())]))
    hot = pa.table([*columns, list(range(rows))], schema=layout.schema)
    sizes = [
        len(batch)
        for batch in join_batches(
            hot.slice(0, 500), TraceReader.of_tables(layout, [hot]), ChangeSide.LEFT, limit
        )
    ]
    assert sum(sizes) == 500 * rows and max(sizes) <= max(limit, 500)


def test_an_empty_join_has_its_schema() -> None:
    empty = join_change(LAYOUT.empty(), TraceReader.of_tables(LAYOUT, []))
    assert empty.num_rows == 0 and empty.column_names[0] == "_weight"
    assert len(empty.column_names) == 1 + 2 * len(PAYLOAD)
