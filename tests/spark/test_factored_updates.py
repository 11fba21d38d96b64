"""Chains of matrices under changes that come as products of vectors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import ConstraintError, DefinitionError, RowError, UnsupportedError
from rekindle.runtime.database import Database
from rekindle.runtime.matrices import maintenance as factored_maintenance
from rekindle.runtime.matrices import products

SIZE = 4
CHAIN = """
    SELECT a.i, c.j AS k, sum(a.v * b.v * c.v) AS v
    FROM a1 a JOIN a2 b ON a.j = b.i JOIN a3 c ON b.j = c.i GROUP BY a.i, c.j
"""
PICK = np.random.default_rng(5)


def matrix(kind: str) -> list[tuple[int, int, Any]]:
    values = PICK.integers(-5, 6, (SIZE, SIZE))
    return [
        (i, j, float(values[i, j]) / 4 if kind == "DOUBLE" else int(values[i, j]))
        for i in range(SIZE)
        for j in range(SIZE)
    ]


def filled(db: Database, kind: str) -> Database:
    for name in ("a1", "a2", "a3"):
        db.sql(
            f"CREATE TABLE {name} (i INT NOT NULL, j INT NOT NULL, v {kind} NOT NULL, "
            "PRIMARY KEY (i, j))"
        )
    with db.transaction() as tx:
        for name in ("a1", "a2"):
            tx.insert(name, matrix(kind))
    db.sql(f"CREATE MATERIALIZED VIEW p OPTIONS (policy = 'factored') AS {CHAIN}")
    with db.transaction() as tx:
        tx.insert("a3", matrix(kind))
    db.create_view("total", "SELECT sum(v) AS v FROM p")
    db.create_view("rows", "SELECT i, sum(v) AS v FROM a2 GROUP BY i")
    return db


@pytest.fixture
def db(warehouse: str, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(warehouse, spark=spark) as database:
        yield database


def checked(db: Database) -> None:
    db.check("p")


def evaluated(db: Database) -> set[str]:
    """What the circuits of the view were made for: "" for plain changes, else a table."""
    return {table for _, table in db._connection.feeding._evaluations}


@pytest.mark.parametrize("kind", ["BIGINT", "DOUBLE"])
def test_every_step_gives_what_spark_gives(
    db: Database, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(factored_maintenance, "PIECE", 5)
    filled(db, kind)
    checked(db)
    db._connection.feeding.forget_circuits()
    before = {(r.i, r.j): r.v for r in db.table("a2").collect()}
    u, v = np.array([1, -2, 0, 3]), np.array([2, 1, 0, -1])
    with db.transaction() as tx:
        tx.update_factored("a2", u, v)
    assert evaluated(db) == {"a2"}
    after = {(r.i, r.j): r.v for r in db.table("a2").collect()}
    assert after == {(i, j): x + u[i] * v[j] for (i, j), x in before.items()}
    checked(db)
    with db.transaction() as tx:  # Rank 2 at one end, rank 1 at the other, in one step.
        tx.update_factored("a1", PICK.integers(-3, 4, (SIZE, 2)), PICK.integers(-3, 4, (SIZE, 2)))
        tx.update_factored("a3", {2: 1}, {0: 5, 1: -1})
        tx.update_factored("a3", [(0, 1)], [(3, 2), (1, 1)])
    assert evaluated(db) == {"a1", "a2", "a3"}
    checked(db)
    db.check("total")
    if kind == "DOUBLE":
        return
    with db.transaction() as tx:  # An entry that was not there: the plain change.
        tx.update_factored("a2", [{0: 1}, {SIZE: 2}], [{0: 1}, {1: 7}])
        tx.upsert("a1", [(0, SIZE, 3), (1, 1, 9)])
        tx.delete("a3", [tuple(row) for row in db.table("a3").where("i = 2").collect()])
    assert evaluated(db) == {"", "a1", "a2", "a3"}
    checked(db)
    with db.transaction() as tx:  # Factors beside another change of the same table.
        tx.upsert("a2", [(1, 1, 4)])
        tx.update_factored("a2", {1: 1}, {1: 1, 2: 1})
    checked(db)
    with db.transaction() as tx:  # What cancels is no change.
        tx.update_factored("a2", [{1: 1}, {1: -1}], [{1: 3}, {1: 3}])
    checked(db)
    db.sql("DELETE FROM a1")
    assert db.table("p").count() == 0
    db.check("total")
    db.check("rows")


def test_products_in_plain_changes_are_found_and_led_through_as_vectors(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(products, "LEAST_IN_LINES", 4)
    monkeypatch.setattr(products, "LEAST_ENTRIES", 9)
    monkeypatch.setattr(products, "MOST_PRODUCTS", 2)
    monkeypatch.setattr(products, "LEAST_SAVING", 1)
    filled(db, "BIGINT")
    pick = np.random.default_rng(5)  # Its own: what is found depends on the values.

    def block(first: int, rank: int) -> list[tuple[int, int, int]]:
        u, v = (pick.integers(1, 4, (SIZE, rank)) for _ in range(2))
        return [(first + i, j, int(u[i] @ v[j])) for i in range(SIZE) for j in range(SIZE)]

    def stepped(taken: list[str]) -> None:
        """The view is right, and these parts of the change came by vectors."""
        said = [line.split(" rows of ")[-1] for line in db.explain("p").fed.splitlines()]
        assert len(said) == len(taken)
        assert all(map(re.fullmatch, taken, said)), said
        checked(db)

    db._connection.feeding.forget_circuits()
    arrived = block(SIZE, 1)
    with db.transaction() as tx:
        tx.insert("a2", arrived)
    stepped(["entries that arrived by 1 product of 4 by 4"])
    assert evaluated(db) == {"a2"}
    with db.transaction() as tx:  # One column of a1, whose new columns meet what arrived.
        tx.insert("a1", [(i, SIZE, i - 1) for i in range(SIZE)])
        tx.upsert("a2", [(i, j, x + (i - 3) * (2 - j)) for i, j, x in arrived])
    stepped(
        [
            "entries that arrived by 1 product of 4 by 1",
            "entries that changed by 1 product",
        ]
    )
    with db.transaction() as tx:  # A product beside rows that are none.
        tx.insert("a1", [(9, 1, 5), (9, 3, 7)])
        tx.insert("a2", [*block(20, 2), (30, 0, 1)])
        tx.delete("a2", [(i, j, x + (i - 3) * (2 - j)) for i, j, x in arrived if i < SIZE + 2])
    stepped(["entries that left by 2 products of 2 by 4"])
    monkeypatch.setattr(products, "MOST_PRODUCTS", 8)
    with db.transaction() as tx:
        tx.delete("a1", [(i, SIZE, i - 1) for i in range(SIZE)])
        tx.insert("a1", block(20, 2))
    stepped(
        [
            # A block of rank 2, or of rank 4 where its integers do not divide.
            "entries that arrived by [1-4] products? of 4 by 4",
            "entries that left by 1 product of 4 by 1",
        ]
    )
    db.sql("DELETE FROM a2")
    assert db.table("p").count() == 0
    db.check("total")


def test_a_fed_view_is_one_thing_to_its_user(
    db: Database, warehouse: str, spark: SparkSession
) -> None:
    filled(db, "BIGINT")
    assert db.tables == ["a1", "a2", "a3"]
    assert db.views == ["p", "total", "rows"]
    db.close()
    with rekindle.connect(warehouse, spark=spark) as again:
        again.place("spark")
        with again.transaction() as tx:
            tx.update_factored("a2", {0: 2, 1: 1}, {2: 1})
        again.place(None)
        again.refresh_by("full")
        with again.transaction() as tx:
            tx.upsert("a1", [(0, 0, 11)])
        again.refresh_by(None)
        checked(again)
        stored = [
            node.facts.rows_stored or 0
            for node in again.explain("p").nodes
            if node.label.startswith("table")
        ]
        assert stored == [0]
        with pytest.raises(ConstraintError, match="read by p"):
            again.drop_table("a1")
        with (
            pytest.raises(DefinitionError, match="a part of the view 'p'"),
            again.transaction() as tx,
        ):
            tx.insert("p·feed", [(1, 1, 1)])
        again.drop_view("total")
        again.drop_view("p")
        again.drop_table("a1")
        assert again.views == ["rows"]


def test_what_is_no_chain_or_no_matrix_is_refused(db: Database) -> None:
    db.sql("CREATE TABLE a (i INT NOT NULL, j INT NOT NULL, v BIGINT, PRIMARY KEY (i, j))")
    db.sql("CREATE TABLE s (i INT, v BIGINT)")
    db.create_view("w", "SELECT i, v FROM s")
    for query, reason in {
        "SELECT a.i, max(a.v * s.v) AS v FROM a JOIN s ON a.j = s.i GROUP BY a.i": "one sum",
        "SELECT a.i, sum(a.v * s.v) AS v FROM a JOIN s ON a.j = s.i GROUP BY a.i": "NOT NULL",
        "SELECT i, sum(i) AS v FROM a GROUP BY i": "joins nothing",
        "SELECT a.i, sum(a.j) AS v FROM a JOIN w ON a.j = w.i GROUP BY a.i": "'w' is a view",
    }.items():
        with pytest.raises(UnsupportedError, match="by the policy 'factored'") as caught:
            db.create_view("p", query, policy="factored")
        assert reason in str(caught.value)
    with pytest.raises(DefinitionError, match="'s' is not a matrix"), db.transaction() as tx:
        tx.update_factored("s", {1: 1}, {1: 1})
    with pytest.raises(RowError, match="2 and 1 vectors"), db.transaction() as tx:
        tx.update_factored("a", [{1: 1}, {2: 1}], {1: 1})
    with pytest.raises(RowError, match="does not fit the table"), db.transaction() as tx:
        tx.update_factored("a", {"x": 1}, {1: 1})
    for vector, reason in (
        ({1.5: 1}, "1.5 is not a whole number"),
        ({1: 0.5}, "0.5 is not a whole number"),
        ({1: None}, "missing"),
        ([(1, 2), (1, 3)], "two values for one index"),
        (3, "cannot be read"),
    ):
        with pytest.raises(RowError) as lost, db.transaction() as tx:
            tx.update_factored("a", vector, {1: 1})
        assert reason in str(lost.value)
    assert db.table("a").count() == 0
