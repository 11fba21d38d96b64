"""Rows that Spark would read as others do not reach it."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from rekindle.catalyst.arrow_input import ArrowInput
from rekindle.catalyst.jvm import Catalyst
from rekindle.errors import RekindleError
from rekindle.spark.frames import of_table

FITTING = [
    pa.array([1], pa.int64()),
    pa.array(["a"]),
    pa.array([1], pa.int32()),
    pa.array([[1]], pa.list_(pa.int32())),
    pa.array([True]),
]


@pytest.fixture
def inlet(spark: SparkSession) -> ArrowInput:
    catalyst = Catalyst(spark)
    types = ["bigint", "string", "interval year to month", "array<int>", "boolean"]
    return ArrowInput.of(catalyst, [catalyst.attribute(f"c{i}", t) for i, t in enumerate(types)])


def test_fitting_rows_pass(inlet: ArrowInput) -> None:
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
def test_rows_of_another_width_do_not(inlet: ArrowInput, place: int, column: pa.Array) -> None:
    columns = [*FITTING[:place], column, *FITTING[place + 1 :]]
    with pytest.raises(RekindleError, match="not of the types"):
        inlet.check(pa.table(columns, names=list("abcde")))


NESTED = {
    "lists of rows": (pa.list_(pa.struct([("p", pa.int32())])), [[], None, [{"p": 1}], [None]]),
    "lists of lists": (pa.list_(pa.list_(pa.int32())), [[[1], None], None, [None], []]),
    "maps": (pa.map_(pa.string(), pa.list_(pa.int32())), [[], None, [("a", [1])], [("b", None)]]),
    "rows": (
        pa.struct([("l", pa.list_(pa.list_(pa.int32())))]),
        [{"l": []}, {"l": None}, None, {"l": [[1]]}],
    ),
}


@pytest.mark.parametrize("kind", NESTED)
def test_a_part_of_a_nested_column_with_a_null_is_taken(spark: SparkSession, kind: str) -> None:
    """PySpark itself fails on it."""
    type_, values = NESTED[kind]
    part = pa.table({"c0": pa.array(values, type_).slice(1)})
    assert of_table(spark, part).toArrow().column(0).to_pylist() == values[1:]
