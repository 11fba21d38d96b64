"""Aggregates over joins by view trees: the same results, and the join nowhere in the state."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import UnsupportedError
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, refused, rows, weighted

QUERIES = {
    "counts": "SELECT count(*) AS n FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c",
    "groups": """
        SELECT r.g, sum(r.x * t.y) AS v, count(*) AS n, avg(s.z) AS m, count(t.y) AS k
        FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c WHERE t.y <> 3 GROUP BY r.g
    """,
    "decimals": """
        SELECT s.c, sum(r.price) AS p, sum(r.price * t.y) AS q, avg(r.price) AS m
        FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c GROUP BY s.c
    """,
    "star": """
        SELECT sum(r.x + s.c - t.y) AS v FROM r JOIN s ON r.a = s.a JOIN t ON r.a = t.c
    """,
    "triangle": """
        SELECT count(*) AS n, sum(t.y) AS v
        FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c AND t.y = r.x
    """,
}


@pytest.fixture
def tables(warehouse: str, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(warehouse, spark=spark) as database:
        database.sql("CREATE TABLE r (a INT, g STRING, x INT, price DECIMAL(8,2))")
        database.sql("CREATE TABLE s (a INT, c INT, z DOUBLE)")
        database.sql("CREATE TABLE t (c INT, y INT)")
        yield database


@pytest.fixture
def db(tables: Database) -> Database:
    for name in QUERIES:
        _create(tables, name)
    return tables


def _create(db: Database, name: str) -> None:
    db.sql(f"CREATE MATERIALIZED VIEW {name} OPTIONS (policy = 'view_tree') AS {QUERIES[name]}")


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_every_step_gives_what_spark_gives(db: Database, placement: str) -> None:
    statements = [
        "INSERT INTO r VALUES (1, 'u', 2, 1.25), (1, 'v', NULL, NULL), (2, 'u', 5, 9.99), "
        "(NULL, 'w', 1, 1.00), (2, NULL, 5, -3.10), (2, NULL, 5, -3.10)",
        "INSERT INTO s VALUES (1, 1, 0.5), (1, 2, NULL), (2, 2, 4.25), (2, NULL, 1.0)",
        "INSERT INTO t VALUES (1, 2), (2, 5), (2, NULL), (2, 3), (NULL, 1)",
        "UPDATE r SET price = price + 1, x = 7 WHERE a = 2",
        "DELETE FROM s WHERE c = 2 AND a = 2",
        "INSERT INTO s VALUES (2, 1, -1.5)",
        "DELETE FROM t WHERE y = 2",
        "DELETE FROM r",
    ]
    if placement == "spark":
        fill, statements = statements[:2], statements[2:5]
        for statement in fill:
            db.sql(statement)
    db.place(placement)
    for statement in statements:
        db.sql(statement)
        for name in QUERIES:
            db.check(name)
    for name in QUERIES:
        assert weighted(db.changes(name)) == rows(db, name)


def test_the_tree_is_found_again(db: Database, warehouse: str, spark: SparkSession) -> None:
    db.sql("INSERT INTO r VALUES (1, 'u', 2, 1.25)")
    db.sql("INSERT INTO s VALUES (1, 1, 0.5)")
    db.close()
    with rekindle.connect(warehouse, spark=spark) as again:
        again.sql("INSERT INTO t VALUES (1, 4), (1, 4)")
        assert rows(again, "counts") == bag([(2,)])
        for name in QUERIES:
            again.check(name)


def test_a_skewed_join_is_not_kept(tables: Database) -> None:
    """A million pairs of one key: every integral stays as small as the tables."""
    db = tables
    _create(db, "counts")
    db.sql("INSERT INTO r SELECT 1, 'u', 1, 1.0 FROM range(100)")
    db.sql("INSERT INTO s SELECT 1, 1, 1.0 FROM range(100)")
    db.sql("INSERT INTO t SELECT 1, id FROM range(100)")
    assert rows(db, "counts") == bag([(1_000_000,)])
    stored = [node.facts.rows_stored or 0 for node in db.explain("counts").nodes]
    assert max(stored) <= 100
    db.sql("DELETE FROM t WHERE y >= 50")
    assert rows(db, "counts") == bag([(500_000,)])
    last = db.last_step
    assert last is not None
    assert sum(step.rows_out for step in last.nodes.values()) < 1_000


def test_triangles_are_counted_without_keeping_paths(tables: Database) -> None:
    """A hub of 40 edges in and 40 out has 1,600 paths; two edges close one, one of them twice."""
    db = tables
    db.sql("CREATE TABLE e (a INT, b INT)")
    query = "FROM e p JOIN e q ON p.b = q.a JOIN e r ON q.b = r.a AND r.b = p.a"
    db.create_view("triangles", f"SELECT count(*) AS n, sum(q.b) AS v {query}", policy="view_tree")
    db.create_view(
        "by_corner", f"SELECT p.a, count(*) AS n {query} GROUP BY p.a", policy="view_tree"
    )
    hub = [(i, 0) for i in range(1, 41)] + [(0, i) for i in range(41, 81)]
    with db.transaction() as tx:
        tx.insert("e", [*hub, (41, 1), (42, 2), (42, 2), (None, 0), (0, None)])
    assert rows(db, "triangles") == bag([(9, 130)])
    kept = [node.facts.rows_stored or 0 for node in db.explain("triangles").nodes]
    assert max(kept) <= 85
    assert "Δe · M(e#2)[b, e#2.b] · M(e#3)[a, e#2.b]" in str(db.explain("triangles"))
    steps = ["DELETE FROM e WHERE a = 42", "UPDATE e SET b = 7 WHERE a = 41", "DELETE FROM e"]
    for step in steps:
        db.sql(step)
        for view in ("triangles", "by_corner"):
            db.check(view)
    assert rows(db, "triangles") == bag([(0, None)])
    assert "recomputed" not in {node.strategy.value for node in db.explain("triangles").nodes}


def test_what_no_tree_can_follow_is_refused(tables: Database) -> None:
    db = tables
    options = "OPTIONS (policy = 'view_tree') AS"
    with refused(db, UnsupportedError, "cannot follow a view tree"):
        db.sql(f"CREATE MATERIALIZED VIEW v {options} SELECT a FROM r")
    with refused(db, UnsupportedError, "cannot follow a view tree"):
        db.sql(
            f"CREATE MATERIALIZED VIEW v {options} SELECT max(x) AS m FROM r JOIN s ON r.a = s.a"
        )
    with refused(db, UnsupportedError, "'middle_out'", "first_order, higher_order, view_tree"):
        db.create_view("v", "SELECT count(*) AS n FROM r", policy="middle_out")
