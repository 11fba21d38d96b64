"""The first rows in the order of every type: what the sort prefix must get right."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from rekindle.runtime.database import Database
from tests.spark.helpers import collected, rows_of_groups_read

VALUES = {
    "boolean": ["true", "false"],
    "tinyint": ["-128", "0", "127", "5"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "0", "-1", "1"],
    "float": ["-1.5", "0.0", "1e30", "-1e30", "double('NaN')", "double('-Infinity')"],
    "double": ["-1.5", "0.0", "1e300", "-1e300", "double('NaN')", "double('Infinity')"],
    "decimal(10,2)": ["-1.50", "0.00", "99999999.99", "-99999999.99", "1.25"],
    "decimal(25,10)": ["-1.5", "0", "999999999999999.9999999999", "-99999.25", "-0.0000000001"],
    "decimal(38,0)": ["-1", "0", "99999999999999999999999999999999999999", "-10000000000000000000"],
    "string": ["''", "'a'", "'abcdefgh1'", "'abcdefgh0'", "'é'", "'zz'", "'B'"],
    "binary": ["X''", "X'00'", "X'FF00'", "X'7F'", "X'0102030405060708FF'"],
    "date": ["date'1969-12-31'", "date'2024-02-29'", "date'0001-01-01'"],
    "timestamp": ["timestamp'1969-12-31 23:59:59Z'", "timestamp'2024-02-29 00:00:00Z'"],
    "timestamp_ntz": ["timestamp_ntz'1969-12-31 23:59:59'", "timestamp_ntz'2024-02-29 00:00:00'"],
    "interval day to second": ["interval '1' day", "interval '-1' day", "interval '0' day"],
    "interval year to month": ["interval '1' year", "interval '-1' month"],
    "array<int>": ["array(1, 2)", "array(1)", "array()", "array(null, 1)"],
    "struct<f: int, g: string>": ["struct(1, 'b')", "struct(1, 'a')", "struct(0, 'z')"],
}
ORDERS = ["", "DESC", "DESC NULLS FIRST", "NULLS LAST"]


def test_the_first_rows_are_those_that_spark_puts_first(db: Database) -> None:
    """A column of every type; a view of each order has the first rows by every one of them."""
    types = list(VALUES)
    columns = ", ".join(f"x{i} {type_}" for i, type_ in enumerate(types))
    db.sql(f"CREATE TABLE t (n INT, {columns})")
    views = []
    for i, order in enumerate(ORDERS):
        first = (
            f"SELECT {j} AS type, n, CAST(x{j} AS STRING) AS y FROM "
            f"(SELECT n, x{j} FROM t ORDER BY x{j} {order}, n LIMIT 2 OFFSET 1)"
            for j in range(len(types))
        )
        views.append(f"v{i}")
        db.create_view(views[-1], " UNION ALL ".join(first))
    ends = []
    for i, type_ in enumerate(types):
        for call in (f"min(x{i})", f"max(x{i})"):
            shown = f"CAST({call} AS STRING)" if type_.startswith("interval year") else call
            ends += [f"{call} IS NULL", shown]
    views.append("extremes")
    named = ", ".join(f"{end} AS e{i}" for i, end in enumerate(ends))
    db.create_view(views[-1], f"SELECT {named} FROM t")
    most = max(map(len, VALUES.values()))
    rows = [_row(n, {t: each[n % len(each)] for t, each in VALUES.items()}) for n in range(most)]
    rows.append(_row(most, dict.fromkeys(types, "NULL")))
    db.sql(f"INSERT INTO t VALUES {', '.join(rows)}")
    _agree(db, views)
    db.sql("DELETE FROM t WHERE n IN (0, 2)")
    _agree(db, views)
    db.sql(f"DELETE FROM t WHERE n NOT IN (1, {most})")
    _agree(db, views)


def _row(n: int, values: Mapping[str, str]) -> str:
    """A row with a value of each type."""
    return f"({n}, {', '.join(f'CAST({value} AS {type_})' for type_, value in values.items())})"


def _agree(db: Database, views: list[str]) -> None:
    for view in views:
        assert collected(db.table(view)) == collected(db.recompute(view)), view


FROM_BELOW = [
    "FROM u |> ORDER BY y DESC |> LIMIT 3 |> OFFSET 1",
    "SELECT k FROM (SELECT * FROM u ORDER BY y DESC LIMIT 4) OFFSET 2",
    "SELECT * FROM (SELECT * FROM u ORDER BY y OFFSET 1) LIMIT 2",
    "SELECT k, (SELECT y FROM u WHERE u.k = t.k ORDER BY s DESC LIMIT 1) AS m FROM t",
    "SELECT k, m FROM t, LATERAL (SELECT y AS m FROM u WHERE u.k = t.k ORDER BY y DESC LIMIT 1)",
    "SELECT k, m FROM t, "
    "LATERAL (SELECT y + 1 AS m FROM u WHERE u.k = t.k ORDER BY s DESC, y LIMIT 2 OFFSET 1)",
]


def test_an_order_below_decides_what_is_first(db: Database) -> None:
    db.sql("CREATE TABLE t (k INT)")
    db.sql("CREATE TABLE u (k INT, y INT, s STRING)")
    views = [f"v{i}" for i in range(len(FROM_BELOW))]
    for view, query in zip(views, FROM_BELOW, strict=True):
        db.create_view(view, query)
    for statement in (
        "INSERT INTO t VALUES (1), (2), (3)",
        "INSERT INTO u VALUES (1, 1, 'c'), (1, 2, 'b'), (1, 3, 'd'), (2, 5, 'a'), (2, 4, 'z')",
        "INSERT INTO u VALUES (1, 9, 'a'), (1, 0, 'y'), (3, 7, NULL)",
        "DELETE FROM u WHERE s IN ('y', 'z')",
        "UPDATE u SET y = y + 10 WHERE s = 'c'",
        "DELETE FROM u WHERE k = 1",
    ):
        db.sql(statement)
        _agree(db, views)


ORDERED = [
    "SELECT k, min(x) AS m, max(x) AS n FROM t GROUP BY k",
    "SELECT x FROM t ORDER BY x LIMIT 3",
    "SELECT k, x FROM (SELECT k, x, rank() OVER (PARTITION BY k ORDER BY x) r FROM t) WHERE r < 4",
]


@pytest.mark.parametrize("query", ORDERED)
def test_a_large_group_is_not_read(
    db: Database, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 6: one changed row costs a few rows of its group of thousands."""
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.sql("INSERT INTO t SELECT 1, id FROM range(5000)")
    db.create_view("v", query)
    read = rows_of_groups_read(monkeypatch)
    for statement in ("INSERT INTO t VALUES (1, -7)", "DELETE FROM t WHERE x = -7"):
        read.clear()
        db.sql(statement)
        assert read and max(read) < 20
        _agree(db, ["v"])


def test_a_small_group_beside_a_large_one_is_read_alone(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.sql("INSERT INTO t SELECT IF(id < 3, 1, 2), id FROM range(5000)")
    db.create_view("v", "SELECT k, mode(CAST(x AS DOUBLE), true) AS m FROM t GROUP BY k")
    read = rows_of_groups_read(monkeypatch)
    db.sql("INSERT INTO t VALUES (1, -7)")
    assert read == [3 + 4]
    _agree(db, ["v"])
