"""Strings with a collation: grouped, joined, ordered and compared as Spark does.

Which of the texts that are level stands for a group is not determined in Spark; here it is the
least of those that are there. So views are compared with their recomputation as the collation
compares them (`check` does the same), and what a group shows is compared with what it should be.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

import rekindle
from rekindle.errors import ConstraintError, DefinitionError, UndeterminedError, UnsupportedError
from rekindle.runtime.database import Database
from tests.property.oracle import collected
from tests.spark.helpers import refused, rows, weighted

TEXTS = ["a", "A", "b", "B ", "b ", "Ä", "ä", "", None]

VIEWS = {
    "grouped": "SELECT s, count(*) AS n, sum(x) AS t FROM t GROUP BY s",
    "different": "SELECT DISTINCT s, k FROM t",
    "ends": "SELECT k, min(s) AS low, max(s) AS high FROM t GROUP BY k",
    "counted": "SELECT k, count(DISTINCT s) AS n FROM t GROUP BY k",
    "listed": ("SELECT k, size(collect_list(DISTINCT s)) AS m, count(s) AS n FROM t GROUP BY k"),
    "joined": "SELECT t.x, t.s, u.s AS z FROM t JOIN u ON t.s = u.s",
    "padded": "SELECT t.x, t.s, u.s AS z FROM t FULL JOIN u ON t.s = lower(u.s)",
    "absent": "SELECT x, s FROM t WHERE NOT EXISTS (SELECT 1 FROM u WHERE u.s <=> t.s)",
    "both": "SELECT s FROM t INTERSECT SELECT s FROM u",
    "first": "SELECT x, s FROM t ORDER BY s DESC, x LIMIT 3",
    "ranked": "SELECT x, s, rank() OVER (PARTITION BY k ORDER BY s) AS r FROM t",
    "compared": "SELECT x, s > 'a' AS above, contains(s, 'A') AS has FROM t",
    "nested": "SELECT array(s) AS l, count(*) AS n FROM t GROUP BY array(s)",
}
SOME = ("grouped", "ends", "padded", "first")


def _folded(value: Any, collation: str) -> Any:
    """A value in which texts that are level are the same."""
    match value:
        case tuple():
            return tuple(_folded(item, collation) for item in value)
        case str() if collation == "UTF8_LCASE":
            return value.lower()
        case str() if collation == "UNICODE_CI_AI_RTRIM":
            letters = unicodedata.normalize("NFD", value.rstrip(" ").casefold())
            return "".join(c for c in letters if not unicodedata.combining(c))
    return value


def _agree(db: Database, collation: str) -> None:
    for view in db.views:
        kept, recomputed = (
            Counter(_folded(row, collation) for row in found.elements())
            for found in (rows(db, view), collected(db.recompute(view)))
        )
        assert kept == recomputed, (view, kept - recomputed, recomputed - kept)


def _changes(db: Database, collation: str) -> None:
    with db.transaction() as tx:
        tx.insert("t", [(i % 3 or None, i, TEXTS[i]) for i in range(9)])
        tx.insert("u", [(text,) for text in TEXTS[1::2]])
    with db.transaction() as tx:
        tx.insert("t", [(1, i, TEXTS[(i * 5) % 9]) for i in range(4)])
        tx.delete("t", [(i % 3 or None, i, TEXTS[i]) for i in (0, 3, 5, 8)])
        tx.delete("u", [(TEXTS[1],)])
        tx.insert("u", [(TEXTS[0],), (None,)])
    db.sql("UPDATE t SET s = 'C' WHERE s = 'b'")
    _agree(db, collation)
    db.sql("DELETE FROM t WHERE x > 1")
    _agree(db, collation)


def _create(db: Database, collation: str, views: Iterable[str]) -> None:
    db.sql(f"CREATE TABLE t (k INT, x INT, s STRING COLLATE {collation})")
    db.sql(f"CREATE TABLE u (s STRING COLLATE {collation})")
    for view in views:
        db.create_view(view, VIEWS[view])


@pytest.mark.parametrize("collation", ["UTF8_LCASE", "UNICODE", "UNICODE_CI_AI_RTRIM"])
def test_every_collation_follows_changes(db: Database, collation: str) -> None:
    db.place("inline")
    _create(db, collation, VIEWS if collation == "UTF8_LCASE" else SOME)
    _changes(db, collation)
    db.check("grouped")


def test_on_spark_and_after_reopening(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        _create(db, "UTF8_LCASE", SOME)
        with db.transaction() as tx:
            tx.insert("t", [(1, 1, "a"), (1, 2, "A"), (2, 3, "b"), (None, 4, None)])
            tx.insert("u", [("A",), ("c",)])
        db.place("spark")
        db.sql("DELETE FROM t WHERE x = 2")
        _agree(db, "UTF8_LCASE")
    with rekindle.connect(warehouse, spark=spark) as db:
        field = db.table("t").schema["s"]
        assert field.dataType == StringType("UTF8_LCASE")
        db.sql("INSERT INTO t VALUES (1, 5, 'B')")
        _agree(db, "UTF8_LCASE")
        assert weighted(db.changes("t")) == rows(db, "t")


def _texts(group: pd.DataFrame) -> pd.DataFrame:
    """All texts of a group, in the order in which they come."""
    return pd.DataFrame({"n": [len(group)], "texts": [" ".join(map(str, group.s))]})


def _of_key(key: tuple[Any, ...], group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"n": [len(group)], "texts": [str(key)]})


def _left(left: pd.DataFrame, right: pd.DataFrame) -> pd.DataFrame:
    return left


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_python_functions_are_given_all_texts_of_a_group(db: Database, placement: str) -> None:
    db.place(placement)
    _create(db, "UTF8_LCASE", [])
    by_text = db.table("t").groupBy("s")
    db.create_view("texts", by_text.applyInPandas(_texts, "n int, texts string"))
    with db.transaction() as tx:
        tx.insert("t", [(1, 1, "b"), (1, 2, "A"), (2, 3, "B"), (2, 3, "a"), (None, 4, None)])
    for statement in ("INSERT INTO t VALUES (1, 1, 'B')", "DELETE FROM t WHERE k = 1"):
        db.check("texts")
        db.sql(statement)
    db.check("texts")
    assert rows(db, "texts") == {(1, "B"): 1, (1, "a"): 1, (1, "None"): 1}


def test_the_key_of_a_group_of_texts_is_not_determined(db: Database) -> None:
    _create(db, "UTF8_LCASE", [])
    by_text = db.table("t").groupBy("s")
    with refused(db, UndeterminedError, "_of_key", "a text with a collation"):
        db.create_view("v", by_text.applyInPandas(_of_key, "n int, texts string"))
    with refused(db, UnsupportedError, "cogroup() by a text with a collation"):
        cogroups = by_text.cogroup(db.table("u").groupBy("s"))
        db.create_view("v", cogroups.applyInPandas(_left, "k int, x int, s string"))


def test_a_group_shows_the_least_text_that_is_in_it(db: Database) -> None:
    db.sql("CREATE TABLE t (s STRING COLLATE UTF8_LCASE)")
    db.create_view("v", "SELECT s, count(*) AS n, max(s) AS m FROM t GROUP BY s")

    def shown() -> list[tuple[str, int, str]]:
        return [tuple(row) for row in db.table("v").collect()]

    with db.transaction() as tx:
        tx.insert("t", [("ab",), ("Ab",), ("AB",)])
    assert shown() == [("AB", 3, "ab")]
    with db.transaction() as tx:
        tx.delete("t", [("AB",)])
    assert shown() == [("Ab", 2, "ab")]
    with db.transaction() as tx:
        tx.delete("t", [("ab",)])
    assert shown() == [("Ab", 1, "Ab")]
    with db.transaction() as tx:
        tx.delete("t", [("Ab",)])
    assert shown() == []


def test_rows_are_told_apart_by_their_bytes(db: Database) -> None:
    db.sql("CREATE TABLE t (s STRING COLLATE UTF8_LCASE, l ARRAY<STRING COLLATE UNICODE_CI>)")
    db.create_view("v", "SELECT * FROM t")
    with db.transaction() as tx:
        tx.insert("t", [("a", ["x"]), ("A", ["x"]), ("a", ["X"])])
    with refused(db, ConstraintError, "no such row"), db.transaction() as tx:
        tx.delete("t", [("A", ["X"])])
    with db.transaction() as tx:
        tx.delete("t", [("A", ["x"])])
    plain = db.table("v").select(F.col("s").cast("string"), F.col("l").cast("array<string>"))
    assert sorted(collected(plain)) == [("a", ("X",)), ("a", ("x",))]
    assert db.sql("SELECT * FROM t WHERE s = 'A'").count() == 2


def test_a_collation_in_a_primary_key_is_refused(db: Database) -> None:
    with refused(db, DefinitionError, "primary key", "UTF8_LCASE"):
        db.sql("CREATE TABLE t (s STRING COLLATE UTF8_LCASE, PRIMARY KEY (s))")


def test_a_column_with_a_collation_can_be_added(db: Database) -> None:
    db.sql("CREATE TABLE t (a INT)")
    db.sql("INSERT INTO t VALUES (1)")
    db.sql("ALTER TABLE t ADD COLUMNS (s STRING COLLATE UTF8_LCASE, v VARIANT)")
    db.sql("INSERT INTO t VALUES (2, 'A', parse_json('1'))")
    assert db.sql("SELECT a FROM t WHERE s = 'a' AND v::int = 1").count() == 1
    assert db.sql("SELECT a FROM t WHERE s IS NULL AND v IS NULL").count() == 1
