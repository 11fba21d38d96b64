"""What was written is given back, and makes the same again; values stand apart from the text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import DefinitionError, StatementError, UnknownNameError
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, rows

TABLE = """CREATE TABLE t (
  id bigint NOT NULL COMMENT 'it\\'s',
  `a b` varchar(3),
  s STRUCT<a: INT, `x y`: DECIMAL(10,2)>,
  z int COMMENT 'later',
  PRIMARY KEY (id)
) COMMENT 'so; it -- is'"""
VIEW = """CREATE MATERIALIZED VIEW v COMMENT 'how ''many' OPTIONS (policy = 'first_order') AS
SELECT id, -- by id
       count(*) AS n FROM t GROUP BY id"""


def test_definitions_come_back(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql(TABLE.replace("  z int COMMENT 'later',\n", ""))
        db.sql("ALTER TABLE t ADD COLUMN z INT COMMENT 'later'")
        db.sql(VIEW)
        db.create_view("w", "SELECT id FROM t", incremental="required", comment="c")
        db.create_view("frame", db.table("t").select("id"))
        step = lambda x: x.unionByName(x).distinct()  # noqa: E731
        db.create_view("fix", rekindle.fixpoint(db.table("t").select("id"), step, iterations=9))
        db.datalog("p(x) :- t(x, _, _, _). q(x) :- p(x). q(y) :- q(x), y = x + 1, y < 3.")
        db.create_model("m", "SELECT id, z FROM t", label="z", features=["id"])
        texts = {name: db.definition(name) for name in [*db.tables, *db.views]}
    with rekindle.connect(warehouse, spark=spark) as db:
        assert {name: db.definition(name) for name in [*db.tables, *db.views]} == texts
        assert db.sql("SHOW CREATE TABLE V").collect()[0].createtab_stmt == texts["v"]
        assert db.sql("SHOW CREATE MATERIALIZED VIEW v").collect() == [(texts["v"],)]
        assert db.sql("show create table t;").collect() == [(TABLE,)]
        with pytest.raises(UnknownNameError, match="nosuch"):
            db.sql("SHOW CREATE VIEW nosuch")
        with pytest.raises(StatementError, match="SHOW"):
            db.sql("SHOW CREATE TABLE t AS SERDE")
    assert texts["t"] == TABLE
    assert texts["v"].replace("\\'", "''") == VIEW
    assert texts["w"] == (
        "CREATE MATERIALIZED VIEW w COMMENT 'c' OPTIONS (incremental = 'required') AS\n"
        "SELECT id FROM t"
    )
    assert texts["q"] == texts["p"] and texts["p"].startswith("DATALOG\np(x) :- t(x, _, _, _).")
    assert "frame is defined by a DataFrame over t" in texts["frame"]
    assert "fixpoint" in texts["fix"] and "9 iterations" in texts["fix"]
    assert texts["m"] == (
        "db.create_model('m', 'SELECT id, z FROM t', label='z', features=['id'], kind='linear')"
    )


def test_a_definition_makes_the_same_again(db: Database) -> None:
    db.sql(TABLE)
    db.sql(VIEW)
    texts = {name: db.definition(name) for name in ("t", "v")}
    db.sql("DROP VIEW v")
    db.sql("DROP TABLE t")
    for text in texts.values():
        db.sql(text)
    assert {name: db.definition(name) for name in ("t", "v")} == texts


def test_parameters(db: Database) -> None:
    db.sql("CREATE TABLE t (id BIGINT, s STRING, d DECIMAL(6,2), at TIMESTAMP, PRIMARY KEY (id))")
    at = dt.datetime(2026, 1, 2, 3, 4, 5)
    odd = "it's \\ \"\n; -- :id ? `"
    given: dict[str, Any] = {"id": 1, "s": odd, "d": Decimal("1.50"), "at": at}
    db.sql("INSERT INTO t VALUES (:id, :s, :d, :at), (2, NULL, :d, NULL)", given)
    assert db.sql("SELECT s, d FROM t WHERE id = :id AND at = :at", given).collect() == [
        (odd, Decimal("1.50"))
    ]
    db.sql("UPDATE t SET s = ? WHERE id = ?", ["x", 1])
    db.sql("DELETE FROM t WHERE id = ?", (2,))
    db.sql(
        "MERGE INTO t USING (SELECT :k AS id) q ON t.id = q.id "
        "WHEN NOT MATCHED THEN INSERT (id, s) VALUES (q.id, :s)",
        args={"k": 3, "s": "?"},
    )
    assert rows(db, "t") == bag([(1, "x", Decimal("1.50"), at), (3, "?", None, None)])
    found = db.sql("SELECT :m AS m, ':m' AS t", {"m": F.create_map(F.lit("a"), F.lit(1))})
    assert found.collect() == [({"a": 1}, ":m")]


def test_parameters_that_are_refused(db: Database) -> None:
    cases: list[tuple[str, Any, str]] = [
        ("SELECT :x", {"y": 1}, "unbound parameter: x"),
        ("SELECT ?", None, "unbound parameter"),
        ("SELECT ?, :x", [1], "not both"),
        ("SELECT ?", [object()], "number 1"),
        ("SELECT :x", {"x": F.col("a")}, ":x"),
        ("SELECT :x", {"x": F.rand()}, "not a constant"),
        ("SELECT :x", {1: 1}, "1 is not the name"),
        ("SELECT ?", "a", "a dict"),
        ("CREATE MATERIALIZED VIEW v AS SELECT :x AS x", {"x": 1}, "takes no parameters"),
        ("DATALOG p(1).", [1], "takes no parameters"),
    ]
    for text, args, word in cases:
        with pytest.raises(StatementError) as caught:
            db.sql(text, args)
        assert word in str(caught.value)
    assert db.epoch == 0


def test_arguments_that_are_no_names(db: Database) -> None:
    with pytest.raises(DefinitionError, match="a list of names"):
        db.create_table("t", "id INT", primary_key="id")
    with pytest.raises(DefinitionError, match="a text, not a int"):
        db.create_view(5, "SELECT 1 AS a")  # type: ignore[arg-type]
    with pytest.raises(DefinitionError, match="not a name"):
        db.create_table("a\nb", "id INT")
    with pytest.raises(UnknownNameError, match="unknown table or view 5"):
        db.table(5)  # type: ignore[arg-type]
