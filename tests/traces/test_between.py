"""Ranges of the rows of a key, against looking at every row of a plain list."""

from __future__ import annotations

import tempfile
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.kernels import ChangeSide, Probe, Span
from rekindle.traces import TraceReader
from rekindle.traces.between import HIGHEST, LOWEST
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.values import Weight
from tests.traces.model import Stepper, small_levels, tuples

STORED = TraceLayout((Weight(),), pa.schema([("c0", pa.int64()), ("c1", pa.int64())]))
"""A row's number, and the place that it is ordered by, as in `_id0`."""
ASKING = TraceLayout(
    (Weight(),), pa.schema([("c0", pa.int64()), ("c1", pa.int64()), ("c2", pa.int64())])
)
"""A row's number, and the ends of what it looks for."""

KEYS = (-(2**63), -5, 0, 7, 2**63 - 1)
ENDS = (LOWEST, LOWEST + 1, -3, -1, 0, 1, 2, 5, HIGHEST - 1, HIGHEST)
Row = tuple[int, int, int, int]
"""Key, place, number, weight."""

keys = st.sampled_from(KEYS)
ends = st.sampled_from(ENDS)
weights = st.sampled_from((-1, 1, 1, 2))
batches = st.lists(st.tuples(keys, ends, st.integers(0, 2), weights), max_size=14)
questions = st.lists(st.tuples(keys, ends, ends), max_size=8)


def _stored(rows: list[Row]) -> pa.Table:
    key, place, number, weight = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    columns = [key, place, number, weight, number, place]
    return consolidate(pa.table(columns, names=STORED.schema.names), STORED)


def _asking(rows: list[tuple[int, int, int]]) -> pa.Table:
    key, low, high = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    number = np.arange(len(rows))
    columns = [key, number, number, np.full(len(rows), 3), number, low, high]
    return consolidate(pa.table(columns, names=ASKING.schema.names), ASKING)


def _pairs(tables: list[pa.Table]) -> Counter[tuple[int, ...]]:
    total: Counter[tuple[int, ...]] = Counter()
    for table in tables:
        assert table.column_names == ["_weight", "l0", "l1", "r0"]
        for weight, *row in tuples(table):
            total[tuple(row)] += weight
    return Counter({pair: weight for pair, weight in total.items() if weight})


def _expected(
    rows: list[Row], asked: list[tuple[int, int, int]], span: Span
) -> Counter[tuple[int, ...]]:
    total: Counter[tuple[int, ...]] = Counter()
    for key, place, number, weight in rows:
        for i, (wanted, low, high) in enumerate(asked):
            above = span.low is None or place >= low
            below = span.high is None or place <= high
            if key == wanted and ((above and below) or place == HIGHEST):
                total[number, place, i] += 3 * weight
    return Counter({pair: weight for pair, weight in total.items() if weight})


@pytest.mark.parametrize("span", [Span("c1", "c2"), Span("c1", None), Span(None, "c2")])
@settings(max_examples=80, deadline=None)
@given(
    stream=st.lists(batches, max_size=5), asked=questions, fuel=st.integers(0, 6), most=st.just(3)
)
def test_a_range_is_what_a_look_at_every_row_finds(
    span: Span, stream: list[list[Row]], asked: list[tuple[int, int, int]], fuel: int, most: int
) -> None:
    """Over several runs, some of whose rows cancel, with ties, open ends and empty ranges.

    Rows at the highest place are in every range.
    """
    meeting = Probe(ChangeSide.RIGHT, span, (2, 1))
    change = _asking(asked)
    with tempfile.TemporaryDirectory() as directory, small_levels():
        stepper = Stepper(directory, STORED)
        everything: list[Row] = []
        for batch in [*stream, []]:
            last = _stored(batch)
            reader = TraceReader.of_trace(stepper.trace, stepper.store, extra=[last])
            everything += batch
            found = list(meeting.batches(change, reader, most))
            assert all(len(table) <= most for table in found)
            assert _pairs(found) == _expected(everything, asked, span)
            if len(last):
                stepper.step(last, fuel)


def test_only_the_range_of_a_large_key_is_read() -> None:
    run = _stored([(7, place, place, 1) for place in range(10_000)])
    asked = _asking([(7, 10, 14), (7, 9_998, 20_000), (7, 6, 5), (8, 0, 9_999)])
    reader = TraceReader.of_tables(STORED, [run])
    (found,) = Probe(ChangeSide.RIGHT, Span("c1", "c2"), (2, 1)).batches(asked, reader)
    assert found.column("l0").to_pylist() == [10, 11, 12, 13, 14, 9_998, 9_999]


def test_the_columns_of_ranges_are_left_out_on_either_side() -> None:
    run, asked = _stored([(0, 1, 4, 1)]), _asking([(0, 1, 1)])
    meeting = Probe(ChangeSide.LEFT, Span("c1", "c2"), (1, 1))
    (found,) = meeting.batches(asked, TraceReader.of_tables(STORED, [run]))
    assert found.schema == meeting.schema(ASKING.schema, STORED.schema)
    assert tuples(found) == [(3, 0, 4)]
