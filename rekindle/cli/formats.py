"""Rows of a query for other programs: CSV, and JSON with one object a line.

Spark writes the values, so that a time is in the session's zone and a decimal has all its digits.
All rows are written, as they arrive. In CSV a NULL is nothing and an empty text is `""`; arrays,
maps and structs are JSON, bytes are hexadecimal.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rekindle.columns import column_names
from rekindle.errors import StatementError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType


class Format(enum.Enum):
    """How rows are written."""

    TABLE = "table"
    CSV = "csv"
    JSON = "json"


def csv_lines(frame: DataFrame) -> Iterator[str]:
    """The header and the rows of a frame."""
    yield ",".join(_field(name) for name in frame.columns)
    named = frame.toDF(*column_names(len(frame.columns)))
    texts = [_text(named[field.name], field.dataType) for field in named.schema.fields]
    for row in named.select(*texts).toLocalIterator():
        yield ",".join(map(_field, row))


def json_lines(frame: DataFrame) -> Iterator[str]:
    """Each row of a frame as an object, NULLs included."""
    from pyspark.sql import functions as F

    twice = sorted({name for name in frame.columns if frame.columns.count(name) > 1})
    if twice:
        raise StatementError(
            f"several columns are called '{twice[0]}', and an object has one of each name",
            hint="give each column its own name with AS",
        )
    whole = F.to_json(F.struct("*"), {"ignoreNullFields": "false"})
    for row in frame.select(whole).toLocalIterator():
        yield str(row[0])


def _text(column: Column, type_: DataType) -> Column:
    """A column as the text that stands for it."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    if isinstance(type_, T.ArrayType | T.MapType | T.StructType | T.VariantType):
        return F.to_json(column, {"ignoreNullFields": "false"})
    if isinstance(type_, T.BinaryType):
        return F.concat(F.lit("0x"), F.lower(F.hex(column)))
    return column.cast("string")


def _field(text: str | None) -> str:
    """A value of a line, between quotes where it needs them.

    >>> print([_field(text) for text in ("a", "", None, "1,5")])
    ['a', '""', '', '"1,5"']
    """
    if text is None:
        return ""
    if text and not any(mark in text for mark in ',"\n\r'):
        return text
    return '"' + text.replace('"', '""') + '"'
