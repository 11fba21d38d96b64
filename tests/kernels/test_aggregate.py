"""Aggregates against Python over the group's present rows, after every step."""

from __future__ import annotations

import math
import statistics
import tempfile
from collections import Counter, defaultdict
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.aggregates.booleans import BooleanExtreme
from rekindle.aggregates.counts import CountNonNull, CountRows
from rekindle.aggregates.extremes import Extreme
from rekindle.aggregates.higher_moments import HigherMoments
from rekindle.aggregates.moments import Comoments, Moments
from rekindle.aggregates.sums import (
    AverageDecimal,
    AverageDouble,
    AverageInteger,
    Overflow,
    SumDecimal,
    SumDouble,
    SumInteger,
)
from rekindle.errors import EvaluationError, RekindleError
from rekindle.kernels import aggregate as aggregate_module
from rekindle.kernels import aggregate_change, aggregate_layout, empty_buffers
from rekindle.traces import TraceReader, key_ranges
from tests.traces.model import Stepper, small_levels, tuples, within

GROUP = pa.schema([("c0", pa.string()), ("c1", pa.list_(pa.int32()))])
DECIMAL = pa.decimal128(38, 2)
INPUTS = pa.schema(
    [
        ("x0", pa.int64()),
        ("x1", pa.float64()),
        ("x2", DECIMAL),
        ("x3", pa.bool_()),
        ("x4", pa.int16()),
        ("x5", pa.float64()),
        ("x6", pa.float32()),
    ]
)
ACCUMULATORS = (
    CountRows(),
    CountNonNull(("x0", "x1")),
    SumInteger(("x0",), Overflow.NULL),
    SumInteger(("x4",)),
    SumDouble(("x1",)),
    SumDecimal(("x2",), 38, 2),
    AverageInteger(("x0",)),
    AverageDouble(("x6",)),
    AverageDecimal(("x2",), 38, 2),
    BooleanExtreme(("x3",), Extreme.LEAST),
    BooleanExtreme(("x3",), Extreme.GREATEST),
    Moments(("x5",)),
    Comoments(("x4", "x5")),
    HigherMoments(("x5",)),
)
LAYOUT = aggregate_layout(GROUP, ACCUMULATORS)
APPROXIMATE = pytest.approx(0.0)
INT64 = range(-(2**63), 2**63)


def identity(group: int) -> tuple[int, int, int]:
    half = (group % 8 - 3) * 2**60  # groups 0 and 8 agree in the first 64 bits
    return half, half, group


def payload_of(group: int) -> tuple[Any, Any]:
    return (None if group == 2 else f"g{group}", None if group == 3 else [group, None])


def change_of(rows: list[tuple[int, int, tuple]], inputs: pa.Schema = INPUTS) -> pa.Table:
    columns = [pa.array([identity(row[0])[i] for row in rows], pa.int64()) for i in range(3)]
    columns.append(pa.array([row[1] for row in rows], pa.int64()))
    for i, field in enumerate(GROUP):
        columns.append(pa.array([payload_of(row[0])[i] for row in rows], field.type))
    for i, field in enumerate(inputs):
        columns.append(pa.array([row[2][i] for row in rows], field.type))
    return pa.Table.from_arrays(
        columns, names=["_key", "_id0", "_id1", "_weight", *GROUP.names, *inputs.names]
    )


