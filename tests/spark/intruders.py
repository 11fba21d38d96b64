"""Statements, rows and names that nobody should write, and some that somebody might."""

from __future__ import annotations

import datetime as dt
import math
from collections import OrderedDict
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import strategies as st
from pyspark.sql import Row
from pyspark.sql.types import VariantVal

COLUMNS = (
    "id BIGINT NOT NULL, a INT, s STRING, d DECIMAL(6,2), f DOUBLE, b BINARY, dt DATE, "
    "ts TIMESTAMP, ntz TIMESTAMP_NTZ, flag BOOLEAN, st STRUCT<x: INT, y: ARRAY<STRING>>, "
    "m MAP<STRING, INT>, c CHAR(3), v VARIANT, g FLOAT, h SMALLINT"
)
"""A column of every kind of type."""

SEEDS = [
    "SELECT id, a FROM t WHERE a > 1 ORDER BY id LIMIT 3",
    "SELECT s, sum(a) FROM t GROUP BY s HAVING count(*) > 1",
    "SELECT * FROM t JOIN u USING (k) WHERE t.id IN (SELECT k FROM u)",
    "INSERT INTO u VALUES (1, 'x'), (2, NULL)",
    "INSERT INTO u (w, k) SELECT s, id FROM t",
    "INSERT INTO u BY NAME SELECT 'a' AS w, 3L AS k",
    "INSERT OVERWRITE u SELECT id, s FROM t",
    "INSERT INTO u REPLACE WHERE k = 1 VALUES (DEFAULT, 'z')",
    "INSERT INTO u PARTITION (k = 1) SELECT 'x'",
    "WITH q AS (SELECT 1 AS k) INSERT INTO u SELECT k, 'q' FROM q",
    "FROM t INSERT INTO u SELECT id, s INSERT INTO u SELECT a, 'n'",
    "UPDATE t SET st.x = 5, a = DEFAULT WHERE id = 1",
    "UPDATE t AS x SET x.s = concat(x.s, 'q'), st.y = array('a') WHERE x.f IS NOT NULL",
    "UPDATE u SET k = (SELECT max(id) FROM t) WHERE EXISTS (SELECT 1 FROM t WHERE t.id = k)",
    "DELETE FROM u WHERE k IN (1, 2, 3) AND w LIKE 'a%'",
    "DELETE FROM t",
    "TRUNCATE TABLE u",
    "MERGE INTO t USING u ON t.id = u.k WHEN MATCHED AND u.w = 'd' THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET st.x = u.k WHEN NOT MATCHED THEN INSERT (id, s) VALUES (k, w) "
    "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET a = 0",
    "CREATE TABLE z (a INT, b STRING, PRIMARY KEY (a)) COMMENT 'x'",
    "DROP TABLE IF EXISTS z",
    "CREATE MATERIALIZED VIEW z COMMENT 'c' OPTIONS (policy = 'first_order') AS SELECT a FROM t",
    "DROP VIEW IF EXISTS z",
    "ALTER TABLE u ADD COLUMN more INT",
    "SHOW TABLES LIKE 't*'",
    "SHOW CREATE TABLE n",
    "DESCRIBE u",
    "DATALOG z(x) :- u(x, _), x > 1.",
    "BEGIN SELECT 1; END",
    "SET spark.sql.ansi.enabled = false",
    "EXPLAIN SELECT * FROM t",
    "VALUES (1, 2), (3, 4)",
]

TOKENS = [
    "(", ")", ",", ";", "'", '"', "`", "``", "*", ".", "=", "--", "/*", "*/", "NULL", "DEFAULT",
    "SELECT", "FROM", "WHERE", "SET", "t", "u", "n", "z", "nosuch", "db.t", "id", "k", "st.x",
    "st.y[0]", "1", "-1", "1e400", "99999999999999999999", "1/0", "CAST('x' AS INT)", "''", "'\\'",
    "X'0G'", "DATE '2020-13-01'", "sum(a)", "row_number() OVER ()", "rand()", "(SELECT 1, 2)",
    "(SELECT k FROM u)", "explode(array(1))", "WITH", "VALUES", "AS", "ON", ":p", "?", "é", "😀",
    "\u0000", "\u2028", "raise_error('x')", "parse_json('{')", "INTERVAL 1 DAY", "IDENTIFIER('t')",
    "VERSION AS OF 1", "TABLESAMPLE (1 ROWS)", "LATERAL", "PIVOT", "|>", "$$", "{{", "\\",
]  # fmt: skip

_ODD_TEXT = st.one_of(
    st.text(max_size=30),
    st.sampled_from(["", " ", ";", "--", "/*", "'", "`", "\ud800", "a\ud800b", "SELECT '\udfff'"]),
)


