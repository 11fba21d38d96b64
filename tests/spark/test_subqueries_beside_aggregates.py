"""Scalar subqueries in the results of an aggregate: beside its calls, inside them, in its keys."""

from __future__ import annotations

import pytest

from rekindle.runtime.database import Database

QUERIES = [
    "SELECT count(*) AS n, (SELECT count(*) FROM g) AS c FROM f",
    "SELECT sum(x) AS s, count(*) AS n, max(d) AS m, (SELECT max(k) FROM g) AS c FROM f",
    "SELECT k, count(*) AS n, (SELECT count(*) FROM f) AS c FROM g GROUP BY k",
    "SELECT k + 1 AS e, count(*) + (SELECT sum(x) FROM f) AS c FROM g GROUP BY k + 1",
    "SELECT k, sum(k * (SELECT count(*) FROM f)) AS s, (SELECT max(x) FROM f) AS m FROM g "
    "GROUP BY k",
    "SELECT k, count(*) AS n FROM g GROUP BY k HAVING count(*) > (SELECT count(*) FROM f) - 1",
    "SELECT (SELECT max(x) FROM f) AS m, count(*) AS n FROM g GROUP BY (SELECT max(x) FROM f)",
    "SELECT k, grouping(k) AS q, count(*) AS n, (SELECT count(*) FROM f) AS c FROM g "
    "GROUP BY ROLLUP (k)",
    "SELECT k, median(k) AS m, (SELECT sum(x) FROM f WHERE x > (SELECT avg(x) FROM f)) AS c "
    "FROM g GROUP BY k",
    "SELECT DISTINCT k, (SELECT count(*) FROM f) AS c FROM g",
]
STEPS = [
    "INSERT INTO f VALUES (1, 1.0), (2, 2.5), (NULL, NULL)",
    "INSERT INTO g VALUES (1), (1), (2), (NULL)",
    "DELETE FROM f WHERE x = 1",
    "UPDATE g SET k = 5 WHERE k = 2",
    "DELETE FROM g",
    "DELETE FROM f",
    "INSERT INTO g VALUES (7)",
]


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_every_place_of_a_subquery(db: Database, placement: str) -> None:
    db.sql("CREATE TABLE f (x BIGINT, d DOUBLE)")
    db.sql("CREATE TABLE g (k INT)")
    for i, query in enumerate(QUERIES if placement == "inline" else QUERIES[:3]):
        db.create_view(f"v{i}", query, incremental="required")
    db.place(placement)
    for step in STEPS if placement == "inline" else STEPS[:3]:
        db.sql(step)
        for view in db.views:
            db.check(view)
