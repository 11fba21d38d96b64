"""Joins on ranges: every kind of join, every type, and only the rows in the range are read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.calculus.terms import Join, Range, RangeCondition, Term
from rekindle.circuit.nodes import HalfJoin
from rekindle.errors import RekindleError
from rekindle.frontends.spark_sql.front_end import SparkSql
from rekindle.runtime.database import Database
from rekindle.spark.step import Placement
from tests.property.oracle import assert_equal
from tests.spark.helpers import collected, weighted

ROWS = 8_000
WITHIN = "a.t BETWEEN b.lo AND b.hi"
NO = "CAST(NULL AS INT)"
KINDS = {
    "inner": "SELECT a.n, b.n AS m, t, lo FROM a JOIN b ON {}",
    "left": "SELECT a.n, b.n AS m, t, lo FROM a LEFT JOIN b ON {}",
    "right": "SELECT a.n, b.n AS m, t, lo FROM a RIGHT JOIN b ON {}",
    "full": "SELECT a.n, b.n AS m, t, lo FROM a FULL JOIN b ON {}",
    "semi": f"SELECT n, {NO}, t, {NO} FROM a WHERE EXISTS (SELECT 1 FROM b WHERE {{}})",
    "anti": f"SELECT n, {NO}, t, {NO} FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE {{}})",
    "marked": (
        f"SELECT n, CAST(EXISTS (SELECT 1 FROM b WHERE {{}}) OR t = 5 AS INT), t, {NO} FROM a"
    ),
}


def _all(queries: Mapping[str, str]) -> str:
    """One query that gives what all of them give: a view of it is compared in one go."""
    parts = (f"SELECT '{name}' AS query, * FROM ({query})" for name, query in queries.items())
    return " UNION ALL ".join(parts)


def _agree(db: Database, view: str = "v") -> None:
    assert_equal(collected(db.table(view)), collected(db.recompute(view)), view)


def _lookups(db: Database) -> list[HalfJoin]:
    nodes = db._engine.circuit.nodes.values()
    return [node for node in nodes if isinstance(node, HalfJoin) and node.lookup is not None]


# ---- law 1 ---------------------------------------------------------------------------------------


STEPS = [
    {"a": [(1, 5, 1), (2, 5, 1), (2, 5, 1), (3, None, 1)], "b": [(1, 5, 5, 1), (2, 1, 9, 1)]},
    {"b": [(3, 6, 4, 1), (4, None, 9, 1), (5, 3, None, 1), (6, 9, 9, 1), (6, 9, 9, 1)]},
    {"a": [(4, 9, 1), (5, -7, 1), (2, 5, -1)], "b": [(2, 1, 9, -1), (2, 0, 4, 1)]},
    {"a": [(9, 4, 1), (9, 4, -1)], "b": []},
    {"a": [(1, 5, -1), (3, None, -1), (4, 9, -1), (4, 1, 1)], "b": [(6, 9, 9, -1)]},
    {"b": [(1, 5, 5, -1), (2, 0, 4, -1), (5, 3, None, -1)]},
    {"a": [(2, 5, -1), (4, 1, -1), (5, -7, -1)]},
]
"""Rows with weights. Ties at both ends, an empty range, duplicates, updates of both sides."""


def _take(db: Database, step: Mapping[str, list[tuple[int | None, ...]]]) -> None:
    with db.transaction() as tx:
        for table, rows in step.items():
            names = ("n", "t") if table == "a" else ("n", "lo", "hi")
            changes = [dict(zip((*names, "_weight"), row, strict=True)) for row in rows]
            if changes:
                tx.apply(table, changes)


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_every_kind_of_join_on_a_range(db: Database, placement: str) -> None:
    db.place(placement)
    db.sql("CREATE TABLE a (n INT, t INT)")
    db.sql("CREATE TABLE b (n INT, lo INT, hi INT)")
    kinds = KINDS if placement == "inline" else {"full": KINDS["full"]}
    db.create_view("v", _all({name: query.format(WITHIN) for name, query in kinds.items()}))
    assert len(_lookups(db)) >= 4
    for step in STEPS if placement == "inline" else STEPS[:3]:
        _take(db, step)
        _agree(db)
    assert db.last_step is not None and db.last_step.placement is Placement(placement)
    assert_equal(weighted(db.changes("v")), collected(db.table("v")), "v")


def test_a_range_beside_an_equality_and_a_view_made_over_full_tables(db: Database) -> None:
    db.sql("CREATE TABLE a (n INT, t INT)")
    db.sql("CREATE TABLE b (n INT, lo INT, hi INT, PRIMARY KEY (n))")
    db.sql("INSERT INTO a SELECT CAST(id % 3 AS INT), CAST(id AS INT) FROM range(30)")
    db.sql("INSERT INTO b VALUES (0, 3, 9), (1, 9, 3), (2, 0, NULL), (3, 0, 9), (4, 12, 28)")
    conditions = {
        "keyed": f"a.n = b.n AND {WITHIN}",
        "shifted": "a.n = b.n % 3 AND a.t >= b.lo - 2 AND a.t < b.lo + 2",
        "one sided": "a.n = b.n AND a.t < b.lo",
    }
    queries = {
        f"{kind}, {name}": KINDS[kind].format(condition)
        for name, condition in conditions.items()
        for kind in ("inner", "full")
    }
    db.create_view("v", _all(queries))
    assert _lookups(db)
    _agree(db)
    for statement in (
        "UPDATE b SET hi = hi + 5, lo = lo - 1 WHERE n < 2",
        "INSERT INTO a VALUES (0, 4), (0, 4), (NULL, 4), (1, NULL)",
        "DELETE FROM b WHERE n IN (0, 2)",
        "DELETE FROM a WHERE t % 2 = 0",
    ):
        db.sql(statement)
        _agree(db)
    assert "where a.t is in the range from b.lo to b.hi" in str(db.explain("v"))


# ---- types ---------------------------------------------------------------------------------------

LONG = "'" + "same beginning " * 3
VALUES = {
    "tinyint": ["-128", "127", "0", "1"],
    "bigint": ["-9223372036854775808", "9223372036854775807", "9223372036854775806", "0", "-1"],
    "float": ["-0.0", "0.0", "1e30", "-1e30", "float('NaN')", "float('-Infinity')"],
    "double": ["-0.0", "0.0", "1e-300", "double('NaN')", "double('Infinity')", "-1e300"],
    "decimal(10,2)": ["-1.50", "0", "0.01", "99999999.99", "-99999999.99"],
    "decimal(25,10)": [
        "999999999999999.9999999999",
        "999999999999999",
        "-0.0000000001",
        "0",
        "-5.5",
    ],
    "decimal(38,0)": ["99999999999999999999999999999999999999", "0", "-1", "10000000000000000001"],
    "string": [f"{LONG}a'", f"{LONG}b'", f"{LONG}'", "''", "'é'", "'zz'"],
    "string collate utf8_lcase": ["'a'", "'A'", "'B'", "'b'", "'ab'", "''"],
    "binary": ["X''", "X'00'", "X'FFFFFFFFFFFFFFFF'", "X'FFFFFFFFFFFFFFFFFF'", "X'7F'"],
    "boolean": ["true", "false"],
    "date": ["date'1969-12-31'", "date'2024-02-29'", "date'0001-01-01'", "date'2024-03-01'"],
    "timestamp": ["timestamp'1969-12-31 23:59:59Z'", "timestamp'2024-02-29 00:00:00Z'"],
    "timestamp_ntz": ["timestamp_ntz'1969-12-31 23:59:59'", "timestamp_ntz'2024-02-29 00:00:00'"],
    "interval day to second": ["interval '1' day", "interval '-1' day", "interval '0' day"],
    "interval year to month": ["interval '1' year", "interval '-1' month", "interval '0' month"],
}


@pytest.mark.parametrize("shown", ["a.n, b.n AS m", "a.n, 0 AS m"])
def test_values_of_every_type_are_found_in_their_order(db: Database, shown: str) -> None:
    """One table of a few values of every type, each compared with itself in a view of its own.

    Where rows of b are not told apart, their ranges are added up.
    """
    types = list(VALUES)
    columns = ", ".join(f"c{i} {type_}" for i, type_ in enumerate(types))
    most = max(map(len, VALUES.values()))
    for table in ("a", "b"):
        db.sql(f"CREATE TABLE {table} (n INT, {columns})")
    compared = {
        type_.replace("'", ""): (
            f"SELECT {shown} FROM a JOIN b ON a.c{i} {'<' if i % 2 else '>='} b.c{i}"
        )
        for i, type_ in enumerate(types)
    }
    local = f"c{types.index('timestamp_ntz')}"
    compared["shifted"] = (
        f"SELECT {shown} FROM a JOIN b "
        f"ON a.{local} >= b.{local} AND a.{local} < b.{local} + INTERVAL 30 HOURS"
    )
    db.create_view("v", _all(compared))
    assert len(_lookups(db)) == 2 * len(compared)

    def rows(numbers: Any) -> str:
        found = []
        for n in numbers:
            cells = []
            for type_, values in VALUES.items():
                value = values[n % len(values)] if n < most else "NULL"
                cells.append(f"CAST({value} AS {type_})")
            found.append(f"({n}, {', '.join(cells)})")
        return ", ".join(found)

    db.sql(f"INSERT INTO a VALUES {rows(range(most))}")
    db.sql(f"INSERT INTO b VALUES {rows(range(most + 1))}, {rows([2])}")
    _agree(db)
    db.sql(f"INSERT INTO a VALUES {rows([0, 1, most])}")
    db.sql("DELETE FROM b WHERE n IN (0, 3)")
    _agree(db)
    db.sql(f"INSERT INTO b VALUES {rows([0, 3, 3])}")
    db.sql("UPDATE b SET n = n + 10 WHERE n <> 2")
    _agree(db)


SHIFTED = {
    "minutes": "a.ts > b.ts - INTERVAL 5 MINUTES AND a.ts <= b.ts",
    "days": "a.ts >= b.ts - INTERVAL 2 DAYS AND a.ts <= b.ts + INTERVAL 1 DAY",
    "dates": "b.d BETWEEN date_sub(a.d, 1) AND date_add(a.d, 2)",
    "numbers": "a.i + 2 > b.i AND a.i - 3 <= b.i",
    "both": "a.i + 1 >= b.i - 1 AND 2 + a.i < b.i + 9 AND a.d <= b.d",
}


def test_constants_are_moved_to_the_other_side(db: Database, spark: SparkSession) -> None:
    """Also around the days of a time zone that do not have 24 hours."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        for table in ("a", "b"):
            db.sql(f"CREATE TABLE {table} (i INT, ts TIMESTAMP, d DATE)")
        select = "SELECT a.i, a.ts, a.d, b.i AS j FROM a JOIN b ON"
        db.create_view("v", _all({name: f"{select} {c}" for name, c in SHIFTED.items()}))
        halves = _lookups(db)
        assert len(halves) == 2 * len(SHIFTED)
        for half in halves:
            assert half.lookup is not None and None not in (half.lookup.low, half.lookup.high)
        moments = (
            "SELECT CAST(id AS INT) AS i, m AS ts, CAST(m AS DATE) AS d "
            "FROM (SELECT id, {} AS m FROM range({}))"
        )
        october = "timestamp'2024-10-26 00:30:00Z' + make_dt_interval(0, id * 3)"
        march = "timestamp'2024-03-30 00:58:00Z' + make_dt_interval(0, id * 4, id)"
        db.sql(f"INSERT INTO a {moments.format(october, 20)}")
        db.sql(f"INSERT INTO b {moments.format(october, 20)}")
        db.sql(f"INSERT INTO a {moments.format(march, 15)}")
        _agree(db)
        with db.transaction() as tx:
            tx.apply("a", [{"i": None, "ts": None, "d": None, "_weight": 1}])
            tx.apply("b", [{"i": None, "ts": None, "d": None, "_weight": 2}])
        db.sql(f"INSERT INTO b {moments.format(march, 15)}")
        db.sql("DELETE FROM a WHERE i % 3 = 0")
        _agree(db)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)


