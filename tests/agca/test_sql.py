"""SQL to AGCA and back, against SQLite."""

from __future__ import annotations

import sqlite3
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.zset import ZSet
from rekindle.errors import RekindleError, UnsupportedError
from rekindle.frontends.agca.ast import Query
from rekindle.frontends.agca.parse import parse_query
from rekindle.frontends.agca.sql_text import query_to_sql
from rekindle.frontends.agca.text import written_query
from tests.agca.reference.semantics import Database, Row, evaluate_query
from tests.agca.reference.sql import sql_to_query

from .strategies import SCHEMA, Shape, fewer, law, primitive_queries, queries, rows

bags: st.SearchStrategy[Database] = st.fixed_dictionaries(
    {
        relation: st.dictionaries(rows[relation], st.integers(1, 2), max_size=4).map(ZSet.of)
        for relation in SCHEMA
    }
)


def run_sqlite(sql: str, database: Database) -> dict[Row, Fraction]:
    """The groups whose sum is neither 0 nor NULL."""
    connection = sqlite3.connect(":memory:")
    try:
        for relation, columns in SCHEMA.items():
            connection.execute(f"CREATE TABLE {relation} ({', '.join(columns)})")
            marks = ", ".join("?" * len(columns))
            for row, weight in database[relation]:
                connection.executemany(f"INSERT INTO {relation} VALUES ({marks})", [row] * weight)
        found = connection.execute(sql).fetchall()
    finally:
        connection.close()
    return {tuple(row[:-1]): Fraction(row[-1]) for row in found if row[-1]}


def test_example_4_2() -> None:
    """The paper calls the variables c1, n1, c2, n2; here they carry the alias and the column."""
    sql = """
        SELECT C1.cid, SUM(1)
        FROM C C1, C C2
        WHERE C1.nation = C2.nation
        GROUP BY C1.cid;
    """
    assert written_query(sql_to_query(sql, {"C": ["cid", "nation"]})) == (
        "q[c1_cid] = Sum(1, C(c1_cid, c1_nation) * C(c2_cid, c2_nation) * (c1_nation = c2_nation))"
    )


QUERIES = [
    "SELECT SUM(a * b - 1) FROM R",
    "SELECT COUNT(*) FROM R, S WHERE b = c",
    "SELECT x.a, y.b, SUM(x.b) AS total FROM R x, R AS y WHERE x.b = y.a GROUP BY x.a, y.b",
    "SELECT a, COUNT(*) FROM R WHERE a = 1 OR b <> 2 AND NOT a < b GROUP BY a",
    "SELECT a, SUM(b) FROM R WHERE NOT (a = 1 OR (b - 1) * 2 >= a) GROUP BY a",
    "SELECT a, SUM(abs(a - b)) FROM R WHERE (a = b OR a = 0 OR b = 0) GROUP BY a",
    "SELECT a, SUM(1) FROM R WHERE (SELECT COALESCE(SUM(c), 0) FROM S WHERE c <= a) > 1 GROUP BY a",
    "SELECT a, SUM(b * (SELECT COUNT(*) FROM S WHERE c = b)) FROM R GROUP BY a",
]


@pytest.mark.parametrize("sql", QUERIES)
@fewer
@given(bags)
def test_sql_means_what_sqlite_says(sql: str, database: Database) -> None:
    query = sql_to_query(sql, SCHEMA)
    assert evaluate_query(query, database) == run_sqlite(sql, database)


def has_sql(query: Query) -> bool:
    try:
        query_to_sql(query, SCHEMA)
    except UnsupportedError:
        return False
    return True


selections = primitive_queries() | queries(Shape(conditions=True, sums=False)).filter(has_sql)


@law
@given(selections, bags)
def test_queries_come_back_from_sql(query: Query, database: Database) -> None:
    sql = query_to_sql(query, SCHEMA)
    expected = evaluate_query(query, database)
    assert run_sqlite(sql, database) == expected
    assert evaluate_query(sql_to_query(sql, SCHEMA), database) == expected


@pytest.mark.parametrize(
    ("query", "sql"),
    [
        (
            "q[c1] = Sum(1, R(c1, n1) * R(c2, n2) * (n1 = n2))",
            "SELECT r1.a, SUM(1) FROM R r1, R r2 WHERE r1.b = r2.b GROUP BY r1.a",
        ),
        (
            "q[] = Sum(x, S(x) * (Sum(y, R(x, y)) > 2) * (x != 0))",
            "SELECT SUM(r1.c) FROM S r1 WHERE (SELECT COALESCE(SUM(r2.b), 0) FROM R r2"
            " WHERE r2.a = r1.c) > 2 AND r1.c != 0",
        ),
    ],
)
def test_sql_text(query: str, sql: str) -> None:
    assert query_to_sql(parse_query(query), SCHEMA) == sql


@pytest.mark.parametrize(
    "query",
    ["q[] = Sum(1, S(x)) + 1", "q[a] = Sum(1, S(x))", "q[] = Sum(1, S(x) + S(x))", "q[] = 1"],
)
def test_what_is_no_select_is_refused(query: str) -> None:
    with pytest.raises(UnsupportedError, match="has no SQL form"):
        query_to_sql(parse_query(query), SCHEMA)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT SUM(1)", "expected FROM"),
        ("SELECT SUM(1) FROM T", "unknown table 'T'"),
        ("SELECT SUM(z) FROM R", "line 1, column 12: 'z' is not a column of any table"),
        ("SELECT SUM(a) FROM R x, R y", "'a' belongs to several tables"),
        ("SELECT SUM(q.a) FROM R x", "unknown alias 'q'"),
        ("SELECT SUM(r.c) FROM R", "unknown column 'c' of 'r'"),
        ("SELECT a, SUM(1) FROM R", "are not those of GROUP BY"),
        ("SELECT a FROM R GROUP BY a", "one SUM"),
        ("SELECT SUM(1) FROM R WHERE a", "expected a comparison"),
        ("SELECT SUM(1) FROM R\nWHERE a = $1", "line 2, column 11: unexpected character '$'"),
        ("SELECT SUM(1) FROM R HAVING 1", "unexpected '1'"),
        ("SELECT SUM(1) FROM R, R", "the alias 'r' is used twice"),
    ],
)
def test_errors_name_the_place(sql: str, message: str) -> None:
    with pytest.raises(RekindleError) as caught:
        sql_to_query(sql, SCHEMA)
    assert message in str(caught.value)
