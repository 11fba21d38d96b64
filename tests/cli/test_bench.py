"""The benchmarks on small tables: what they report, not how fast they are."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.benchmarks import factorised, matrix, stream
from rekindle.benchmarks.chart import Line, line_chart
from rekindle.benchmarks.nexmark_data import Events
from rekindle.benchmarks.report import Bound, Sample, Series, Verdict
from rekindle.benchmarks.workload import ChangeStream, Workload, require_full_state
from rekindle.errors import RekindleError
from tests.cli.conftest import Run


@pytest.mark.parametrize("name", ["flatness", "overhead", "recompute", "load", "shares"])
def test_a_benchmark_reports_samples_and_verdicts(run: Run, tmp_path: Path, name: str) -> None:
    path = tmp_path / f"{name}.json"
    found = run("bench", name, "--rows", 20_000, "--rounds", 1, "--json", path)
    assert found.exit_code == 0, found.output
    report = json.loads(path.read_text())
    assert report["bench"] == name
    for verdict in report["verdicts"]:
        assert verdict["value"] == verdict["value"]
        assert ("PASS" if verdict["passed"] else "FAIL") in found.stdout
    assert all(series["samples"] for series in report["series"])
    assert report["machine"]["cores"] > 0
    if name in ("flatness", "load"):
        assert ElementTree.parse(path.with_suffix(".svg")).getroot().tag.endswith("svg")
    if name == "flatness":
        assert all(s["rows_read"] > 0 for line in report["series"] for s in line["samples"])


def test_a_database_that_grows_old_is_measured(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "age.json"
    found = run("bench", "age", "--rounds", 9, "--json", path)
    assert found.exit_code == 0, found.output
    facts = json.loads(path.read_text())["facts"]
    assert len(facts["seconds"]) == len(facts["record_bytes"]) == 9
    for point in facts["points"]:
        assert 0 < point["needed_files"] <= point["data_files"]
        assert point["needed_files"] <= point["bound"]
        assert point["record_bytes"] > 0 and point["resident_bytes"] > point["private_bytes"] > 0


def test_recursive_programs_are_measured(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "recursion.json"
    small = ["--rows", 1_000, "--rounds", 1, "--queries", "reachability"]
    found = run("bench", "recursion", *small, "--json", path)
    assert found.exit_code == 0, found.output
    facts = json.loads(path.read_text())["facts"]
    assert all(fact["rows"] > 0 for fact in facts.values())


def test_views_of_a_stream_are_measured_beside_structured_streaming(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BATCHES", 2)
    monkeypatch.setattr(stream, "COMPUTED", 1)
    path = tmp_path / "stream.json"
    small = ["--rows", 5_000, "--events", 500, "--rounds", 1, "--queries", "7,8"]
    found = run("bench", "stream", *small, "--json", path)
    assert found.exit_code == 0, found.output
    report = json.loads(path.read_text())
    words = [verdict["question"] for verdict in report["verdicts"]]
    assert len(words) == 2 and "computed anew" in words[0]
    facts = report["facts"]
    assert set(facts["q7"]) == {stream.OURS, stream.AGAIN}
    assert set(facts["q8"]) == {stream.OURS, stream.STORED, stream.NOWHERE}
    assert len(facts["q8"][stream.STORED]["batch_seconds"]) == stream.BATCHES
    assert len(facts["q7"][stream.AGAIN]["batch_seconds"]) == stream.COMPUTED
    assert all(side["events_a_second"] > 0 for fact in facts.values() for side in fact.values())


def test_events_of_a_stretch_do_not_depend_on_where_it_is_cut() -> None:
    whole = Events().take(0, 1_000)
    assert {table: rows.num_rows for table, rows in whole.items()} == {
        "person": 20,
        "auction": 60,
        "bid": 920,
    }
    again = Events().take(0, 1_000)
    assert whole == again
    later = Events().take(1_000, 500)["bid"]
    last = whole["bid"].column("date_time")[-1].as_py()
    assert min(later.column("date_time").to_pylist()) > last
    newest = max(whole["auction"].column("id").to_pylist())
    assert max(whole["bid"].column("auction").to_pylist()) <= newest


def test_reading_is_measured(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "read.json"
    found = run("bench", "read", "--rows", 20_000, "--rounds", 1, "--json", path)
    assert found.exit_code == 0, found.output
    report = json.loads(path.read_text())
    assert len(report["verdicts"]) == 6 and len(report["series"]) == 4 + 3 + 4


def test_a_stream_without_an_end_is_measured(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "endless.json"
    found = run("bench", "endless", "--events", 4_000, "--batches", 20, "--json", path)
    assert found.exit_code == 0, found.output
    report = json.loads(path.read_text())
    assert [len(report["facts"][what]) for what in ("rows", "bytes", "files", "seconds")] == [
        20
    ] * 4
    assert all(verdict["value"] > 0 for verdict in report["verdicts"])
    assert max(report["facts"]["rows"]) < 4_000 * 4


def test_a_step_visits_only_what_it_reaches(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "views.json"
    found = run("bench", "views", "--views", 24, "--rounds", 1, "--json", path)
    assert found.exit_code == 0, found.output
    visited = json.loads(path.read_text())["facts"]["nodes_visited"]
    assert visited["many"] == visited["few"] > 10


def test_a_factorised_join_keeps_less_than_a_listed_one(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    star, _ = factorised.SHAPES
    monkeypatch.setattr(
        factorised, "SHAPES", (replace(star, listed=(8, 16, 32), factorised=(8, 16, 32)),)
    )
    path = tmp_path / "factorised.json"
    found = run("bench", "factorised", "--rounds", 1, "--json", path)
    assert found.exit_code == 0, found.output
    facts = json.loads(path.read_text())["facts"]
    listed, kept = facts["star, listing"], facts["star, factorised"]
    assert [p["tuples"] for p in listed["points"]] == [p["tuples"] for p in kept["points"]]
    assert listed["points"][-1]["tuples"] == 32**3 / factorised.KEYS**2
    assert kept["state_exponent"] < 1.2 < 2.3 < listed["state_exponent"]
    assert "state grows as n^" in found.stdout
    assert ElementTree.parse(path.with_suffix(".svg")).getroot().tag.endswith("svg")


def test_updates_of_a_chain_of_matrices_are_measured(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(matrix, "SIZES", {key: (4, 8) for key in matrix.SIZES})
    path = tmp_path / "matrix.json"
    found = run("bench", "matrix", "--rounds", 1, "--json", path)
    assert found.exit_code == 0, found.output
    facts = json.loads(path.read_text())["facts"]
    rows = {name: [point["rows"] for point in fact["points"]] for name, fact in facts.items()}
    # The result as groups and as rows, and beside it the joins that first order keeps.
    assert rows["factored, one row"] == [2 * p**2 for p in (4, 8)]
    assert all(kept > p**3 for kept, p in zip(rows["first_order, one row"], (4, 8), strict=True))
    assert found.stdout.count("a step grows as p^") == 4


def test_rows_of_spark_and_of_numpy_are_the_same(spark: SparkSession) -> None:
    workload = Workload(5_000)
    generated = workload.orders_frame(spark).orderBy("id").toArrow()
    assert generated.cast(_schema()).equals(workload.order_rows(np.arange(5_000)).cast(_schema()))


def test_changes_delete_only_rows_that_are_there() -> None:
    workload = Workload(1_000)
    stream = ChangeStream(workload)
    present = set(range(1_000))
    for _ in range(30):
        inserts, deletes = stream.take(100)
        gone = deletes.column("id").to_pylist()
        assert len(set(gone)) == 50 and present.issuperset(gone)
        present -= set(gone)
        present |= set(inserts.column("id").to_pylist())
    assert len(present) == 1_000


def test_orders_by_customer_do_not_repeat() -> None:
    """Equal (cust, total) pairs would add up and make the state smaller than it claims."""
    for rows in (100_000, 1_000_000):
        made = Workload(rows).order_rows(np.arange(rows)).select(["cust", "total"])
        assert made.group_by(["cust", "total"]).aggregate([]).num_rows == rows


def test_a_state_smaller_than_claimed_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    workload = Workload(1_000)
    with rekindle.connect(str(tmp_path / "w"), spark) as db:
        workload.create_tables(db)
        workload.create_view(db)
        with pytest.raises(RekindleError, match="smaller than the benchmark claims"):
            require_full_state(db, workload)


@pytest.mark.parametrize(
    ("bound", "value", "passed"),
    [
        (Bound.AT_MOST, 1.5, True),
        (Bound.AT_MOST, 1.51, False),
        (Bound.AT_LEAST, 20.0, True),
        (Bound.AT_LEAST, 19.9, False),
    ],
)
def test_verdicts(bound: Bound, value: float, passed: bool) -> None:
    limit = 1.5 if bound is Bound.AT_MOST else 20.0
    assert Verdict("q", value, bound, limit).passed is passed


def test_the_median_ignores_an_outlier() -> None:
    assert Series("s", [Sample(t) for t in (1.0, 2.0, 90.0)]).median == 2.0


def test_a_chart_of_one_point_and_of_zeros_is_drawn() -> None:
    for points in ([(10.0, [0.0, 0.0, 0.0])], [(1.0, [2.0]), (1000.0, [3.0])]):
        text = line_chart("a <title>", "x & y", "ms", [Line("l", points)], limit=(4.0, "limit"))
        ElementTree.fromstring(text)


def _schema() -> pa.Schema:
    return pa.schema([("id", pa.int64()), ("cust", pa.int64()), ("total", pa.float64())])
