"""The rows of touched groups: old ones under -1, new ones under 1, as often as they weigh."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.calculus.terms import Distance, RunningFrame, SlidingFrame, TopRows
from rekindle.kernels.regroup import MOMENT, parted, touched_groups, touched_onwards
from rekindle.traces import near as near_module
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.values import Weight

LAYOUT = TraceLayout((Weight(),), pa.schema([("c0", pa.int64()), ("c1", pa.int64())]))
bags = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=10)

Bag = list[tuple[int, int]]


def _arranged(rows: Bag, weight: int = 1) -> pa.Table:
    key, value = np.array(rows, dtype=np.int64).reshape(-1, 2).T
    columns = {
        "_key": key,
        "_id0": value,
        "_id1": value,
        "_weight": np.full(len(rows), weight),
        "c0": key,
        "c1": value,
    }
    names = LAYOUT.schema.names
    return consolidate(pa.table([columns[n] for n in names], names=names), LAYOUT)


@settings(max_examples=150, deadline=None)
@given(bags, bags, st.data())
def test_touched_groups_hold_all_their_rows(stored: Bag, new: Bag, data: st.DataObject) -> None:
    gone = data.draw(st.lists(st.sampled_from(stored), unique=True)) if stored else []
    change = consolidate(pa.concat_tables([_arranged(new), _arranged(gone, -1)]), LAYOUT)
    before = TraceReader.of_tables(LAYOUT, [_arranged(stored)])
    after = TraceReader.of_tables(LAYOUT, [_arranged(stored), change])
    table = touched_groups(change, before, after)
    found = Counter(zip(*(table.column(n).to_pylist() for n in (MOMENT, "c0", "c1")), strict=True))
    keys = set(change.column("_key").to_pylist())
    later = Counter(stored) + Counter(new) - Counter(gone)
    expected: Counter[tuple[int, int, int]] = Counter()
    for moment, contents in ((-1, Counter(stored)), (1, later)):
        for (key, value), count in contents.items():
            if key in keys:
                expected[moment, key, value] = count
    assert found == expected


@settings(max_examples=150, deadline=None)
@given(bags, bags, st.integers(1, 2))
def test_with_an_order_the_first_rows_are_enough(stored: Bag, new: Bag, first: int) -> None:
    change = _arranged(new)
    before = TraceReader.of_tables(LAYOUT, [_arranged(stored)])
    after = TraceReader.of_tables(LAYOUT, [_arranged(stored), change])

    def least(rows: pa.Table) -> dict[tuple[int, int], list[int]]:
        found: dict[tuple[int, int], list[int]] = {}
        for moment, key, value in zip(
            *(rows.column(n).to_pylist() for n in (MOMENT, "c0", "c1")), strict=True
        ):
            found.setdefault((moment, key), []).append(value)
        return {group: sorted(values)[:first] for group, values in found.items()}

    whole = least(touched_groups(change, before, after))
    assert least(touched_groups(change, before, after, TopRows(1, first))) == whole


# ---- the rows around a change, and those from it on -----------------------------------------

Row = tuple[int, int, int]
"""Key, order, and what tells level rows apart."""

ORDERED = TraceLayout((Weight(),), pa.schema([(f"c{i}", pa.int64()) for i in range(3)]))
KEPT = TraceLayout((Weight(),), pa.schema([(f"c{i}", pa.int64()) for i in range(5)]))
ordered = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 2)), max_size=60)
few = st.lists(st.tuples(st.integers(0, 1), st.integers(0, 40), st.integers(0, 2)), max_size=3)


def _ordered(rows: Counter[Row]) -> pa.Table:
    """Rows by key, in order, with the rest as what tells them apart."""
    return _stored([(*row, weight) for row, weight in rows.items()], ORDERED)


def _stored(rows: list[tuple[int, ...]], layout: TraceLayout) -> pa.Table:
    width = len(layout.payload)
    *columns, weight = np.array(rows, dtype=np.int64).reshape(-1, width + 1).T
    told = sum(column * 1000**i for i, column in enumerate(columns[2:]))
    marks = dict(
        zip(("_key", "_id0", "_id1", "_weight"), (*columns[:2], told, weight), strict=True)
    )
    marks |= {f"c{i}": column for i, column in enumerate(columns)}
    names = layout.schema.names
    return consolidate(pa.table([marks[n] for n in names], names=names), layout)


@contextmanager
def _little_more() -> Iterator[None]:
    """Groups of some ten rows count as large."""
    original, near_module._MORE = near_module._MORE, 2
    try:
        yield
    finally:
        near_module._MORE = original


def _moments(table: pa.Table) -> Iterator[tuple[int, ...]]:
    return zip(*(column.to_pylist() for column in table.columns), strict=True)


def _changed(data: st.DataObject, stored: list[Row]) -> tuple[Counter[Row], Counter[Row]]:
    """What comes and what leaves."""
    come = Counter(data.draw(few))
    gone = data.draw(st.lists(st.integers(0, len(stored) - 1), max_size=3, unique=True))
    return come, Counter(stored[i] for i in gone)


def _frames(rows: list[Row], near: SlidingFrame) -> Iterator[tuple[Row, tuple[int, ...]]]:
    """Each row of a group with what its frame has in it, in order."""
    rows = sorted(rows)
    for i, row in enumerate(rows):
        if near.distance is Distance.ROWS:
            seen = rows[max(0, i - near.before) : i + near.after + 1]
        else:
            seen = [r for r in rows if -near.before <= r[1] - row[1] <= near.after]
        yield row, tuple(value for _, order, rest in seen for value in (order, rest))


@settings(max_examples=300, deadline=None)
@given(
    ordered.filter(bool),
    st.builds(
        SlidingFrame,
        st.just(1),
        st.integers(0, 3),
        st.integers(0, 3),
        st.sampled_from(list(Distance)),
    ),
    st.data(),
)
def test_the_rows_around_a_change_are_enough(
    stored: list[Row], near: SlidingFrame, data: st.DataObject
) -> None:
    """f(N + Δx) − f(N) = f(x + Δx) − f(x) for what sees the rows near it."""
    come, gone = _changed(data, stored)
    change = Counter(come)
    change.subtract(gone)
    before = TraceReader.of_tables(ORDERED, [_ordered(Counter(stored))])
    with _little_more():
        table = touched_groups(_ordered(change), before, before, near)
    groups: dict[tuple[int, int], list[Row]] = {}
    for moment, *row in _moments(table):
        groups.setdefault((moment, row[0]), []).append((row[0], row[1], row[2]))
    found: Counter[Any] = Counter()
    for (moment, _), rows in groups.items():
        for result in _frames(rows, near):
            found[result] += int(np.sign(moment))
    expected: Counter[Any] = Counter()
    for sign, contents in ((-1, Counter(stored)), (1, Counter(stored) + come - gone)):
        for key in (0, 1):
            rows = [row for row in contents.elements() if row[0] == key]
            for result in _frames(rows, near):
                expected[result] += sign
    assert _nonzero(found) == _nonzero(expected)


def _running(rows: list[Row], base: tuple[int, int]) -> Iterator[tuple[int, ...]]:
    """Each row with the number of rows so far and a sum in which their order matters."""
    count, total = base
    for row in sorted(rows):
        count, total = count + 1, (total * 3 + row[1] + row[2]) % 997
        yield (*row, count, total)


@settings(max_examples=300, deadline=None)
@given(ordered.filter(bool), st.data())
def test_the_rows_from_a_change_on_go_on_from_the_last_result(
    stored: list[Row], data: st.DataObject
) -> None:
    come, gone = _changed(data, stored)
    change = Counter(come)
    change.subtract(gone)
    later = Counter(stored) + come - gone

    def whole(contents: Counter[Row]) -> Counter[tuple[int, ...]]:
        groups = ([r for r in contents.elements() if r[0] == key] for key in (0, 1))
        return Counter(result for rows in groups for result in _running(rows, (0, 0)))

    kept = _stored([(*row, weight) for row, weight in whole(Counter(stored)).items()], KEPT)
    table = touched_onwards(
        _ordered(change),
        TraceReader.of_tables(ORDERED, [_ordered(Counter(stored))]),
        TraceReader.of_tables(KEPT, [kept]),
        RunningFrame(1, 3),
    )
    leaving, becoming = parted(table)
    found: Counter[Any] = Counter()
    for moment, *row in _moments(leaving):
        found[tuple(row)] += moment
    bases = {row[0]: (row[3], row[4]) for moment, *row in _moments(becoming) if moment == 0}
    for key in (0, 1):
        rows = [(r[0], r[1], r[2]) for moment, *r in _moments(becoming) if moment and r[0] == key]
        found.update(_running(rows, bases.get(key, (0, 0))))
    expected = whole(later)
    expected.subtract(whole(Counter(stored)))
    assert _nonzero(found) == _nonzero(expected)
    touched = {row[0] for row, weight in change.items() if weight}
    first = {key: min(r[1] for r, w in change.items() if w and r[0] == key) for key in touched}
    assert all(row[1] >= first[row[0]] for moment, *row in _moments(table) if moment)


def _nonzero(counts: Counter[Any]) -> dict[Any, int]:
    return {each: count for each, count in counts.items() if count}
