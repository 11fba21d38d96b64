"""Timestamps with and without a time zone, in a session whose zone is not UTC."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rekindle
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
