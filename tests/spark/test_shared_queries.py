"""Queries of a WITH clause that are read more than once: large ones are read as parts."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator

import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import SparkSession

import rekindle
from rekindle.calculus.terms import Aggregate, Join, Source, Term
from rekindle.calculus.walks import visited
from rekindle.errors import StatementError
from rekindle.frontends.spark_sql import shared_queries
from rekindle.runtime.database import Database
from tests.property.oracle import bag
from tests.spark.helpers import rows


def doubling(
    levels: int, last: str = "SELECT k, v FROM {}", first: str = "SELECT k, v FROM t"
) -> str:
    """A clause of so many queries, each of which reads the one before twice."""
    queries = [f"q0 AS ({first})"]
    for i in range(levels):
        joined = f"SELECT a.k, a.v + b.v AS v FROM q{i} a JOIN q{i} b ON a.k = b.k"
        queries.append(f"q{i + 1} AS ({joined})")
    return f"WITH {', '.join(queries)} {last.format(f'q{levels}')}"


@pytest.fixture(scope="module")
def db(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    path = str(tmp_path_factory.mktemp("shared"))
    with rekindle.connect(path, spark=spark) as db:
        db.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
        db.sql("CREATE TABLE wide (k BIGINT, v BIGINT, x STRING, y STRING)")
        db.sql("INSERT INTO t VALUES (1, 1), (2, NULL), (NULL, 3)")
        db.sql("INSERT INTO wide VALUES (1, 1, 'a', 'b'), (2, 3, 'c', 'd')")
        yield db


def nodes_of(db: Database, name: str) -> list[Term]:
    return list(visited(db._engine.terms[name], lambda node: node.children))


def test_fourteen_levels_are_created_checked_and_stepped(db: Database) -> None:
    db.create_view("v14", doubling(14))
    assert len(nodes_of(db, "v14")) < 14 * 8
    assert len(db._engine.state.entry("v14").term.splitlines()) < 14 * 10  # type: ignore[union-attr]
    assert rows(db, "v14") == bag([(1, 2**14), (2, None)])
    db.sql("INSERT INTO t VALUES (3, 5)")
    assert rows(db, "v14") == bag([(1, 2**14), (2, None), (3, 5 * 2**14)])
    assert db.last_step is not None
    assert all(node.rows_in <= 4 for node in db.last_step.nodes.values())
    db.sql("DELETE FROM t WHERE k = 1")
    assert rows(db, "v14") == bag([(2, None), (3, 5 * 2**14)])
    assert db.check("v14").rows == 2
    db.sql("INSERT INTO t VALUES (1, 1)")
    db.sql("DROP VIEW v14")


def test_questions_to_spark_grow_with_the_levels(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = 0
    original = ClientServerConnection.send_command

    def counted(self: ClientServerConnection, command: str) -> str:
        nonlocal asked
        # Another thread gives objects back that are no longer needed.
        asked += threading.current_thread() is threading.main_thread()
        return str(original(self, command))

    counts = []
    for levels in (7, 14):
        db.create_view("warm", doubling(levels))
        db.sql("DROP VIEW warm")
        asked = 0
        with monkeypatch.context() as patch:
            patch.setattr(ClientServerConnection, "send_command", counted)
            db.create_view("counted", doubling(levels))
        db.sql("DROP VIEW counted")
        counts.append(asked)
    assert counts[1] < 2 * counts[0]


def test_a_small_clause_is_optimised_as_a_whole(db: Database) -> None:
    plan = db._connection.definitions.catalog.parse(doubling(3))
    found = shared_queries.divided(db._connection.catalyst, plan, ["t"])
    assert not found.parts and found.rest is plan


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every clause with a name that is read twice is divided."""
    monkeypatch.setattr(shared_queries, "MOST_INLINE", 1)
    monkeypatch.setattr(shared_queries, "MOST_TIMES", 0)


