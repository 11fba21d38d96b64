"""The schema by which Spark reads rows from the driver, held against what the rows are.

Spark reads Arrow buffers as the schema says that it is given, whatever they say of themselves:
numbers of another width would be read as other numbers, without an error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.types import StructType

from rekindle.catalyst.jvm import Catalyst, JavaObject
from rekindle.catalyst.types import arrow_type
from rekindle.errors import RekindleError


@dataclass(frozen=True, slots=True)
class ArrowInput:
    """A schema of Spark's, and how wide the values of its columns are."""

    schema: JavaObject
    widths: tuple[int | None, ...]

    @classmethod
    def of(cls, catalyst: Catalyst, attributes: Sequence[JavaObject]) -> ArrowInput:
        """The inlet of rows with the given attributes."""
        types = catalyst.class_("org.apache.spark.sql.catalyst.types.DataTypeUtils")
        schema = types.fromAttributes(catalyst.seq(attributes))
        fields = StructType.fromJson(json.loads(schema.json())).fields
        return cls(schema, tuple(_width(arrow_type(field.dataType)) for field in fields))

    def check(self, table: pa.Table) -> None:
        """Raise if Spark would read other values than the table has."""
        found = tuple(map(_width, table.schema.types))
        if found != self.widths:
            raise RekindleError(
                "rows for Spark are not of the types that it expects",
                detail=f"{self.schema.sql()} is expected, and the rows are {table.schema.types}",
                hint="this is a bug in Rekindle: please report it with the view's definition",
            )


def _width(type_: pa.DataType) -> int | None:
    """The bits of a value, or of its offset; None for nested types, which are not looked into."""
    if pa.types.is_nested(type_):
        return None
    if pa.types.is_large_string(type_) or pa.types.is_large_binary(type_):
        return 64
    if pa.types.is_string(type_) or pa.types.is_binary(type_):
        return 32
    return 0 if pa.types.is_null(type_) else int(type_.bit_width)
