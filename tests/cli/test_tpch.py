"""TPC-H's rows, changes and benchmark, at scales where they take seconds."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rekindle.benchmarks import tpch_data
from rekindle.benchmarks.bars import Bar, bar_chart
from rekindle.benchmarks.tpch_changes import ChangeStream, read_counts, read_pool
from rekindle.benchmarks.tpch_queries import QUERIES, chosen_queries
from rekindle.benchmarks.tpch_schema import TABLES, tables_of
from rekindle.errors import RekindleError
from tests.cli.conftest import Run


@pytest.fixture
def rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Our own generator's files, whatever is installed."""
    monkeypatch.setattr(tpch_data, "official_generator", lambda: None)
    tpch_data.write_tables(tmp_path / "rows", 0.001)
    return tmp_path / "rows"


def test_keys_are_unique_and_rows_refer_to_rows(rows: Path) -> None:
    tables = {name: pq.read_table(rows / f"{name}.parquet") for name in TABLES}
    for name, shape in TABLES.items():
        assert tables[name].schema.equals(shape.arrow)
        assert tables[name].group_by(list(shape.key)).aggregate([]).num_rows == len(tables[name])
    for child, columns, parent, keys in (
        ("lineitem", ["l_orderkey"], "orders", ["o_orderkey"]),
        ("lineitem", ["l_partkey", "l_suppkey"], "partsupp", ["ps_partkey", "ps_suppkey"]),
        ("orders", ["o_custkey"], "customer", ["c_custkey"]),
        ("partsupp", ["ps_partkey"], "part", ["p_partkey"]),
        ("partsupp", ["ps_suppkey"], "supplier", ["s_suppkey"]),
    ):
        lost = tables[child].join(tables[parent], columns, keys, join_type="left anti")
        assert lost.num_rows == 0, (child, parent)


def test_the_rows_are_the_same_every_time() -> None:
    first, second = (pa.concat_tables(tpch_data.generate("lineitem", 0.001)) for _ in range(2))
    assert first.equals(second)


def test_decimals_keep_their_sign() -> None:
    values = np.array([-150, 0, 99_999])
    assert [str(v) for v in tpch_data.decimals(values).to_pylist()] == ["-1.50", "0.00", "999.99"]


def test_changes_name_rows_that_are_there(rows: Path) -> None:
    pool = read_pool(rows, 0.02)
    current = {name: set(map(str, table.to_pylist())) for name, table in pool.items()}
    stream = ChangeStream(pool, read_counts(rows), 0.02)
    for _ in range(10):
        batch = stream.take()
        assert set(batch.updated) >= {"supplier", "customer", "part", "partsupp"}
        for name, table in batch.deleted.items():
            gone = set(map(str, table.to_pylist()))
            assert gone and gone <= current[name]
            current[name] -= gone
        for name, (old, new) in batch.updated.items():
            gone = set(map(str, old.to_pylist()))
            assert gone <= current[name] and len(old) == len(new)
            current[name] = (current[name] - gone) | set(map(str, new.to_pylist()))
        for name, table in batch.inserted.items():
            fresh = set(map(str, table.to_pylist()))
            assert fresh and not fresh & current[name]
            current[name] |= fresh
        only = batch.of(["part"])
        assert 0 < only.rows < batch.rows and set(only.updated) == {"part"}


def test_queries_are_chosen_by_number() -> None:
    assert chosen_queries(None) == list(range(1, 23))
    assert chosen_queries("3, 1,20-22") == [1, 3, 20, 21, 22]
    for wrong in ("0", "23", "x", "1-y"):
        with pytest.raises(RekindleError):
            chosen_queries(wrong)


def test_the_tables_that_a_query_reads() -> None:
    assert tables_of(QUERIES[13]) == ["customer", "orders"]
    assert tables_of(QUERIES[16]) == ["supplier", "part", "partsupp"]
    assert tables_of(QUERIES[11]) == ["nation", "supplier", "partsupp"]


def test_bars_stand_on_one_and_missing_ones_are_marked() -> None:
    bars = [Bar("1", 20.0), Bar("2", 0.5), Bar("3", None)]
    text = bar_chart("a <title>", "query", "times", bars, [(5.0, "wanted")])
    ElementTree.fromstring(text)
    assert "✗" in text and "0.50" in text
    ElementTree.fromstring(bar_chart("none", "x", "y", [], []))


def test_the_benchmark_reports_every_query(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "tpch.json"
    asked = ("--scale", 0.001, "--queries", "6", "--rounds", 1, "--change", 0.01)
    found = run("bench", "tpch", *asked, "--json", path)
    assert found.exit_code == 0, found.output
    report = json.loads(path.read_text())
    (query,) = report["facts"]["queries"]
    assert query["query"] == 6 and query["ratio"] > 0 and query["rows_read"] > 0
    assert query["reason"] == "" and query["state_bytes"] > 0
    assert len(report["series"]) == 2 and len(report["verdicts"]) == 3
    assert ElementTree.parse(path.with_suffix(".svg")).getroot().tag.endswith("svg")
