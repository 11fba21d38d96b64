"""First rows on Arrow columns are those that a plain sort of Python values gives."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rekindle.kernels.regroup import MOMENT
from rekindle.kernels.top import Direction, Level, Missing, Sorted, Top

ROWS = st.lists(
    st.tuples(
        st.sampled_from([-1, 1]),
        st.sampled_from([None, "a", "b"]),
        st.none() | st.integers(-2, 2),
        st.none() | st.sampled_from(["", "é", "z", "zz"]),
        st.none() | st.sampled_from([Decimal("-1.50"), Decimal("0.25"), Decimal("10.00")]),
        st.none() | st.booleans(),
    ),
    max_size=25,
)
TYPES = [pa.int64(), pa.string(), pa.int32(), pa.string(), pa.decimal128(38, 2), pa.bool_()]
SORTED = st.builds(
    Sorted, st.integers(1, 4), st.sampled_from(list(Direction)), st.sampled_from(list(Missing))
)


def _less(left: tuple[Any, ...], right: tuple[Any, ...], order: tuple[Sorted, ...]) -> bool:
    for by in order:
        one, other = left[1 + by.position], right[1 + by.position]
        if one == other:
            continue
        if one is None or other is None:
            return (one is None) == (by.nulls is Missing.FIRST)
        return bool(one < other) == (by.direction is Direction.ASCENDING)
    return False


@given(
    rows=ROWS,
    order=st.lists(SORTED, min_size=1, max_size=4).map(tuple),
    keys=st.sampled_from([(), (0,)]),
    offset=st.integers(0, 2),
    count=st.integers(1, 4),
)
def test_ranks_are_those_of_a_plain_sort(
    rows: list[tuple[Any, ...]],
    order: tuple[Sorted, ...],
    keys: tuple[int, ...],
    offset: int,
    count: int,
) -> None:
    names = [MOMENT, *(f"c{i}" for i in range(len(TYPES) - 1))]
    columns = [pa.array([r[i] for r in rows], type_) for i, type_ in enumerate(TYPES)]
    table = pa.table(columns, names=names)

    def group(row: tuple[Any, ...]) -> tuple[Any, ...]:
        return (row[0], *(row[1 + key] for key in keys))

    def above(row: tuple[Any, ...]) -> int:
        return sum(group(other) == group(row) and _less(other, row, order) for other in rows)

    last = offset + count
    found = Top(keys, order, Level.TOGETHER, offset, last).run(table)
    given_rows = list(zip(*(column.to_pylist() for column in found.columns), strict=True))
    expected = [row for row in rows if offset < above(row) + 1 <= last]
    assert sorted(map(repr, given_rows)) == sorted(map(repr, expected))

    apart = Top(keys, order, Level.APART, offset, last).run(table)
    taken = list(zip(*(column.to_pylist() for column in apart.columns), strict=True))
    for one in {group(row) for row in rows}:
        members = sorted(above(row) for row in rows if group(row) == one)
        chosen = sorted(above(row) for row in taken if group(row) == one)
        assert chosen == members[offset:last]
