"""Percentiles from the values at their ranks: every type, every corner, and no more rows read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import rekindle
from rekindle.calculus.terms import Quantiles
from rekindle.circuit.nodes import GroupMap
from rekindle.errors import EvaluationError
from rekindle.runtime.database import Database
from tests.spark.helpers import collected, follow_groups, rows_of_groups_read

VALUES = {
    "tinyint": ["-128", "0", "127", "5", "5"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "9223372036854775806", "0", "1"],
    "float": ["-1.5", "0.1", "1e30", "double('NaN')", "double('-Infinity')"],
    "double": ["-0.0", "0.0", "1e300", "double('NaN')", "double('NaN')", "double('Infinity')"],
    "decimal(18,4)": ["-1.5", "0", "99999999999999.9999", "-99999999999999.9999", "1.25"],
    "interval day to second": ["interval '1' day", "interval '-1' day", "interval '0' day"],
    "interval year to month": ["interval '1' year", "interval '-1' month", "interval '3' month"],
}
MEASURES = (
    "percentile(x, 0.5)",
    "percentile(x, array(0.0, 0.37, 1.0))",
    "percentile(x, 0.9) FILTER (WHERE n > 1)",
    "median(x)",
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY x)",
    "percentile_cont(0.25) WITHIN GROUP (ORDER BY x DESC)",
)
STEPS = (
    "DELETE FROM t WHERE n IN (0, 2)",
    "DELETE FROM t WHERE x IS NOT NULL AND k = 1",
    "INSERT INTO t SELECT n + 10, 1, x FROM t",
    "INSERT INTO t VALUES (50, 3, NULL), (51, 3, NULL)",
    "DELETE FROM t WHERE n = 51",
    "DELETE FROM t WHERE k = 2",
    "DELETE FROM t",
    "INSERT INTO t VALUES (60, 3, NULL)",
)


@pytest.mark.parametrize("type_", VALUES)
def test_percentiles_are_those_of_spark(db: Database, type_: str) -> None:
    _follow(db, type_, STEPS[:2])


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_groups_lose_their_values_and_come_back(db: Database, placement: str) -> None:
    db.place(placement)
    _follow(db, "double", STEPS if placement == "inline" else STEPS[1:5])


def _follow(db: Database, type_: str, steps: Sequence[str]) -> None:
    # Arrays of months cannot be stored.
    chosen = [m for m in MEASURES if "month" not in type_ or "array" not in m]
    measures = ", ".join(f"{measure} AS m{i}" for i, measure in enumerate(chosen))
    views = {
        "keyed": f"SELECT k, {measures}, count(x) AS c FROM t GROUP BY k",
        "whole": f"SELECT {measures} FROM t",
    }
    follow_groups(db, type_, VALUES[type_], views, steps)
    assert {type(reach) for reach in _reaches(db)} == {Quantiles}


def _reaches(db: Database) -> list[Any]:
    return [n.reach for n in db._engine.circuit.nodes.values() if isinstance(n, GroupMap)]


@pytest.mark.parametrize("keys", ["", "k, "])
def test_a_large_group_is_not_read(
    db: Database, keys: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 6: one changed row costs two values of its group of thousands, at either moment."""
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.sql("INSERT INTO t SELECT 1, id FROM range(5000)")
    by = " GROUP BY k" if keys else ""
    db.create_view("v", f"SELECT {keys}median(x) AS m, percentile(x, 0.99) AS p FROM t{by}")
    read = rows_of_groups_read(monkeypatch)
    for statement in ("INSERT INTO t VALUES (1, -7)", "DELETE FROM t WHERE x = -7"):
        read.clear()
        db.sql(statement)
        assert len(read) == 1 and read[0] <= 8
        assert collected(db.table("v")) == collected(db.recompute("v"))


def test_percentiles_of_one_column_are_found_together(db: Database) -> None:
    db.sql("CREATE TABLE t (k INT, x INT, y INT)")
    db.create_view(
        "v", "SELECT k, median(x) a, percentile(x, 0.9) b, median(y) c FROM t GROUP BY k"
    )
    assert sorted(reach.fractions for reach in _reaches(db)) == [(0.5,), (0.5, 0.9)]


def test_explain_says_which_values_decide(db: Database) -> None:
    db.sql("CREATE TABLE t (x INT)")
    db.create_view("v", "SELECT percentile(x, array(0.5, 0.95)) AS p FROM t")
    assert "from the values at 0.5, 0.95 of the one group, in order" in str(db.explain("v"))


OTHERS = (
    "percentile_disc(0.5) WITHIN GROUP (ORDER BY x)",
    "percentile(DISTINCT x, 0.5)",
    "percentile(x, 0.5, k)",
    "percentile(CAST(x AS DECIMAL(38, 2)), 0.5)",
)


@pytest.mark.parametrize("measure", OTHERS)
def test_what_ranks_cannot_say_is_computed_from_the_group(db: Database, measure: str) -> None:
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.create_view("v", f"SELECT k, {measure} AS m FROM t GROUP BY k")
    for statement in (
        "INSERT INTO t VALUES (1, 5), (1, 5), (1, 7), (2, NULL), (2, 1)",
        "DELETE FROM t WHERE x = 7",
    ):
        db.sql(statement)
        assert collected(db.table("v")) == collected(db.recompute("v"))


def test_a_frequency_below_zero_is_sparks_error(db: Database) -> None:
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.create_view("v", "SELECT percentile(x, 0.5, k) AS m FROM t")
    with pytest.raises(EvaluationError):
        db.sql("INSERT INTO t VALUES (-1, 5)")
    assert db.table("t").count() == 0


def test_a_median_inside_a_recursion_is_of_all_its_rows(db: Database) -> None:
    """There groups come and go with the iterations, and have no ranks to be found at."""
    db.sql("CREATE TABLE start (n INT, v DOUBLE)")
    db.sql("CREATE TABLE edge (a INT, b INT)")

    def flowing(reached: DataFrame) -> DataFrame:
        into = reached.join(db.table("edge"), reached.n == F.col("a")).groupBy("b")
        return db.table("start").union(into.agg(F.median("v").alias("v")))

    db.create_view("v", rekindle.fixpoint(db.table("start"), flowing, iterations=20))
    for statement in (
        "INSERT INTO start VALUES (1, 4), (2, 6), (3, 9)",
        "INSERT INTO edge VALUES (1, 4), (2, 4), (3, 4), (4, 5), (4, 6), (5, 6)",
        "DELETE FROM start WHERE n = 3",
        "DELETE FROM edge WHERE a = 2",
    ):
        db.sql(statement)
        db.check("v")
