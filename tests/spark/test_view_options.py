"""What can be asked of a view besides its query: to be incremental, or to be another one."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import DefinitionError, RekindleError, UnsupportedError
from rekindle.runtime.database import Database
from tests.property.oracle import bag
from tests.spark.helpers import collected, refused, rows


@pytest.fixture
def pairs(db: Database) -> Database:
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.sql("INSERT INTO t VALUES (1, 10), (1, 20), (2, 30)")
    return db


WHOLE = [
    "SELECT approx_percentile(a, 0.5) AS m FROM t",
    "SELECT a, percent_rank() OVER (ORDER BY a) AS r FROM t",
]
KEYED = [
    "SELECT a, approx_percentile(b, 0.5) AS m FROM t GROUP BY a",
    "SELECT mode(a, true) AS m FROM t",
    "SELECT percentile(a, 0.5) AS m FROM t",
    "SELECT a, rank() OVER (PARTITION BY a ORDER BY b) AS r FROM t",
    "SELECT a, rank() OVER (ORDER BY a) AS r FROM t",
    "SELECT max(a) AS m FROM t",
    "SELECT * FROM t ORDER BY b LIMIT 2",
]


@pytest.mark.parametrize("query", WHOLE)
def test_a_view_that_would_be_recomputed_is_refused_if_asked(pairs: Database, query: str) -> None:
    with refused(pairs, DefinitionError, "'v'", "as a whole"):
        pairs.sql(f"CREATE MATERIALIZED VIEW v OPTIONS (incremental = 'required') AS {query}")
    pairs.sql(f"CREATE MATERIALIZED VIEW v AS {query}")
    assert "recomputed" in {node.strategy.value for node in pairs.explain("v").nodes}
    assert "recomputed: its one group is all rows" in str(pairs.explain("v"))


@pytest.mark.parametrize("query", KEYED)
def test_a_view_with_a_key_or_an_order_is_incremental(pairs: Database, query: str) -> None:
    pairs.sql(f"CREATE MATERIALIZED VIEW v OPTIONS (incremental = 'required') AS {query}")
    assert "recomputed" not in {node.strategy.value for node in pairs.explain("v").nodes}


def test_an_unknown_word_is_refused(pairs: Database) -> None:
    with refused(pairs, RekindleError, "'maybe'", "required"):
        pairs.sql("CREATE MATERIALIZED VIEW v OPTIONS (incremental = 'maybe') AS SELECT a FROM t")


def test_alter_gives_a_view_another_definition_and_keeps_what_both_share(pairs: Database) -> None:
    pairs.sql("CREATE TABLE u (a INT, c INT)")
    pairs.sql("INSERT INTO u VALUES (1, 5)")
    pairs.sql("CREATE MATERIALIZED VIEW v AS SELECT t.a, c FROM t JOIN u ON t.a = u.a")
    before = {node.id for node in pairs.explain("v").nodes if node.kind == "arrangement"}
    epoch = pairs.epoch
    pairs.sql("ALTER MATERIALIZED VIEW v AS SELECT t.a, c + 1 AS d FROM t JOIN u ON t.a = u.a")
    after = {node.id for node in pairs.explain("v").nodes if node.kind == "arrangement"}
    assert pairs.epoch == epoch + 1
    assert before & after
    assert rows(pairs, "v") == bag([(1, 6), (1, 6)])
    pairs.sql("DELETE FROM t WHERE b = 10")
    assert rows(pairs, "v") == bag([(1, 6)])


def test_alter_needs_a_view(pairs: Database) -> None:
    with refused(pairs, RekindleError, "'nowhere'"):
        pairs.sql("ALTER MATERIALIZED VIEW nowhere AS SELECT 1 AS one")


def test_python_functions_are_kept_and_survive_reopening(
    warehouse: str, spark: SparkSession
) -> None:
    @F.pandas_udf("int")  # type: ignore[call-overload, untyped-decorator]
    def twice(values):  # type: ignore[no-untyped-def]
        return values * 2

    plain = F.udf(lambda a, b: f"{a}-{b}", "string")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (a INT, b INT)")
        db.sql("INSERT INTO t VALUES (1, 10), (1, 20), (2, 30)")
        frame = db.table("t").select("a", twice("b").alias("two"), plain("a", "b").alias("text"))
        db.create_view("v", frame.where("two < 60"))
        db.sql("INSERT INTO t VALUES (3, 4)")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("DELETE FROM t WHERE b = 10")
        assert rows(db, "v") == bag([(1, 40, "1-20"), (3, 8, "3-4")])


def test_a_function_that_is_not_deterministic_is_refused(pairs: Database) -> None:
    function = F.udf(lambda a: a, "int").asNondeterministic()
    with refused(pairs, UnsupportedError, "deterministic"):
        pairs.create_view("v", pairs.table("t").select(function("a").alias("x")))


def test_a_subquery_of_two_rows_is_an_error_and_changes_nothing(pairs: Database) -> None:
    pairs.sql("CREATE TABLE u (a INT, c INT)")
    pairs.sql(
        "CREATE MATERIALIZED VIEW v AS SELECT a, (SELECT c FROM u WHERE u.a = t.a) AS x FROM t"
    )
    pairs.sql("INSERT INTO u VALUES (1, 5)")
    assert rows(pairs, "v") == bag([(1, 5), (1, 5), (2, None)])
    with refused(pairs, RekindleError, "more than one row"):
        pairs.sql("INSERT INTO u VALUES (1, 6)")
    assert rows(pairs, "v") == collected(pairs.recompute("v"))


def test_two_sums_of_one_type_are_found_again(warehouse: str, spark: SparkSession) -> None:
    """Their last expressions are equal and are stored once; their buffers are not the same."""
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (k INT, a INT, b INT)")
        db.create_view("v", "SELECT k, sum(a) AS x, sum(b) AS y, count(a) AS n FROM t GROUP BY k")
        db.sql("INSERT INTO t VALUES (1, 2, 30), (1, 4, 50)")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("INSERT INTO t VALUES (1, 1, 1)")
        assert rows(db, "v") == bag([(1, 7, 81, 3)])
