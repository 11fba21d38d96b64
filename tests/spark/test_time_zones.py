"""Timestamps with and without a time zone, in a session whose zone is not UTC."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import RowError
from rekindle.runtime.database import Database

AMBIGUOUS = "2024-10-27 02:30:00"
"""This hour was there twice in Berlin."""
MISSING = "2024-03-31 02:30:00"
"""This one was not."""


@pytest.fixture
def berlin(spark: SparkSession, warehouse: str) -> Iterator[Database]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Europe/Berlin")
    try:
        with rekindle.connect(warehouse, spark=spark) as database:
            yield database
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_a_timestamp_without_zone_is_what_was_written(berlin: Database) -> None:
    berlin.sql("CREATE TABLE t (a INT, n TIMESTAMP_NTZ, z TIMESTAMP)")
    berlin.create_view("last", "SELECT n, max(z) AS z, count(*) AS c FROM t GROUP BY n")
    for i, text in enumerate((AMBIGUOUS, MISSING, "2024-07-01 12:00:00")):
        berlin.sql(f"INSERT INTO t VALUES ({i}, TIMESTAMP_NTZ '{text}', TIMESTAMP '{text}')")
        berlin.check("last")
    written = [row.n for row in berlin.table("t").selectExpr("string(n) AS n", "a").collect()]
    assert sorted(written) == sorted([AMBIGUOUS, MISSING, "2024-07-01 12:00:00"])
    kept = berlin.table("t").where("a = 2").selectExpr("string(z) AS z").collect()
    assert [row.z for row in kept] == ["2024-07-01 12:00:00"]
    berlin.sql("UPDATE t SET n = n + INTERVAL 1 HOUR WHERE a = 0")
    berlin.sql("DELETE FROM t WHERE a >= 1")
    berlin.check("last")
    left = berlin.table("last").selectExpr("string(n) AS n", "c").collect()
    assert [(row.n, row.c) for row in left] == [("2024-10-27 03:30:00", 1)]


WALL = [datetime.fromisoformat(text) for text in (AMBIGUOUS, MISSING, "2024-07-01 23:30:00")]
AWARE = datetime(2024, 7, 1, 21, 30, tzinfo=UTC)


def _arrow(type_: pa.DataType) -> pa.Table:
    return pa.table({"a": pa.array([0, 1, 2], pa.int32()), "z": pa.array(WALL, type_)})


@pytest.mark.parametrize(
    "rows",
    [
        list(enumerate(WALL)),
        [{"a": i, "z": z} for i, z in enumerate(WALL)],
        [*enumerate(WALL[:2]), (2, AWARE)],
        [(i, np.datetime64(z)) for i, z in enumerate(WALL)],
        [(i, pd.Timestamp(z)) for i, z in enumerate(WALL)],
        pd.DataFrame({"a": [0, 1, 2], "z": WALL}).astype({"a": "int32"}),
        pd.DataFrame({"a": [0, 1, 2], "z": pd.Series([*WALL[:2], AWARE], dtype=object)}),
        _arrow(pa.timestamp("us")),
        _arrow(pa.timestamp("s")),
    ],
    ids=["tuples", "dicts", "mixed", "numpy", "stamps", "pandas", "objects", "arrow", "seconds"],
)
def test_a_time_without_zone_is_that_of_the_session(berlin: Database, rows: Any) -> None:
    """As a literal in SQL is, also where the clock jumps."""
    berlin.sql("CREATE TABLE t (a INT, z TIMESTAMP, PRIMARY KEY (a))")
    for i, wall in enumerate(WALL):
        berlin.sql(f"INSERT INTO t VALUES ({i}, TIMESTAMP '{wall}')")
    with berlin.transaction() as tx:
        tx.delete("t", rows)  # Only rows that are there can be deleted.
    assert berlin.table("t").count() == 0
    with berlin.transaction() as tx:
        tx.upsert("t", rows)
    late = berlin.table("t").where("a = 2").selectExpr("string(z) AS z", "unix_seconds(z) AS s")
    assert [tuple(row) for row in late.collect()] == [
        ("2024-07-01 23:30:00", int(AWARE.timestamp()))
    ]


def test_times_inside_of_values_and_beside_weights(berlin: Database) -> None:
    berlin.sql(
        "CREATE TABLE t (s STRUCT<z: TIMESTAMP, n: TIMESTAMP_NTZ>, l ARRAY<TIMESTAMP>, "
        "m MAP<STRING, TIMESTAMP>)"
    )
    wall = WALL[2]
    value = {"s": {"z": wall, "n": wall}, "l": [wall, None, AWARE], "m": {"k": wall}}
    type_ = pa.struct([("z", pa.timestamp("us")), ("n", pa.timestamp("us"))])
    arrow = pa.table(
        {
            "s": pa.array([{"z": wall, "n": wall}], type_),
            "l": pa.array([[wall, None, wall]], pa.list_(pa.timestamp("us"))),
            "m": pa.array([[("k", wall)]], pa.map_(pa.string(), pa.timestamp("us"))),
        }
    )
    with berlin.transaction() as tx:
        tx.apply("t", [{**value, "_weight": 2}])
        tx.delete("t", arrow)
        tx.delete("t", pd.DataFrame({name: [item] for name, item in value.items()}))
        tx.insert("t", [value])
    shown = berlin.table("t").selectExpr("string(s.z)", "string(s.n)", "string(l[2])", "m['k']")
    (row,) = shown.collect()
    assert tuple(row)[:3] == ("2024-07-01 23:30:00",) * 3


@pytest.mark.parametrize("zone", ["+05:30", "GMT-3", "PST", "Z", "America/New_York"])
def test_zones_by_every_name(spark: SparkSession, warehouse: str, zone: str) -> None:
    session = spark.newSession()
    session.conf.set("spark.sql.session.timeZone", zone)
    with rekindle.connect(warehouse, spark=session) as db:
        db.sql("CREATE TABLE t (z TIMESTAMP)")
        with db.transaction() as tx:
            tx.insert("t", [(WALL[2],)])
            tx.delete("t", pa.table({"z": pa.array([WALL[2]], pa.timestamp("us"))}))
            tx.insert("t", [(WALL[2],)])
        db.sql(f"DELETE FROM t WHERE z = TIMESTAMP '{WALL[2]}'")
        assert db.table("t").count() == 0


def test_nanoseconds_are_refused(berlin: Database) -> None:
    berlin.sql("CREATE TABLE t (z TIMESTAMP)")
    fine = pd.Timestamp("2024-07-01 12:00:00.000000001")
    for rows in ([(fine,)], pd.DataFrame({"z": [fine]})):
        with berlin.transaction() as tx, pytest.raises(RowError, match="column 'z' of 't'"):
            tx.insert("t", rows)


def test_values_of_parameters_are_read_as_literals_are(berlin: Database) -> None:
    berlin.sql("CREATE TABLE t (a INT, z TIMESTAMP, n TIMESTAMP_NTZ)")
    for i, time in enumerate(WALL):
        berlin.sql(f"INSERT INTO t VALUES ({i}, TIMESTAMP'{time}', TIMESTAMP'{time}')")
        berlin.sql("INSERT INTO t VALUES (:a, :z, :z)", args={"a": i, "z": time})
        given = [i, pd.Timestamp(time), np.datetime64(time)]
        berlin.sql("INSERT INTO t SELECT ?, ?, ?", args=given)
        berlin.sql("INSERT INTO t SELECT ?, element_at(?, 1), ?", args=[i, [time], time])
    found = berlin.sql("SELECT a, count(DISTINCT z, n) AS n, count(*) AS c FROM t GROUP BY a")
    assert sorted(map(tuple, found.collect())) == [(i, 1, 4) for i in range(len(WALL))]
    assert berlin.sql("SELECT ? AS z", args=[AWARE]).selectExpr("string(z)").collect() == [
        ("2024-07-01 23:30:00",)
    ]
    nothing = berlin.sql("SELECT :t IS NULL AS n", args={"t": np.datetime64("NaT")})
    assert nothing.collect() == [(True,)]
    with pytest.raises(rekindle.RekindleError, match=":t"):
        berlin.sql("SELECT :t", args={"t": pd.Timestamp("2024-07-01 23:30:00.000000001")})
