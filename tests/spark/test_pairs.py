"""Pairs of a join that cancel out, on which an expression fails."""

from __future__ import annotations

import pytest

from rekindle.errors import EvaluationError
from rekindle.runtime.database import Database
from rekindle.spark.step import Placement
from tests.spark.helpers import refused, rows, weighted

VIEWS = {
    "ratio": "SELECT a.k, x / y AS q FROM a JOIN b ON a.k = b.k",
    "total": "SELECT a.k, sum(x div y) AS q FROM a LEFT JOIN b ON a.k = b.k GROUP BY a.k",
    "twice": "SELECT a.k, x / y AS q FROM a JOIN b ON a.k = b.k UNION ALL "
    "SELECT a.k, x / y AS q FROM a JOIN b ON a.k = b.k",
    "less": "SELECT a.k, x / y AS q FROM a JOIN b ON a.k = b.k EXCEPT ALL "
    "SELECT a.k, x * 1.0D FROM a JOIN b ON a.k = b.k",
    "matched": "SELECT a.k, y FROM a JOIN b ON a.k = b.k AND x / y > 0",
}


@pytest.mark.parametrize("placement", [Placement.INLINE, Placement.SPARK])
def test_an_expression_fails_only_on_pairs_that_are_there(
    db: Database, placement: Placement
) -> None:
    db.sql("CREATE TABLE a (k INT, x INT)")
    db.sql("CREATE TABLE b (k INT, y INT)")
    for name, query in VIEWS.items():
        db.create_view(name, query)
    db.sql("INSERT INTO a VALUES (5, 5)")
    db.sql("INSERT INTO b VALUES (1, 0), (2, 2), (5, 1), (7, 0)")
    db.sql("DELETE FROM b WHERE k = 1")
    db._engine.placing.forced = placement

    db.sql("INSERT INTO a VALUES (1, 1), (2, 2)")  # meets what was deleted
    with db.transaction() as tx:  # what leaves meets what comes, on either side
        tx.delete("a", [(5, 5)])
        tx.insert("b", [(5, 0)])
        tx.delete("b", [(7, 0)])
        tx.insert("a", [(7, 7)])
    for view in VIEWS:
        db.check(view)
        assert weighted(db.changes(view)) == rows(db, view)
    with refused(db, EvaluationError, "DIVIDE_BY_ZERO"):
        db.sql("INSERT INTO a VALUES (5, 1)")
    with refused(db, EvaluationError, "DIVIDE_BY_ZERO"):
        db.sql("INSERT INTO b VALUES (2, 0)")
