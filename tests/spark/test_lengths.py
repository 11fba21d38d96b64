"""CHAR(n) and VARCHAR(n), against Spark's own tables of such columns."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.calculus.schema import Field, Schema
from rekindle.circuit.nodes import Table
from rekindle.errors import RowError
from rekindle.runtime.lengths import fitted, fitted_column
from tests.property.oracle import collected
from tests.spark.helpers import refused, rows

COLUMNS = "id INT, c CHAR(3), d CHAR(5), v VARCHAR(3), s STRING"
ROWS = [
    (1, "a", "a", "a", "a"),
    (2, "ab   ", "ab", "ab   ", "ab "),
    (3, "äöü", "äöü", "", "äöü"),
    (4, None, None, None, None),
    (5, "   ", "", "abc ", ""),
]
QUERIES = {
    "whole": "SELECT * FROM t",
    "literal": "SELECT id FROM t WHERE c = 'a' OR d = 'ab'",
    "listed": "SELECT id FROM t WHERE c IN ('ab', 'a', 'x')",
    "both": "SELECT id FROM t WHERE c = d",
    "texts": "SELECT id, c = s AS plain, v = s AS varied, length(c) AS n, c || '.' AS dot FROM t",
    "grouped": "SELECT c, count(*) AS n, min(d) AS m FROM t GROUP BY c",
    "joined": "SELECT x.id, y.id AS other FROM t x JOIN t y ON x.c = y.d",
}
TABLE = Table(
    "t", Schema((Field("c", "string"), Field("v", "string"))), (), "", {0: 3, 1: 3}, frozenset({0})
)


def test_columns_compare_as_those_of_a_spark_table(
    warehouse: str, spark: SparkSession, tmp_path: Path
) -> None:
    spark.sql(f"CREATE TABLE spark_t ({COLUMNS}) USING parquet LOCATION '{tmp_path}/t'")
    try:
        with rekindle.connect(warehouse, spark=spark) as db:
            db.sql(f"CREATE TABLE t ({COLUMNS})")
            for view, query in QUERIES.items():
                db.create_view(view, query)
            with db.transaction() as tx:
                tx.insert("t", ROWS[:3])
        with rekindle.connect(warehouse, spark=spark) as db:
            for row in ROWS[3:]:
                db.sql("INSERT INTO t VALUES ({}, {}, {}, {}, {})".format(*map(_sql, row)))
            values = ", ".join(f"({', '.join(map(_sql, row))})" for row in ROWS)
            spark.sql(f"INSERT INTO spark_t VALUES {values}")
            for view, query in QUERIES.items():
                expected = collected(
                    spark.sql(
                        query.replace("FROM t", "FROM spark_t t")
                        .replace("spark_t t x", "spark_t x")
                        .replace("JOIN t y", "JOIN spark_t y")
                    )
                )
                assert rows(db, view) == expected, view
                assert rows(db, view) == collected(db.recompute(view)), view
            described = db.sql("DESCRIBE t").collect()
            assert [row.type for row in described[1:4]] == ["char(3)", "char(5)", "varchar(3)"]
    finally:
        spark.sql("DROP TABLE spark_t")


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_a_text_fills_its_column_on_every_way_in(
    warehouse: str, spark: SparkSession, placement: str
) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.place(placement)
        db.sql("CREATE TABLE t (id INT, c CHAR(3), PRIMARY KEY (c))")
        with db.transaction() as tx:
            tx.insert("t", [(1, "a"), (2, "b")])
        db.sql("UPDATE t SET id = 3 WHERE c = 'a'")
        assert rows(db, "t") == {(3, "a  "): 1, (2, "b  "): 1}
        with refused(db, RowError, "'c' of 't' is CHAR(3)", "'four'"):
            db.sql("INSERT INTO t VALUES (4, 'four')")
        with db.transaction() as tx:
            tx.delete("t", [(3, "a")])
            tx.upsert("t", [(5, "b ")])
        assert rows(db, "t") == {(5, "b  "): 1}


def test_both_ways_to_write_agree(spark: SparkSession) -> None:
    texts = ["", "a", "abc", "abc  ", "abcd", "ab d ", "  a", "ä  ", "äöüß", None]
    given = pa.table({"c": pa.array(texts, pa.string()), "v": pa.array(texts, pa.string())})
    frame = spark.createDataFrame(given)
    written = frame.select(
        fitted_column(F.col("c"), TABLE, 0).alias("c"),
        fitted_column(F.col("v"), TABLE, 1).alias("v"),
    )
    found = fitted(given, TABLE)
    assert written.toArrow().to_pylist() == found.to_pylist()
    assert found.column("c").to_pylist()[:5] == ["   ", "a  ", "abc", "abc", "abcd"]
    assert found.column("v").to_pylist()[:5] == ["", "a", "abc", "abc", "abcd"]


def _sql(value: object) -> str:
    return "NULL" if value is None else repr(value)
