"""CHAR(n) and VARCHAR(n): strings of at most n characters, as Spark writes and compares them.

Blanks at the end do not count against the length: those beyond it are cut off. A CHAR(n) is then
filled up with blanks, so all its values have n characters, and where Spark compares it with another
text it fills that up too; it knows by a mark on the column (`marked`). What is still too long is
an error (`rows.check_lengths`). All of that holds inside arrays, maps and structs too.

A table keeps the types of such columns as they were declared (`Table.declared`), in JSON, which is
read without a Spark session, as in its tasks; what is stored are strings. Rows come in as Arrow
columns or as a Spark frame, and what writes them has a form for both.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    CharType,
    DataType,
    MapType,
    StringType,
    StructField,
    StructType,
    VarcharType,
)

from rekindle.catalyst.types import type_text
from rekindle.circuit.nodes import Table

_MARK = "__CHAR_VARCHAR_TYPE_STRING"


def stored(declared: DataType) -> DataType:
    """The type without lengths."""
    match declared:
        case CharType() | VarcharType():
            return StringType()
        case ArrayType():
            return ArrayType(stored(declared.elementType), declared.containsNull)
        case MapType():
            return MapType(
                stored(declared.keyType), stored(declared.valueType), declared.valueContainsNull
            )
        case StructType():
            return StructType(
                [StructField(f.name, stored(f.dataType), f.nullable) for f in declared.fields]
            )
    return declared


def is_limited(declared: DataType) -> bool:
    """Is there a CHAR(n) or VARCHAR(n) in the type?"""
    return "char(" in declared.simpleString()


def marked(struct: StructType, table: Table) -> StructType:
    """A table's columns with marks on those that have a CHAR(n)."""
    return StructType(
        [
            StructField(f.name, f.dataType, f.nullable, {_MARK: declared_type(table, i)})
            if "char(" in declared_type(table, i).lower().replace("varchar(", "")
            else f
            for i, f in enumerate(struct.fields)
        ]
    )


def declared_type(table: Table, position: int) -> str:
    """The text of a column's type as it was declared."""
    if position not in table.declared:
        return table.schema.fields[position].type
    return type_text(of_json(table.declared[position]))


@cache
def of_json(text: str) -> DataType:
    """The type that a text of JSON stands for."""
    field = {"name": "c", "type": json.loads(text), "nullable": True, "metadata": {}}
    return StructType.fromJson({"fields": [field]}).fields[0].dataType


def fitted(columns: pa.Table, table: Table) -> pa.Table:
    """The table's columns as they are written."""
    for i, declared in table.declared.items():
        values = _fitted(_whole(columns.column(i)), of_json(declared))
        columns = columns.set_column(i, columns.field(i), values)
    return columns


def _whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array that begins where its buffers do: parts of nested ones count so."""
    values = column.combine_chunks()
    return values.take(pa.array(range(len(values)))) if values.offset else values


def _fitted(values: pa.Array, declared: DataType) -> pa.Array:
    if not is_limited(declared):
        return values
    match declared:
        case CharType() | VarcharType():
            return _fitted_texts(values, declared)
        case ArrayType():
            inner = _fitted(values.values, declared.elementType)
            made = pa.ListArray.from_arrays(values.offsets, inner, mask=values.is_null())
        case MapType():
            keys = _fitted(values.keys, declared.keyType)
            inner = _fitted(values.items, declared.valueType)
            made = pa.MapArray.from_arrays(values.offsets, keys, inner, mask=values.is_null())
        case StructType():
            parts = [_fitted(values.field(i), f.dataType) for i, f in enumerate(declared.fields)]
            made = pa.StructArray.from_arrays(
                parts, fields=list(values.type), mask=values.is_null()
            )
        case _:
            return values
    return made.cast(values.type)


def _fitted_texts(texts: pa.Array, declared: CharType | VarcharType) -> pa.Array:
    most = declared.length
    long = pc.greater(pc.utf8_length(texts), most)
    blank = pc.less_equal(pc.utf8_length(pc.utf8_rtrim(texts, " ")), most)
    texts = pc.if_else(pc.and_(long, blank), pc.utf8_slice_codeunits(texts, 0, most), texts)
    return pc.utf8_rpad(texts, most) if isinstance(declared, CharType) else texts


def rows_too_long(column: pa.ChunkedArray, declared: DataType) -> Iterator[int]:
    """The rows of a column in which a text is longer than it may be, in no order."""
    return _too_long(_whole(column), declared)


def _too_long(values: pa.Array, declared: DataType) -> Iterator[int]:
    if not is_limited(declared):
        return
    match declared:
        case CharType() | VarcharType():
            found = pc.indices_nonzero(pc.greater(pc.utf8_length(values), declared.length))
            yield from found.to_pylist()
        case ArrayType():
            yield from _owners(values, _too_long(values.values, declared.elementType))
        case MapType():
            yield from _owners(values, _too_long(values.keys, declared.keyType))
            yield from _owners(values, _too_long(values.items, declared.valueType))
        case StructType():
            for i, field in enumerate(declared.fields):
                yield from _too_long(values.field(i), field.dataType)


def _owners(collections: pa.Array, elements: Iterator[int]) -> Iterator[int]:
    """The rows whose collections have the given elements."""
    offsets = collections.offsets.to_numpy()
    for element in elements:
        yield int(np.searchsorted(offsets, element, side="right")) - 1


def fitted_column(column: Column, table: Table, position: int) -> Column:
    """The same for a column of a Spark frame."""
    declared = table.declared.get(position)
    return column if declared is None else _fitted_column(column, of_json(declared))


def _fitted_column(column: Column, declared: DataType) -> Column:
    if not is_limited(declared):
        return column
    match declared:
        case CharType() | VarcharType():
            most = declared.length
            blank = (F.length(column) > most) & (F.length(F.rtrim(column)) <= most)
            column = F.when(blank, F.substring(column, 1, most)).otherwise(column)
            if isinstance(declared, VarcharType):
                return column
            return F.when(F.length(column) < most, F.rpad(column, most, " ")).otherwise(column)
        case ArrayType():
            return F.transform(column, _each(declared.elementType))
        case MapType():
            keys = F.transform(F.map_keys(column), _each(declared.keyType))
            values = F.transform(F.map_values(column), _each(declared.valueType))
            return F.map_from_arrays(keys, values)
        case StructType():
            parts = [
                _fitted_column(column.getField(f.name), f.dataType).alias(f.name)
                for f in declared.fields
            ]
            return F.when(column.isNotNull(), F.struct(*parts))
    return column


def _each(declared: DataType) -> Callable[[Column], Column]:
    return lambda element: _fitted_column(element, declared)
