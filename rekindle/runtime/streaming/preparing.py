"""The columns of a stream as the table stores them, computed by Spark in the one job of a batch.

A row of a batch is collected with the table's columns c0, c1... and what the mode needs beside
them: a weight, an operation, a sequence, whether it deletes, and why it does not fit. Values are
put into another type where an INSERT of Spark would, and a value that does not fit is a reason and
not an exception, so that one bad row can be told from the good ones.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.catalyst.encoded import encoded_column
from rekindle.catalyst.failures import spark_error
from rekindle.catalyst.jvm import Catalyst, items
from rekindle.catalyst.types import data_type
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.errors import DefinitionError, RowError, unknown_name
from rekindle.names import quoted
from rekindle.runtime.streaming.definition import CHANGES, UPSERT, StreamDefinition

SIGNED = "s_weight"
WORD = "s_word"
SEQUENCE = "s_sequence"
DELETES = "s_deletes"
REASON = "s_reason"
"""Why a row does not fit, by the first column that is the reason; NULL of one that does."""


def prepared(
    catalyst: Catalyst,
    frame: DataFrame,
    deletes: DataFrame | None,
    node: Table,
    of: StreamDefinition,
) -> DataFrame:
    """A streaming DataFrame with stored columns and those of its mode; `deletes` has deletions."""
    try:
        if deletes is None:
            return _prepared(catalyst, frame, node, of, None)
        added = _prepared(catalyst, frame, node, of, 1)
        removed = _prepared(catalyst, deletes, node, of, -1)
        return added.unionByName(removed)
    except (Py4JJavaError, PySparkException) as error:
        raise spark_error(error) from error


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """The prepared rows for several tables as one DataFrame, those of each in a column of its own.

    So one query reads all sources, and a batch of it has what each of them has to give.
    """
    if len(frames) == 1:
        return frames[0]
    wanted = [frame.schema for frame in frames]
    found = [
        frame.select(
            *(
                (F.struct("*") if i == own else F.lit(None).cast(type_)).alias(_part_name(i))
                for i, type_ in enumerate(wanted)
            )
        )
        for own, frame in enumerate(frames)
    ]
    return reduce(DataFrame.union, found)


def apart(rows: pa.Table, count: int) -> list[pa.Table]:
    """The rows for each table again, in their order."""
    if count == 1:
        return [rows]
    columns = [rows.column(_part_name(i)).combine_chunks() for i in range(count)]
    return [pa.Table.from_struct_array(each.filter(each.is_valid())) for each in columns]


def _part_name(place: int) -> str:
    return f"p{place}"


def sequence_type(frame: DataFrame, node: Table, column: str) -> str:
    """The type of what orders the rows of a key."""
    names = [name.lower() for name in node.schema.names]
    if column.lower() in names:
        return str(node.schema.types[names.index(column.lower())])
    return str(frame.select(_column(frame, column, "sequence_by")).dtypes[0][1])


def _prepared(
    catalyst: Catalyst, frame: DataFrame, node: Table, of: StreamDefinition, weight: int | None
) -> DataFrame:
    _refuse_stray(frame, node, of)
    columns, reasons = [], []
    fields = {str(f.name()).lower(): f.dataType() for f in items(frame._jdf.schema().toSeq())}
    types = {name.lower(): type_ for name, type_ in frame.dtypes}
    for i, field in enumerate(node.schema):
        given, wanted = types[field.name.lower()], data_type(field.type).simpleString()
        value = F.col(quoted(field.name))
        if given != wanted:
            _refuse_unassignable(catalyst, node, i, given, fields[field.name.lower()])
            fitting = value.try_cast(field.type)
            said = f"column '{field.name}' is {field.type} and cannot take "
            wrong = value.isNotNull() & fitting.isNull()
            reasons.append(F.when(wrong, F.concat(F.lit(said), value.cast("string"))))
            value = fitting
        columns.append(encoded_column(value, field.type).alias(column_name(i)))
    columns.append(F.coalesce(*reasons, F.lit(None).cast("string")).alias(REASON))
    return frame.select(*columns, *_of_mode(frame, node, of, weight))


def _of_mode(
    frame: DataFrame, node: Table, of: StreamDefinition, weight: int | None
) -> list[Column]:
    """What a mode needs beside the table's columns."""
    found = []
    if weight is not None:
        found.append(F.lit(weight).cast("bigint").alias(SIGNED))
    if of.weight is not None:
        column = _column(frame, of.weight, "weight")
        _refuse_type(frame, of.weight, "weight", T.IntegralType)
        found.append(column.cast("bigint").alias(SIGNED))
    if of.operation is not None:
        column = _column(frame, of.operation, "operation")
        _refuse_type(frame, of.operation, "operation", T.StringType)
        found.append(F.lower(column).cast("string").alias(WORD))
    if of.sequence_by is not None and of.sequence_by.lower() not in _lower(node.schema.names):
        column = _column(frame, of.sequence_by, "sequence_by")
        type_ = sequence_type(frame, node, of.sequence_by)
        found.append(encoded_column(column, type_).alias(SEQUENCE))
    if of.mode == UPSERT and of.apply_as_deletes is not None:
        condition = F.expr(of.apply_as_deletes).cast("boolean")
        found.append(F.coalesce(condition, F.lit(False)).alias(DELETES))
    return found