QUERIES = {
    "aggregate": "WITH q AS (SELECT k, sum(v) AS s, count(*) AS c FROM t GROUP BY k) "
    "SELECT a.k, a.s, b.c FROM q a LEFT JOIN q b ON a.k = b.k",
    "subquery": "WITH q AS (SELECT k, v FROM t) "
    "SELECT k, v FROM q WHERE v >= (SELECT avg(v) FROM q) OR k IN (SELECT k FROM q WHERE v = 1)",
    "inline": "WITH p AS (SELECT k, v + 1 AS v FROM t), q AS (SELECT * FROM p WHERE v > 0) "
    "SELECT a.k, b.v FROM q a JOIN q b ON a.k = b.k",
    "renamed": "WITH Q(a, b) AS (SELECT k, v FROM t) "
    "SELECT x.a, y.b FROM q x JOIN `q` y ON x.a = y.a UNION ALL SELECT a, b FROM Q",
    "inside": "WITH q AS (SELECT k, v FROM t) "
    "SELECT * FROM (WITH q AS (SELECT k, v + 7 AS v FROM q) SELECT * FROM q) UNION ALL TABLE q",
    "nothing": "WITH q AS (SELECT k, v FROM t) SELECT (SELECT count(*) FROM q) AS n, v FROM q",
    "limit": "WITH q AS (SELECT k, v FROM t ORDER BY v DESC, k LIMIT 2) "
    "SELECT a.v FROM q a JOIN q b ON a.k = b.k",
    "outer": "WITH q AS (SELECT k, v FROM t WHERE v > 1) "
    "SELECT t.k, a.v, b.v AS w FROM t LEFT JOIN q a ON t.k = a.k FULL JOIN q b ON t.k = b.k",
}


@pytest.mark.usefixtures("always")
def test_a_query_by_parts_means_what_it_means_as_a_whole(db: Database) -> None:
    for name, query in QUERIES.items():
        plan = db._connection.definitions.catalog.parse(query)
        assert shared_queries.divided(db._connection.catalyst, plan, ["t", "wide"]).parts, name
        db.create_view(name, query)
    for change in (
        "INSERT INTO t VALUES (4, 9), (1, 1)",
        "DELETE FROM t WHERE k = 4 OR k = 1",
        "INSERT INTO t VALUES (1, 1)",
    ):
        db.sql(change)
        for name, query in QUERIES.items():
            assert rows(db, name) == bag(as_a_whole(db, query)), (name, change)
    for name in QUERIES:
        db.check(name)
        db.sql(f"DROP VIEW {name}")


def as_a_whole(db: Database, query: str) -> list[tuple[object, ...]]:
    """The query evaluated by Spark alone, which puts the queries of names in their places."""
    spark = db.table("t").sparkSession
    db.table("t").createOrReplaceTempView("shared_t")
    return [tuple(row) for row in spark.sql(re.sub(r"\bt\b", "shared_t", query)).collect()]


@pytest.mark.usefixtures("always")
def test_columns_that_no_use_reads_are_left_out(db: Database) -> None:
    db.create_view(
        "narrow",
        "WITH q AS (SELECT k, y, v, upper(x) AS x FROM wide) "
        "SELECT a.k, b.v FROM q a JOIN q b ON a.k = b.k WHERE a.x <> 'Z'",
    )
    made = [n for n in nodes_of(db, "narrow") if not isinstance(n, Source | Join)]
    assert max(len(node.schema) for node in made) == 3
    assert rows(db, "narrow") == bag([(1, 1), (2, 3)])
    db.check("narrow")
    db.sql("DROP VIEW narrow")


def test_an_aggregate_over_many_levels_is_kept_by_its_groups(db: Database) -> None:
    db.create_view("total", doubling(9, "SELECT k, sum(v) AS s FROM {} GROUP BY k"))
    assert any(isinstance(node, Aggregate) for node in nodes_of(db, "total"))
    db.sql("INSERT INTO t VALUES (8, 2)")
    assert (8, 2 * 2**9) in {tuple(row) for row in db.table("total").collect()}
    db.check("total")
    db.sql("DELETE FROM t WHERE k = 8")
    db.sql("DROP VIEW total")


def test_mistakes_in_a_part_have_their_place(db: Database) -> None:
    with pytest.raises(StatementError, match="cannot be resolved") as caught:
        db.create_view("wrong", doubling(9, first="SELECT k, nothing AS v FROM t"))
    assert "nothing" in caught.value.detail
    assert "wrong" not in db.views


def test_a_view_of_many_levels_opens_again(
    tmp_path_factory: pytest.TempPathFactory, spark: SparkSession
) -> None:
    path = str(tmp_path_factory.mktemp("again"))
    with rekindle.connect(path, spark=spark) as db:
        db.sql("CREATE TABLE t (k BIGINT, v BIGINT)")
        db.sql("INSERT INTO t VALUES (1, 1)")
        db.create_view("v", doubling(9))
    with rekindle.connect(path, spark=spark) as db:
        assert len(nodes_of(db, "v")) < 9 * 8
        db.sql("INSERT INTO t VALUES (2, 1)")
        assert rows(db, "v") == bag([(1, 2**9), (2, 2**9)])
