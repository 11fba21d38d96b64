"""The mode from the numbers of its values: ties as Spark decides them, and no group is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.aggregates import AggregateFunction
from rekindle.calculus.bodies import Measures
from rekindle.calculus.terms import TopRows
from rekindle.circuit.nodes import GroupMap
from rekindle.runtime.database import Database
from tests.spark.helpers import collected, follow_groups, rows_of_groups_read

VALUES = {
    "tinyint": ["-128", "127", "0", "-128"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "9223372036854775807", "0"],
    "boolean": ["true", "false", "false", "true"],
    "string": ["'longer than eight a'", "'longer than eight b'", "''", "'é'"],
    "decimal(38,2)": ["-1.5", "1.25", "99999999999999.99", "-1.5"],
    "date": ["'2026-01-01'", "'1066-10-14'", "'9999-12-31'", "'1066-10-14'"],
    "timestamp": ["'2026-01-01 00:00:01'", "'1970-01-01'", "'1970-01-01'", "'1900-01-01'"],
    "interval day to second": ["interval '1' day", "interval '-1' day", "interval '1' day"],
}
MEASURES = (
    "mode(x, true)",
    "mode() WITHIN GROUP (ORDER BY x)",
    "mode() WITHIN GROUP (ORDER BY x DESC)",
    "mode(x, true) FILTER (WHERE n > 1)",
)
STEPS = (
    "INSERT INTO t SELECT n + 10, k, x FROM t WHERE n IN (1, 2)",
    "DELETE FROM t WHERE n IN (0, 12)",
    "DELETE FROM t WHERE x IS NOT NULL AND k = 1",
    "INSERT INTO t SELECT n + 20, 1, x FROM t",
    "INSERT INTO t VALUES (50, 3, NULL), (51, 3, NULL), (52, NULL, NULL)",
    "DELETE FROM t WHERE n = 51",
    "DELETE FROM t WHERE k = 2",
    "DELETE FROM t",
    "INSERT INTO t VALUES (60, 3, NULL)",
)


@pytest.mark.parametrize("type_", VALUES)
def test_modes_are_those_of_spark(db: Database, type_: str) -> None:
    _follow(db, type_, STEPS[:3])


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_groups_lose_their_values_and_come_back(db: Database, placement: str) -> None:
    db.place(placement)
    _follow(db, "bigint", STEPS if placement == "inline" else STEPS[1:5])


def _follow(db: Database, type_: str, steps: Sequence[str]) -> None:
    measures = ", ".join(f"{measure} AS m{i}" for i, measure in enumerate(MEASURES))
    views = {
        "keyed": f"SELECT k, {measures}, count(x) AS c FROM t GROUP BY k",
        "whole": f"SELECT {measures}, size(collect_list(n)) AS c FROM t",
    }
    follow_groups(db, type_, VALUES[type_], views, steps)
    assert set(_functions(db)) == {
        AggregateFunction.MODE,
        AggregateFunction.MODE_DESCENDING,
        AggregateFunction.OTHER,
    }


def _functions(db: Database) -> list[AggregateFunction]:
    bodies = [n for n in db._engine.circuit.nodes.values() if isinstance(n, GroupMap)]
    found = []
    for node in bodies:
        assert isinstance(node.body, Measures)
        for measure in node.body.measures:
            found.append(measure.function)
            if measure.function is not AggregateFunction.OTHER:
                assert isinstance(node.reach, TopRows) and node.reach.rows == 1
    return found


@pytest.mark.parametrize("keys", ["", "k, "])
def test_a_large_group_is_not_read(
    db: Database, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 6: thousands of values are equally frequent, and a changed one costs a few of them."""
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.sql("INSERT INTO t SELECT 1, id FROM range(5000)")
    by = " GROUP BY k" if keys else ""
    db.create_view("v", f"SELECT {keys}mode(x, true) AS m FROM t{by}")
    read = rows_of_groups_read(monkeypatch)
    for statement, wanted in (
        ("INSERT INTO t VALUES (1, 7)", 7),
        ("INSERT INTO t VALUES (1, 4), (1, -9)", 4),
        ("DELETE FROM t WHERE x = 4", 7),
        ("DELETE FROM t WHERE x = 7", -9),
    ):
        read.clear()
        db.sql(statement)
        assert read and sum(read) <= 12
        assert [row["m"] for row in db.table("v").collect()] == [wanted]
        assert collected(db.table("v")) == collected(db.recompute("v"))


def test_modes_are_kept_over_a_reopening(tmp_path: Path, spark: SparkSession) -> None:
    path = str(tmp_path / "w")
    with rekindle.connect(path, spark) as db:
        db.sql("CREATE TABLE t (k INT, x STRING)")
        db.create_view("v", db.table("t").groupBy("k").agg(F.mode("x", True).alias("m")))
        db.sql("INSERT INTO t VALUES (1, 'b'), (1, 'a'), (1, 'b'), (2, NULL)")
    with rekindle.connect(path, spark) as db:
        db.sql("DELETE FROM t WHERE x = 'b'")
        assert db.last_step is not None
        assert not any(node.rebuilt for node in db.last_step.nodes.values())
        assert {tuple(row) for row in db.table("v").collect()} == {(1, "a"), (2, None)}
        db.check("v")
        db.verify()


OTHERS = (
    "mode(x)",
    "mode(CAST(x AS DOUBLE), true)",
    "mode(array(x), true)",
)


@pytest.mark.parametrize("measure", OTHERS)
def test_what_numbers_cannot_say_is_computed_from_the_group(db: Database, measure: str) -> None:
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.create_view("v", f"SELECT k, {measure} AS m FROM t GROUP BY k")
    assert _functions(db) == [AggregateFunction.OTHER]
    # No ties: of those Spark may take any.
    for statement in (
        "INSERT INTO t VALUES (1, 5), (1, 5), (1, 7), (2, NULL), (2, 1)",
        "DELETE FROM t WHERE x = 7",
    ):
        db.sql(statement)
        assert collected(db.table("v")) == collected(db.recompute("v"))


def test_a_mode_inside_a_recursion_is_of_all_its_rows(db: Database) -> None:
    """There groups come and go with the iterations, and their values are not counted."""
    db.sql("CREATE TABLE start (n INT, v INT)")
    db.sql("CREATE TABLE edge (a INT, b INT)")
    start, edge = db.table("start"), db.table("edge")

    def flowing(reached):  # type: ignore[no-untyped-def]
        into = reached.join(edge, reached.n == F.col("a")).groupBy("b")
        return start.union(into.agg(F.mode("v", True).alias("v")))

    db.create_view("v", rekindle.fixpoint(start, flowing, iterations=20))
    for statement in (
        "INSERT INTO start VALUES (1, 4), (2, 6), (3, 6)",
        "INSERT INTO edge VALUES (1, 4), (2, 4), (3, 4), (4, 5), (4, 6), (5, 6)",
        "DELETE FROM start WHERE n = 3",
    ):
        db.sql(statement)
        db.check("v")