def _lower(names: Sequence[str]) -> list[str]:
    return [name.lower() for name in names]


def _column(frame: DataFrame, name: str, option: str) -> Column:
    if name.lower() not in _lower(frame.columns):
        raise unknown_name(f"column of the stream, in {option}=,", name, frame.columns)
    return F.col(quoted(name))


def _refuse_type(frame: DataFrame, name: str, option: str, kind: type[T.DataType]) -> None:
    found = frame.select(F.col(quoted(name))).schema.fields[0].dataType
    if not isinstance(found, kind):
        wanted = "whole numbers" if kind is T.IntegralType else "texts"
        raise DefinitionError(
            f"{option}='{name}' has to be a column of {wanted}, not {found.simpleString()}"
        )


def _refuse_stray(frame: DataFrame, node: Table, of: StreamDefinition) -> None:
    """Raise unless the columns are those of the table and those that the mode uses up."""
    given, wanted = _lower(frame.columns), _lower(node.schema.names)
    twice = sorted({name for name in given if given.count(name) > 1})
    if twice:
        raise RowError(f"the stream for '{node.name}' has several columns called '{twice[0]}'")
    missing = [name for name in node.schema.names if name.lower() not in given]
    used = {x.lower() for x in (of.weight, of.operation, of.sequence_by) if x is not None}
    used |= set(_lower(of.except_columns))
    if of.apply_as_deletes is not None:
        # A column that the condition names is there for it.
        used |= {word.lower() for word in re.findall(r"\w+", of.apply_as_deletes)}
    extra = [n for n in frame.columns if n.lower() not in wanted and n.lower() not in used]
    if missing or extra:
        said = [f"unknown: {', '.join(extra)}"] if extra else []
        said += [f"missing: {', '.join(missing)}"] if missing else []
        raise RowError(
            f"the stream for '{node.name}' does not have the table's columns",
            detail=f"{'; '.join(said)}; the columns are {', '.join(node.schema.names)}",
            hint="select the columns, or leave some out with except_columns=[...]",
        )
    for name in of.except_columns:
        if name.lower() in wanted:
            raise DefinitionError(
                f"except_columns names '{name}', which is a column of '{node.name}'"
            )


def _refuse_unassignable(
    catalyst: Catalyst, node: Table, position: int, given: str, java: object
) -> None:
    field = node.schema.fields[position]
    nested = field.type.lower().startswith(("struct<", "array<", "map<"))
    cast = catalyst.module("org.apache.spark.sql.catalyst.expressions.Cast")
    if nested or not cast.canANSIStoreAssign(java, catalyst.data_type(field.type)):
        raise RowError(
            f"column '{field.name}' of '{node.name}' is {field.type} and cannot take {given}",
            hint=f"CAST the value to {field.type.upper()} in the stream",
        )


def check_mode(of: StreamDefinition, node: Table, deletes: DataFrame | None) -> None:
    """Raise unless what was said of a stream goes together."""
    ways = [x for x in (of.weight, of.operation, deletes) if x is not None]
    if of.mode == CHANGES and len(ways) != 1:
        raise DefinitionError(
            f"changes of '{node.name}' need one of weight=, operation= and deletes=",
            detail=f"{len(ways)} are given",
            hint="weight= and operation= name a column; deletes= is a stream of the rows to remove",
        )
    if of.mode != CHANGES and ways:
        raise DefinitionError(
            "weight=, operation= and deletes= are for mode='changes'", detail=f"given: {of.mode}"
        )
    if of.mode == UPSERT and not node.key:
        raise DefinitionError(
            f"'{node.name}' has no primary key, so rows cannot be upserted",
            hint="declare PRIMARY KEY (...) on the table, or use another mode=",
        )
    if of.mode != UPSERT and of.apply_as_deletes is not None:
        raise DefinitionError("apply_as_deletes= is for mode='upsert'")
    ordered = of.mode == UPSERT or (of.operation is not None and bool(node.key))
    if of.sequence_by is not None and not ordered:
        raise DefinitionError(
            "sequence_by= is for mode='upsert', and for changes with an operation= of a table "
            "with a primary key"
        )
