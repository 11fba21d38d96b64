"""A nested table as Python values: what a database is held to after every step."""

from __future__ import annotations

from typing import Any

from pyspark.sql import Row

from rekindle.runtime.database import Database

COLUMNS = (
    "id BIGINT, name STRING, tags ARRAY<STRING>, orders ARRAY<STRUCT<okey: BIGINT, state: STRING, "
    "lines: ARRAY<STRUCT<part: STRING, qty: INT, notes: ARRAY<STRUCT<text: STRING>>>>>>"
)
"""Arrays of structs three deep, and an array of scalars, which stays in its row."""
NESTED = """
    for c in customers yield (id: c.id, kept: c.orders,
        n: count(for o in c.orders, l in o.lines, t in l.notes yield t.text),
        all: for o in c.orders, l in o.lines where l.qty > 1 yield (okey: o.okey, part: l.part))
"""
FLAT = "for c in customers, o in c.orders, l in o.lines yield (id: c.id, part: l.part, q: l.qty)"
SQL = """
    SELECT id, name, size(orders) AS n, get(orders, 0).okey AS first,
        aggregate(orders, 0, (a, o) -> a + coalesce(size(o.lines), 10)) AS m FROM customers
"""


def plain(value: Any) -> Any:
    """A value of Spark as tuples and lists."""
    match value:
        case Row():
            return tuple(map(plain, value))
        case dict():
            return tuple(map(plain, value.values()))
        case list():
            return [plain(each) for each in value]
    return value


def contents(db: Database, table: str = "customers") -> list[Any]:
    """The rows of a table, in the order of their keys."""
    return sorted((plain(row) for row in db.table(table).collect()), key=lambda row: row[0])


def check(db: Database, model: dict[int, Any], *views: str) -> None:
    """The table is what the model says, and the views are what Spark makes of the table."""
    assert contents(db) == [model[key] for key in sorted(model)]
    for view in views:
        db.check(view)
