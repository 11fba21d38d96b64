"""Groups that collect their elements: a nested view of SQL, equal to Spark's arrays as bags."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import CheckError
from rekindle.frontends.spark_sql import collecting_groups
from rekindle.runtime.database import Database

NESTED = {
    "lists": "SELECT g, sort_array(collect_list(x)) AS xs, count(*) AS n FROM t GROUP BY g",
    "sets": "SELECT g, sort_array(collect_set(x)) AS xs, sort_array(collect_set(d)) AS ds, "
    "sort_array(array_agg(s) FILTER (WHERE x > 0)) AS ss, sum(x) AS m FROM t "
    "GROUP BY g HAVING count(*) > 1 ORDER BY g",
    "structs": "SELECT g + 1 AS h, sort_array(collect_list(struct(x, s))) AS e FROM t "
    "GROUP BY g + 1",
    "one_group": "SELECT sort_array(collect_list(x)) AS xs, "
    "sort_array(collect_list(DISTINCT s)) AS u FROM t",
    "rollup": "WITH w AS (SELECT * FROM t WHERE x IS NULL OR x < 100) "
    "SELECT g, s, sort_array(collect_list(d)) AS n FROM w GROUP BY ROLLUP (g, s)",
    "with_nulls": "SELECT d, sort_array(collect_list(x) RESPECT NULLS) AS xs FROM t GROUP BY d",
    "chosen": "SELECT n, ys FROM (SELECT g, count(*) AS n, sort_array(collect_list(s)) AS ys, "
    "size(collect_list(x)) AS k FROM t GROUP BY g) WHERE n > 0",
}

STEPS = (
    "INSERT INTO t VALUES (1, 5, 'z', NULL), (2, 2, NULL, 1.0), (7, NULL, NULL, NULL)",
    "DELETE FROM t WHERE g = 1 AND x = 1",
    "UPDATE t SET g = 9, s = 'new' WHERE g = 2",
    "DELETE FROM t WHERE g = 9 OR g IS NULL",
    "DELETE FROM t",
    "INSERT INTO t VALUES (1, 5, 'z', -0.0)",
)


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    database = rekindle.connect(str(tmp_path / "warehouse"), spark=spark)
    database.sql("CREATE TABLE t (g INT, x INT, s STRING, d DOUBLE)")
    database.sql(
        "INSERT INTO t VALUES (1, 1, 'a', 0.0), (1, 1, 'a', -0.0), (1, NULL, 'b', 1.0), "
        "(2, NULL, NULL, NULL), (NULL, 3, 'c', 2.0)"
    )
    yield database
    database.close()


def bag(frame: Any) -> Counter[str]:
    return Counter(map(repr, frame.collect()))


def summed(feed: Any, total: Counter[str]) -> None:
    for row in feed.collect():
        values = row.asDict()
        weight = values.pop("_weight")
        values.pop("_epoch")
        total[repr(tuple(values.values()))] += weight


def contents(frame: Any) -> dict[str, int]:
    return dict(Counter(repr(tuple(row)) for row in frame.collect()))


def test_they_are_equal_to_spark_after_every_step(db: Database, spark: SparkSession) -> None:
    for name, query in NESTED.items():
        db.create_view(name, query)
        assert len(db.shredded(name)) > 1, name
    totals: dict[str, Counter[str]] = {name: Counter() for name in ("sets",)}
    seen = 0
    for statement in (None, *STEPS):
        if statement is not None:
            db.sql(statement)
        db.table("t").createOrReplaceTempView("t")
        for name, query in NESTED.items():
            assert bag(db.table(name)) == bag(spark.sql(query)), (statement, name)
        for name, total in totals.items():
            summed(db.changes(name, since=seen), total)
            left = {row: n for row, n in total.items() if n}
            assert left == contents(db.table(name)), (statement, name)
        seen = db.epoch
    for name in NESTED:
        db.check(name)
    whole: Counter[str] = Counter()
    summed(db.changes("sets"), whole)
    assert {row: n for row, n in whole.items() if n} == contents(db.table("sets"))


def test_they_are_found_again(spark: SparkSession, db: Database, tmp_path: Path) -> None:
    db.create_view("lists", NESTED["lists"])
    frame = db.table("t").groupBy("g").agg(F.collect_list("x").alias("xs"), F.max("d").alias("m"))
    db.create_view("frames", frame)
    db.create_view("elements", "SELECT g, e FROM lists LATERAL VIEW explode(xs) AS e")
    assert "collect_list" not in str(db.explain("elements"))
    assert list(db.shredded("frames")) == ["", "xs"]
    db.close()
    with rekindle.connect(str(tmp_path / "warehouse"), spark=spark) as again:
        again.sql("INSERT INTO t VALUES (1, 8, 'y', NULL), (4, 4, NULL, 0.0)")
        for name in ("lists", "frames", "elements"):
            again.check(name)
        again.upgrade()
        again.sql("DELETE FROM t WHERE x = 8")
        for name in ("lists", "frames", "elements"):
            again.check(name)


def test_an_element_costs_the_same_in_a_large_group(db: Database) -> None:
    db.sql("CREATE TABLE many (g INT, x INT)")
    rows = [(1, i) for i in range(10)] + [(2, i) for i in range(10_000)]
    with db.transaction() as tx:
        tx.insert("many", rows)
    db.create_view(
        "collected", "SELECT g, collect_list(x) AS xs, count(*) AS n FROM many GROUP BY g"
    )
    touched = []
    for g in (1, 2):
        db.sql(f"INSERT INTO many VALUES ({g}, 7)")
        assert db.last_step is not None
        steps = db.last_step.nodes.values()
        touched.append((sum(s.rows_in for s in steps), sum(s.rows_out for s in steps)))
    assert touched[0] == touched[1]
    assert max(touched[1]) < 20
    db.check("collected")


def test_what_is_collected_elsewhere_is_compared_as_a_bag(db: Database) -> None:
    db.create_view(
        "joined",
        "SELECT a.g, a.xs, b.ys FROM (SELECT g, collect_list(x) AS xs FROM t GROUP BY g) a "
        "JOIN (SELECT g, collect_set(x) AS ys FROM t GROUP BY g) b ON a.g = b.g",
    )
    db.create_view("over", "SELECT g, x, collect_list(x) OVER (PARTITION BY g) AS xs FROM t")
    for i in range(3):
        rows = ", ".join(f"({k % 3}, {(k * 7 + i) % 11}, NULL, NULL)" for k in range(20))
        db.sql(f"INSERT INTO t VALUES {rows}")
        db.check("joined")
        db.check("over")


def test_a_planted_bug_is_caught(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A set is not told from a list."""
    with monkeypatch.context() as patched:
        patched.setattr(collecting_groups, "_is_distinct", lambda call: False)
        db.create_view("wrong", "SELECT g, collect_set(x) AS xs FROM t GROUP BY g")
    with pytest.raises(CheckError):
        db.check("wrong")


def test_columns_without_a_name_of_their_own(db: Database) -> None:
    db.create_view("bare", "SELECT g, collect_list(x + 1), collect_list(x / 2) FROM t GROUP BY g")
    assert list(db.shredded("bare")) == ["", "collect_list((x + 1))"]
    db.sql(STEPS[0])
    db.check("bare")
    total: Counter[str] = Counter()
    summed(db.changes("bare"), total)
    assert {row: n for row, n in total.items() if n} == contents(db.table("bare"))


def test_a_view_can_be_replaced_by_one_that_collects(db: Database) -> None:
    db.create_view("v", "SELECT g, count(*) AS n FROM t GROUP BY g")
    db.sql(
        "CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT g, collect_list(x) AS n FROM t GROUP BY g"
    )
    assert list(db.shredded("v")) == ["", "n"]
    db.sql(STEPS[0])
    db.check("v")
    db.replace_view("v", "SELECT g, sum(x) AS n FROM t GROUP BY g")
    assert list(db.shredded("v")) == [""]
    db.sql(STEPS[1])
    db.check("v")
