"""The benchmark of nested collections: its rows, its queries in all forms, and what it reports."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from rich.console import Console

from rekindle.benchmarks import nested, nested_steps
from rekindle.benchmarks.grouped_bars import grouped_bars
from rekindle.benchmarks.harness import Harness, Request
from rekindle.benchmarks.nested_batch import (
    SETTINGS,
    Evaluation,
    Form,
    shredded_name,
    shredded_queries,
)
from rekindle.benchmarks.nested_data import SHAPES, Sizes, Stream, generate
from rekindle.benchmarks.nested_queries import QUERIES, tables_of, with_sources
from rekindle.benchmarks.tasks import watched
from tests.cli.conftest import Run

TINY = Sizes(nations=25, customers=20, orders=120, parts=60, suppliers=8)


def test_a_share_of_the_foreign_keys_is_skewed() -> None:
    for skew, low, high in ((0.0, 0.0, 0.02), (0.2, 0.09, 0.16)):
        tables = generate(Sizes.of_scale(0.001), skew)
        lines = tables["lineitem"]
        for column in ("orderkey", "partkey"):
            counts = Counter(lines.column(column).to_pylist())
            assert low < counts.most_common(1)[0][1] / len(lines) < high, (skew, column)
        for name, shape in SHAPES.items():
            unique = tables[name].group_by(list(shape.key)).aggregate([]).num_rows
            assert unique == len(tables[name])
    few = generate(Sizes.of_few(0.001, 10), 0.0)
    assert [len(few[name]) for name in ("nation", "customer", "part", "supplier")] == [10] * 4
    assert len(few["lineitem"]) == 6_000


def test_batches_bring_all_rows_and_take_rows_that_are_there() -> None:
    tables = generate(TINY, 0.1)
    names = tables_of(4)
    stream = Stream(tables, names, 10)
    present: dict[str, Counter[str]] = {name: Counter() for name in names}
    brought: Counter[str] = Counter()
    for number in range(len(stream) + 5):
        change = stream.batch(number) if number < len(stream) else stream.small(0.02)
        if number < len(stream):
            assert set(change.inserted) == {names[number % len(names)]}
            brought.update({name: len(rows) for name, rows in change.inserted.items()})
        for name, rows in change.deleted.items():
            gone = Counter(map(str, rows.to_pylist()))
            assert gone <= present[name]
            present[name] -= gone
        for name, rows in change.inserted.items():
            present[name] += Counter(map(str, rows.to_pylist()))
        for name in names:
            assert Counter(map(str, stream.current(name).to_pylist())) == present[name]
    assert brought == {name: len(tables[name]) for name in names}


@pytest.fixture
def few_tasks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(SETTINGS, "spark.sql.shuffle.partitions", "2")


@pytest.fixture
def evaluation(spark: SparkSession, tmp_path: Path, few_tasks: None) -> Evaluation:
    with Harness(spark, tmp_path, Request(), Console(quiet=True)) as harness:
        shredded = shredded_queries(harness, list(QUERIES))
    tables = generate(TINY, 0.2)
    found = Evaluation(spark, tmp_path / "rows", tables, shredded)
    for number in QUERIES:
        for form in Form:
            found.evaluate(number, form)
    return found


INNER = {2: "customers", 6: "suppliers", 7: "parts"}
"""Bags of names."""


def test_all_forms_of_a_query_give_the_same(evaluation: Evaluation) -> None:
    for number in (4, 5):
        plain = rows(evaluation.result(f"q{number}"))
        assert plain and rows(evaluation.result(f"p{number}")) == plain
        assert rows(evaluation.result(shredded_name(f"q{number}"))) == plain
    for number, column in INNER.items():
        plain = rows(exploded(evaluation.result(f"q{number}"), column))
        half, heavy = evaluation.result(f"p{number}"), evaluation.result(f"p{number}_{column}")
        joined = heavy.join(half, heavy.label == half[f"{column}_label"]).select("name", "value")
        assert number == 7 or heavy.count()
        assert plain and rows(exploded(half, column).unionAll(joined)) == plain
        top, inner = (
            evaluation.result(shredded_name(part))
            for part in (f"q{number}·", f"q{number}·{column}")
        )
        assert (
            rows(top.join(inner, top[column] == inner["_label"]).select("name", "value")) == plain
        )


def exploded(frame: DataFrame, column: str) -> DataFrame:
    return frame.select("name", F.explode(column).alias("value"))


def rows(frame: DataFrame) -> Counter[tuple[object, ...]]:
    return Counter(tuple(row) for row in frame.collect())


def test_stages_are_watched(spark: SparkSession) -> None:
    frame = spark.range(0, 10_000, 1, 4).groupBy((F.col("id") % 10).alias("k")).count()
    sample, tasks = watched(spark, frame.collect)
    # All rows, and the ten groups that each of the four tasks made of them.
    assert sample.seconds > 0 and sample.rows_read == tasks.rows == 10_000 + 4 * 10
    assert tasks.imbalance is None or tasks.imbalance >= 1


def test_sources_come_first() -> None:
    assert with_sources([7, 4]) == [1, 3, 4, 7]
    assert tables_of(6) == ("customer", "supplier", "lineitem", "orders")


def test_bars_of_groups_are_drawn() -> None:
    text = grouped_bars(
        "a <title>", "times", ["Q1", "Q2"], {"x": [0.5, None], "y": [2e6, 3.0]}, (5.0, "wanted")
    )
    ElementTree.fromstring(text)
    assert "✗" in text and "0.50" in text and "2e6" in text
    ElementTree.fromstring(grouped_bars("none", "y", [], {}))


def test_the_benchmark_reports_every_experiment(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few_tasks: None
) -> None:
    monkeypatch.setattr(nested, "SKEWS", (0.2,))
    monkeypatch.setattr(nested_steps, "BATCHES", 8)
    monkeypatch.setattr(nested_steps, "RECOMPUTED", 2)
    path = tmp_path / "nested.json"
    asked = ("--scale", 0.0005, "--queries", "4", "--rounds", 1, "--rows", 1_000)
    found = run("bench", "nested", *asked, "--json", path)
    assert found.exit_code == 0, found.output
    report = json.loads(path.read_text())
    evaluated = report["facts"]["evaluation"]
    assert [each["tables"] for each in evaluated] == ["20% skewed", "10 rows at the top"]
    assert all(each[form.value]["ratio_to_plain"] > 0 for each in evaluated for form in Form)
    (kept,) = report["facts"]["maintenance"]
    assert kept["first order"]["gain"] > 0 and kept["first order"]["rows"] > 0
    assert set(kept["refused"]) | set(kept) >= {"first order", "higher order"}
    # One of evaluation, two of maintenance, two for each kind of bag, one of reading.
    assert len(report["verdicts"]) == 8
    pictures = sorted(each.name for each in tmp_path.glob("nested-*.svg"))
    assert len(pictures) == 6
    for name in pictures:
        assert ElementTree.parse(tmp_path / name).getroot().tag.endswith("svg")
