"""Ranges that are added up, against looking at every pair of a row that asks and a value."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.kernels.spans import Pieces, Span, added_up
from rekindle.traces.between import HIGHEST, LOWEST

COARSE = 3
"""So many values have one place."""
VALUES = range(-7, 8)
OPEN = 1_000
ends = st.sampled_from([-OPEN, *VALUES, OPEN])
Asking = tuple[int, int, int, int]
"""A group, the values below and above those that are looked for, and a weight."""
asking = st.lists(
    st.tuples(st.integers(0, 2), ends, ends, st.sampled_from((-2, -1, 1, 1, 2))), max_size=12
)


def _place(value: int) -> int:
    if abs(value) == OPEN:
        return HIGHEST if value > 0 else LOWEST
    return value // COARSE


def _pieces(rows: list[Asking]) -> tuple[np.ndarray, Pieces]:
    group, low, high, weight = np.array(rows, dtype=np.int64).reshape(-1, 4).T
    low, high = (np.array([_place(int(v)) for v in side], dtype=np.int64) for side in (low, high))
    return group, Pieces(np.arange(len(rows)), low, high, weight)


def _met(rows: list[Asking], pieces: Pieces) -> Counter[tuple[int, int]]:
    """What groups meet, by value, when each pair that is found is looked at again."""
    total: Counter[tuple[int, int]] = Counter()
    for row, low, high, weight in zip(*(column.tolist() for column in pieces), strict=True):
        group, below, above, _ = rows[row]
        for value in VALUES:
            if low <= _place(value) <= high and below < value < above:
                total[group, value] += weight
    return Counter({met: weight for met, weight in total.items() if weight})


@settings(max_examples=400, deadline=None)
@given(asking)
def test_a_group_meets_what_its_rows_meet(rows: list[Asking]) -> None:
    groups, each = _pieces(rows)
    assert _met(rows, added_up(groups, each)) == _met(rows, each)


@settings(max_examples=100, deadline=None)
@given(asking)
def test_between_ends_a_value_is_met_once_by_a_group(rows: list[Asking]) -> None:
    groups, each = _pieces(rows)
    found = added_up(groups, each)
    ended = {
        (g, end) for g, *sides in zip(groups, each.low, each.high, strict=True) for end in sides
    }
    sizes = Counter(groups.tolist())
    for place in {_place(value) for value in VALUES}:
        meeting = found.at((found.low <= place) & (place <= found.high))
        for group, count in Counter(groups[meeting.row].tolist()).items():
            assert count == 1 or sizes[group] == 1 or (group, place) in ended


def test_an_end_that_moves_leaves_what_is_beyond_alone() -> None:
    groups, update = _pieces([(0, -6, OPEN, -1), (0, 3, OPEN, 1)])
    found = added_up(groups, update)
    assert not ((found.low <= 2) & (found.high >= 2)).any()
    assert ((found.low <= 0) & (found.high >= 0)).sum() == 1


def test_rows_of_different_groups_are_left_as_they_are() -> None:
    groups, each = _pieces([(0, -6, 6, -1), (1, -6, 6, 1), (2, 3, -3, 1)])
    assert all((one == two).all() for one, two in zip(added_up(groups, each), each, strict=True))


@pytest.mark.parametrize(
    ("apart", "groups"),
    [((), 1), (("d",), 5), (("s",), 3), (("s", "d"), 6), (("n",), 6), (None, 6)],
)
def test_rows_agree_in_the_columns_that_are_shown(
    apart: tuple[str, ...] | None, groups: int
) -> None:
    """NULL agrees with NULL, zeros of both signs do not, and nested values are not compared."""
    nan = float("nan")
    change = pa.table(
        {
            "_key": [7] * 6,
            "_weight": [1] * 6,
            "low": pa.array([0] * 6, pa.int64()),
            "d": [0.0, -0.0, nan, nan, None, 1.0],
            "s": ["a", "b", None, "a", None, "b"],
            "n": [[1]] * 6,
        }
    )
    found = Span("low", None, apart).pieces(change)
    beyond = found.at((found.low <= 5) & (found.high >= 5))
    assert len(beyond.row) == groups and beyond.weight.sum() == 6
