"""Rows of Spark as values of MRQL, and values as Python and as the language have them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T

from rekindle.errors import UnsupportedError
from rekindle.frontends.mrql.values import TupleType, type_from
from rekindle.mrql_language.printing import show
from rekindle.mrql_language.values import (
    NULL,
    Bag,
    Float,
    List,
    Long,
    Record,
    Short,
    Value,
    kind_of,
    sort_key,
)


def bag_of(rows: Iterable[Any], schema: T.StructType) -> Bag:
    """The rows of a table or view as a bag."""
    return Bag(element_of(row, schema) for row in rows)


def value_of(value: Any, type_: T.DataType) -> Value:
    """A value of a column; NULL is (), arrays are bags."""
    if value is None:
        return NULL
    match type_:
        case T.LongType():
            return Long(value)
        case T.ShortType() | T.ByteType():
            return Short(value)
        case T.FloatType():
            return Float(value)
        case T.StructType() if isinstance(type_from(type_), TupleType):
            return tuple(item for _, item in _fields(value, type_))
        case T.StructType():
            return Record(tuple(_fields(value, type_)))
        case T.ArrayType():
            return Bag(value_of(each, type_.elementType) for each in value)
        case T.MapType():
            return Bag(
                (value_of(k, type_.keyType), value_of(v, type_.valueType)) for k, v in value.items()
            )
        case _:
            return value


def _fields(row: Any, schema: T.StructType) -> Iterable[tuple[str, Value]]:
    for field, value in zip(schema.fields, row, strict=True):
        yield field.name, value_of(value, field.dataType)


def element_of(row: Any, schema: T.StructType) -> Value:
    """A row of a table or view as an element: a record, or what a view of MRQL was made of."""
    found = tuple(_fields(row, schema))
    if len(found) == 1 and found[0][0] == "value":
        return found[0][1]
    if [name for name, _ in found] == [f"_{i}" for i in range(1, len(found) + 1)]:
        return tuple(item for _, item in found)
    return Record(found)


def plain(value: Value) -> Any:
    """A value as Python has it: collections are lists, records dicts, () is None."""
    match value:
        case Bag() | List():
            return [plain(each) for each in value]
        case Record():
            return {name: plain(item) for name, item in value.fields}
        case tuple():
            return tuple(map(plain, value)) if value else None
        case bool():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case _:
            return value


def written(value: Value) -> str:
    """The expression that has a value."""
    match value:
        case bool():
            return "true" if value else "false"
        case Long() | Short():
            return f"({int(value)} as {kind_of(value)})"
        case int():
            return str(value)
        case float() if math.isfinite(value):
            text = repr(float(value))
            return f"({text} as float)" if isinstance(value, Float) else text
        case str() if "\\" not in value and '"' not in value:
            return f'"{value}"'
        case tuple():
            return f"({', '.join(map(written, value))})"
        case Record():
            return f"<{', '.join(f'{name}: {written(item)}' for name, item in value.fields)} >"
        case Bag():
            return f"{{{', '.join(map(written, value))}}}"
        case List():
            return f"[{', '.join(map(written, value))}]"
        case _:
            raise UnsupportedError(
                f"a value of {kind_of(value)} cannot be stored: {value!r}",
                hint="store what is made of numbers, texts, tuples, records, bags and lists",
            )


def shown(result: Any) -> str:
    """A result of a script in the notation of the language."""
    if isinstance(result, DataFrame):
        rows = (element_of(row, result.schema) for row in result.collect())
        return show(Bag(sorted(rows, key=sort_key)))
    return show(_read(result))


def _read(value: Any) -> Value:
    match value:
        case None:
            return NULL
        case list():
            return List(tuple(map(_read, value)))
        case tuple():
            return tuple(map(_read, value))
        case dict():
            return Record(tuple((name, _read(item)) for name, item in value.items()))
        case _:
            return value
