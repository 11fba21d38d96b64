"""Hashes computed on Arrow columns are Spark's, number by number."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, SparkSession

from rekindle.catalyst.hashing import SEEDS, hashes
from rekindle.catalyst.jvm import Catalyst
from rekindle.catalyst.types import arrow_type, data_type
from rekindle.kernels.xxhash import row_hashes

ROWS = 400
_random = random.Random(11)


def _text(longest: int) -> str:
    return "".join(_random.choice("aé漢😀 0") for _ in range(_random.randrange(longest)))


_EXACT = decimal.Context(prec=40)
_EDGES = [
    sign * (2**bits + by) for sign in (1, -1) for bits in (0, 7, 8, 15, 63) for by in (-1, 0, 1)
]
"""Where a number begins to need one byte more."""
VALUES: dict[str, Callable[[], Any]] = {
    "boolean": lambda: _random.random() < 0.5,
    "tinyint": lambda: _random.randrange(-128, 128),
    "smallint": lambda: _random.randrange(-(2**15), 2**15),
    "int": lambda: _random.choice([-(2**31), 2**31 - 1, -1, 0, _random.randrange(2**31)]),
    "bigint": lambda: _random.choice([-(2**63), 2**63 - 1, -1, _random.randrange(2**62)]),
    "float": lambda: _random.choice([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25]),
    "double": lambda: _random.choice([0.0, -0.0, math.nan, math.inf, 5e-324, _random.random()]),
    "decimal(18,3)": lambda: decimal.Decimal(_random.randrange(-(10**17), 10**17)).scaleb(-3),
    "decimal(19,0)": lambda: decimal.Decimal(_random.choice(_EDGES)),
    "decimal(38,4)": lambda: decimal.Decimal(
        _random.choice([1, -1]) * _random.randrange(10 ** _random.randrange(1, 38))
    ).scaleb(-4, _EXACT),
    "decimal(5,2)": lambda: decimal.Decimal(_random.randrange(-99999, 99999)).scaleb(-2),
    "string": lambda: _text(_random.choice([3, 9, 40, 120])),
    "binary": lambda: _text(40).encode(),
    "date": lambda: dt.date(1500, 1, 1) + dt.timedelta(_random.randrange(300_000)),
    "timestamp": lambda: (
        dt.datetime(1900, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=_random.randrange(2**52))
    ),
    "timestamp_ntz": lambda: (
        dt.datetime(1900, 1, 1) + dt.timedelta(microseconds=_random.randrange(2**52))
    ),
}


def _column(type_: str, nulls: float) -> pa.Array:
    values = [None if _random.random() < nulls else VALUES[type_]() for _ in range(ROWS)]
    return pa.array(values, arrow_type(data_type(type_)))


def _by_spark(spark: SparkSession, types: list[str], table: pa.Table) -> list[list[int]]:
    frame = spark.createDataFrame(table)
    attributes = frame._jdf.queryExecution().analyzed().output()
    catalyst = Catalyst(spark)
    expressions = [attributes.apply(i) for i in range(len(types))]
    found = hashes(catalyst, expressions, [data_type(t) for t in types])
    column_of = catalyst.class_("org.apache.spark.sql.classic.ExpressionUtils").column
    rows = frame.select(*(Column(column_of(one)) for one in found)).collect()
    return [[row[i] for row in rows] for i in range(2)]


@pytest.mark.parametrize("nulls", [0.0, 0.3], ids=["present", "missing"])
def test_hashes_of_every_type_together_are_sparks(spark: SparkSession, nulls: float) -> None:
    types = list(VALUES)
    _random.shuffle(types)
    table = pa.table({f"c{i}": _column(t, nulls) for i, t in enumerate(types)})
    given = row_hashes(table.columns, SEEDS, ROWS)
    assert [column.to_pylist() for column in given] == _by_spark(spark, types, table)


def test_hashes_of_lists_are_sparks(spark: SparkSession) -> None:
    inner = ["double", "string", "int", "array<bigint>", "boolean"]
    values = {**VALUES, "array<bigint>": lambda: [VALUES["bigint"]() for _ in range(2)]}

    def some(type_: str) -> list[Any]:
        missing = 0.2 if "array" not in type_ else 0.0
        count = _random.choice([0, 1, 1, 3])
        return [None if _random.random() < missing else values[type_]() for _ in range(count)]

    types = [f"array<{type_}>" for type_ in inner]
    columns = {
        f"c{i}": pa.array([some(t) for _ in range(ROWS)], arrow_type(data_type(types[i])))
        for i, t in enumerate(inner)
    }
    table = pa.table(columns)
    given = row_hashes(table.columns, SEEDS, ROWS)
    assert [column.to_pylist() for column in given] == _by_spark(spark, types, table)
    part = row_hashes(table.slice(7, 50).columns, SEEDS, 50)
    assert [p.to_pylist() for p in part] == [g.to_pylist()[7:57] for g in given]
    with pytest.raises(pa.ArrowInvalid):
        row_hashes([pa.array([[1], None])], SEEDS, 2)


def test_hashes_of_rows_are_sparks(spark: SparkSession) -> None:
    names = ["bigint", "string", "decimal(38,4)"]
    fields = [_column(type_, 0.3) for type_ in names]
    rows = pa.StructArray.from_arrays(fields, names=["a", "b", "c"])
    type_ = f"struct<{','.join(f'{name}:{t}' for name, t in zip('abc', names, strict=True))}>"
    given = row_hashes([rows], SEEDS, ROWS)
    assert [column.to_pylist() for column in given] == _by_spark(
        spark, [type_], pa.table({"c0": rows})
    )


@pytest.mark.parametrize("type_", ["string", "double", "decimal(18,3)", "decimal(38,4)", "boolean"])
def test_a_slice_is_hashed_as_its_rows(spark: SparkSession, type_: str) -> None:
    column = _column(type_, 0.2)
    whole = row_hashes([column], SEEDS, ROWS)[0].to_pylist()
    part = row_hashes([column.slice(17, 100)], SEEDS, 100)[0].to_pylist()
    assert part == whole[17:117]


def test_no_columns_are_hashed_as_a_constant(spark: SparkSession) -> None:
    expected = spark.sql("SELECT xxhash64(0)").first()
    assert expected is not None
    assert row_hashes([], SEEDS, 3)[0].to_pylist() == [expected[0]] * 3


STORED_AS_ANOTHER = {
    "interval year to month": (
        pa.array([0, -1, 25, None, 2**31 - 1], pa.int32()),
        "make_ym_interval(0, c0) AS c0",
    ),
    "string collate UNICODE_CI": (
        pa.array(["a", "A", "ä ", None, "Straße" * 9], pa.string()),
        "c0 COLLATE UNICODE_CI AS c0",
    ),
}


@pytest.mark.parametrize("type_", STORED_AS_ANOTHER)
def test_what_is_stored_as_another_type_is_hashed_as_spark_does(
    spark: SparkSession, type_: str
) -> None:
    """An int for an interval of years and months, a plain text for one with a collation."""
    column, decoded = STORED_AS_ANOTHER[type_]
    table = pa.table({"c0": column})
    frame = spark.createDataFrame(table).selectExpr(decoded)
    plan = frame._jdf.queryExecution().analyzed()
    catalyst = Catalyst(spark)
    found = hashes(catalyst, [plan.output().apply(0)], [data_type(type_)])
    column_of = catalyst.class_("org.apache.spark.sql.classic.ExpressionUtils").column
    expected = frame.select(*(Column(column_of(one)) for one in found)).collect()
    given = row_hashes(table.columns, SEEDS, len(table))
    assert [tuple(row) for row in expected] == list(
        zip(*map(pa.Array.to_pylist, given), strict=True)
    )
