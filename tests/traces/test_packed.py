"""Packed columns: whatever is stored in fewer bytes comes back as it was."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.traces import packed as packing
from rekindle.traces.layout import TraceLayout, weighted_layout
from rekindle.traces.opened import OPEN_SEGMENTS
from rekindle.traces.packed import packed, rows_at, unpacked, with_weights
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace

PAYLOAD = pa.schema(
    [
        ("tiny", pa.int64()),
        ("large", pa.int64()),
        ("price", pa.decimal128(15, 2)),
        ("wide", pa.decimal128(38, 4)),
        ("kind", pa.string()),
        ("bytes", pa.binary()),
        ("double", pa.float64()),
        ("list", pa.list_(pa.int64())),
    ]
)
LAYOUT = weighted_layout(PAYLOAD)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PACKED_ROWS", 1)


def _table(rows: int, weight: int = 1) -> Any:
    keys = pa.array(np.arange(rows))
    several = [None if i % 7 == 0 else i % 5 - 2 for i in range(rows)]
    columns = [
        pa.array(several, pa.int64()),
        pa.array([(-1) ** i * 2**40 * i for i in range(rows)], pa.int64()),
        pa.array([None if i % 3 == 0 else Decimal(i) / 4 - 10 for i in range(rows)]).cast(
            pa.decimal128(15, 2)
        ),
        pa.array([Decimal(10) ** 30 - i for i in range(rows)]).cast(pa.decimal128(38, 4)),
        pa.array([None if i % 4 == 0 else f"kind {i % 3}" for i in range(rows)]),
        pa.array([b"%d" % (i % 2) for i in range(rows)]),
        pa.array([i / 3 for i in range(rows)]),
        pa.array([[i, i] for i in range(rows)]),
    ]
    identity = [keys, keys, keys, pa.array(np.full(rows, weight))]
    return pa.Table.from_arrays([*identity, *columns], schema=LAYOUT.schema)


@pytest.mark.parametrize("rows", [1, 2, 50])
@pytest.mark.parametrize("weight", [1, 2])
def test_what_is_packed_comes_back(rows: int, weight: int) -> None:
    table = _table(rows, weight)
    stored = packed(table)
    assert unpacked(with_weights(stored)).equals(table)
    assert ("_weight" in stored.column_names) == (weight != 1)
    part = with_weights(stored).slice(rows // 2)
    assert unpacked(part).equals(table.slice(rows // 2))
    indices = np.array([rows - 1, 0, 0])
    assert rows_at(with_weights(stored), indices).equals(table.take(pa.array(indices)))


def test_columns_are_as_narrow_as_their_values() -> None:
    types = {field.name: field.type for field in packed(_table(300)).schema}
    assert types["tiny"] == pa.int8() and types["large"] == pa.int64()
    assert types["price"] == pa.int16() and types["wide"] == pa.decimal128(38, 4)
    assert types["kind"] == pa.dictionary(pa.int8(), pa.string())
    assert types["bytes"] == pa.dictionary(pa.int8(), pa.binary())
    assert types["_key"] == types["_id0"] == types["_id1"] == pa.int64()


def test_texts_of_many_kinds_stay_texts() -> None:
    texts = pa.table({"_key": np.arange(9_000), "t": [str(i) for i in range(9_000)]})
    assert packed(texts).schema.field("t").type == pa.string()


def test_a_small_table_is_stored_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packing, "PACKED_ROWS", 100)
    table = _table(99)
    assert packed(table) is table


@given(
    st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)), min_size=1),
    st.lists(st.one_of(st.none(), st.integers(-(10**30), 10**30)), min_size=1),
    st.lists(st.one_of(st.none(), st.sampled_from(["", "a", "é"])), min_size=1),
)
def test_any_values_come_back(
    integers: list[int | None], unscaled: list[int | None], texts: list[str | None]
) -> None:
    decimals = [None if u is None else Decimal(u).scaleb(-3) for u in unscaled]
    narrow = [None if u is None else Decimal(u % 1000) for u in unscaled]
    for column in (
        pa.array(integers, pa.int64()),
        pa.array(decimals, pa.decimal128(38, 3)),
        pa.array(narrow, pa.decimal128(18, 0)),
        pa.array(texts),
        pa.array([None if i is None else i % 100 for i in integers], pa.int32()),
    ):
        table = pa.table({"_key": np.arange(len(column)), "c": column})
        for rows in (table, table.slice(len(table) // 2)):
            assert unpacked(packed(rows)).equals(rows)


def test_a_reader_gives_the_rows_that_were_written(tmp_path: Path) -> None:
    store = Store(str(tmp_path))
    first, second = _table(60), _table(40, weight=2)
    runs = tuple(
        Run((store.write(f"{name}.arrow", table),)) for name, table in (("a", first), ("b", second))
    )
    OPEN_SEGMENTS.clear()
    alone = _reader(store, LAYOUT, runs[:1])
    assert alone.whole().equals(first)
    assert pa.concat_tables(alone.scan(7)).equals(first)
    keys = np.array([3, 41])
    assert alone.probe(keys)[0].equals(first.take(pa.array(keys)))
    both = _reader(store, LAYOUT, runs)
    weights = both.whole().column("_weight").to_pylist()
    assert weights == [3] * 40 + [1] * 20
    narrow = both.of_columns(["price", "kind"]).probe(keys)[0]
    assert narrow.column("price").equals(first.take(pa.array(keys)).column("price"))


def _reader(store: Store, layout: TraceLayout, runs: tuple[Run, ...]) -> TraceReader:
    return TraceReader.of_trace(Trace(layout, runs), store)