def expected_buffers(rows: list[tuple]) -> list[Any]:
    def present(*columns: int) -> list[tuple]:
        return [
            tuple(row[c] for c in columns)
            for row in rows
            if all(row[c] is not None for c in columns)
        ]

    integers = [x for (x,) in present(0)]
    shorts = [x for (x,) in present(4)]
    doubles = [x for (x,) in present(1)]
    singles = [x for (x,) in present(6)]
    decimals = [x for (x,) in present(2)]
    booleans = [x for (x,) in present(3)]
    fives = [Fraction(x) for (x,) in present(5)]
    both = [(Fraction(x), Fraction(y)) for x, y in present(4, 5)]
    total = sum(integers)
    unscaled = sum(int(Fraction(x) * 100) for x in decimals)
    decimal = Decimal(f"{unscaled}E-2") if abs(unscaled) < 10**38 else None

    def mean(values: list[Fraction]) -> Fraction:
        return sum(values) / len(values) if values else Fraction(0)

    def central(pairs: list[tuple[Fraction, Fraction]]) -> Fraction:
        x_mean, y_mean = mean([x for x, _ in pairs]), mean([y for _, y in pairs])
        return sum(((x - x_mean) * (y - y_mean) for x, y in pairs), Fraction(0))

    return [
        len(rows),
        len(present(0, 1)),
        total if integers and total in INT64 else None,
        sum(shorts) if shorts else None,
        float(sum(map(Fraction, doubles))) if doubles else None,
        decimal,
        not decimals,
        float(total),
        len(integers),
        float(sum(map(Fraction, singles))),
        len(singles),
        decimal,
        len(decimals),
        all(booleans) if booleans else None,
        any(booleans) if booleans else None,
        float(len(fives)),
        float(mean(fives)),
        float(central([(x, x) for x in fives])),
        float(len(both)),
        float(mean([x for x, _ in both])),
        float(mean([y for _, y in both])),
        float(central(both)),
        float(central([(x, x) for x, _ in both])),
        float(central([(y, y) for _, y in both])),
        float(len(fives)),
        float(mean(fives)),
        float(central([(x, x) for x in fives])),
        *(higher(fives, mean(fives), degree) for degree in (3, 4)),
    ]


def higher(values: list[Fraction], mean: Fraction, degree: int) -> Any:
    """A central moment, near enough for its quotient by the second: odd ones cancel."""
    total = sum(((x - mean) ** degree for x in values), Fraction(0))
    size = sum((abs(x - mean) ** degree for x in values), Fraction(0))
    return pytest.approx(float(total), rel=1e-14, abs=max(1e-300, float(size) * 1e-14))


def same(found: Any, expected: Any) -> bool:
    if isinstance(expected, type(APPROXIMATE)):
        return bool(found == expected)
    if isinstance(expected, float):
        return bool(found == pytest.approx(expected, rel=1e-14, abs=1e-300))
    return bool(found == expected and type(found) is type(expected))


single = st.floats(width=32, allow_nan=False, allow_infinity=False)
inputs = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.sampled_from([0.1, 1e300, -1e300, 1.0, 5e-324, -2.5, 1e16]),
    st.none()
    | st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}E-2"))
    | st.just(Decimal("0.01")),
    st.none() | st.booleans(),
    st.none() | st.integers(-(2**15), 2**15 - 1),
    st.none() | st.floats(-1e6, 1e6).map(lambda x: x if abs(x) > 1e-100 else 0.0),
    st.none() | single,
)
inserts = st.tuples(st.integers(0, 9), st.integers(1, 3), inputs)
# A step inserts some rows and deletes some of those present, chosen by index.
steps = st.lists(
    st.tuples(st.lists(inserts, max_size=8), st.lists(st.integers(0, 1000), max_size=8)),
    max_size=8,
)


