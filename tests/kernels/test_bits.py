"""bit_and, bit_or and bit_xor against Python over the group's present rows, after every step."""

from __future__ import annotations

from functools import reduce
from operator import and_, or_, xor
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.aggregates import AggregateFunction, bits
from rekindle.aggregates.bits import AnyBit, EveryBit, OddBits
from rekindle.kernels import aggregate_change, aggregate_layout, empty_buffers
from rekindle.traces import TraceReader
from rekindle.traces.consolidate import is_zero
from rekindle.traces.layout import TraceLayout
from tests.kernels.test_aggregate import GROUP, change_of, run
from tests.traces.model import tuples

TYPES = (pa.int8(), pa.int16(), pa.int32(), pa.int64())
MEANINGS = {
    EveryBit: (AggregateFunction.BIT_AND, and_),
    AnyBit: (AggregateFunction.BIT_OR, or_),
    OddBits: (AggregateFunction.BIT_XOR, xor),
}


def expected(values: list[int | None], operation: Any) -> int | None:
    present = [value for value in values if value is not None]
    return reduce(operation, present) if present else None


def numbers(type_: Any) -> st.SearchStrategy[int | None]:
    most = 2 ** (type_.bit_width - 1)
    corners = st.sampled_from([0, -1, 1, most - 1, -most, 5])
    return st.none() | corners | st.integers(-most, most - 1)


@st.composite
def streams(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    type_ = draw(st.sampled_from(TYPES))
    inserts = st.tuples(st.integers(0, 3), st.integers(1, 3), numbers(type_))
    step = st.tuples(st.lists(inserts, max_size=6), st.lists(st.integers(0, 99), max_size=6))
    return type_, draw(st.lists(step, max_size=6))


@settings(max_examples=60, deadline=None)
@given(streams())
def test_bits_are_those_of_the_present_rows(stream: tuple[Any, list[Any]]) -> None:
    type_, steps = stream
    accumulators = [kind(("x0",), type_) for kind in MEANINGS]
    layout = aggregate_layout(GROUP, accumulators)
    schema = pa.schema([("x0", type_)])
    present: list[tuple[int, int | None]] = []
    states: list[Any] = []
    shown: dict[str, tuple[Any, ...]] = {}
    for added, removed in steps:
        rows = [(group, weight, (value,)) for group, weight, value in added]
        for group, weight, value in added:
            present += [(group, value)] * weight
        for index in removed:
            if present:
                group, value = present.pop(index % len(present))
                rows.append((group, -1, (value,)))
        reader = TraceReader.of_tables(layout, states)
        state, output = aggregate_change(change_of(rows, schema), reader, accumulators)
        states.append(state)
        for weight, name, _, *buffers in tuples(output):
            if weight < 0:
                assert shown.pop(name) == tuple(buffers)
        shown |= {row[1]: row[3:] for row in tuples(output) if row[0] > 0}
        groups: dict[str, list[int | None]] = {}
        for group, value in present:
            groups.setdefault(f"g{group}" if group != 2 else None, []).append(value)  # type: ignore[arg-type]
        assert shown == {
            name: tuple(expected(values, operation) for _, operation in MEANINGS.values())
            for name, values in groups.items()
        }
    rest = change_of([(group, -1, (value,)) for group, value in present], schema)
    reader = TraceReader.of_tables(layout, states)
    states.append(aggregate_change(rest, reader, accumulators).state)
    left = TraceReader.of_tables(layout, states)
    assert list(left.scan()) == []  # no residue of any bit


@pytest.mark.parametrize("kind", MEANINGS)
@given(st.data())
@settings(max_examples=60, deadline=None)
def test_the_interpreter_gives_the_same(kind: Any, data: st.DataObject) -> None:
    """Weighted rows in Python, and the same rows in columns."""
    function, operation = MEANINGS[kind]
    rows = data.draw(st.lists(st.tuples(numbers(pa.int64()), st.integers(1, 5)), max_size=6))
    aggregate: Any = function.aggregate
    value = aggregate.total(None, [((x,), weight, 1) for x, weight in rows])
    assert aggregate.finished(*value) == expected([x for x, w in rows for _ in range(w)], operation)


def test_rows_in_blocks_are_the_rows_together(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(7).integers(-(2**63), 2**63 - 1, 100)
    weights = np.tile(np.array([1, -2], dtype=np.int64), 50)
    starts = np.array([0, 1, 40, 41, 77])
    whole = AnyBit(("x0",), pa.int64()).total([pa.array(values)], weights, starts)
    monkeypatch.setattr(bits, "_BLOCK", 2)
    assert AnyBit(("x0",), pa.int64()).total([pa.array(values)], weights, starts) == whole
    assert AnyBit(("x0",), pa.int64()).total([pa.array(values[:0])], weights[:0], starts[:0])


def test_more_rows_than_a_digit_holds() -> None:
    most = 2**31 - 1
    for kind, wanted in ((EveryBit, 4), (AnyBit, 7), (OddBits, 7)):
        steps = [[(most, 7), (most, 4), (most, 4)], [(-most, 4)], [(-most, 7)]]
        found = run(kind(("x0",), pa.int32()), pa.int32(), steps)
        assert found[0] == [(1, wanted)]
        assert found[-1][-1] == (1, 4)


def test_no_values() -> None:
    accumulators = [kind(("x0",), pa.int32()) for kind in MEANINGS]
    assert list(empty_buffers(accumulators).to_pylist()[0].values()) == [None, None, None]
    for each in accumulators:
        assert run(each, pa.int32(), [[(1, None)], [(1, 6)], [(-1, 6)], [(-1, None)]]) == [
            [(1, None)],
            [(-1, None), (1, 6)],
            [(-1, 6), (1, None)],
            [(-1, None)],
        ]


def test_a_layout_is_read_back() -> None:
    layout = aggregate_layout(GROUP, [kind(("x0",), pa.int32()) for kind in MEANINGS])
    assert TraceLayout.from_json(layout.to_json()) == layout


def test_a_zero_is_a_value() -> None:
    layout = aggregate_layout(GROUP, [OddBits(("x0",), pa.int32())])
    lifted = OddBits(("x0",), pa.int32()).lift([pa.array([0], pa.int32())], np.array([1]))
    assert not is_zero(layout, [(pa.array([0]),), *lifted])[0]


def test_a_planted_bug_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Control: bits that are or-ed instead of counted do not go with a deleted row."""
    steps = [[(1, 5), (1, 4)], [(-1, 5)]]
    assert run(AnyBit(("x0",), pa.int32()), pa.int32(), steps)[1] == [(-1, 5), (1, 4)]
    counts = AnyBit._counts
    monkeypatch.setattr(
        AnyBit,
        "_counts",
        lambda self, words, weights, starts: counts(self, words, abs(weights), starts),
    )
    assert run(AnyBit(("x0",), pa.int32()), pa.int32(), steps)[1] == [(-1, 5), (1, 5)]
