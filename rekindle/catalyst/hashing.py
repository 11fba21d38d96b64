"""Hashes of rows and keys, computed by Spark.

Kernels compare rows by a 128-bit identity and never look inside a payload column. The identity is
two `xxhash64` values with different seeds over an *unambiguous* list of hashable columns: Spark's
hash skips NULLs and runs through nested values without marking where they begin, so each column is
preceded by its null flag, each array by its length, and a map becomes its entries.
Every NaN is alike, but -0.0 and 0.0 are two identities, and so are maps of equal entries in
different order, texts that a collation does not tell apart, and variants of one value in different
bytes: expressions can tell them apart, so a table that forgot which it held would give its views
other rows than a recomputation. Keys of joins and of primary keys are made equal first where Spark
compares them as equal (`key_hash`).

The flags are always there, whatever the declared nullability: the same row must have the same
identity on every path.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StringType,
    StructType,
    VariantType,
)

from rekindle.catalyst.jvm import Catalyst, JavaObject, id_of, items, variant_parts
from rekindle.catalyst.types import is_collated

SEEDS = (42, 1_000_003)
KEY_SEED = SEEDS[0]


def unambiguous(column: Column, data_type: DataType) -> list[Column]:
    """Hashable columns from which the value could be told apart from every other value."""
    flag = F.isnull(column)
    match data_type:
        case ArrayType():
            element = data_type.elementType
            marked = F.transform(column, lambda item: F.struct(*unambiguous(item, element)))
            return [flag, _size(column), marked]
        case MapType():
            keys, values = data_type.keyType, data_type.valueType
            entries = F.transform(
                F.map_entries(column),
                lambda entry: F.struct(
                    *unambiguous(entry.getField("key"), keys),
                    *unambiguous(entry.getField("value"), values),
                ),
            )
            return [flag, _size(column), entries]
        case StructType():
            inner = [
                part
                for field in data_type.fields
                for part in unambiguous(column.getField(field.name), field.dataType)
            ]
            return [flag, *inner]
        case FloatType() | DoubleType():
            # Spark hashes -0.0 as 0.0, and its functions add 0.0 first; only the text shows it.
            return [flag, column, (column == 0) & (column.cast("string") == "-0.0")]
        case VariantType():
            return [flag, *variant_parts(column)]
        case StringType() if is_collated(data_type):
            return [flag, column.cast("string")]
    return [flag, column]


def _size(collection: Column) -> Column:
    """How many elements it has; what the size of NULL is depends on the session."""
    return F.when(collection.isNotNull(), F.size(collection))


def hashes(
    catalyst: Catalyst, expressions: Sequence[JavaObject], types: Sequence[DataType]
) -> tuple[JavaObject, JavaObject]:
    """The two 64-bit hashes of a list of Catalyst expressions, as Catalyst expressions."""
    column_of = catalyst.class_("org.apache.spark.sql.classic.ExpressionUtils").column
    parts = [
        part
        for expression, data_type in zip(expressions, types, strict=True)
        for part in unambiguous(Column(column_of(expression)), data_type)
    ]
    attributes = {
        id_of(attribute): attribute
        for expression in expressions
        for attribute in items(expression.references().toSeq())
    }
    # A product has no key and a global aggregate no group: one constant key for all rows.
    resolved = catalyst.analysed(parts, list(attributes.values())) or [catalyst.literal("0")]
    hash_ = catalyst.expression("XxHash64")
    first, second = (hash_(catalyst.seq(resolved), seed) for seed in SEEDS)
    return first, second


def key_hash(
    catalyst: Catalyst, expressions: Sequence[JavaObject], types: Sequence[DataType]
) -> JavaObject:
    """One hash that is equal for keys that Spark compares as equal."""
    equal = [catalyst.normalised(expression) for expression in expressions]
    return hashes(catalyst, equal, types)[0]
