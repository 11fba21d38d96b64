"""Every linear aggregate of the list is linear, and every member is what its tag says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.aggregates import AggregateFunction, linear_call, ordered_call
from rekindle.aggregates.base import Exactness, LinearAggregate
from rekindle.algebra.exact_sums import ROUNDED, ExactSum
from rekindle.algebra.polynomials import Polynomials
from rekindle.calculus.scalars import Column
from rekindle.calculus.terms import Measure
from rekindle.traces.values import Columns

ARGUMENTS = {
    AggregateFunction.COMOMENTS: ("double", "double"),
    AggregateFunction.MOMENTS: ("double",),
    AggregateFunction.HIGHER_MOMENTS: ("double",),
    AggregateFunction.ALL: ("boolean",),
    AggregateFunction.ANY: ("boolean",),
    AggregateFunction.POLYNOMIALS: ("double", "double"),
    AggregateFunction.EXACT_SUM: ("double",),
}
"""Of all others one bigint."""
FINISHES = {
    AggregateFunction.POLYNOMIALS: Polynomials((((0, None),), ((0, None), (1, None)))),
    AggregateFunction.EXACT_SUM: ExactSum((1,), ROUNDED),
}
VALUES = {
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "double": st.floats(-1e9, 1e9),
    "boolean": st.booleans(),
}
ARROW = {"bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_()}
LINEAR = [
    function
    for function in AggregateFunction
    if isinstance(function.aggregate, LinearAggregate)
    and function.aggregate.exactness is not Exactness.AS_GIVEN
]


@pytest.mark.parametrize("function", LINEAR, ids=lambda function: function.value)
@given(st.data())
@settings(max_examples=40, deadline=None)
def test_an_accumulator_is_linear(function: AggregateFunction, data: st.DataObject) -> None:
    """Rows together are the rows one by one, added up; taken back they leave nothing."""
    types = ARGUMENTS.get(function, ("bigint",))
    arguments = tuple(Column(i, type_) for i, type_ in enumerate(types))
    measure = Measure("m", function, arguments, types[0], finish=FINISHES.get(function))
    inputs = tuple(f"x{i}" for i in range(len(types)))
    aggregate = function.aggregate
    assert isinstance(aggregate, LinearAggregate)
    accumulator = aggregate.accumulator(measure, inputs, [ARROW[types[0]]])
    row = st.tuples(st.integers(-3, 3), *(st.none() | VALUES[type_] for type_ in types))
    rows = data.draw(st.lists(row, min_size=1, max_size=6))
    weights = np.array([weight for weight, *_ in rows], dtype=np.int64)
    columns = [
        pa.array([row[1 + i] for row in rows], ARROW[type_]) for i, type_ in enumerate(types)
    ]
    rings = accumulator.values("a")

    def added(values: list[Columns]) -> list[Columns]:
        starts = np.array([0], dtype=np.int64)
        return [ring.reduce(each, starts) for ring, each in zip(rings, values, strict=True)]

    one_by_one = accumulator.lift(columns, weights)
    cut = data.draw(st.integers(0, len(rows) - 1))
    parts = [
        added(accumulator.lift([column[part] for column in columns], weights[part]))
        for part in (slice(0, cut), slice(cut, None))
        if len(weights[part])
    ]
    both = [
        tuple(pa.concat_arrays(column) for column in zip(*values, strict=True))
        for values in zip(*parts, strict=True)
    ]
    assert added(list(both)) == added(one_by_one)
    back = [
        tuple(pa.concat_arrays(pair) for pair in zip(there, taken, strict=True))
        for there, taken in zip(one_by_one, accumulator.lift(columns, -weights), strict=True)
    ]
    for ring, value in zip(rings, added(list(back)), strict=True):
        assert ring.is_zero(value).all()
    assert len(accumulator.buffers([ring.zeros(2) for ring in rings])[0]) == 2


def test_no_two_aggregates_take_one_call() -> None:
    for kind in {kind for function in AggregateFunction for kind in function.aggregate.calls}:
        for types in (["boolean"], ["int"], ["double", "double"]):
            linear = [
                function
                for function in LINEAR
                if isinstance(function.aggregate, LinearAggregate)
                and kind in function.aggregate.calls
                and function.aggregate.takes(types, "ANSI")
            ]
            assert len(linear) <= 1
            found = linear_call(kind, types, "ANSI")
            assert (found is None) == (not linear)
            assert found is None or found[0] is linear[0]
    assert ordered_call("Min") != ordered_call("Max")


def test_tags_are_those_that_are_stored() -> None:
    """A database has these words in it: none may ever become another."""
    assert [function.value for function in AggregateFunction] == [
        *("count", "sum", "average", "moments", "comoments", "higher_moments", "all", "any"),
        *("bit_and", "bit_or", "bit_xor", "polynomials", "exact_sum", "ring"),
        *("least", "greatest", "mode", "mode_descending", "other"),
    ]
    for function in AggregateFunction:
        assert AggregateFunction(function.aggregate.tag) is function
        assert function.aggregate.__doc__


def test_what_is_mergeable_says_so() -> None:
    found: list[Any] = [function for function in AggregateFunction if function.is_mergeable]
    assert [function.value for function in found] == ["count", "sum", "average", "exact_sum"]
