"""Values at ranks of a key, against sorting all of them."""

from __future__ import annotations

import tempfile
from collections import Counter
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.traces import TraceReader
from rekindle.traces import between as between_module
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import weighted_layout
from rekindle.traces.ranks import at_fractions
from rekindle.traces.weight_sums import WeightSums
from tests.traces.model import Stepper, small_levels

LAYOUT = weighted_layout(pa.schema([("c0", pa.int64())]))
KEYS = (-(2**63), -5, 0, 7, 2**63 - 1)
MOST = 2**63 - 1
Row = tuple[int, int | None]
"""Key and value; what has no value is ordered as the greatest of all."""

rows = st.tuples(
    st.sampled_from(KEYS),
    st.one_of(st.none(), st.integers(-4, 40), st.sampled_from((-(2**63), MOST - 1, MOST))),
)
batches = st.lists(st.lists(st.tuples(rows, st.integers(1, 3)), max_size=20), max_size=8)
fractions = st.lists(
    st.one_of(st.sampled_from((0.0, 0.5, 1.0)), st.floats(0, 1)), min_size=1, max_size=3
)


def _arranged(change: Counter[Row], told_by: int) -> Any:
    key = np.array([key for key, _ in change], dtype=np.int64)
    value = [value for _, value in change]
    order = np.array([MOST if v is None else v for v in value], dtype=np.int64)
    told = np.array([v is None for v in value], dtype=np.int64) * told_by
    weight = np.array(list(change.values()), dtype=np.int64)
    columns = [key, order, told, weight, pa.array(value, pa.int64())]
    return consolidate(pa.table(columns, names=LAYOUT.schema.names), LAYOUT)


def _changes(data: st.DataObject) -> list[Counter[Row]]:
    """Batches of rows that come, each with some of those that are there leaving."""
    there: Counter[Row] = Counter()
    found = []
    for batch in data.draw(batches):
        gone = data.draw(st.lists(st.sampled_from(sorted(there, key=repr)))) if there else []
        change: Counter[Row] = Counter()
        for row, weight in batch:
            change[row] += weight
        for row in set(gone):
            change[row] -= data.draw(st.integers(1, there[row]))
        there.update(change)
        there = +there
        found.append(Counter({row: weight for row, weight in change.items() if weight}))
    return found


def _values(there: Counter[Row], key: int) -> list[int]:
    return sorted(v for k, v in there.elements() if k == key and v is not None)


def _ranks(size: int, wanted: list[float]) -> list[int]:
    places = [(size - 1) * fraction for fraction in wanted]
    return [int(end(place)) for place in places for end in (np.floor, np.ceil)]


@pytest.mark.parametrize("few", [0, 8])
@settings(max_examples=120, deadline=None)
@given(data=st.data(), wanted=fractions)
def test_ranks_are_those_of_all_values(few: int, data: st.DataObject, wanted: list[float]) -> None:
    changes = _changes(data)
    told_by = data.draw(st.sampled_from((-1, 1)))
    there: Counter[Row] = sum(changes, Counter())
    with (
        tempfile.TemporaryDirectory() as folder,
        small_levels(),
        patch.object(between_module, "_FEW", few),
    ):
        stepper = Stepper(folder, LAYOUT)
        for change in changes[:-1]:
            stepper.step(_arranged(change, told_by), data.draw(st.integers(0, 40)))
        last = [_arranged(change, told_by) for change in changes[-1:]]
        reader = TraceReader.of_trace(stepper.trace, stepper.store, extra=last)
        rows, stands_for = at_fractions(reader, np.array(KEYS), wanted, "c0")
    found: dict[int, list[int | None]] = {}
    for key, value, count in zip(
        rows.column("_key").to_pylist(), rows.column("c0").to_pylist(), stands_for, strict=True
    ):
        found.setdefault(key, []).extend([value] * int(count))
    assert set(found) == {key for key, _ in there}
    for key, given_ in found.items():
        values = _values(there, key)
        if not values:
            assert given_ == [None]
            continue
        assert len(given_) == len(values) and None not in given_
        ordered = sorted(v for v in given_ if v is not None)
        for rank in _ranks(len(values), wanted):
            assert ordered[rank] == values[rank]
    most = 2 * len(wanted)
    assert all(len(set(given_)) <= most for given_ in found.values())


@given(st.lists(st.integers(-3, 3), max_size=300))
def test_sums_of_weights_are_those_of_all_before(weights: list[int]) -> None:
    places = np.arange(len(weights) + 1)
    expected = np.append(0, np.cumsum(weights, dtype=np.int64))
    assert (WeightSums(np.array(weights, np.int64)).before(places) == expected).all()
