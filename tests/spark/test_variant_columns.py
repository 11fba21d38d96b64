"""Variants in Arrow columns, at any depth, without Spark."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    StringType,
    StructField,
    StructType,
    VariantType,
)

from rekindle.catalyst.variants import from_spark, has_variant, opened, to_spark

ONE = {"value": b"\x0c\x01", "metadata": b"\x01\x00\x00"}
VARIANT = VariantType()
COLUMNS = [
    (VARIANT, [ONE, None, ONE]),
    (ArrayType(VARIANT), [[ONE, None], None, []]),
    (
        StructType([StructField("i", IntegerType()), StructField("v", VARIANT)]),
        [{"i": 1, "v": ONE}, {"i": 2, "v": None}, None],
    ),
    (MapType(StringType(), VARIANT), [[("a", None), ("b", ONE)], None, []]),
    (
        ArrayType(StructType([StructField("v", ArrayType(VARIANT))])),
        [[{"v": [None, ONE]}, None], [{"v": None}], None],
    ),
]


@pytest.mark.parametrize(
    ("type_", "values"), COLUMNS, ids=[type_.simpleString() for type_, _ in COLUMNS]
)
def test_a_null_variant_goes_to_spark_and_back(type_: DataType, values: list[object]) -> None:
    declared = to_arrow_type(type_)
    stored = pa.table({"c": _with_nulls(pa.array(values, opened(declared)))})
    assert has_variant(declared) and stored.schema.field("c").type == opened(declared)
    for part in (stored, stored.slice(1), stored.slice(0, 0)):
        given = to_spark(part).cast(pa.schema([("c", declared)]))
        assert given.to_pylist() == part.to_pylist()
        assert from_spark(given).to_pylist() == part.to_pylist()
        assert from_spark(given).schema == stored.schema


def test_other_columns_are_left_alone() -> None:
    table = pa.table({"c": pa.array([{"value": b"", "metadata": None}, None])})
    assert to_spark(table) is table
    assert from_spark(table) is table


def _with_nulls(array: pa.Array) -> pa.Array:
    """The array as Spark writes it: the parts of a NULL variant are NULL themselves."""
    type_ = array.type
    if pa.types.is_map(type_):
        entries = pa.StructArray.from_arrays(
            [array.keys, _with_nulls(array.items)], fields=[type_.key_field, type_.item_field]
        )
        return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], children=[entries])
    if pa.types.is_list(type_):
        values = _with_nulls(array.values)
        return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], children=[values])
    if not pa.types.is_struct(type_):
        return array
    parts = [array.field(i) for i in range(type_.num_fields)]
    if [part.name for part in type_] == ["value", "metadata"]:
        nothing = pa.scalar(None, pa.binary())
        parts = [pc.if_else(array.is_null(), nothing, part) for part in parts]
    children = [_with_nulls(part) for part in parts]
    return pa.Array.from_buffers(type_, len(array), array.buffers()[:1], children=children)
