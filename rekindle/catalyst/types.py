"""Types in three languages: Spark's, its text in the calculus, and the Arrow layout in files.

A column is stored in the Arrow type that Spark's own Arrow conversion uses, so batches pass between
Python and the JVM without a copy of meaning. The one exception is the year-month interval, which
pyarrow cannot hold: it is stored as its number of months, an int32, which is also Spark's internal
form. A string with a collation is stored as its text, a variant as its two binaries. Fields of
structs are stored as nullable, since those of a NULL struct are NULL.
"""

from __future__ import annotations

from functools import lru_cache

import pyarrow as pa
from pyspark.errors import PySparkTypeError
from pyspark.sql import SparkSession
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    CharType,
    DataType,
    DateType,
    DayTimeIntervalType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
    TimeType,
    VarcharType,
    VariantType,
    YearMonthIntervalType,
)

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.encoded import uncollated
from rekindle.catalyst.variants import opened
from rekindle.columns import column_name
from rekindle.errors import DefinitionError
from rekindle.names import quoted

TIME_SETTING = "spark.sql.timeType.enabled"

_ATOMIC = (
    BooleanType,
    ByteType,
    ShortType,
    IntegerType,
    LongType,
    FloatType,
    DoubleType,
    DecimalType,
    StringType,
    BinaryType,
    DateType,
    TimestampType,
    TimestampNTZType,
    TimeType,
    DayTimeIntervalType,
    VariantType,
    NullType,
)


def check_storable(data_type: DataType, column: str, *, nested: bool = False) -> None:
    """Raise `DefinitionError` unless a column of this type can be kept in a table or view."""
    match data_type:
        case ArrayType():
            check_storable(data_type.elementType, column, nested=True)
        case MapType(keyType=NullType()):
            # Arrow has no map of keys that are NULL, not even an empty one.
            raise _refusal(column, data_type, "give it a type: CAST(map() AS MAP<STRING, INT>)")
        case MapType():
            check_storable(data_type.keyType, column, nested=True)
            check_storable(data_type.valueType, column, nested=True)
        case StructType():
            for field in data_type.fields:
                check_storable(field.dataType, column, nested=True)
        case CharType() | VarcharType():
            raise _refusal(column, data_type, "use STRING, or VARCHAR(n) as a table's column")
        case YearMonthIntervalType() if not nested:
            return
        case _ if not isinstance(data_type, _ATOMIC):
            raise _refusal(column, data_type, "store it as a STRING or BINARY column")


def check_key(data_type: DataType, column: str) -> None:
    """Raise `DefinitionError` unless a primary key can have a column of this type.

    Keys are compared by their values outside of Spark too, which knows no collations there, and
    maps have no order by which equal ones could be told.
    """
    text = data_type.simpleString()
    if is_collated(data_type) or "variant" in text or "map<" in text:
        raise DefinitionError(
            f"column '{column}' has the type {text}, which cannot be part of a primary key",
            hint="use a STRING without a collation, such as lower(name), or a number",
        )


def check_enabled(spark: SparkSession, data_type: DataType, column: str) -> None:
    """Raise `DefinitionError` if the session does not read columns of this type.

    Without its setting Spark takes a TIME column in a definition and refuses it in most queries.
    """
    enabled = str(spark.conf.get(TIME_SETTING)).lower() == "true"
    if not enabled and "time(" in data_type.simpleString():
        raise DefinitionError(
            f"column '{column}' has the type {data_type.simpleString()}, "
            "which this session does not read",
            detail=f"{TIME_SETTING} is false",
            hint=f'call spark.conf.set("{TIME_SETTING}", "true") first',
        )


def _refusal(column: str, data_type: DataType, hint: str) -> DefinitionError:
    return DefinitionError(
        f"column '{column}' has the type {data_type.simpleString()}, which cannot be stored yet",
        hint=hint,
    )


def data_type(text: str) -> DataType:
    """Spark's type of a type text."""
    return _data_type(text)


@lru_cache(maxsize=4096)
def _data_type(text: str) -> DataType:
    parsed = DataType.fromDDL(text)
    if isinstance(parsed, StructType) and not text.lower().startswith("struct"):
        raise DefinitionError(f"'{text}' is not a type")
    return parsed


def type_text(data_type: DataType) -> str:
    """The type text of a Spark type, as the front end writes it."""
    match data_type:
        case ArrayType():
            return f"ARRAY<{_sql(data_type.elementType)}>"
        case MapType() | StructType():
            return _sql(data_type)
    return data_type.simpleString()


def _sql(data_type: DataType) -> str:
    match data_type:
        case ArrayType():
            return f"ARRAY<{_sql(data_type.elementType)}>"
        case MapType():
            return f"MAP<{_sql(data_type.keyType)}, {_sql(data_type.valueType)}>"
        case StructType():
            inner = ", ".join(_field_sql(field) for field in data_type.fields)
            return f"STRUCT<{inner}>"
    return data_type.simpleString().upper()


def _field_sql(field: StructField) -> str:
    name = field.name if field.name.isidentifier() else quoted(field.name)
    return f"{name}: {_sql(field.dataType)}" + ("" if field.nullable else " NOT NULL")


def schema_of(struct: StructType) -> Schema:
    """The calculus's schema of a Spark schema."""
    return Schema(tuple(Field(f.name, type_text(f.dataType), f.nullable) for f in struct.fields))


def struct_of(schema: Schema) -> StructType:
    """The Spark schema of a calculus schema."""
    return StructType([StructField(f.name, data_type(f.type), f.nullable) for f in schema])


def arrow_type(data_type: DataType) -> pa.DataType:
    """The Arrow type in which a column of this type is stored."""
    if isinstance(data_type, YearMonthIntervalType):
        return pa.int32()
    try:
        return opened(to_arrow_type(data_type, timezone="UTC"))
    except PySparkTypeError as error:
        raise DefinitionError(
            f"a value of the type {data_type.simpleString()} cannot be stored yet",
            detail="a part of the view keeps one for each of its groups or rows",
            hint="cast what is inside to STRING or a number first",
        ) from error


def stored(data_type: DataType) -> DataType:
    """The Spark type whose Arrow form is the stored one."""
    if isinstance(data_type, YearMonthIntervalType):
        return IntegerType()
    return _data_type(uncollated(type_text(data_type))) if is_collated(data_type) else data_type


def is_collated(data_type: DataType) -> bool:
    """Does the type have a string in it that is not compared by its bytes?"""
    return "collate" in data_type.simpleString()


def payload_schema(schema: Schema) -> pa.Schema:
    """The stored columns of rows of `schema`: positional names, every column nullable."""
    return pa.schema(
        [pa.field(column_name(i), arrow_type(data_type(f.type))) for i, f in enumerate(schema)]
    )
