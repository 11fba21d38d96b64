"""Per-key operators at every stamp, against their meaning by the interpreter."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet
from rekindle.calculus.bodies import Measures
from rekindle.calculus.interpreter import apply_operator
from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    STAMPED,
    AggregateFunction,
    Distinct,
    Measure,
    PerGroup,
    Source,
    with_stamps,
)
from rekindle.kernels.nested_time import (
    distinct_at_every_stamp,
    from_until,
    groups_at_every_stamp,
    stamped_group_schema,
)
from rekindle.kernels.regroup import MOMENT
from rekindle.kernels.waiting import Waiting
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.values import Weight

Row = tuple[int, int, int]
"""A group, a value and a stamp."""
Weighted = list[tuple[Row, int]]

FIELDS = [("c0", pa.int64()), ("c1", pa.int64()), ("c2", pa.int32())]
LAYOUT = TraceLayout((Weight(),), pa.schema(FIELDS))
rows = st.tuples(st.integers(0, 2), st.integers(0, 2), st.integers(0, 4))
changes = st.lists(st.tuples(rows, st.integers(-2, 2)), max_size=8)


def _arranged(weighted: Weighted, *, by_row: bool) -> pa.Table:
    """As an arrangement that is stamped: by the row or by the group, then by the stamp."""
    group, value, stamp = np.array([row for row, _ in weighted], dtype=np.int64).reshape(-1, 3).T
    columns = {
        "_key": group * 10 + value if by_row else group,
        "_id0": value,
        "_id1": stamp,
        "_weight": np.array([weight for _, weight in weighted], dtype=np.int64),
        "c0": group,
        "c1": value,
        "c2": stamp.astype(np.int32),
    }
    names = LAYOUT.schema.names
    return consolidate(pa.table([columns[n] for n in names], names=names), LAYOUT)


def _summed(table: pa.Table, names: list[str]) -> Counter[tuple[int, ...]]:
    found: Counter[tuple[int, ...]] = Counter()
    weights, *columns = (table.column(n).to_pylist() for n in ["_weight", *names])
    for weight, *row in zip(weights, *columns, strict=True):
        found[tuple(row)] += weight
    return Counter({row: n for row, n in found.items() if n})


@settings(max_examples=200, deadline=None)
@given(changes, changes)
def test_distinct_at_every_stamp_is_the_change_of_distinct(stored: Weighted, new: Weighted) -> None:
    before = _arranged(stored, by_row=True)
    change = _arranged(new, by_row=True)
    found = distinct_at_every_stamp(change, TraceReader.of_tables(LAYOUT, [before]))
    operator = Distinct(Source("t", Schema.of(g="int", v="int") + STAMPED), stamps=1)
    old, later = ZSet(stored, INTEGERS), ZSet([*stored, *new], INTEGERS)
    expected = apply_operator(operator, [later]) + -apply_operator(operator, [old])
    assert _summed(found, ["c0", "c1", "c2"]) == Counter(dict(expected))


@settings(max_examples=200, deadline=None)
@given(changes, changes)
def test_groups_hold_their_rows_at_every_stamp(stored: Weighted, new: Weighted) -> None:
    """From the first changed stamp on: a group has the rows whose weights so far are positive."""
    change = _arranged(new, by_row=False)
    since = {
        key: min(r["c2"] for r in change.to_pylist() if r["_key"] == key)
        for key in set(change.column("_key").to_pylist())
    }
    reader = TraceReader.of_tables(LAYOUT, [_arranged(stored, by_row=False)])
    table = groups_at_every_stamp(change, reader)
    for moment, weighted in ((-1, stored), (1, [*stored, *new])):
        totals: Counter[Row] = Counter()
        for row, weight in weighted:
            totals[row] += weight
        mine = [r for r in table.to_pylist() if r[MOMENT] == moment]
        for group, first in since.items():
            assert all(first <= r["c2"] for r in mine if r["c0"] == group)
            for stamp in range(first, 5):
                now = Counter(
                    r["c1"]
                    for r in mine
                    if r["c0"] == group
                    and r["c2"] <= stamp
                    and (r["_until"] is None or stamp < r["_until"])
                )
                sums: Counter[int] = Counter()
                for (g, value, at), weight in totals.items():
                    if g == group and at <= stamp:
                        sums[value] += weight
                assert now == Counter({v: n for v, n in sums.items() if n > 0})


Timed = tuple[int, int, int, int]
"""A group, a value, and the stamps of two scopes."""
NESTED = TraceLayout((Weight(),), pa.schema([*FIELDS, ("c3", pa.int32())]))
timed = st.tuples(st.integers(0, 1), st.integers(0, 2), st.integers(0, 3), st.integers(0, 3))
nested_changes = st.lists(st.tuples(timed, st.integers(-2, 2)), max_size=8)
PAIRS = Schema.of(g="int", v="int")


def _nested(weighted: list[tuple[Timed, int]], *, by_row: bool) -> pa.Table:
    """As an arrangement with two stamps, whose identity tells their pairs apart."""
    columns = np.array([row for row, _ in weighted], dtype=np.int64).reshape(-1, 4).T
    group, value, outer, inner = columns
    named = {
        "_key": group * 10 + value if by_row else group,
        "_id0": value,
        "_id1": -7 * (outer * 100 + inner),
        "_weight": np.array([weight for _, weight in weighted], dtype=np.int64),
        "c0": group,
        "c1": value,
        "c2": outer.astype(np.int32),
        "c3": inner.astype(np.int32),
    }
    names = NESTED.schema.names
    return consolidate(pa.table([named[n] for n in names], names=names), NESTED)


@settings(max_examples=300, deadline=None)
@given(nested_changes, nested_changes)
def test_distinct_of_nested_scopes_is_the_change_of_distinct(
    stored: list[tuple[Timed, int]], new: list[tuple[Timed, int]]
) -> None:
    reader = TraceReader.of_tables(NESTED, [_nested(stored, by_row=True)])
    found = distinct_at_every_stamp(_nested(new, by_row=True), reader, 2)
    operator = Distinct(Source("t", with_stamps(PAIRS, 2)), stamps=2)
    old, later = ZSet(stored, INTEGERS), ZSet([*stored, *new], INTEGERS)
    expected = apply_operator(operator, [later]) + -apply_operator(operator, [old])
    assert _summed(found, ["c0", "c1", "c2", "c3"]) == Counter(dict(expected))
    assert len(found) == len(_summed(found, ["c0", "c1", "c2", "c3"]))


@settings(max_examples=300, deadline=None)
@given(nested_changes, nested_changes)
def test_groups_of_nested_scopes_give_the_change_of_their_results(
    stored: list[tuple[Timed, int]], new: list[tuple[Timed, int]]
) -> None:
    """The least value and the number of rows of each group, at every pair of iterations."""
    reader = TraceReader.of_tables(NESTED, [_nested(stored, by_row=False)])
    table = groups_at_every_stamp(_nested(new, by_row=False), reader, 2)
    assert table.schema == stamped_group_schema(NESTED.schema, 2)
    names = [MOMENT, "c0", "c2", "_until0", "c3", "_until1"]
    results = table.group_by(names).aggregate([("c1", "min"), ("c1", "count")])
    named = results.select([*names, "c1_min", "c1_count"])
    given_ = named.rename_columns(["_weight", *(f"c{i}" for i in range(7))])
    found = _summed(from_until(given_, 1, 2), ["c0", "c1", "c2", "c3", "c4"])
    value = Column(1, "int")
    measures = (
        Measure("least", AggregateFunction.LEAST, (value,), "int"),
        Measure("n", AggregateFunction.COUNT, (value,), "bigint"),
    )
    body = Measures(Schema.of(g="int"), measures)
    operator = PerGroup(Source("t", with_stamps(PAIRS, 2)), (0,), body, stamps=2)
    old, later = ZSet(stored, INTEGERS), ZSet([*stored, *new], INTEGERS)
    expected = apply_operator(operator, [later]) + -apply_operator(operator, [old])
    assert found == Counter(dict(expected))


@dataclass(frozen=True)
class Numbered:
    """The rows of a group with their numbers in order, of which only the first two are kept."""

    schema: Schema
    text: str = "numbered"

    def apply(self, key: tuple[Any, ...], rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        return [(*row, i) for i, row in enumerate(sorted(rows)[:2])]


def _numbered(table: pa.Table, bounds: list[str]) -> pa.Table:
    """What `Numbered` gives for groups at iterations, as a plan of Spark does: bounds last."""
    groups = defaultdict(list)
    for row in table.to_pylist():
        groups[(row[MOMENT], row["c0"], *(row[name] for name in bounds))].append(row["c1"])
    found = [
        (moment, group, value, i, *at)
        for (moment, group, *at), values in groups.items()
        for i, value in enumerate(sorted(values)[:2])
    ]
    columns = [*zip(*found, strict=True)] or [()] * (4 + len(bounds))
    types = [pa.int64()] * 4 + [pa.int32()] * len(bounds)
    arrays = [pa.array(c, t) for c, t in zip(columns, types, strict=True)]
    return pa.table(arrays, names=["_weight", *(f"c{i}" for i in range(len(arrays) - 1))])


@settings(max_examples=200, deadline=None)
@given(changes, changes)
def test_functions_of_groups_give_the_change_of_their_rows(stored: Weighted, new: Weighted) -> None:
    """As windows and limits do, whose rows are those of the groups and not one for each."""
    reader = TraceReader.of_tables(LAYOUT, [_arranged(stored, by_row=False)])
    table = groups_at_every_stamp(_arranged(new, by_row=False), reader)
    body = Numbered(Schema.of(g="int", v="int", i="int"))
    operator = PerGroup(Source("t", PAIRS + STAMPED), (0,), body, stamps=1)
    old, later = ZSet(stored, INTEGERS), ZSet([*stored, *new], INTEGERS)
    expected = apply_operator(operator, [later]) + -apply_operator(operator, [old])
    found = from_until(_numbered(table, ["c2", "_until"]), 3)
    assert _summed(found, ["c0", "c1", "c2", "c3"]) == Counter(dict(expected))


@settings(max_examples=200, deadline=None)
@given(nested_changes, nested_changes)
def test_functions_of_groups_of_nested_scopes(
    stored: list[tuple[Timed, int]], new: list[tuple[Timed, int]]
) -> None:
    reader = TraceReader.of_tables(NESTED, [_nested(stored, by_row=False)])
    table = groups_at_every_stamp(_nested(new, by_row=False), reader, 2)
    body = Numbered(Schema.of(g="int", v="int", i="int"))
    operator = PerGroup(Source("t", with_stamps(PAIRS, 2)), (0,), body, stamps=2)
    old, later = ZSet(stored, INTEGERS), ZSet([*stored, *new], INTEGERS)
    expected = apply_operator(operator, [later]) + -apply_operator(operator, [old])
    found = from_until(_numbered(table, ["c2", "_until0", "c3", "_until1"]), 3, 2)
    assert _summed(found, ["c0", "c1", "c2", "c3", "c4"]) == Counter(dict(expected))


def test_results_come_and_go() -> None:
    names = ["_weight", "c0", "c1", "c2", "c3"]
    given_ = pa.table([[1, -1], [7, 7], [0, 2], [2, None], [5, 6]], names=names)
    found = from_until(given_, 1)
    assert _summed(found, ["c0", "c1", "c2"]) == Counter(
        {(7, 5, 0): 1, (7, 5, 2): -1, (7, 6, 2): -1}
    )


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("rs"), changes), max_size=5))
def test_waiting_changes_are_due_in_order_and_none_is_lost(
    batches: list[tuple[str, Weighted]],
) -> None:
    waiting = Waiting({"r": LAYOUT, "s": LAYOUT})
    total: Counter[tuple[object, ...]] = Counter()
    for name, batch in batches:
        waiting.add(name, _arranged(batch, by_row=True))
        for (group, value, stamp), weight in batch:
            total[name, group, value, stamp + 1] += weight
    seen: Counter[tuple[object, ...]] = Counter()
    last = 0
    while (iteration := waiting.soonest(())) is not None:
        assert iteration > last
        last = iteration
        for name, rows_due in waiting.take((iteration,)).items():
            for row, weight in _summed(rows_due, ["c0", "c1", "c2"]).items():
                assert row[-1] == iteration
                seen[name, *row] += weight
    assert seen == Counter({row: n for row, n in total.items() if n})


@settings(max_examples=100, deadline=None)
@given(nested_changes)
def test_changes_of_nested_scopes_are_due_in_the_order_of_a_dictionary(
    batch: list[tuple[Timed, int]],
) -> None:
    waiting = Waiting({"r": NESTED}, 2)
    waiting.add("r", _nested(batch, by_row=True))
    seen: Counter[tuple[int, ...]] = Counter()
    times: list[tuple[int, int]] = []
    while (outer := waiting.soonest(())) is not None:
        while (inner := waiting.soonest((outer,))) is not None:
            times.append((outer, inner))
            for row, weight in _summed(
                waiting.take((outer, inner))["r"], ["c0", "c1", "c2", "c3"]
            ).items():
                assert row[2:] == (outer, inner)
                seen[row] += weight
    assert times == sorted(set(times))
    total: Counter[tuple[int, ...]] = Counter()
    for (*row, stamp), weight in batch:
        total[*row, stamp + 1] += weight
    assert seen == Counter({row: n for row, n in total.items() if n})