def test_a_comparison_that_fails_fails_as_in_spark(db: Database) -> None:
    conditions = ("x + 1 < y AND x + 1 > y - 5", "x * 2 < y")
    for i, condition in enumerate(conditions):
        db.sql(f"CREATE TABLE a{i} (x INT)")
        db.sql(f"CREATE TABLE b{i} (y INT)")
        db.create_view(f"v{i}", f"SELECT x, y FROM a{i} JOIN b{i} ON {condition}")
    assert len(_lookups(db)) == 4
    for i in range(len(conditions)):
        # With nothing to compare it with, a row is no error.
        db.sql(f"INSERT INTO a{i} VALUES (2147483647), (NULL), (1)")
        with pytest.raises(RekindleError, match=r"(?i)overflow"):
            db.sql(f"INSERT INTO b{i} VALUES (3)")
    db.sql("CREATE TABLE c (y INT)")
    db.create_view("w", "SELECT y, id FROM c JOIN range(9) ON y - 5 < id")
    with pytest.raises(RekindleError, match=r"(?i)overflow"):
        db.sql("INSERT INTO c VALUES (-2147483648), (NULL)")
    db.sql("INSERT INTO c VALUES (3), (4), (NULL)")
    _agree(db, "w")


def test_numbers_that_wrap_around_are_found(db: Database, spark: SparkSession) -> None:
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        db.sql("CREATE TABLE a (x INT)")
        db.sql("CREATE TABLE b (y INT)")
        db.create_view("v", "SELECT x, y FROM a JOIN b ON x + 5 < y AND x + 9 > y")
        db.create_view("w", "SELECT x, y FROM a JOIN b ON x - 5 > y")
        db.sql("INSERT INTO a VALUES (2147483640), (2147483647), (-2147483647), (1)")
        db.sql("INSERT INTO b VALUES (2147483647), (-2147483648), (2147483640), (7), (-9)")
        for view in ("v", "w"):
            _agree(db, view)
        db.sql("INSERT INTO a VALUES (2147483639), (-2147483648)")
        for view in ("v", "w"):
            _agree(db, view)
        assert collected(db.table("v")) and len(_lookups(db)) == 4
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")