@settings(max_examples=40, deadline=None)
@given(steps, st.integers(0, 8), st.sampled_from([1, 4]))
def test_the_change_of_an_aggregate(stream: list, fuel: int, partitions: int) -> None:
    with tempfile.TemporaryDirectory() as directory, small_levels():
        stepper = Stepper(directory, LAYOUT)
        present: list[tuple[int, tuple]] = []
        output: Counter[int] = Counter()
        shown: dict[int, list[Any]] = {}
        for added, removed in stream:
            rows = list(added)
            for group, weight, values in added:
                present += [(group, values)] * weight
            for index in removed:
                if present:
                    group, values = present.pop(index % len(present))
                    rows.append((group, -1, values))
            change = change_of(rows)
            states = []
            for low, high in key_ranges(partitions):
                part = within(change, (low, high))
                reader = TraceReader.of_trace(stepper.trace, stepper.store, (low, high))
                state, result = aggregate_change(part, reader, ACCUMULATORS)
                states.append(state)
                for weight, name, items, *buffers in tuples(result):
                    group = next(g for g in range(10) if payload_of(g) == (name, items))
                    if weight < 0:
                        assert shown.pop(group) == buffers
                    output[group] += weight
                    if weight > 0:
                        assert group not in shown
                        shown[group] = buffers
            stepper.step(pa.concat_tables(states), fuel)
            groups: dict[int, list[tuple]] = defaultdict(list)
            for group, values in present:
                groups[group].append(values)
            assert shown.keys() == groups.keys()
            for group, values in groups.items():
                for found, expected in zip(shown[group], expected_buffers(values), strict=True):
                    assert same(found, expected), (group, found, expected)
        for group, values in present:
            rest = change_of([(group, -1, values)])
            reader = TraceReader.of_trace(stepper.trace, stepper.store)
            stepper.step(aggregate_change(rest, reader, ACCUMULATORS).state, fuel)
        last = TraceReader.of_trace(stepper.trace, stepper.store)
        assert list(last.scan()) == []  # no residue of any sum


def run(
    accumulator: Any, kind: pa.DataType, steps: list[list[tuple[int, Any]]]
) -> list[list[tuple]]:
    """The outputs of a one-group aggregate over steps of (weight, input)."""
    layout = aggregate_layout(GROUP, [accumulator])
    schema = pa.schema([("x0", kind)])
    states: list[pa.Table] = []
    outputs = []
    for step in steps:
        change = change_of([(1, weight, (value,)) for weight, value in step], schema)
        reader = TraceReader.of_tables(layout, states)
        state, output = aggregate_change(change, reader, [accumulator])
        states.append(state)
        buffers = output.column_names[3:]
        outputs.append(tuples(output.select(["_weight", *buffers])))
    return outputs


def test_a_deleted_large_double_leaves_nothing() -> None:
    outputs = run(
        SumDouble(("x0",)),
        pa.float64(),
        [[(1, 0.1)], [(1, 1e300)], [(1, math.inf)], [(-1, 1e300), (-1, math.inf)], [(-1, 0.1)]],
    )
    assert outputs == [
        [(1, 0.1)],
        [(-1, 0.1), (1, 1e300)],
        [(-1, 1e300), (1, math.inf)],
        [(-1, math.inf), (1, 0.1)],
        [(-1, 0.1)],
    ]


def test_nan_is_a_value_and_not_null() -> None:
    ((row,),) = run(SumDouble(("x0",)), pa.float64(), [[(1, math.nan), (1, None)]])
    assert math.isnan(row[1])
    assert run(SumDouble(("x0",)), pa.float64(), [[(1, None)]]) == [[(1, None)]]


def test_integer_overflow_follows_its_policy() -> None:
    top = [[(1, 2**63 - 1)], [(1, 1)], [(-1, 1)]]
    with pytest.raises(EvaluationError, match="ARITHMETIC_OVERFLOW"):
        run(SumInteger(("x0",)), pa.int64(), top)
    wrapped = run(SumInteger(("x0",), Overflow.WRAP), pa.int64(), top)
    assert wrapped[1] == [(-1, 2**63 - 1), (1, -(2**63))]
    assert wrapped[2] == [(-1, -(2**63)), (1, 2**63 - 1)]
    assert run(SumInteger(("x0",), Overflow.NULL), pa.int64(), top)[1][1] == (1, None)
    # Leaving the range and coming back within one step is no overflow.
    assert run(SumInteger(("x0",)), pa.int64(), [[*top[0], *top[1], (-1, 5)]]) == [[(1, 2**63 - 5)]]


