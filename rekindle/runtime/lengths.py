"""CHAR(n) and VARCHAR(n): strings of at most n characters, as Spark writes and compares them.

Blanks at the end do not count against the length: those beyond it are cut off. A CHAR(n) is then
filled up with blanks, so all its values have n characters, and where Spark compares it with another
text it fills that up too; it knows by a mark on the column (`declared`). What is still too long is
an error (`rows.check_lengths`).
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import CharType, DataType, StringType, StructField, StructType, VarcharType

from rekindle.circuit.nodes import Table

_MARK = "__CHAR_VARCHAR_TYPE_STRING"


def limit_of(data_type: DataType) -> int | None:
    """How many characters a column declared so holds; None for any number."""
    return data_type.length if isinstance(data_type, CharType | VarcharType) else None


def without_limit(field: StructField) -> StructField:
    """The column as it is stored."""
    if limit_of(field.dataType) is None:
        return field
    return StructField(field.name, StringType(), field.nullable)


def declared(struct: StructType, table: Table) -> StructType:
    """A table's columns with marks on those that are CHAR(n)."""
    return StructType(
        [
            StructField(f.name, f.dataType, f.nullable, {_MARK: declared_type(table, i)})
            if i in table.padded
            else f
            for i, f in enumerate(struct.fields)
        ]
    )


def declared_type(table: Table, position: int) -> str:
    """The type of a column as it was declared."""
    if position not in table.lengths:
        return table.schema.fields[position].type
    kind = "char" if position in table.padded else "varchar"
    return f"{kind}({table.lengths[position]})"


def fitted(columns: pa.Table, table: Table) -> pa.Table:
    """The table's columns as they are written."""
    for i, most in table.lengths.items():
        texts = columns.column(i)
        long = pc.greater(pc.utf8_length(texts), most)
        blank = pc.less_equal(pc.utf8_length(pc.utf8_rtrim(texts, " ")), most)
        cut = pc.utf8_slice_codeunits(texts, 0, most)
        texts = pc.if_else(pc.and_(long, blank), cut, texts)
        if i in table.padded:
            texts = pc.utf8_rpad(texts, most)
        columns = columns.set_column(i, columns.schema.field(i), texts)
    return columns


def fitted_column(text: Column, table: Table, position: int) -> Column:
    """The same for a column of a Spark frame."""
    most = table.lengths.get(position)
    if most is None:
        return text
    blank = (F.length(text) > most) & (F.length(F.rtrim(text)) <= most)
    text = F.when(blank, F.substring(text, 1, most)).otherwise(text)
    if position not in table.padded:
        return text
    return F.when(F.length(text) < most, F.rpad(text, most, " ")).otherwise(text)
