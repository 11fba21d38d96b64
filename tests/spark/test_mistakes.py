"""Mistakes that people make: the error says what was written, what was expected, what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.algebra.groups import INTEGERS
from rekindle.errors import (
    DefinitionError,
    EvaluationError,
    RekindleError,
    RowError,
    StatementError,
    UnknownNameError,
    UnsupportedError,
)
from rekindle.runtime.database import Database
from tests.spark.helpers import rows


@contextmanager
def mistaken(db: Database, kind: type[RekindleError], *words: str) -> Iterator[None]:
    """The block raises `kind`, its text has the words, and nothing was committed."""
    epoch, names = db.epoch, [*db.tables, *db.views]
    with pytest.raises(kind) as caught:
        yield
    assert [word for word in words if word not in str(caught.value)] == []
    assert (db.epoch, [*db.tables, *db.views]) == (epoch, names)


JOINED = "SELECT x, y, c FROM r JOIN s ON r.k = s.k"


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    """A database that every mistake leaves as it was."""
    with rekindle.connect(str(tmp_path_factory.mktemp("shop")), spark=spark) as db:
        db.create_table("r", "k bigint, x double, c string")
        db.create_table("s", "k bigint, y double")
        with db.transaction() as tx:
            tx.insert("r", [(1, 1.0, "a"), (2, 2.0, "b"), (3, 3.5, "c")])
            tx.insert("s", [(1, 2.0), (2, 4.0), (3, 7.0)])
        db.create_model("m", JOINED, label="y", features=["x", "c"])
        db.create_model("empty", f"{JOINED} WHERE x > 1000", label="y", features=["x"])
        yield db


@pytest.mark.parametrize(
    ("columns", "word"),
    [("a bigit", "'a bigit'"), ("a bigint,, b int", "near ','"), ("int", "'int'"), (5, "int")],
)
def test_columns_that_cannot_be_read(shop: Database, columns: Any, word: str) -> None:
    with mistaken(shop, DefinitionError, "table 't'", word, "id bigint NOT NULL"):
        shop.create_table("t", columns)


@pytest.mark.parametrize(
    ("option", "kind", "words"),
    [
        ("policy = 'view_treee'", UnsupportedError, ["'view_treee'", "did you mean 'view_tree'?"]),
        ("polcy = 'view_tree'", DefinitionError, ["'polcy'", "did you mean 'policy'?"]),
        ("policy = 'view_tree', POLICY = 'factored'", StatementError, ["given twice"]),
    ],
)
def test_options_that_are_misspelled_or_given_twice(
    shop: Database, option: str, kind: Any, words: list[str]
) -> None:
    with mistaken(shop, kind, *words):
        shop.sql(f"CREATE MATERIALIZED VIEW v OPTIONS ({option}) AS SELECT sum(x) AS q FROM r")


@pytest.mark.parametrize(
    "header",
    [
        "CREATE VIEW v AS",
        "CREATE OR REPLACE VIEW v AS",
        "CREATE MATERIALIZED VIEW AS",
        "CREATE MATERIALIZED VIEW v (a) AS",
        "CREATE MATERIALIZED VIEW elsewhere.v AS",
        "CREATE MATERIALIZED VIEW v PARTITIONED BY (a) AS",
        "ALTER MATERIALIZED VIEW v (a) AS",
    ],
)
def test_a_view_that_is_not_written_so(shop: Database, header: str) -> None:
    with mistaken(shop, StatementError, "cannot be read", "CREATE [OR REPLACE] MATERIALIZED VIEW"):
        shop.sql(f"{header} SELECT k AS a FROM r")


def test_a_view_of_constants_that_fail(shop: Database) -> None:
    """Spark computes them when it reads the query, or when the view is filled."""
    for query in ("SELECT 1/0 AS z", "SELECT k, 1 DIV 0 AS z FROM r", "SELECT raise_error('x') z"):
        with mistaken(shop, EvaluationError, "nothing was applied"):
            shop.create_view("v", query)
    failing = shop.spark.range(1).selectExpr("raise_error('no') AS k")
    with mistaken(shop, EvaluationError, "no"):
        shop.create_view("v", failing)
    with mistaken(shop, EvaluationError, "nothing was applied"):
        shop.create_model(
            "w", "SELECT x / 0 AS x, y FROM r JOIN s USING (k)", features=["x"], label="y"
        )
    with mistaken(shop, EvaluationError, "nothing was applied"):
        shop.mrql("sum(select x.k/0 from x in r);")


@pytest.mark.parametrize("inner", ["SELECT 1", "CREATE TABLE passed_by (a INT) USING parquet"])
def test_a_statement_in_a_text_is_not_passed_on_to_spark(shop: Database, inner: str) -> None:
    with mistaken(shop, StatementError, "EXECUTE is not run by a Rekindle database"):
        shop.sql(f"/* a */ EXECUTE IMMEDIATE '{inner}'")
    assert not shop.spark.catalog.tableExists("passed_by")


@pytest.mark.parametrize("policy", ["view_tree", "higher_order"])
def test_a_policy_says_that_it_does_not_take_outer_joins(shop: Database, policy: str) -> None:
    with mistaken(shop, UnsupportedError, "an outer join", "only inner joins"):
        shop.sql(
            f"CREATE MATERIALIZED VIEW v OPTIONS (policy = '{policy}') AS "
            "SELECT c, count(y) AS n FROM r LEFT JOIN s ON r.k = s.k GROUP BY c"
        )


@pytest.mark.parametrize(
    ("query", "word"),
    [
        ("SELECT * FROM r", "the rows of one table"),
        ("SELECT c, rank() OVER (ORDER BY x) AS n FROM r", "a window function"),
        ("SELECT DISTINCT c FROM r", "DISTINCT"),
        ("SELECT k FROM r UNION ALL SELECT k FROM s", "UNION ALL"),
        ("SELECT k FROM r WHERE k IN (SELECT k FROM s)", "IN, EXISTS"),
    ],
)
def test_what_cannot_be_factorised_is_named_as_in_sql(
    shop: Database, query: str, word: str
) -> None:
    with mistaken(shop, UnsupportedError, "'v'", word):
        shop.create_view("v", query, representation="factorised")


def test_a_view_cannot_take_the_place_of_a_model(shop: Database) -> None:
    with mistaken(shop, DefinitionError, "'m' is a model", "DROP VIEW m"):
        shop.replace_view("m", "SELECT 1 AS one")
    with mistaken(shop, DefinitionError, "'m' is a model"):
        shop.sql("CREATE OR REPLACE MATERIALIZED VIEW m AS SELECT 1 AS one")
    assert shop.model("m").r2() is not None


def test_a_model_over_no_rows_is_named(shop: Database) -> None:
    with mistaken(shop, DefinitionError, "'empty' has no rows to learn from"):
        shop.model("empty").coefficients()


@pytest.mark.parametrize(
    ("schema", "kind", "words"),
    [
        ("c string", UnknownNameError, ["no column 'x'", "the model 'm'"]),
        ("x string, c string", DefinitionError, ["'x' is string", "double", "cast"]),
        ("x double, c int", DefinitionError, ["'c' is int", "string"]),
    ],
)
def test_rows_without_the_features_of_a_model(
    shop: Database, schema: str, kind: Any, words: list[str]
) -> None:
    with mistaken(shop, kind, *words):
        shop.model("m").predict(shop.spark.createDataFrame([], schema))


def test_a_prediction_is_made_for_a_frame(shop: Database) -> None:
    given: Any = [(1.0, "a")]
    with mistaken(shop, DefinitionError, "a DataFrame", "list"):
        shop.model("m").predict(given)
    found = shop.model("m").predict(shop.spark.createDataFrame(given, "X float, c string"))
    assert [round(row.prediction, 6) for row in found.collect()] == [2.0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((INTEGERS, int, "bigit"), ["'bigit'", "bigint"]),
        ((INTEGERS, int, 5), ["5", "DataType"]),
        ((5, int, "bigint"), ["no ring", "`negate`"]),
        ((INTEGERS, 5, "bigint"), ["`lift`"]),
    ],
)
def test_a_ring_sum_of_something_else(shop: Database, arguments: Any, words: list[str]) -> None:
    with mistaken(shop, DefinitionError, *words):
        rekindle.ring_sum(*arguments)


def test_a_model_is_learned_from_a_frame_or_a_query(shop: Database) -> None:
    given: Any = 3
    with mistaken(shop, DefinitionError, "'n'", "int", "SQL text"):
        shop.create_model("n", given, label="y", features=["x"])
    with mistaken(shop, StatementError, "cannot be resolved", "z"):
        shop.create_model("n", "SELECT z FROM r", label="y", features=["x"])


def test_a_model_over_a_frame_follows_changes(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.create_table("r", "k bigint, x double, c string")
        db.create_table("s", "k bigint, y double")
        frame = db.table("r").join(db.table("s"), "k").where("x < 50")
        db.create_model("framed", frame, label="y", features=["x", "c"])
        db.create_model("written", f"{JOINED} WHERE x < 50", label="y", features=["x", "c"])
        with db.transaction() as tx:
            tx.insert("r", [(1, 1.0, "a"), (2, 2.0, "b"), (3, 3.5, "a"), (4, 99.0, "a")])
            tx.insert("s", [(1, 2.0), (2, 4.0), (3, 7.5), (4, 1.0), (1, 2.5)])
        assert db.model("framed").coefficients() == db.model("written").coefficients()
    with rekindle.connect(warehouse, spark=spark) as db:
        before = db.model("framed").coefficients()
        db.sql("DELETE FROM s WHERE y = 2.5")
        found = db.model("framed").coefficients()
        assert found == db.model("written").coefficients() != before
        assert "recomputed" not in {node.strategy.value for node in db.explain("framed").nodes}
        db.check("framed")


def test_an_overflow_in_a_factored_view_is_that_of_a_row(db: Database) -> None:
    for name, i, j in (("a", "i", "j"), ("b", "j", "k")):
        db.sql(
            f"CREATE TABLE {name} ({i} INT NOT NULL, {j} INT NOT NULL, v BIGINT NOT NULL, "
            f"PRIMARY KEY ({i}, {j}))"
        )
    db.create_view(
        "ab",
        "SELECT a.i, b.k, sum(a.v * b.v) AS v FROM a JOIN b ON a.j = b.j GROUP BY a.i, b.k",
        policy="factored",
    )
    db.sql(f"INSERT INTO a VALUES (1, 1, {2**62})")
    with mistaken(db, EvaluationError, "nothing was applied", "overflow"):
        db.sql("INSERT INTO b VALUES (1, 1, 8)")
    db.sql("INSERT INTO b VALUES (1, 1, 1)")
    with mistaken(db, EvaluationError, "overflow"), db.transaction() as tx:
        tx.update_factored("b", {1: 10}, {1: 10})
    with mistaken(db, RowError, "'a'", "64 bits"), db.transaction() as tx:
        tx.update_factored("a", {1: 2**62}, {1: 1})
    assert rows(db, "ab") == {(1, 1, 2**62): 1}


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_a_null_struct_whose_fields_are_never_null(db: Database, placement: str) -> None:
    db.place(placement)
    db.sql(
        "CREATE TABLE t (k INT, p STRUCT<a: INT NOT NULL, b: STRING NOT NULL>, "
        "l ARRAY<STRUCT<a: INT NOT NULL>>)"
    )
    db.sql("CREATE MATERIALIZED VIEW grouped AS SELECT p, count(*) AS n FROM t GROUP BY p")
    db.sql(
        "CREATE MATERIALIZED VIEW joined AS "
        "SELECT x.k, y.p, y.p.a AS a, y.l FROM t x JOIN t y ON x.k = y.k"
    )
    steps = [
        "INSERT INTO t VALUES (1, NULL, NULL), (2, named_struct('a', 1, 'b', 'x'), "
        "array(named_struct('a', 1), NULL)), (2, NULL, array())",
        "UPDATE t SET p = NULL WHERE p.a = 1 OR k = 1",
    ]
    for step in steps:
        db.sql(step)
        for view in ("grouped", "joined"):
            db.check(view)
    assert rows(db, "grouped") == {(None, 3): 1}


def test_a_dataframe_with_a_subquery(db: Database) -> None:
    db.sql("CREATE TABLE t (a INT)")
    greatest = db.table("t").select(F.max("a")).scalar()
    with mistaken(db, DefinitionError, "DataFrame of view 'v'", "SQL text"):
        db.create_view("v", db.table("t").where(F.col("a") < greatest))
