"""Every aggregate that the reference names, and Python ones, under inserts and deletes."""

from __future__ import annotations

from datetime import timedelta

import pytest
from pyspark.sql import functions as F

from rekindle.errors import EvaluationError
from rekindle.runtime.database import Database
from tests.property.oracle import bag
from tests.spark.helpers import refused, rows

CALLS = [
    "count(x)", "count_if(x > 1)", "sum(x)", "avg(x)", "var_samp(x)", "stddev_pop(x)",
    "covar_samp(x, n)", "corr(x, n)", "bool_and(x > 0)", "some(x > 3)", "min(x)", "max(s)",
    "min_by(s, n)", "max_by(s, n)", "count(DISTINCT s)", "sum(DISTINCT x)", "avg(DISTINCT x)",
    "sort_array(collect_set(x))", "sort_array(collect_list(DISTINCT s))", "percentile(x, 0.25)",
    "median(x)", "mode() WITHIN GROUP (ORDER BY x)", "listagg(s, ',') WITHIN GROUP (ORDER BY n)",
    "percentile_cont(0.5) WITHIN GROUP (ORDER BY x)", "approx_percentile(x, 0.5)",
    "approx_count_distinct(s)", "bit_and(x)", "bit_or(x)", "bit_xor(x)", "round(skewness(x), 6)",
    "round(kurtosis(x), 6)", "round(regr_slope(x, n), 6)", "round(regr_r2(x, n), 6)",
    "regr_count(x, n)", "try_sum(x)", "try_avg(x)", "sum(make_dt_interval(x))",
    "max(x) FILTER (WHERE n > 2)", "count(DISTINCT x) FILTER (WHERE n > 2)",
    "sum(x) FILTER (WHERE n > 2)",
]  # fmt: skip


@pytest.mark.parametrize("grouping", ["GROUP BY k", ""])
def test_every_aggregate_follows_changes(db: Database, grouping: str) -> None:
    db.sql("CREATE TABLE t (k INT, n INT, x INT, s STRING)")
    key = "k, " if grouping else ""
    views = []
    for i, part in enumerate([CALLS[start : start + 7] for start in range(0, len(CALLS), 7)]):
        columns = ", ".join(f"{call} AS a{j}" for j, call in enumerate(part))
        views.append(f"v{i}")
        db.create_view(f"v{i}", f"SELECT {key}{columns} FROM t {grouping}")
    _agree(db, views)
    db.sql("INSERT INTO t VALUES (1, 1, 5, 'a'), (1, 2, NULL, 'b'), (2, 3, 7, NULL)")
    _agree(db, views)
    db.sql("INSERT INTO t VALUES (1, 5, 5, 'c'), (NULL, 6, 4, 'd'), (2, 7, 1, 'e')")
    db.sql("DELETE FROM t WHERE n IN (1, 3)")
    _agree(db, views)
    db.sql("DELETE FROM t")
    _agree(db, views)


def _agree(db: Database, views: list[str]) -> None:
    for view in views:
        db.check(view)


def test_a_python_aggregate_follows_changes(db: Database) -> None:
    spread = F.pandas_udf(_spread, "double", F.PandasUDFType.GROUPED_AGG)  # type: ignore[call-overload]
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.sql("INSERT INTO t VALUES (1, 5), (1, 2), (2, 7)")
    db.create_view("v", db.table("t").groupBy("k").agg(spread("x").alias("spread")))
    db.sql("INSERT INTO t VALUES (1, 9)")
    db.sql("DELETE FROM t WHERE k = 2")
    assert rows(db, "v") == bag([(1, 7.0)])


def _spread(values):  # type: ignore[no-untyped-def]
    return float(values.max() - values.min())


def test_sums_of_intervals_in_several_groups(db: Database) -> None:
    """An interval is a number of 32 or 64 bits, and so is the sum of one."""
    db.sql("CREATE TABLE t (k INT, m INTERVAL YEAR TO MONTH, d INTERVAL DAY TO SECOND)")
    shown = ", ".join(f"CAST({f}({c}) AS STRING) AS {f}_{c}" for f in ("sum", "avg") for c in "md")
    db.create_view("each", f"SELECT k, {shown} FROM t GROUP BY k")
    db.create_view("total", f"SELECT {shown} FROM t")
    day = timedelta(days=1, microseconds=7)
    rows = [
        (1, -13, day),
        (1, None, -day),
        (2, 14, None),
        (2, 14, day),
        (3, None, None),
        (4, 5, day),
    ]
    with db.transaction() as tx:
        tx.insert("t", rows)
    for gone in rows[::2]:
        for view in db.views:
            db.check(view)
        with db.transaction() as tx:
            tx.delete("t", [gone])
    for view in db.views:
        db.check(view)
    with refused(db, EvaluationError, "ARITHMETIC_OVERFLOW"), db.transaction() as tx:
        tx.insert("t", [(2, 2**31 - 1, None)])