# ---- work ----------------------------------------------------------------------------------------


def test_only_the_range_is_read(warehouse: str, spark: SparkSession) -> None:
    """Law 6: a change of a few rows meets a few rows of 8,000, on both sides of every join."""
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE a (n INT, t INT)")
        db.sql("CREATE TABLE b (n INT, lo INT, hi INT)")
        db.sql(f"INSERT INTO a SELECT CAST(id AS INT), CAST(id AS INT) FROM range({ROWS})")
        db.sql(
            f"INSERT INTO b SELECT CAST(id AS INT), CAST(id AS INT), CAST(id AS INT) "
            f"FROM range(0, {ROWS}, 4)"
        )
        band = "a.t >= b.lo AND a.t < b.lo + 4"
        queries = {name: KINDS[name].format(band) for name in ("inner", "full", "anti")}
        queries["scalar"] = f"SELECT n, {NO}, t, {NO} FROM a WHERE t >= (SELECT max(hi) - 3 FROM b)"
        db.create_view("v", _all(queries))
        for statement in (
            "INSERT INTO a VALUES (-1, 777), (-2, 5), (-3, NULL)",
            "INSERT INTO b VALUES (-1, 6000, 6001), (-2, NULL, 3)",
            "UPDATE b SET lo = lo + 1 WHERE n = 4000",
            "DELETE FROM a WHERE n BETWEEN 40 AND 45",
        ):
            db.sql(statement)
            assert db.last_step is not None
            nodes = db._engine.circuit.nodes
            read = {
                key: step.rows_out
                for key, step in db.last_step.nodes.items()
                if isinstance(nodes[key], HalfJoin)
            }
            assert read and max(read.values()) < 100, (statement, read)
        db.sql("UPDATE b SET hi = hi + 2 WHERE n = 7996")
        db.check("v")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("INSERT INTO b VALUES (-7, 9000, 9001)")
        assert db.last_step is not None
        ran = [db._engine.circuit.nodes[key] for key in db.last_step.nodes]
        assert any(isinstance(node, HalfJoin) and node.lookup is not None for node in ran)
        db.check("v")


