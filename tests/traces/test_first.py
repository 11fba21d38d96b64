"""The first rows of each key, against sorting everything."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.traces import first as first_module
from rekindle.traces.consolidate import consolidate
from rekindle.traces.first import first_rows
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.values import Weight

LAYOUT = TraceLayout((Weight(),), pa.schema([("c0", pa.int64())]))

Row = tuple[int, int, int, int]
"""Key, order, hash, weight."""

rows = st.tuples(
    st.integers(0, 3), st.integers(-2, 4), st.integers(0, 2), st.sampled_from((-1, 1, 1, 2))
)


def _arranged(given_: list[Row]) -> pa.Table:
    key, order, hash_, weight = np.array(given_, dtype=np.int64).reshape(-1, 4).T
    columns = {"_key": key, "_id0": order, "_id1": hash_, "_weight": weight, "c0": order}
    names = LAYOUT.schema.names
    return consolidate(pa.table([columns[n] for n in names], names=names), LAYOUT)


def _expected(runs: list[list[Row]], keys: set[int], count: int) -> set[tuple[int, int, int]]:
    total: dict[tuple[int, int, int], int] = defaultdict(int)
    for run in runs:
        for key, order, hash_, weight in run:
            total[key, order, hash_] += weight
    found = set()
    for key in keys:
        ordered = sorted((o, h, w) for (k, o, h), w in total.items() if k == key and w)
        reached, bound = 0, None
        for order, _, weight in ordered:
            reached += max(weight, 0)
            if reached >= count:
                bound = order
                break
        found |= {(key, o, h) for o, h, _ in ordered if bound is None or o <= bound}
    return found


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.lists(rows, max_size=12), min_size=1, max_size=4),
    st.sets(st.integers(0, 4)),
    st.integers(1, 3),
    st.integers(0, 2),
)
def test_first_rows_are_those_of_a_full_sort(
    runs: list[list[Row]], keys: set[int], count: int, more: int
) -> None:
    original, first_module._MORE = first_module._MORE, more + 2
    try:
        reader = TraceReader.of_tables(LAYOUT, [_arranged(run) for run in runs])
        table = first_rows(reader, np.array(sorted(keys), dtype=np.int64), count)
    finally:
        first_module._MORE = original
    names = ("_key", "_id0", "_id1")
    found = list(zip(*(table.column(name).to_pylist() for name in names), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == _expected(runs, keys, count)


def test_few_rows_of_a_large_key_are_read() -> None:
    run = _arranged([(7, order, 0, 1) for order in range(10_000)])
    reader = TraceReader.of_tables(LAYOUT, [run])
    taken = []
    original = reader.leading

    def counted(keys: np.ndarray, limit: int):  # type: ignore[no-untyped-def, type-arg]
        for match, left in original(keys, limit):
            taken.append(len(match.row))
            yield match, left

    reader.leading = counted  # type: ignore[method-assign]
    assert len(first_rows(reader, np.array([7]), 3)) == 3
    assert sum(taken) < 50
