"""The rows of touched groups: old ones under -1, new ones under 1, as often as they weigh."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.kernels.regroup import MOMENT, touched_groups
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
    assert least(touched_groups(change, before, after, first)) == whole
