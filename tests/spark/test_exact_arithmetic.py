"""Sums over products of doubles by trees and by deltas: what first order gives, and no drift."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import UnsupportedError
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, refused, rows

POLICIES = ("view_tree", "higher_order")
ABC = "FROM a JOIN b ON a.k = b.k JOIN c ON b.m = c.m"
QUERIES = {
    "two": """
        SELECT a.g, sum(a.x * b.y) AS v, sum(a.x * b.y * 2.0) AS twice, sum(a.i * b.y) AS i,
               sum(a.f * b.y) AS f, sum(a.x * b.y * a.f) AS split, sum(a.x - b.y) AS less,
               sum(a.d * b.y) AS d, sum(a.x) AS x, count(*) AS n
        FROM a JOIN b ON a.k = b.k GROUP BY a.g
    """,
    "three": f"""
        SELECT b.m, sum(a.x * b.y * c.z) AS v, avg(a.x * c.z) AS w, sum(a.i) AS i,
               sum(a.d * c.i) AS d, sum(c.f) AS f, count(b.y) AS n {ABC} GROUP BY b.m
    """,
    "triangle": f"SELECT sum(a.x * b.y * c.z) AS v {ABC} AND c.i = a.i",
}


@pytest.fixture
def db(warehouse: str, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(warehouse, spark=spark) as database:
        database.sql("CREATE TABLE a (k INT, g STRING, x DOUBLE, i INT, d DECIMAL(6,2), f FLOAT)")
        database.sql("CREATE TABLE b (k INT, m INT, y DOUBLE)")
        database.sql("CREATE TABLE c (m INT, z DOUBLE, i INT, f FLOAT)")
        yield database


def create(db: Database, names: Sequence[str]) -> list[str]:
    """The views by each policy, which must be followed; their names."""
    created = []
    for name in names:
        for policy in POLICIES:
            view = f"{name}_{policy}"
            db.create_view(view, QUERIES[name], policy=policy)
            assert follows(db, view, policy), str(db.explain(view))
            created.append(view)
    return created


def follows(db: Database, view: str, policy: str) -> bool:
    """Is there a tree or a list of deltas, with exact sums, and nothing that is recomputed?"""
    found = db.explain(view)
    marks = [f"policy {policy} is in force", "exact_sum("]
    by_deltas = policy == "higher_order" or view.startswith("triangle")
    marks.append(" is kept by\n" if by_deltas else " follows\n")
    kept = {node.strategy.value for node in found.nodes}
    return all(mark in str(found) for mark in marks) and "recomputed" not in kept


FILL = [
    "INSERT INTO a VALUES (1, 'u', 0.1, 2, 1.25, 0.5), (1, 'v', NULL, NULL, NULL, NULL), "
    "(2, 'u', -3.5, 5, 9.99, 0.1), (2, NULL, 1e10, 1, -3.10, -2.5), (2, NULL, 1e10, 1, -3.10, 7)",
    "INSERT INTO b VALUES (1, 1, 0.3), (1, 2, NULL), (2, 2, -7.25), (2, NULL, 1.0), (2, 1, 1e-5)",
    "INSERT INTO c VALUES (1, 0.7, 2, 0.1), (2, -5.5, 5, 1.5), (2, NULL, 1, NULL), (2, 3, NULL, 2)",
]
STEPS = [
    "INSERT INTO b VALUES (1, 2, DOUBLE('Infinity')), (2, 2, -0.0)",
    "UPDATE a SET x = x + 1, i = 2 WHERE k = 2",
    "INSERT INTO c VALUES (1, DOUBLE('NaN'), 2, 1.0), (2, 0.0, 2, 1.0), (2, 0.0, 1, 0.0)",
    "INSERT INTO a VALUES (1, 'u', 0.0, 2, 0, DOUBLE('-Infinity'))",
    "DELETE FROM c WHERE isnan(z)",
    "DELETE FROM b WHERE y = DOUBLE('Infinity')",
    "DELETE FROM a",
]


@pytest.mark.parametrize(("placement", "names"), [("inline", list(QUERIES)), ("spark", ["three"])])
def test_every_step_gives_what_spark_gives(db: Database, placement: str, names: list[str]) -> None:
    """NULLs, NaN, infinities that come and go, zeros beside them, empty groups."""
    for statement in FILL:
        db.sql(statement)
    views = create(db, names)
    db.place(placement)
    for statement in STEPS if placement == "inline" else STEPS[:2]:
        db.sql(statement)
        for view in views:
            db.check(view)
    if placement == "spark":
        assert db.last_step is not None
        assert {step.placement.value for step in db.last_step.nodes.values()} == {"spark"}


def test_rows_that_come_and_go_leave_the_same_bits(db: Database) -> None:
    """Numbers of very different size; at the end no group is left, and in between none drifts."""
    views = create(db, ["three"])
    numbers = [(-1) ** i * 1.1 * 10.0 ** (i % 60 - 30) for i in range(60)]
    kept = [(i % 3, "u", numbers[i], i, None, 0.1) for i in range(20)]
    passing = [(i % 3, "u", numbers[i], i, None, 0.1) for i in range(20, 60)]
    with db.transaction() as tx:
        tx.insert("a", kept)
        tx.insert("b", [(i % 3, i % 2, numbers[-i]) for i in range(40)])
        tx.insert("c", [(i % 2, numbers[2 * i % 60], i, 1.0) for i in range(40)])
    before = [db.table(view).collect() for view in views]
    for turn in range(0, 20, 3):
        with db.transaction() as tx:
            tx.insert("a", passing[turn:])
            tx.delete("b", [(i % 3, i % 2, numbers[-i]) for i in range(turn, 40)])
        with db.transaction() as tx:
            tx.insert("b", [(i % 3, i % 2, numbers[-i]) for i in range(turn, 40)])
            tx.delete("a", passing[turn:])
    after = [db.table(view).collect() for view in views]
    assert [sorted(map(repr, each)) for each in after] == [
        sorted(map(repr, each)) for each in before
    ]
    assert sorted(map(repr, after[0])) == sorted(map(repr, after[1]))
    for table in "abc":
        db.sql(f"DELETE FROM {table}")
    for view in views:
        assert rows(db, view) == bag([])
        state = [node.facts.rows_stored for node in db.explain(view).nodes]
        assert not any(state)


def test_what_is_refused_says_why(db: Database) -> None:
    reasons = {
        "sum(a.f * c.f)": "Spark rounds it to the 24 bits of a float in every row",
        "sum(a.x / c.z)": "reads 'a' and 'c' together: it is no product, sum or difference",
        "sum((a.x + b.y) * c.z)": "multiplies a sum over 'a' and 'b' and 'c' of the type double",
    }
    for policy in POLICIES:
        for expression, reason in reasons.items():
            with refused(db, UnsupportedError, "cannot follow", reason):
                db.create_view("v", f"SELECT {expression} AS v {ABC}", policy=policy)
