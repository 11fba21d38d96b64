"""A database that changes its shape while it lives: columns, partitions, definitions."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import DefinitionError, StatementError
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, refused, rows, strays, weighted

VIEWS = {
    "everything": "SELECT * FROM t",
    "joined": "SELECT a.id, b.x FROM t a JOIN t b ON a.id = b.x",
    "counted": "SELECT x, count(*) AS n FROM t GROUP BY x",
    "over": "SELECT max(n) AS m FROM counted",
}


@pytest.fixture
def filled(db: Database) -> Database:
    db.sql("CREATE TABLE t (id INT, x INT, PRIMARY KEY (id))")
    for name, query in VIEWS.items():
        db.create_view(name, query)
    db.create_view("framed", db.table("t").where("x > 1").select("id"))
    db.sql("INSERT INTO t VALUES (1, 1), (2, NULL)")
    db.sql("UPDATE t SET x = 2 WHERE id = 2")
    return db


@pytest.mark.parametrize("place", ["inline", "spark"])
def test_a_column_is_added(filled: Database, place: str) -> None:
    filled.place(place)
    epoch = filled.epoch
    before = {view: rows(filled, view) for view in filled.views}
    filled.sql("ALTER TABLE t ADD COLUMNS (note STRING COMMENT 'why', tags ARRAY<INT>)")
    assert filled.epoch == epoch + 1
    assert rows(filled, "t") == bag([(1, 1, None, None), (2, 2, None, None)])
    for view in filled.views:
        assert rows(filled, view) == before[view]
        assert weighted(filled.changes(view, since=epoch)) == {}
        filled.check(view)
    filled.sql("INSERT INTO t VALUES (3, 3, 'new', array(1))")
    filled.sql("UPDATE t SET note = 'old' WHERE id = 1")
    filled.create_view("noted", "SELECT id, note FROM t WHERE note IS NOT NULL")
    assert rows(filled, "noted") == bag([(3, "new"), (1, "old")])
    for view in filled.views:
        filled.check(view)
    assert filled.table("everything").columns == ["id", "x"]


def test_the_history_of_a_table_gets_the_column(filled: Database) -> None:
    epoch = filled.epoch
    filled.sql("ALTER TABLE t ADD COLUMN note STRING")
    assert weighted(filled.changes("t", since=epoch)) == {}
    filled.sql("DELETE FROM t WHERE id = 1")
    total = weighted(filled.changes("t"))
    assert {row: n for row, n in total.items() if n} == rows(filled, "t")
    assert rows(filled, "t", epoch) == bag([(1, 1, None), (2, 2, None)])


def test_an_added_column_survives_reopening(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id INT)")
        db.create_view("v", "SELECT * FROM t")
        db.sql("INSERT INTO t VALUES (1)")
        db.sql("ALTER TABLE t ADD COLUMN x INT")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("INSERT INTO t VALUES (2, 5)")
        assert rows(db, "v") == bag([(1,), (2,)])
        db.check("v")
        assert strays(db) == []
        assert {row: n for row, n in weighted(db.changes("t")).items() if n} == rows(db, "t")
        assert {row: n for row, n in weighted(db.changes("v")).items() if n} == rows(db, "v")


@pytest.mark.parametrize(
    ("statement", "word"),
    [
        ("ALTER TABLE t ADD COLUMN y INT FIRST", "position"),
        ("ALTER TABLE t ADD COLUMN y INT DEFAULT 3", "DEFAULT"),
        ("ALTER TABLE t ADD COLUMN y INT NOT NULL", "NOT NULL"),
        ("ALTER TABLE t ADD COLUMN X INT", "several columns called 'x'"),
        ("ALTER TABLE counted ADD COLUMN y INT", "is a view"),
        ("ALTER TABLE t ADD COLUMN _weight INT", "_weight"),
    ],
)
def test_what_cannot_be_added_is_refused(filled: Database, statement: str, word: str) -> None:
    with refused(filled, DefinitionError, word):
        filled.sql(statement)


def test_not_within_a_transaction(filled: Database) -> None:
    with refused(filled, StatementError, "transaction"), filled.transaction():
        filled.sql("ALTER TABLE t ADD COLUMN y INT")


def test_a_view_may_be_altered_to_read_a_later_table(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE a (x INT)")
        db.create_view("v", "SELECT x FROM a")
        db.sql("CREATE TABLE b (x INT)")
        db.sql("ALTER MATERIALIZED VIEW v AS SELECT x + 1 AS x FROM b")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("INSERT INTO b VALUES (1)")
        assert rows(db, "v") == bag([(2,)])


def test_the_number_of_partitions_may_change(warehouse: str, spark: SparkSession) -> None:
    """Partitions are ranges of the key's hash, found by search: files do not know of them."""
    for partitions in (1, 8, 2):
        with rekindle.connect(warehouse, spark=spark, partitions=partitions) as db:
            db.place("spark")
            if not db.tables:
                db.sql("CREATE TABLE t (id INT, x INT)")
                db.create_view(
                    "v", "SELECT a.x, count(*) AS n FROM t a JOIN t b USING (x) GROUP BY 1"
                )
            db.sql(f"INSERT INTO t SELECT id, id % 7 FROM range({100 * partitions})")
            db.sql("DELETE FROM t WHERE id % 5 = 0")
            db.check("v")


def test_partitions_are_a_power_of_two(warehouse: str, spark: SparkSession) -> None:
    with pytest.raises(DefinitionError, match="power of two, not 6"):
        rekindle.connect(warehouse, spark=spark, partitions=6)


@pytest.mark.parametrize(
    "statement",
    [
        "ALTER MATERIALIZED VIEW v AS SELECT * FROM v",
        "CREATE OR REPLACE MATERIALIZED VIEW V AS SELECT * FROM v",
    ],
)
def test_a_view_cannot_come_to_read_itself(db: Database, statement: str) -> None:
    db.sql("CREATE TABLE t (k INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k FROM t")
    with refused(db, DefinitionError, "reads the view itself"):
        db.sql(statement)