HIDING = {
    "above the average": "SELECT n, t FROM a WHERE t > (SELECT avg(t) FROM a)",
    "counted": "SELECT a.n, count(*) AS t FROM a JOIN b ON a.t >= b.lo GROUP BY a.n",
    "by key": (
        "SELECT a.n, count(*) AS t FROM a JOIN b ON a.n = b.n AND a.t BETWEEN b.lo AND b.hi "
        "GROUP BY a.n"
    ),
    "exists": "SELECT n, t FROM a WHERE EXISTS (SELECT 1 FROM b WHERE a.t BETWEEN lo AND hi)",
    "partly": "SELECT a.n, b.n % 2 AS t FROM a JOIN b ON a.t < b.hi",
    "both sides": "SELECT 1 AS n, count(*) AS t FROM a JOIN b ON a.t > b.hi",
}
"""Queries that do not tell which row it was that a row was compared with."""


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_rows_that_are_not_told_apart(db: Database, placement: str) -> None:
    db.place(placement)
    db.sql("CREATE TABLE a (n INT, t INT)")
    db.sql("CREATE TABLE b (n INT, lo INT, hi INT)")
    db.create_view("v", _all(HIDING))
    assert len(_lookups(db)) >= len(HIDING)
    for step in STEPS if placement == "inline" else STEPS[:3]:
        _take(db, step)
        _agree(db)
    assert_equal(weighted(db.changes("v")), collected(db.table("v")), "v")


