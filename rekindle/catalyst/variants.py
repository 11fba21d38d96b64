"""Arrow types that Spark writes and that are not stored as they are.

Structs may have fields that are never NULL; a variant is one, with two binaries for fields.

Spark writes NULLs into fields that it declares as never NULL where the struct itself is NULL, which
Arrow's casts refuse. So stored columns declare all parts as nullable (`opened`), and what comes
from Spark is given that type (`from_spark`). A variant has to be declared as Spark does: on the way
into a DataFrame the NULLs below a NULL are filled with empty values (`to_spark`). Texts and bytes
come with long offsets where the session asks for them, and are stored with short ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.pandas import types as pandas_types

_SHORT = {pa.large_string(): pa.string(), pa.large_binary(): pa.binary()}


def opened(type_: pa.DataType) -> pa.DataType:
    """The type with all its parts nullable, except for the keys of maps, and short offsets."""
    if not is_closed(type_):
        return type_
    if type_ in _SHORT:
        return _SHORT[type_]
    if pa.types.is_map(type_):
        key = type_.key_field
        return pa.map_(key.with_type(opened(key.type)), _opened_field(type_.item_field))
    inner = [_opened_field(type_.field(i)) for i in range(type_.num_fields)]
    return pa.struct(inner) if pa.types.is_struct(type_) else pa.list_(inner[0])


def _opened_field(field: pa.Field) -> pa.Field:
    return field.with_type(opened(field.type)).with_nullable(True)


def is_closed(type_: pa.DataType) -> bool:
    """Has the type a part that is declared as never NULL, or long offsets?"""
    if type_ in _SHORT:
        return True
    if pa.types.is_map(type_):
        item = type_.item_field
        return not item.nullable or is_closed(type_.key_type) or is_closed(item.type)
    parts = [type_.field(i) for i in range(type_.num_fields)]
    return any(not part.nullable or is_closed(part.type) for part in parts)


def from_spark(table: pa.Table) -> pa.Table:
    """A table that Spark wrote, in the types of stored columns."""
    if not any(is_closed(field.type) for field in table.schema):
        return table
    fields = [field.with_type(opened(field.type)) for field in table.schema]
    return table.cast(pa.schema(fields))


def to_spark(table: pa.Table) -> pa.Table:
    """Stored columns as `createDataFrame` takes them.

    It fails on parts of nested columns that have a NULL; taken rows begin at offset 0 at every
    depth.
    """
    for i, field in enumerate(table.schema):
        column = table.column(i)
        is_part = pa.types.is_nested(field.type) and any(chunk.offset for chunk in column.chunks)
        if is_part or has_variant(field.type):
            whole = column.combine_chunks()
            table = table.set_column(i, field, _filled(whole.take(pa.array(np.arange(len(whole))))))
    return table


def collected(frame: DataFrame) -> pa.Table:
    """The rows of a frame in the types of stored columns.

    PySpark's `toArrow` ends in the cast that fails on a NULL struct or variant.
    """
    types = pandas_types.to_arrow_schema(frame.schema, timezone="UTC")
    if not any(is_closed(field.type) for field in types):
        return from_spark(frame.toArrow())
    classic: Any = frame
    batches = classic._collect_as_arrow(empty_list_if_zero_records=False)
    target = pa.schema([field.with_type(opened(field.type)) for field in types])
    return pa.Table.from_batches(batches).cast(target)


def is_variant(type_: pa.DataType) -> bool:
    """Is this the type of a variant?"""
    return bool(pa.types.is_struct(type_) and pandas_types.is_variant(type_))


def has_variant(type_: pa.DataType) -> bool:
    """Is this the type of a variant, or of values that have one inside?"""
    if is_variant(type_):
        return True
    return any(has_variant(type_.field(i).type) for i in range(type_.num_fields))


def _filled(array: pa.Array) -> pa.Array:
    type_ = array.type
    if not has_variant(type_):
        return array
    if pa.types.is_map(type_):
        entries = pa.StructArray.from_arrays(
            [array.keys, _filled(array.items)], fields=[type_.key_field, type_.item_field]
        )
        return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], children=[entries])
    if pa.types.is_struct(type_):
        parts = [array.field(i) for i in range(type_.num_fields)]
        filled = [pc.fill_null(p, b"") if is_variant(type_) else _filled(p) for p in parts]
        return pa.Array.from_buffers(type_, len(array), array.buffers()[:1], children=filled)
    values = _filled(array.values)
    return pa.Array.from_buffers(type_, len(array), array.buffers()[:2], children=[values])
