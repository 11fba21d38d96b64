"""The check of a view: equal bags pass, everything else is said, wherever they are compared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import SparkSession

from rekindle.catalyst.jvm import Catalyst
from rekindle.circuit.operators import group
from rekindle.errors import CheckError
from rekindle.runtime.database import Database
from rekindle.runtime.upkeep import check
from rekindle.runtime.upkeep.check import SMALL, Sides, compare

EQUAL = {
    "nothing": ("VALUES (1) AS t(a) WHERE a > 1", "VALUES (2) AS t(a) WHERE a > 2"),
    "copies": ("VALUES (1), (2), (1)", "VALUES (2), (1), (1)"),
    "nulls": ("VALUES (1, NULL), (NULL, 1)", "VALUES (NULL, 1), (1, NULL)"),
    "last digits": ("VALUES (1, 0.3D), (1, 7D)", "VALUES (1, 7D), (1, 0.1D + 0.2D)"),
    "single precision": ("VALUES (1, 0.5F)", "VALUES (1, 0.5F)"),
    "not a number": ("VALUES ('NaN'::DOUBLE, 1), (1D, 2)", "VALUES (1D, 2), ('NaN'::DOUBLE, 1)"),
    "zeros": ("VALUES (-0.0D), (0.0D)", "VALUES (0.0D), (0.0D)"),
    "collations": ("VALUES ('a' COLLATE UTF8_LCASE)", "VALUES ('A' COLLATE UTF8_LCASE)"),
    "variants": ("""VALUES (parse_json('{"a": 1}'))""", """VALUES (parse_json('{"a": 1}'))"""),
}
"""Found equal in the driver."""

EQUAL_INSIDE = {
    "numbers in arrays": ("VALUES (array(0.3D))", "VALUES (array(0.1D + 0.2D))"),
    "maps in another order": ("VALUES (map(1, 2, 3, 4))", "VALUES (map(3, 4, 1, 2))"),
}
"""Equal, as the comparison value by value sees."""

DIFFERENT = {
    "a copy": ("VALUES (1), (1), (2)", "VALUES (1), (2), (2)", "1 row(s) too many: (1,)"),
    "a row more": ("VALUES (1), (2)", "VALUES (1)", "1 row(s) too many: (2,)"),
    "a row less": ("VALUES (1)", "VALUES (1), (2)", "1 row(s) missing: (2,)"),
    "a null": ("VALUES (1, NULL)", "VALUES (NULL, 1)", "(1, None)"),
    "a number": ("VALUES (1, 2D), (2, 3D)", "VALUES (1, 3D), (2, 2D)", "2 row(s) missing"),
    "a number twice": ("VALUES (2D), (2D), (3D)", "VALUES (2D), (3D), (3D)", "1 row(s) missing"),
    "a null for a number": ("VALUES (2D), (NULL)", "VALUES (2D), ('NaN'::DOUBLE)", "None"),
    "what it belongs to": ("VALUES ('a', 2D)", "VALUES ('b', 2D)", "('a', 2.0)"),
    "more than fits": ("VALUES (1L)", f"SELECT id FROM range({3 * SMALL})", "missing"),
}


def sides(spark: SparkSession, actual: str, expected: str, rows: int) -> Sides:
    return Sides(
        *(
            spark.sql(f"SELECT * FROM {q}" if q.startswith("VALUES") else q)
            for q in (actual, expected)
        ),
        rows,
    )


def refuse(*given: object) -> int:
    raise AssertionError("compared on Spark")


@pytest.mark.parametrize("case", EQUAL)
def test_equal_bags_are_found_equal_in_the_driver(
    spark: SparkSession, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_compared_by_spark", refuse)
    found = compare(Catalyst(spark), "v", 3, sides(spark, *EQUAL[case], 1), {})
    assert found.rows == len(spark.sql(f"SELECT * FROM {EQUAL[case][0]}").collect())


@pytest.mark.parametrize("case", ["copies", "last digits", "zeros", "collations"])
def test_equal_bags_are_found_equal_by_spark(spark: SparkSession, case: str) -> None:
    compare(Catalyst(spark), "v", 3, sides(spark, *EQUAL[case], SMALL + 1), {})


@pytest.mark.parametrize("case", EQUAL_INSIDE)
def test_what_the_driver_cannot_tell_is_asked_of_spark(spark: SparkSession, case: str) -> None:
    compare(Catalyst(spark), "v", 3, sides(spark, *EQUAL_INSIDE[case], 1), {})


@pytest.mark.parametrize("case", DIFFERENT)
def test_a_difference_is_said(spark: SparkSession, case: str) -> None:
    actual, expected, words = DIFFERENT[case]
    with pytest.raises(CheckError, match="view 'v' differs") as caught:
        compare(Catalyst(spark), "v", 3, sides(spark, actual, expected, 1), {})
    assert words in str(caught.value)


def test_a_small_check_is_one_job(db: Database, jobs: Callable[[], int]) -> None:
    db.sql("CREATE TABLE t (a INT, d DOUBLE)")
    db.create_view("v", "SELECT a, sum(d) AS s FROM t GROUP BY a")
    db.sql("INSERT INTO t VALUES (1, 0.1), (1, 0.2), (1, 0.3), (2, 1.5)")
    before = jobs()
    assert db.check("v").rows == 2
    assert jobs() == before + 1


@pytest.fixture
def jobs(spark: SparkSession) -> Callable[[], int]:
    """How many jobs Spark has run."""
    scheduler = spark.sparkContext._jsc.sc().dagScheduler()
    return lambda: int(scheduler.numTotalJobs())


@pytest.mark.parametrize("small", [SMALL, 0], ids=["in the driver", "on Spark"])
def test_a_planted_bug_is_caught(db: Database, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """An aggregate that keeps what it should retract."""
    right = group.buffer_change

    def wrong(*given: Any) -> Any:
        output = right(*given)
        return output.slice(0, max(0, len(output) - 1))

    db.sql("CREATE TABLE t (a INT, d DOUBLE)")
    db.create_view("v", "SELECT a, sum(d) AS s, count(*) AS n FROM t GROUP BY a")
    db.place("inline")
    db.sql("INSERT INTO t VALUES (1, 1.0), (2, 2.0), (3, 3.0)")
    monkeypatch.setattr(check, "SMALL", small)
    assert db.check("v").rows == 3
    monkeypatch.setattr(group, "buffer_change", wrong)
    db.sql("INSERT INTO t VALUES (1, 1.0)")
    with pytest.raises(CheckError, match="view 'v' differs"):
        db.check("v")
