"""A sum in a user's ring as an accumulator, against the sum of the rows that are left."""

from __future__ import annotations

import pickle
from collections import Counter
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.aggregates.ring_sums import SumInRing
from rekindle.algebra.groups import INTEGERS, ProductRing, multiple
from rekindle.algebra.ring_sums import RingSum, StoredSum
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import evaluate
from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Aggregate, AggregateFunction, Measure, Source
from rekindle.errors import EvaluationError
from rekindle.traces.layout import TraceLayout
from rekindle.traces.ring_values import RingValues

Histogram = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Histograms:
    """How often each value occurs; what does not occur is not written down."""

    @property
    def zero(self) -> Histogram:
        return ()

    def add(self, left: Histogram, right: Histogram, /) -> Histogram:
        counts = Counter(dict(left))
        for value, count in right:
            counts[value] += count
        return tuple(sorted((value, count) for value, count in counts.items() if count))

    def negate(self, value: Histogram, /) -> Histogram:
        return tuple((each, -count) for each, count in value)


def single(x: int) -> Histogram:
    return ((x, 1),)


def middle(value: Histogram) -> int | None:
    """The lower median."""
    rows = [each for each, count in value for _ in range(count)]
    return rows[(len(rows) - 1) // 2] if rows else None


STORED = StoredSum(*map(pickle.dumps, (Histograms(), single, middle)))
MEDIAN = SumInRing(("x",), STORED, pa.int64())


@given(st.integers(-40, 40), st.integers(-9, 9))
def test_a_multiple_is_a_repeated_sum(times: int, value: int) -> None:
    assert multiple(INTEGERS, value, times) == times * value
    ring = ProductRing(INTEGERS, INTEGERS)
    assert multiple(ring, (value, 1), times) == (times * value, times)


def test_a_stored_sum_is_read_back() -> None:
    assert StoredSum.parse(STORED.text) == STORED
    assert STORED.load().result([((5,), 2), ((1,), 1), ((None,), 9)]) == 5


def test_changes_add_up_to_the_rows_that_are_left() -> None:
    random = Random(4)
    (values,) = MEDIAN.values("a0")
    state = values.zeros(1)
    left: list[int] = []
    for _ in range(60):
        gone = [left.pop(random.randrange(len(left))) for _ in range(min(len(left), 2))]
        new = [random.randrange(5) for _ in range(random.randrange(5))]
        left += new
        column = pa.array([*new, *gone, None], pa.int64())
        weights = np.array([1] * len(new) + [-1] * len(gone) + [1], dtype=np.int64)
        (lifted,) = MEDIAN.lift([column], weights)
        joined = (pa.concat_arrays([state[0], lifted[0]]),)
        state = values.reduce(joined, np.array([0], dtype=np.int64))
        expected = sorted(left)[(len(left) - 1) // 2] if left else None
        assert MEDIAN.buffers([state])[0].to_pylist() == [expected]
        assert bool(values.is_zero(state)[0]) == (not left)
    both = pa.concat_arrays([state[0], values.negate(state)[0]])
    assert values.is_zero(values.reduce((both,), np.array([0], dtype=np.int64))).all()


def test_a_layout_of_ring_values_is_read_back() -> None:
    layout = TraceLayout((RingValues("a", STORED.group),), pa.schema([pa.field("c0", pa.int32())]))
    again = TraceLayout.from_json(layout.to_json())
    assert again == layout and again.fingerprint == layout.fingerprint
    other = RingValues("a", pickle.dumps(INTEGERS))
    assert TraceLayout((other,), layout.payload).fingerprint != layout.fingerprint


def test_a_value_is_absent_only_if_all_of_it_is_zero() -> None:
    ring = ProductRing(INTEGERS, INTEGERS)
    values = RingValues("a", pickle.dumps(ring))
    column = values.encoded([(0, 0), (0, 3), (2, 0)])
    assert values.is_zero(column).tolist() == [True, False, False]
    assert values.decoded(column) == [(0, 0), (0, 3), (2, 0)]


def test_a_result_of_another_type_is_an_error() -> None:
    stored = StoredSum(*map(pickle.dumps, (Histograms(), single, str)))
    wrong = SumInRing(("x",), stored, pa.int64())
    with pytest.raises(EvaluationError, match="gives no int64"):
        wrong.buffers([wrong.lift([pa.array([1])], np.array([1], dtype=np.int64))[0]])


def test_the_interpreter_sums_in_the_ring() -> None:
    median: RingSum[Any] = RingSum(Histograms(), single, middle)
    measure = Measure("m", AggregateFunction.RING, (Column(1, "int"),), "int", finish=median)
    source = Source("t", Schema.of(k="int", x="int"))
    term = Aggregate(source, (("k", Column(0, "int")),), (measure,))
    rows = ZSet.of({(1, 5): 2, (1, 3): 1, (2, 9): 1, (2, None): 1})
    assert evaluate(term, {"t": rows}) == ZSet.of({(1, 5): 1, (2, 9): 1})
