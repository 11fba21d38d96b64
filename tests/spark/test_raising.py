"""Semi and anti joins above inner joins: fewer rows are kept, and the result is the same."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from rekindle.runtime.database import Database

EXISTS = "EXISTS (SELECT * FROM l y WHERE y.k = x.k AND y.s <> x.s)"
MORE = "EXISTS (SELECT * FROM l z WHERE z.k = x.k AND z.s > x.s AND z.late)"
QUERIES = {
    "semi": f"SELECT x.s, o.n FROM l x JOIN o ON x.k = o.k WHERE {EXISTS}",
    "anti": f"SELECT x.k, o.n FROM l x JOIN o ON x.k = o.k WHERE NOT {EXISTS}",
    "both": f"SELECT o.n FROM l x JOIN o ON x.k = o.k WHERE {EXISTS} AND NOT {MORE}",
    "from the right": f"SELECT o.n FROM o JOIN l x ON x.k = o.k WHERE {EXISTS} AND x.late",
    "two joins": f"SELECT o.n, p.m, count(*) AS c FROM l x JOIN o ON x.k = o.k JOIN p ON p.s = x.s "
    f"WHERE {EXISTS} AND NOT {MORE} AND o.n > 0 GROUP BY o.n, p.m",
    "an expression": f"SELECT o.n, d.b FROM (SELECT x.k, x.s * 2 AS b FROM l x WHERE {EXISTS}) d "
    "JOIN o ON d.k = o.k",
    "a product": f"SELECT x.s, o.n FROM l x CROSS JOIN o WHERE NOT {EXISTS}",
}


@pytest.fixture
def lines(db: Database) -> Database:
    db.sql("CREATE TABLE l (k INT, s INT, late BOOLEAN)")
    db.sql("CREATE TABLE o (k INT, n INT)")
    db.sql("CREATE TABLE p (s INT, m STRING)")
    return db


def test_views_with_raised_joins_equal_their_recomputation(lines: Database) -> None:
    for name, query in QUERIES.items():
        lines.create_view(name, query, incremental="required")
    lines.sql("INSERT INTO l VALUES (1, 1, true), (1, 2, false), (2, 1, true), (2, 1, true)")
    lines.sql("INSERT INTO p VALUES (1, 'a'), (2, 'b'), (3, NULL)")
    lines.sql("INSERT INTO l VALUES (3, 3, true)")
    for statement in (
        "INSERT INTO o VALUES (1, 5), (1, 5), (2, 6), (3, -1), (NULL, 2)",
        "INSERT INTO l VALUES (2, 2, true), (NULL, 1, true), (3, NULL, true), (1, 3, NULL)",
        "DELETE FROM l WHERE k = 1 AND s = 2",
        "DELETE FROM o WHERE n = 5",
        "UPDATE l SET s = 4 WHERE k = 2",
        "INSERT INTO o VALUES (2, 7)",
        "DELETE FROM l WHERE k = 3",
        "DELETE FROM l",
    ):
        lines.sql(statement)
        for name in QUERIES:
            lines.check(name)


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT o.n, d.b FROM (SELECT x.k, 10 / x.s AS b FROM l x WHERE {EXISTS}) d "
        "JOIN o ON d.k = o.k",
        f"SELECT o.n FROM (SELECT * FROM l x WHERE {EXISTS}) d "
        "JOIN o ON d.k = o.k AND 10 / d.s > o.n",
    ],
)
def test_rows_that_exists_drops_reach_nothing_that_can_fail(lines: Database, query: str) -> None:
    lines.create_view("v", query)
    lines.sql("INSERT INTO o VALUES (1, 5), (2, 1)")
    lines.sql("INSERT INTO l VALUES (1, 0, true), (2, 1, true), (2, 2, true)")
    lines.check("v")


def test_what_is_kept_are_rows_after_the_joins(lines: Database) -> None:
    lines.create_view("v", QUERIES["both"] + " AND o.n = 1")
    lines.sql("INSERT INTO o VALUES (1, 1)")
    lines.sql("INSERT INTO l SELECT CAST(id AS INT) % 50, CAST(id AS INT), true FROM range(1000)")
    pairs = [
        node.facts.rows_stored
        for node in lines.explain("v").nodes
        if node.kind == "arrangement" and "distinct join" in node.label
    ]
    assert pairs and max(pairs) <= 20, pairs


def test_a_frame_whose_hidden_side_is_joined_again(lines: Database) -> None:
    left, other = lines.table("l"), lines.table("o")
    apart = left.join(
        other, (left["k"] == other["k"]) & (left["s"] != other["n"]), "left_semi"
    ).select(F.col("k").alias("a"), F.col("s").alias("b"))
    lines.create_view("v", apart.join(other, apart["b"] == other["n"]))
    lines.sql("INSERT INTO l VALUES (1, 1, true), (2, 6, true), (2, 7, true)")
    lines.sql("INSERT INTO o VALUES (1, 5), (2, 6), (2, 7), (3, 1)")
    lines.check("v")
    lines.sql("DELETE FROM o WHERE n = 6")
    lines.check("v")
