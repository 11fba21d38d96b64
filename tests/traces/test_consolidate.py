"""Consolidation, layouts and partitions."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.traces import (
    ExactDouble,
    TraceLayout,
    Weight,
    WideInteger,
    consolidate,
    key_ranges,
    partition_of,
    weighted_layout,
)
from rekindle.traces.consolidate import order_within, sort_order
from tests.traces.model import LAYOUT, PAYLOAD, as_dict, batches, summed, table_of


@given(batches, batches)
def test_is_the_sum_of_equal_rows(first: list, second: list) -> None:
    table = pa.concat_tables([table_of(first), table_of(second)])
    result = consolidate(table, LAYOUT)
    assert as_dict(result) == summed([*first, *second])
    assert consolidate(result, LAYOUT).equals(result)


@given(st.lists(st.tuples(*[st.integers(-2, 2)] * 3)))
def test_sort_order_is_lexicographic(rows: list[tuple[int, int, int]]) -> None:
    columns = tuple(np.array([row[i] for row in rows], dtype=np.int64) for i in range(3))
    order = sort_order(columns)
    result = rows if order is None else [rows[i] for i in order]
    assert result == sorted(rows)


def test_keeps_a_zero_count_with_a_sum() -> None:
    layout = TraceLayout((Weight(), WideInteger("s", 2)), pa.schema([]))
    rows = pa.table([[1, 1], [1, 1], [1, 1], [1, -1], [3, 5], [0, 0]], schema=layout.schema)
    assert consolidate(rows, layout).to_pylist() == [
        {"_key": 1, "_id0": 1, "_id1": 1, "_weight": 0, "s_0": 8, "s_1": 0}
    ]


def test_dictionary_columns_survive() -> None:
    layout = weighted_layout(pa.schema([("c0", pa.dictionary(pa.int32(), pa.string()))]))
    parts = [
        pa.table([[key], [0], [0], [1], pa.array([text]).dictionary_encode()], schema=layout.schema)
        for key, text in ((2, "b"), (1, "a"))
    ]
    result = consolidate(pa.concat_tables(parts), layout)
    assert result.column("c0").to_pylist() == ["a", "b"]


def test_layout_round_trip_and_fingerprint() -> None:
    layout = TraceLayout((Weight(), WideInteger("s", 4), ExactDouble("d")), PAYLOAD)
    back = TraceLayout.from_json(layout.to_json())
    assert back == layout and back.schema == layout.schema
    assert back.fingerprint == layout.fingerprint
    assert layout.fingerprint != TraceLayout((Weight(),), PAYLOAD).fingerprint
    with pytest.raises(ValueError, match="must differ"):
        TraceLayout((Weight("c0"),), PAYLOAD)


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.sampled_from([1, 2, 4, 8, 64]))
def test_partitions_are_key_ranges(keys: list[int], partitions: int) -> None:
    ranges = key_ranges(partitions)
    assert ranges[0][0] == -(2**63) and ranges[-1][1] == 2**63
    assert all(before[1] == after[0] for before, after in pairwise(ranges))
    found = partition_of(np.array(keys, dtype=np.int64), partitions)
    for key, partition in zip(keys, found.tolist(), strict=True):
        low, high = ranges[partition]
        assert low <= key < high


def test_partitions_are_powers_of_two() -> None:
    with pytest.raises(ValueError, match="power of two"):
        key_ranges(3)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-(2**63), 2**63 - 1)), min_size=1))
def test_words_that_do_not_hold_all_of_a_column_sort_like_the_column(
    pairs: list[tuple[int, int]],
) -> None:
    """With ranks of 40 bits only the upper bits of a column fit beside them."""
    near = [(rank, value ^ low) for rank, value in pairs for low in (1, 0, 3, 2)]
    rank = np.array([rank * 2**38 for rank, _ in near])
    column = np.array([value for _, value in near], dtype=np.int64)
    order = order_within(rank, column)
    found = list(zip(rank[order].tolist(), column[order].tolist(), strict=True))
    assert found == sorted(zip(rank.tolist(), column.tolist(), strict=True))
