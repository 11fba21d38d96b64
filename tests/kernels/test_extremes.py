"""Least and greatest values of groups, against Python's."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rekindle.aggregates.extremes import Extreme
from rekindle.kernels.extremes import Extremes
from rekindle.kernels.regroup import MOMENT

Row = tuple[int, str | None, int | None]
_ROWS = st.lists(
    st.tuples(
        st.sampled_from([-1, 1]),
        st.none() | st.sampled_from(["a", "b", "é"]),
        st.none() | st.integers(-5, 5),
    ),
    max_size=12,
)


@given(_ROWS)
def test_each_group_has_its_extremes(rows: list[Row]) -> None:
    """A NULL is a group of its own and no value; only NULLs have NULL as extremes."""
    schema = pa.schema([(MOMENT, pa.int64()), ("c0", pa.string()), ("c1", pa.int32())])
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], []]
    table = pa.Table.from_arrays(
        [pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema
    )
    both = Extremes((0,), ((1, Extreme.LEAST), (1, Extreme.GREATEST), (1, Extreme.LEAST)))
    found = {tuple(row.values()) for row in both.run(table).to_pylist()}
    groups: dict[tuple[int, str | None], list[int]] = {}
    for moment, key, value in rows:
        groups.setdefault((moment, key), []).extend([] if value is None else [value])
    assert found == {
        (*group, min(v, default=None), max(v, default=None), min(v, default=None))
        for group, v in groups.items()
    }