def test_decimals_of_38_digits() -> None:
    most = Decimal(f"{10**38 - 1}E-2")
    outputs = run(
        SumDecimal(("x0",), 38, 2), DECIMAL, [[(1, most)], [(1, Decimal("0.01"))], [(-1, most)]]
    )
    assert outputs[0] == [(1, most, False)]
    assert outputs[1] == [(-1, most, False), (1, None, False)]
    assert outputs[2] == [(-1, None, False), (1, Decimal("0.01"), False)]
    assert run(SumDecimal(("x0",), 12, 2), pa.decimal128(10, 2), [[(1, None)]]) == [
        [(1, Decimal("0.00"), True)]
    ]


def test_a_constant_has_no_variance_and_a_shifted_one_keeps_it() -> None:
    values = [0.1] * 7
    assert run(Moments(("x0",)), pa.float64(), [[(1, x) for x in values]])[0] == [
        (1, 7.0, 0.1, 0.0)
    ]
    shifted = [1e9 + x for x in (0.25, 0.5, 0.75)]
    ((row,),) = run(Moments(("x0",)), pa.float64(), [[(1, x) for x in shifted]])
    assert row[3] == pytest.approx(statistics.pvariance(map(Fraction, shifted)) * 3, rel=1e-15)
    ((row,),) = run(Moments(("x0",)), pa.float64(), [[(1, math.inf), (1, 1.0)]])
    assert row[1] == 2.0 and math.isnan(row[3])
    assert run(Moments(("x0",)), pa.float64(), [[(1, None)]]) == [[(1, 0.0, 0.0, 0.0)]]


def test_a_cancelling_change_is_no_change() -> None:
    assert run(CountRows(), pa.int64(), [[(1, 5), (-1, 5)], []]) == [[], []]


def test_a_negative_group_is_an_internal_error() -> None:
    with pytest.raises(RekindleError, match="fewer rows"):
        run(CountRows(), pa.int64(), [[(-1, 5)]])


def test_empty_buffers_are_those_of_no_rows() -> None:
    row = empty_buffers(ACCUMULATORS).to_pylist()
    assert len(row) == 1
    assert all(map(same, row[0].values(), expected_buffers([])))


def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: dropping states by their count alone loses a replaced value."""

    def by_count(layout: Any, values: Any) -> np.ndarray:
        return np.asarray(layout.values[0].is_zero(values[0]))

    steps = [[(1, 5)], [(-1, 5), (1, 7)]]
    assert run(SumInteger(("x0",)), pa.int64(), steps)[1] == [(-1, 5), (1, 7)]
    monkeypatch.setattr(aggregate_module, "is_zero", by_count)
    assert run(SumInteger(("x0",)), pa.int64(), steps)[1] == []


def test_merged_rows_count_as_many_as_they_stand_for() -> None:
    """Two partial sums of weights that cancel: the group exists by its counts, and has a sum."""
    accumulators = (CountRows(), SumInteger(("x0",)), AverageInteger(("x0",)))
    layout = aggregate_layout(GROUP, accumulators)
    inputs = pa.schema([("x0", pa.int64()), ("x1", pa.int64())])
    change = change_of([(1, 1, (10, 5)), (1, -1, (3, 2)), (4, 1, (4, 1)), (4, -2, (2, 1))], inputs)
    nothing = TraceReader.of_tables(layout, [])
    found = aggregate_change(change.slice(0, 3), nothing, accumulators, merged="x1").output
    buffers = found.select(["_weight", "c0", "b0_0", "b1_0", "b2_0", "b2_1"]).to_pylist()
    assert sorted(tuple(row.values()) for row in buffers) == [
        (1, "g1", 3, 7, 7.0, 3),
        (1, "g4", 1, 4, 4.0, 1),
    ]
    with pytest.raises(RekindleError, match="fewer rows than were deleted"):
        aggregate_change(change, nothing, accumulators, merged="x1")
