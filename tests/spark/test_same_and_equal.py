"""What is equal but not the same: -0.0 beside 0.0, texts that a collation does not tell apart."""

from __future__ import annotations

from math import inf, nan

from rekindle.runtime.database import Database

QUERIES = {
    "rows of a": {
        "exists": "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.x <> b.y)",
        "not exists": "SELECT n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE a.x <> b.y)",
        "by its text": (
            "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE CAST(a.x AS STRING) <> "
            "CAST(b.y AS STRING))"
        ),
        "in a map": "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.m['a'] <> b.y)",
        "in an array": "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.r[0] <> b.y)",
        "in a struct": "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.s.p <> b.y)",
        "text": "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM b WHERE length(a.c) <> b.y)",
        "texts": "SELECT n FROM a WHERE EXISTS (SELECT 1 FROM a b WHERE a.c < b.c)",
        "text not in": "SELECT n FROM a WHERE c NOT IN (SELECT d FROM b)",
        "in": "SELECT n FROM a WHERE a.x IN (SELECT y FROM b)",
        "not in": "SELECT n FROM a WHERE a.x NOT IN (SELECT y FROM b)",
    },
    "pairs": {
        "left join": "SELECT n, k FROM a LEFT JOIN b ON a.x < b.y",
        "full join": "SELECT n, k FROM a FULL JOIN b ON a.x < b.y",
        "full join with keys": (
            "SELECT n, k FROM a FULL JOIN b ON a.x = b.y AND CAST(a.x AS STRING) <> "
            "CAST(b.y AS STRING)"
        ),
        "scalar subquery": "SELECT n, (SELECT k FROM b WHERE b.y > a.x + 100) AS k FROM a",
        "structs of other names": (
            "SELECT n, k FROM a JOIN b ON struct(a.x, a.c) = struct(b.y, b.d) WHERE EXISTS "
            "(SELECT 1 FROM b WHERE struct(a.x AS p, 1) = struct(b.y, 1))"
        ),
    },
    "marked": {
        "marked": "SELECT n, EXISTS (SELECT 1 FROM b WHERE a.x <> b.y) OR n > 100 AS e FROM a",
    },
    "distinct values": {
        "distinct values": (
            "SELECT c, count(DISTINCT x) AS d, sum(DISTINCT x) AS e FROM a GROUP BY c"
        ),
    },
    "numbers": {
        "distinct values of all": "SELECT count(DISTINCT x) AS d FROM a",
        "listed distinct values": "SELECT size(collect_list(DISTINCT x)) AS d FROM a",
    },
}
"""By the columns that they give: those of the same columns are one view, compared in one go."""
NUMBERS = [1.75, inf, 0.0, -0.0, nan, nan, None, 0.0, -0.0]


def test_rows_come_once(db: Database) -> None:
    db.sql(
        "CREATE TABLE a (n INT, x FLOAT, m MAP<STRING, DOUBLE>, r ARRAY<DOUBLE>, "
        "s STRUCT<p: DOUBLE, q: STRING>, c STRING COLLATE UTF8_LCASE)"
    )
    db.sql("CREATE TABLE b (k INT, y FLOAT, d STRING COLLATE UTF8_LCASE)")
    for view, queries in QUERIES.items():
        parts = (f"SELECT '{name}' AS query, * FROM ({query})" for name, query in queries.items())
        db.create_view(view, " UNION ALL ".join(parts))
    with db.transaction() as tx:
        tx.insert(
            "a",
            [
                (i, x, {"a": x}, [x], {"p": x, "q": "q"}, "aB" if i % 2 else "Ab")
                for i, x in enumerate(NUMBERS)
            ],
        )
        tx.insert("b", [(1, 0.0, "AB"), (2, -0.0, "ab"), (3, 1.0, "c")])
    for view in QUERIES:
        db.check(view)
    for statement in (
        "DELETE FROM b WHERE k = 3",
        "DELETE FROM a WHERE n = 2",
        "INSERT INTO b VALUES (7, -0.0, 'Ab'), (8, 5, NULL)",
        "DELETE FROM b WHERE k IN (1, 8)",
        "DELETE FROM b",
    ):
        db.sql(statement)
        for view in QUERIES:
            db.check(view)