def test_what_cancels_out_of_ranges_is_not_read(db: Database) -> None:
    """When an average moves, only the rows that it moves over come or go."""
    db.sql("CREATE TABLE a (n INT, t INT)")
    db.sql(f"INSERT INTO a SELECT CAST(id AS INT), CAST(id AS INT) FROM range({ROWS})")
    db.create_view("v", HIDING["above the average"])
    for statement in (
        "INSERT INTO a VALUES (-1, 0), (-2, 50000)",
        "DELETE FROM a WHERE n = 3",
        "UPDATE a SET t = t + 9 WHERE n = 17",
    ):
        db.sql(statement)
        assert db.last_step is not None
        read = [db.last_step.nodes[half.id].rows_out for half in _lookups(db)]
        assert max(read) < 100, (statement, read)
        db.check("v")


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_a_pair_that_is_not_there_fails_for_nobody(db: Database, placement: str) -> None:
    """A row comes to a when the rows that it would have met leave b: 60 / 0 is never asked for."""
    db.place(placement)
    db.sql("CREATE TABLE a (n INT, t INT)")
    db.sql("CREATE TABLE b (n INT, lo INT)")
    db.create_view("v", "SELECT a.n, 60 DIV t AS q FROM a JOIN b ON a.t > b.lo")
    db.sql("INSERT INTO a VALUES (1, 5), (2, 6)")
    db.sql("INSERT INTO b VALUES (1, -5), (2, -5), (3, -4), (4, 3)")
    with db.transaction() as tx:
        tx.insert("a", [(9, 0)])
        tx.delete("b", [(1, -5), (2, -5), (3, -4)])
    _agree(db)
    with pytest.raises(RekindleError, match=r"(?i)zero"):
        db.sql("INSERT INTO b VALUES (1, -5), (2, -5)")
    _agree(db)