@st.composite
def statements(draw: st.DrawFn) -> str:
    """A statement that is right, half right, or nothing at all."""
    if draw(st.integers(0, 9)) == 0:
        return draw(_ODD_TEXT)
    words = draw(st.sampled_from(SEEDS)).split(" ")
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(words) - 1))
        match draw(st.sampled_from(["drop", "double", "put", "swap", "text", "nest", "cut"])):
            case "drop":
                del words[place]
            case "double":
                words.insert(place, words[place])
            case "put":
                words.insert(place, draw(st.sampled_from(TOKENS)))
            case "swap":
                words[place] = draw(st.sampled_from(TOKENS))
            case "text":
                words[place] = draw(_ODD_TEXT)
            case "nest":
                depth = draw(st.sampled_from([1, 5, 40]))
                words[place] = "(" * depth + words[place] + ")" * depth
            case "cut":
                words = words[: place + 1]
        if not words:
            return ""
    return " ".join(words)


class Odd:
    """An object of no type that a column has."""

    def __repr__(self) -> str:
        return "<odd>"


class Hostile:
    """An object whose every question raises."""

    def __len__(self) -> int:
        raise RuntimeError("no length")

    def __iter__(self) -> Any:
        raise RuntimeError("no elements")


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**80), 2**80),
    st.floats(),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.decimals(allow_nan=True, allow_infinity=True),
    st.dates(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.timedeltas(),
    st.sampled_from(
        [
            "\ud800", Decimal("1E+400"), Decimal("0.123456789012345678901234567890123456789"),
            np.int64(3), np.float32(1.5), np.float64("nan"), np.bool_(True), np.datetime64("NaT"),
            np.array([1, 2]), pd.NA, pd.NaT, pd.Timestamp("2020-01-01", tz="Europe/Berlin"),
            dt.time(1, 2), Odd(), Odd, math.inf, 1j, range(3), {1, 2}, frozenset(), object,
            VariantVal.parseJson("[1]"), Row(x=1, y=["a"]), Row(1, 2), {"x": 1}, {"x": 1, "q": 2},
            {"x": "no", "y": 3}, {1: 2}, {None: None}, {"a": 1, "b": "c"}, [1, "a"], [[]], (1, 2),
            ["a", None], OrderedDict(y=[], x=None), bytearray(b"x"), memoryview(b"x"), "x" * 5000,
            dt.date.max, dt.datetime.max, dt.datetime.min, dt.timedelta.max, -0.0, 2**63, 2**31,
        ]
    ),
)  # fmt: skip

_GOOD = (
    5, 1, "x", Decimal("1.50"), 1.0, b"x", dt.date(2020, 1, 1),
    dt.datetime(2020, 1, 1, tzinfo=dt.UTC), dt.datetime(2020, 1, 1), True,
    {"x": 1, "y": ["a"]}, {"k": 1}, "ab", VariantVal.parseJson("1"), 1.0, 1,
)  # fmt: skip
NAMES = ["id", "a", "s", "d", "f", "b", "dt", "ts", "ntz", "flag", "st", "m", "c", "v", "g", "h"]


@st.composite
def rows(draw: st.DrawFn) -> Any:
    """Rows for `t`: good but for one value, or of a wrong shape."""
    width = len(_GOOD)
    kind = draw(st.sampled_from(["value", "value", "value", "dict", "shape", "frame", "whole"]))
    values = list(_GOOD)
    values[0] = draw(st.integers(0, 10**9))
    place = draw(st.integers(0, width - 1))
    if draw(st.booleans()):
        values[place] = draw(VALUES)
    match kind:
        case "value":
            return [tuple(values)]
        case "dict":
            row = dict(zip(NAMES, values, strict=True))
            if draw(st.booleans()):
                row[draw(st.sampled_from(["ID", "nosuch", 1, None, "", "_weight", ("a",)]))] = 1
            return [row]
        case "shape":
            cut = draw(st.integers(0, width))
            shaped = draw(st.sampled_from([tuple, list, set, str, iter]))
            try:
                return [shaped(values[:cut])]
            except TypeError:
                return [values[:cut]]
        case "frame":
            data = {name: [value] for name, value in zip(NAMES, values, strict=True)}
            if draw(st.booleans()):
                data.pop(draw(st.sampled_from(NAMES)))
            if draw(st.booleans()):
                return pd.DataFrame({name: pd.Series(v, dtype=object) for name, v in data.items()})
            try:
                return pa.table(data)
            except (pa.ArrowException, TypeError, ValueError, OverflowError, UnicodeError):
                return [data]
        case _:
            return draw(
                st.one_of(
                    VALUES,
                    st.just(Hostile()),
                    st.just([Hostile()]),
                    st.lists(VALUES, max_size=2),
                    st.builds(lambda: (row for row in [tuple(values)])),
                    st.builds(lambda: pa.table({"a": [1]})),
                    st.builds(lambda: pd.DataFrame()),
                    st.builds(lambda: pd.DataFrame({1: [1]})),
                )
            )


ODD_NAMES = st.one_of(
    st.sampled_from(
        ["t", "u", "n", "T", "z", "", " ", ".", "..", "a/b", "../x", "db.t", "`t`", "\ud800", "a\n",
         "\u0000", "é", "x" * 300, "_weight", None, 5, b"t", ("t",), object(), Hostile()]
    ),
    st.text(max_size=4),
)  # fmt: skip
