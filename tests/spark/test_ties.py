"""A check where Spark could choose among level rows: the view's choice is not a difference."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame

from rekindle.errors import CheckError
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.state import State
from rekindle.runtime.reading.reading import DataReader

OPEN = {
    "limit": "SELECT k, p FROM t ORDER BY p DESC LIMIT 3",
    "limit of a column that is not shown": "SELECT k FROM t ORDER BY p LIMIT 3",
    "offset": "SELECT k, d FROM t ORDER BY p LIMIT 4 OFFSET 2",
    "limit without an order": "SELECT k, d FROM t LIMIT 5",
    "offset alone": "SELECT k FROM t OFFSET 3",
    "limit of groups": "SELECT d, count(*) AS n FROM t GROUP BY d ORDER BY n LIMIT 1",
    "limit of an outer join": "SELECT t.k, u.e FROM t LEFT JOIN u ON t.k = u.k LIMIT 4",
    "limit below": "SELECT sum(k) AS s FROM (SELECT k FROM t ORDER BY p LIMIT 3)",
    "limit in a subquery": "SELECT k - (SELECT k FROM t ORDER BY p LIMIT 1) AS x FROM t",
    "limits in a union": "(SELECT k FROM t ORDER BY p LIMIT 2) UNION ALL SELECT k FROM u",
    "row_number": "SELECT k, row_number() OVER (PARTITION BY p ORDER BY d) AS r FROM t",
    "row_number with a limit": "SELECT k FROM (SELECT *, row_number() OVER "
    "(PARTITION BY p ORDER BY d) AS r FROM t) WHERE r <= 2",
    "lag": "SELECT k, lag(k) OVER (ORDER BY p) AS before, rank() OVER (ORDER BY p) AS r FROM t",
    "rows": "SELECT k, sum(k) OVER (ORDER BY d ROWS 1 PRECEDING) AS s, "
    "sum(k) OVER (ORDER BY d) AS level FROM t",
    "decimals": "SELECT k, sum(CAST(k AS DECIMAL(5, 1))) OVER (ORDER BY p ROWS 2 PRECEDING) AS s "
    "FROM t",
    "first_value": "SELECT k, first_value(k) OVER (PARTITION BY d ORDER BY p) AS f FROM t",
}


@pytest.fixture
def tied(db: Database) -> Database:
    db.sql("CREATE TABLE t (k INT, p INT, d STRING)")
    db.sql("CREATE TABLE u (k INT, e STRING)")
    return db


@pytest.mark.parametrize("name", OPEN)
def test_ties_are_not_differences(tied: Database, name: str) -> None:
    tied.create_view("v", OPEN[name])
    for i in range(5):
        tied.sql(f"INSERT INTO t VALUES ({90 - i}, 7, 'x'), ({i}, 7, 'y'), ({i}, 7, 'x')")
        tied.sql(f"INSERT INTO u VALUES ({i}, 'a'), ({i}, 'b')")
        tied.check("v")
    tied.sql("DELETE FROM t WHERE k IN (0, 90)")
    tied.check("v")


@pytest.mark.parametrize("name", OPEN)
def test_a_difference_beyond_ties_is_one(
    tied: Database, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tied.create_view("v", OPEN[name])
    tied.sql("INSERT INTO t VALUES (1, 7, 'x'), (2, 7, 'y'), (3, 7, 'y'), (4, 7, 'x'), (5, 8, 'x')")
    tied.sql("INSERT INTO u VALUES (1, 'a')")
    table = tied.table
    right, tables = table("v"), {"t": table("t"), "u": table("u")}
    for wrong in (right.limit(0), right.unionAll(right)):
        contents = {"v": wrong, **tables}

        def committed(self: object, state: State, name: str) -> DataFrame:
            return contents[name]  # noqa: B023 - called before the next turn

        monkeypatch.setattr(DataReader, "committed", committed)
        with pytest.raises(CheckError, match="differs from its recomputation"):
            tied.check("v")


def test_a_frame_with_ties(tied: Database) -> None:
    tied.create_view("v", tied.table("t").orderBy("p").limit(3).select("k"))
    for i in range(4):
        tied.sql(f"INSERT INTO t VALUES ({90 - i}, 7, 'x'), ({i}, 7, 'y')")
        tied.check("v")
