"""Aggregates over joins by deltas of deltas: the same results, and base tables left alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from decimal import Decimal

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
    "triangle": """
        SELECT count(*) AS n, sum(t.y) AS v
        FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c AND t.y = r.x
    """,
    "pairs": "SELECT sum(p.x * q.x) AS v FROM r p JOIN r q ON p.a = q.a JOIN r o ON o.a = q.x",
}


def create(database: Database, names: Sequence[str]) -> None:
    for name in names:
        options = "OPTIONS (policy = 'higher_order')"
        database.sql(f"CREATE MATERIALIZED VIEW {name} {options} AS {QUERIES[name]}")


@pytest.fixture
def db(warehouse: str, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(warehouse, spark=spark) as database:
        database.sql("CREATE TABLE r (a INT, g STRING, x INT, price DECIMAL(8,2))")
        database.sql("CREATE TABLE s (a INT, c INT, z INT)")
        database.sql("CREATE TABLE t (c INT, y INT)")
        yield database


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_every_step_gives_what_spark_gives(db: Database, placement: str) -> None:
    """Several tables at once, NULLs, duplicates; one view made before the rows, others after."""
    first, *others = list(QUERIES)[1:] if placement == "inline" else ("groups", "triangle")
    create(db, [first])
    db.sql(
        "INSERT INTO r VALUES (1, 'u', 2, 1.25), (1, 'v', NULL, NULL), (2, 'u', 5, 9.99), "
        "(NULL, 'w', 1, 1.00), (2, NULL, 2, -3.10), (2, NULL, 2, -3.10)"
    )
    with db.transaction() as tx:
        tx.insert("s", [(1, 1, 5), (1, 2, None), (2, 2, 4), (2, None, 1)])
        tx.insert("t", [(1, 2), (2, 5), (2, None), (2, 3), (None, 1)])
    db.place(placement)
    create(db, others)

    def check() -> None:
        for name in (first, *others):
            db.check(name)

    check()
    with db.transaction() as tx:
        tx.delete("r", [(2, None, 2, Decimal("-3.10"))])
        tx.insert("s", [(2, 1, -1)])
        tx.delete("t", [(2, 5)])
    check()
    if placement == "spark":
        assert db.last_step is not None
        assert {step.placement.value for step in db.last_step.nodes.values()} == {"spark"}
        return
    db.sql("UPDATE r SET price = price + 1, x = 1 WHERE a = 2")
    with db.transaction() as tx:
        tx.delete("s", [(2, 2, 4)])
        tx.delete("t", [(1, 2)])
        tx.insert("t", [(1, 2)])
    check()
    db.refresh_by("full")
    db.sql("DELETE FROM r WHERE a = 1")
    db.refresh_by("incremental")
    db.sql("DELETE FROM r WHERE x = 1")
    check()
    for name in (first, *others):
        assert weighted(db.changes(name)) == rows(db, name)


def test_the_triggers_are_found_again(db: Database, warehouse: str, spark: SparkSession) -> None:
    create(db, ["counts", "groups"])
    db.sql("INSERT INTO r VALUES (1, 'u', 2, 1.25)")
    db.sql("INSERT INTO s VALUES (1, 1, 5)")
    db.close()
    with rekindle.connect(warehouse, spark=spark) as again:
        again.sql("INSERT INTO t VALUES (1, 4), (1, 4)")
        assert rows(again, "counts") == bag([(2,)])
        assert rows(again, "groups") == bag([("u", 16, 2, 5.0, 2)])


def test_a_skewed_join_is_neither_kept_nor_computed(db: Database) -> None:
    """A million pairs of one key: a row of one table meets one row of the others' sum."""
    create(db, ["counts"])
    db.sql("INSERT INTO r SELECT 1, 'u', 1, 1.0 FROM range(100)")
    db.sql("INSERT INTO s SELECT 1, 1, 1 FROM range(100)")
    db.sql("INSERT INTO t SELECT 1, id FROM range(100)")
    assert rows(db, "counts") == bag([(1_000_000,)])
    stored = [node.facts.rows_stored or 0 for node in db.explain("counts").nodes]
    assert max(stored) <= 100
    db.sql("DELETE FROM t WHERE y = 50")
    assert rows(db, "counts") == bag([(990_000,)])
    last = db.last_step
    assert last is not None
    assert sum(step.rows_out for step in last.nodes.values()) < 20
    assert "not kept" in str(db.explain("counts"))


def test_what_has_no_exact_deltas_is_refused(db: Database) -> None:
    db.sql("CREATE TABLE d (a INT, x FLOAT)")
    options = "OPTIONS (policy = 'higher_order') AS"
    with refused(db, UnsupportedError, "cannot follow deltas of deltas", "24 bits of a float"):
        db.sql(
            f"CREATE MATERIALIZED VIEW v {options} "
            "SELECT sum(p.x * q.x) AS v FROM d p JOIN d q ON p.a = q.a"
        )
    with refused(db, UnsupportedError, "cannot follow deltas of deltas"):
        db.sql(f"CREATE MATERIALIZED VIEW v {options} SELECT a FROM r")


NESTED = {
    "alone": "SELECT sum(r.x) AS v FROM r WHERE r.a * 10 < (SELECT sum(s.z) FROM s)",
    "beside": """
        SELECT r.g, sum(r.x * t.y) AS v, count(*) AS n FROM r JOIN t ON r.a = t.c
        WHERE r.x < (SELECT sum(s.z) FROM s WHERE s.a = r.a) GROUP BY r.g
    """,
    "inside": """
        SELECT sum(r.x * t.y) AS v FROM r JOIN t ON r.a = t.c
        WHERE r.x * 4 < (SELECT sum(s.z * t.y) FROM s JOIN t ON s.c = t.c)
    """,
}


def test_a_nested_aggregate_in_a_condition_is_followed_first_order(db: Database) -> None:
    for name, query in NESTED.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} OPTIONS (policy = 'higher_order') AS {query}")
    steps = [
        "INSERT INTO r VALUES (1, 'u', 2, 0), (1, 'v', NULL, 0), (2, 'u', 5, 0), (2, 'u', 5, 0), "
        "(NULL, 'w', 1, 0)",
        "INSERT INTO s VALUES (1, 1, 9), (2, 2, NULL), (2, 1, 6), (NULL, 1, 9)",
        "INSERT INTO t VALUES (1, 2), (2, 5), (2, NULL), (1, 1)",
        "UPDATE s SET z = z - 2",
        "DELETE FROM t WHERE y = 5",
        "DELETE FROM s",
    ]
    found: set[str] = set()
    for step in steps:
        db.sql(step)
        for name in NESTED:
            db.check(name)
            found.update(f"{name}: {row}" for row in rows(db, name))
    assert len(found) >= 8, "steps change the results"
    assert all(
        node.strategy.value != "recomputed" for name in NESTED for node in db.explain(name).nodes
    )
    assert "stays as it is: the condition" in str(db.explain("alone"))
    beside = str(db.explain("beside"))
    assert "Δpart1 · M(t)[" in beside
    assert "part1 is the join of r, s, first order: the condition" in beside
    assert str(db.explain("inside")).count(" is kept by") == 2
