"""Distinct against sets, after every step."""

from __future__ import annotations

import tempfile
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.kernels import arrange, distinct_change
from rekindle.traces import TraceReader, key_ranges
from tests.traces.model import (
    LAYOUT,
    Stepper,
    payload_of,
    small_levels,
    streams,
    summed,
    table_of,
    within,
)


@settings(max_examples=50, deadline=None)
@given(streams, st.integers(0, 8), st.sampled_from([1, 4]))
def test_the_change_of_distinct(stream: list, fuel: int, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as directory, small_levels():
        stepper = Stepper(directory)
        everything: list[tuple[int, int]] = []
        output: Counter[int] = Counter()
        for batch in stream:
            change = arrange(table_of(batch), LAYOUT)
            for low, high in key_ranges(partitions):
                part = within(change, (low, high))
                reader = TraceReader.of_trace(stepper.trace, stepper.store, (low, high))
                result = distinct_change(part, reader)
                assert result.column_names == ["_weight", "c0", "c1", "c2"]
                for row in result.to_pylist():
                    assert (row["c0"], row["c1"], row["c2"]) == payload_of(row["c2"])
                    assert row["_weight"] in (1, -1)
                    output[row["c2"]] += row["_weight"]
            stepper.step(change, fuel)
            everything += batch
            expected = {row: 1 for row, weight in summed(everything).items() if weight > 0}
            assert {row: weight for row, weight in output.items() if weight} == expected


def test_nothing_changes_nothing() -> None:
    assert distinct_change(LAYOUT.empty(), TraceReader.of_tables(LAYOUT, [])).num_rows == 0