def test_a_range_inside_a_recursion(db: Database) -> None:
    """There the rows of a key are all compared; outside of it, the range is looked up."""
    db.sql("CREATE TABLE a (x INT)")
    db.sql("CREATE TABLE b (y INT, z INT)")
    db.create_view(
        "v",
        "WITH RECURSIVE r AS (SELECT x FROM a UNION ALL SELECT p.y FROM r JOIN "
        "(SELECT b.y, c.z FROM b JOIN b c ON b.y < c.z AND b.y > c.z - 4) p "
        "ON p.y > r.x AND p.y <= r.x + 2) SELECT x FROM r",
    )
    assert len(_lookups(db)) == 2
    for statement in (
        "INSERT INTO b VALUES (1, 2), (3, 4), (5, 6), (8, 9), (NULL, 3)",
        "INSERT INTO a VALUES (0), (0), (NULL)",
        "DELETE FROM b WHERE y = 3",
        "INSERT INTO b VALUES (2, 3), (4, 5)",
    ):
        db.sql(statement)
        _agree(db)


# ---- what is found -------------------------------------------------------------------------------


def _band(db: Database, condition: str, query: str = "SELECT 1 AS one FROM a JOIN b ON {}") -> Any:
    ((_, term),) = db._connection.definitions.read(SparkSql(), "v", query.format(condition))

    def joins(inner: Term) -> list[Join]:
        found = [inner] if isinstance(inner, Join) else []
        return found + [join for child in inner.children for join in joins(child)]

    (join,) = joins(term)
    return join.band


def _ends(range_: Range | None) -> str:
    if range_ is None:
        return "-"
    shown = [
        "" if scalar is None else str(getattr(scalar, "display", ""))
        for scalar in (range_.low, range_.place, range_.high)
    ]
    return " <= ".join(shown).strip(" <=")


FOUND = {
    "a.x < b.y": ("a.x <= b.y", "a.x <= b.y"),
    "b.y > a.x AND a.x >= b.z": ("b.z <= a.x <= b.y", "a.x <= b.y"),
    "a.x BETWEEN b.y AND b.z": ("b.y <= a.x <= b.z", "b.y <= a.x"),
    "a.x > b.y - 5 AND a.x <= b.y": ("(b.y - 5) <= a.x <= b.y", "a.x <= b.y <= a.x + 5"),
    "a.x + b.y < 5": None,
    "a.x < b.y OR a.x > b.z": None,
    "a.x <> b.y": None,
    "a.x < b.y + a.x": None,
    "a.s < b.s AND a.x = b.y": ("a.s <= b.s", "a.s <= b.s"),
    "array(a.x) < array(b.y)": None,
}


DECIDED = {
    "a.x < b.y": {True},
    "b.y > a.x AND a.x >= b.z": {True, False},
    "a.x BETWEEN b.y AND b.z": {True, False},
    "a.s < b.s AND a.x = b.y": {True},
}
"""Where a range is all that a condition says. The left one has both ends, the right one has not."""


def test_which_conditions_give_ranges(db: Database) -> None:
    db.sql("CREATE TABLE a (x INT, s STRING)")
    db.sql("CREATE TABLE b (y INT, z INT, s STRING)")
    for condition, expected in FOUND.items():
        found = _band(db, condition)
        if expected is None:
            assert found is None, condition
        else:
            assert isinstance(found, RangeCondition), condition
            assert (_ends(found.left), _ends(found.right)) == expected, condition
            deciding = {r.decides for r in (found.left, found.right) if r is not None}
            assert deciding == DECIDED.get(condition, {False}), condition
    with pytest.raises(RekindleError, match="deterministic"):
        _band(db, "a.x < b.y + rand()")
