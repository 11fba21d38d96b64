"""Rows that Spark would read as others do not reach it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rekindle.errors import RekindleError
from rekindle.frontends.spark_sql.jvm import Catalyst
from rekindle.spark.inlet import Inlet

FITTING = [
    pa.array([1], pa.int64()),
    pa.array(["a"]),
    pa.array([1], pa.int32()),
    pa.array([[1]], pa.list_(pa.int32())),
    pa.array([True]),
]


@pytest.fixture
def inlet(spark: SparkSession) -> Inlet:
    catalyst = Catalyst(spark)
    types = ["bigint", "string", "interval year to month", "array<int>", "boolean"]
    return Inlet.of(catalyst, [catalyst.attribute(f"c{i}", t) for i, t in enumerate(types)])


def test_fitting_rows_pass(inlet: Inlet) -> None:
    inlet.check(pa.table(FITTING, names=list("abcde")))


@pytest.mark.parametrize(
    ("place", "column"),
    [
        (0, pa.array([1], pa.int32())),
        (1, pa.array(["a"], pa.large_string())),
        (2, pa.array([1], pa.int64())),
        (2, pa.nulls(1)),
        (4, pa.array([1], pa.int8())),
    ],
)
def test_rows_of_another_width_do_not(inlet: Inlet, place: int, column: pa.Array) -> None:
    columns = [*FITTING[:place], column, *FITTING[place + 1 :]]
    with pytest.raises(RekindleError, match="not of the types"):
        inlet.check(pa.table(columns, names=list("abcde")))
