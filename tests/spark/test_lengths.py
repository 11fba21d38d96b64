"""CHAR(n) and VARCHAR(n), against Spark's own tables of such columns."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.calculus.schema import Field, Schema
from rekindle.circuit.nodes import Table
from rekindle.errors import RowError
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.state import TableEntry, entry_from_json, entry_to_json
from rekindle.runtime.rows.lengths import fitted, fitted_column
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
    "t",
    Schema((Field("c", "string"), Field("v", "string"))),
    (),
    "",
    {0: '"char(3)"', 1: '"varchar(3)"'},
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


NESTED = (
    "ARRAY<VARCHAR(3)>",
    "ARRAY<ARRAY<CHAR(3)>>",
    "MAP<VARCHAR(3), CHAR(2)>",
    "STRUCT<a: INT, b: VARCHAR(3), d: CHAR(2)>",
    "ARRAY<STRUCT<a: CHAR(2)>>",
)
NESTED_ROWS = [
    (
        1,
        ["a", None, "abc  "],
        [["a"], None, ["ab", "äö   "]],
        {"k  ": "v", "m": None},
        (1, "abc ", "x"),
        [("a",)],
    ),
    (2, None, None, None, None, None),
    (3, [], [[]], {}, (None, None, None), [None]),
]


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_lengths_inside_nested_values_are_sparks(
    warehouse: str, spark: SparkSession, tmp_path: Path, placement: str
) -> None:
    columns = "id INT, " + ", ".join(f"c{i} {type_}" for i, type_ in enumerate(NESTED))
    plain = re.sub(r"(VAR)?CHAR\(\d\)", "STRING", columns)
    spark.sql(f"CREATE TABLE spark_n ({columns}) USING parquet LOCATION '{tmp_path}/n'")
    try:
        with rekindle.connect(warehouse, spark=spark) as db:
            db.sql(f"CREATE TABLE t ({columns})")
            db.create_view("v", "SELECT id, c0, size(c2) AS n, c3 FROM t WHERE c3.b = 'abc'")
        with rekindle.connect(warehouse, spark=spark) as db:
            db.place(placement)
            frame = spark.createDataFrame(NESTED_ROWS, plain)
            frame.write.insertInto("spark_n")
            with db.transaction() as tx:
                tx.insert("t", frame if placement == "spark" else NESTED_ROWS[:2])
                if placement == "inline":
                    tx.insert("t", frame.where("id = 3"))
            assert rows(db, "t") == collected(spark.table("spark_n"))
            assert rows(db, "v") == collected(db.recompute("v"))
            assert sum(rows(db, "v").values()) == 1
            assert db.sql("DESCRIBE t").collect()[1].type == "ARRAY<VARCHAR(3)>"
            wrong = {
                "c0": "array('a', 'four')",
                "c1": "array(array('a'), array('b', 'four'))",
                "c2": "map('four', 'x')",
                "c3": "named_struct('a', 1, 'b', 'b', 'd', 'four')",
                "c4": "array(named_struct('a', 'x'), named_struct('a', 'four'))",
            }
            for column, value in wrong.items():
                with refused(db, RowError, f"'{column}' of 't' is", "row 1", "'four'"):
                    db.sql(f"INSERT INTO t (id, {column}) VALUES (4, {value})")
    finally:
        spark.sql("DROP TABLE spark_n")


def test_lengths_of_early_databases_are_read() -> None:
    schema = Schema((Field("id", "int"), Field("c", "string"), Field("v", "string")))
    now = entry_to_json(
        TableEntry("t", schema, (), "", "table-t", 1, {1: '"char(3)"', 2: '"varchar(5)"'})
    )
    early = {key: value for key, value in now.items() if key != "declared"}
    early |= {"lengths": [[1, 3], [2, 5]], "padded": [1]}
    assert entry_from_json(early) == entry_from_json(now)


def test_a_row_with_a_nested_text_that_is_too_long_is_named(db: Database) -> None:
    db.sql("CREATE TABLE t (id INT, c ARRAY<VARCHAR(3)>)")
    with refused(db, RowError, "'c' of 't' is ARRAY<VARCHAR(3)>", "row 2"), db.transaction() as tx:
        tx.insert("t", [(5, ["a"]), (6, ["b", "four"])])


def _sql(value: object) -> str:
    return "NULL" if value is None else repr(value)
