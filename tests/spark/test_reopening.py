"""Expressions that differ only in their columns, or whose they are, stay apart after reopening.

Equal parts of a stored term are one object when it is read back, and Spark tells columns and
results apart by ids that the object carries.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.runtime.database import Database
from tests.spark.test_aggregates import CALLS

COLUMNS = "k INT, n INT, x INT, s STRING, m INT, y INT, t STRING, a ARRAY<INT>, b ARRAY<INT>"
OTHERS = {"n": "m", "x": "y", "s": "t"}
QUERIES = {
    "windows": (
        "SELECT n, sum(x) OVER (PARTITION BY k ORDER BY n) AS p, "
        "sum(y) OVER (PARTITION BY k ORDER BY n) AS q FROM t"
    ),
    "two windows": (
        "SELECT n, median(x) OVER (PARTITION BY k) AS p, "
        "median(y) OVER (PARTITION BY k) AS q FROM t"
    ),
    "generators": (
        "SELECT n, p, q FROM t LATERAL VIEW OUTER explode(a) AS p "
        "LATERAL VIEW OUTER explode(b) AS q"
    ),
    "self join": "SELECT c.n, d.n AS o FROM t c JOIN t d ON lower(c.t) = lower(d.t)",
    "self join with a residual": (
        "SELECT c.n, d.n AS o FROM t c LEFT JOIN t d ON abs(c.k) = abs(d.k) AND c.n < d.n"
    ),
    "self semi join": (
        "SELECT n FROM t c "
        "WHERE EXISTS (SELECT 1 FROM t d WHERE abs(c.k) = abs(d.k) AND c.n <> d.n)"
    ),
    "subqueries": (
        "SELECT n, (SELECT median(x) FROM t) AS p, (SELECT median(y) FROM t) AS q FROM t"
    ),
}


def _again(call: str) -> str:
    """The call of other columns."""
    return re.sub(r"\b[nxs]\b", lambda found: OTHERS[found[0]], call)


def _changed(db: Database) -> None:
    db.sql(
        "INSERT INTO t VALUES (1, 5, 5, 'c', 3, 8, 'x', array(1, 2), array(7)), "
        "(1, 6, 4, 'd', 4, 2, 'y', array(), array(8, 9)), (2, 7, 1, 'e', 9, 9, 'z', NULL, array(3))"
    )
    db.sql("DELETE FROM t WHERE n IN (1, 7)")


def _filled(db: Database) -> None:
    db.sql(f"CREATE TABLE t ({COLUMNS})")
    db.sql(
        "INSERT INTO t VALUES (1, 1, 5, 'a', 6, 1, 'p', array(1), array(2)), "
        "(1, 2, NULL, 'b', 7, 3, 'q', array(4, 4), NULL), (2, 3, 7, NULL, NULL, 2, 'r', NULL, NULL)"
    )


def test_aggregates(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        _filled(db)
        for i, part in enumerate([CALLS[start : start + 5] for start in range(0, len(CALLS), 5)]):
            both = [call for one in part for call in (one, _again(one))]
            columns = ", ".join(f"{call} AS a{j}" for j, call in enumerate(both))
            db.create_view(f"v{i}", f"SELECT k, {columns} FROM t GROUP BY k")
    _check_after_reopening(warehouse, spark)


def test_queries(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        _filled(db)
        for name, query in QUERIES.items():
            db.create_view(name, query)
    _check_after_reopening(warehouse, spark)


def _spread(x):  # type: ignore[no-untyped-def]
    return float(x.max() - x.min())


def _doubled(x):  # type: ignore[no-untyped-def]
    return None if x is None else 2 * x


def _by_functions(t: DataFrame) -> DataFrame:
    doubled: Callable[[str], Column] = F.udf(_doubled, "int")
    return t.select("n", doubled("x").alias("p"), doubled("y").alias("q"))


def _by_aggregates(t: DataFrame) -> DataFrame:
    spread = F.pandas_udf(_spread, "double", F.PandasUDFType.GROUPED_AGG)  # type: ignore[call-overload]
    return t.groupBy("k").agg(spread("n").alias("p"), spread("y").alias("q"))


def test_python_functions(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        _filled(db)
        for define in (_by_functions, _by_aggregates):
            db.create_view(define.__name__, define(db.table("t")))
    _check_after_reopening(warehouse, spark)


def _check_after_reopening(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        _changed(db)
        for view in db.views:
            db.check(view)
