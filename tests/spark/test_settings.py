"""Settings of the session that may be others at every step: rows and keys stay what they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import SparkSession

from rekindle.runtime.database import Database
from tests.spark.helpers import bag, rows

VIEWS = {
    "grouped": "SELECT v, count(*) AS n FROM t GROUP BY v",
    "once": "SELECT DISTINCT v FROM t",
    "joined": "SELECT t.i, u.i AS j FROM t LEFT JOIN u ON t.v <=> u.v",
    "plain": "SELECT v, i FROM t",
}
TYPES = {
    "ARRAY<INT>": None,
    "STRUCT<p: DOUBLE, q: ARRAY<STRING>>": (1.0, None),
    "ARRAY<ARRAY<INT>>": [None, []],
}


@contextmanager
def _set(spark: SparkSession, name: str, value: str) -> Iterator[None]:
    before = spark.conf.get(name)
    spark.conf.set(name, value)
    try:
        yield
    finally:
        spark.conf.set(name, before)


@pytest.mark.parametrize("type_", TYPES)
@pytest.mark.parametrize(
    ("setting", "values"),
    [("spark.sql.ansi.enabled", "false true"), ("spark.sql.legacy.sizeOfNull", "true false")],
)
def test_rows_with_a_null_collection_are_the_same_under_all_settings(
    db: Database, spark: SparkSession, type_: str, setting: str, values: str
) -> None:
    """`size(NULL)` is -1 or NULL."""
    value = TYPES[type_]
    first, second = values.split()
    with _set(spark, "spark.sql.ansi.enabled", "false"):
        with _set(spark, setting, first):
            db.sql(f"CREATE TABLE t (i INT, v {type_})")
            db.sql(f"CREATE TABLE u (i INT, v {type_})")
            for name, query in VIEWS.items():
                db.create_view(name, query)
            with db.transaction() as tx:
                tx.insert("t", [(1, value), (2, value)])
                tx.insert("u", [(7, value)])
        with _set(spark, setting, second):
            with db.transaction() as tx:
                tx.insert("t", [(1, value)])
                tx.delete("t", [(2, value)])
            assert len(rows(db, "grouped")) == 1 and len(rows(db, "once")) == 1
            assert rows(db, "joined") == bag([(1, 7), (1, 7)])
            with db.transaction() as tx:
                tx.delete("u", [(7, value)])
            assert rows(db, "joined") == bag([(1, None), (1, None)])
            for name in VIEWS:
                db.check(name)


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_texts_with_long_offsets(db: Database, spark: SparkSession, placement: str) -> None:
    db.place(placement)
    db.sql("CREATE TABLE t (k INT, s STRING, b BINARY, l ARRAY<STRING>)")
    db.create_view("v", "SELECT s, count(*) AS n, max(upper(s)) AS m FROM t GROUP BY s")
    db.create_view("w", "SELECT k, sort_array(collect_list(s)) AS l, max(b) AS b FROM t GROUP BY k")
    with _set(spark, "spark.sql.execution.arrow.useLargeVarTypes", "true"):
        frame = spark.sql("SELECT 1 AS k, 'a' AS s, X'01' AS b, array('x', NULL) AS l")
        for given in (frame, frame.toArrow(), [(1, "a", b"\x01", ["x", None])]):
            with db.transaction() as tx:
                tx.insert("t", given)
        assert rows(db, "v") == bag([("a", 3, "A")])
        assert rows(db, "w") == bag([(1, ["a", "a", "a"], b"\x01")])
        db.sql("DELETE FROM t WHERE s = 'a'")
    assert rows(db, "v") == rows(db, "w") == bag([])
