"""Rows that a user hands over, as stored columns of a table.

Lists of tuples, dicts or Rows, pandas frames, Arrow tables and Spark DataFrames are accepted.
Values are converted to the column's type only where nothing is lost; otherwise a `RowError` names
the row, the column, the value and the type. Nothing is applied when any row is bad. Times without
a zone are those of the session's clock (`wall_time.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, Row
from pyspark.sql.types import VariantVal

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.types import arrow_type, data_type
from rekindle.catalyst.variants import has_variant, is_variant
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name, column_names, is_added
from rekindle.errors import RowError
from rekindle.runtime.rows.lengths import declared_type, of_json, rows_too_long
from rekindle.runtime.rows.wall_time import (
    Zone,
    has_instant,
    instant,
    instants,
    instants_of_arrow,
    is_instant,
)
from rekindle.traces.arrays import WEIGHT


def to_arrow(rows: Any, schema: Schema, table: str, zone: Zone) -> pa.Table:
    """The rows as stored columns c0, c1...; by name where names are given, else by position."""
    match rows:
        case pd.DataFrame():
            return _from_named(
                {str(name): rows[name] for name in rows.columns}, len(rows), schema, table, zone
            )
        case pa.Table() | pa.RecordBatch():
            columns = {name: rows.column(i) for i, name in enumerate(rows.schema.names)}
            return _from_named(columns, rows.num_rows, schema, table, zone)
        case str() | bytes() | Mapping():
            raise _not_rows(rows, table)
        case Iterable():
            return _from_rows(_listed(rows, table), schema, table, zone)
    raise _not_rows(rows, table)


def split_weights(rows: Any, schema: Schema, table: str, zone: Zone) -> tuple[pa.Table, pa.Array]:
    """Rows with a `_weight` beside the table's columns, as stored columns and weights."""
    weighted = Schema((*schema.fields, Field(WEIGHT, "bigint", nullable=False)))
    columns = to_arrow(rows, weighted, table, zone)
    weights = columns.column(len(schema)).combine_chunks()
    if weights.null_count:
        raise RowError(f"a change of '{table}' has no weight", hint="set _weight on every row")
    return columns.drop_columns([column_name(len(schema))]), weights


def is_frame(rows: Any) -> bool:
    return isinstance(rows, DataFrame)


def _not_rows(rows: Any, table: str) -> RowError:
    return RowError(
        f"rows for '{table}' cannot be a {type(rows).__name__}",
        hint="give a list of tuples, dicts or Rows, a pandas or Spark DataFrame, or an Arrow table",
    )


def _listed(rows: Iterable[Any], table: str) -> list[Any]:
    try:
        return list(rows)
    except Exception as error:
        raise RowError(
            f"the rows for '{table}' cannot be listed", detail=f"{type(error).__name__}: {error}"
        ) from error


def _from_rows(rows: Sequence[Any], schema: Schema, table: str, zone: Zone) -> pa.Table:
    width = len(schema)
    names = schema.names
    tuples = []
    for number, row in enumerate(rows):
        if isinstance(row, Row) and hasattr(row, "__fields__"):
            row = row.asDict()
        if isinstance(row, Mapping):
            _check_names(row.keys(), schema, table, f"row {number + 1}")
            folded = {str(name).lower(): value for name, value in row.items()}
            row = tuple(folded[name.lower()] for name in names)
        elif not isinstance(row, Sequence) or isinstance(row, str | bytes):
            raise RowError(
                f"row {number + 1} for '{table}' is {row!r}, which is a value and not a row",
                detail=f"expected {width} values: {', '.join(names)}",
                hint="give a list of rows, also where there is one: [(...)]",
            )
        if len(row) != width:
            raise RowError(
                f"row {number + 1} for '{table}' has {len(row)} values, not {width}",
                detail=f"the row is {tuple(row)!r}; the columns are {', '.join(names)}",
                hint="give a value, or None, for every column",
            )
        tuples.append(tuple(row))
    columns = list(zip(*tuples, strict=True)) if tuples else [()] * width
    arrays = [
        _column(list(values), field, table, zone)
        for values, field in zip(columns, schema, strict=True)
    ]
    return _assemble(arrays)


def _from_named(
    columns: Mapping[str, Any], rows: int, schema: Schema, table: str, zone: Zone
) -> pa.Table:
    _check_names(columns.keys(), schema, table, "the data")
    folded = {name.lower(): values for name, values in columns.items()}
    arrays = []
    for field in schema:
        values = folded.get(field.name.lower())
        arrays.append(
            pa.nulls(rows, arrow_type(data_type(field.type)))
            if values is None
            else _column(values, field, table, zone)
        )
    return _assemble(arrays)


def _check_names(given: Iterable[Any], schema: Schema, table: str, where: str) -> None:
    known = {name.lower() for name in schema.names}
    written = [str(name) for name in given]
    extra = [name for name in written if name.lower() not in known]
    missing = known - {name.lower() for name in written}
    if extra or missing:
        said = [f"unknown: {', '.join(extra)}"] if extra else []
        said += [f"missing: {', '.join(sorted(missing))}"] if missing else []
        raise RowError(
            f"{where} for '{table}' does not have the table's columns",
            detail=f"{'; '.join(said)}; the columns are {', '.join(schema.names)}",
        )


def _assemble(arrays: Sequence[Any]) -> pa.Table:
    return pa.Table.from_arrays(
        [a.combine_chunks() if isinstance(a, pa.ChunkedArray) else a for a in arrays],
        names=column_names(len(arrays)),
    )


def _column(values: Any, field: Field, table: str, zone: Zone) -> Any:
    target = arrow_type(data_type(field.type))
    if pa.types.is_nested(target) and has_instant(target):
        # One by one: what has a zone and what has none is seen in the values.
        if isinstance(values, pa.Array | pa.ChunkedArray):
            values = values.to_pylist()
        elif isinstance(values, pd.Series):
            values = [None if _is_missing(v) else v for v in values]
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return _safely_cast(_placed_in_time(values, target, zone), target)
        if isinstance(values, pd.Series):
            if values.dtype == bool and not pa.types.is_boolean(target):
                raise TypeError("the values are booleans")
            if has_variant(target):
                return _column([None if _is_missing(v) else v for v in values], field, table, zone)
            if is_instant(target):
                if values.dtype == object:
                    listed = [None if _is_missing(v) else v for v in values]
                    return _column(listed, field, table, zone)
                return _column(pa.Array.from_pandas(values), field, table, zone)
            return pa.Array.from_pandas(values, type=target)
        _refuse_lossy(values, target)
        if is_instant(target):
            values = instants(values, zone)
        elif pa.types.is_nested(target):
            values = [_conform(value, target, zone) for value in values]
        return pa.array(values, type=target)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise _bad_value(values, field, target, table, error) from error


def _placed_in_time(values: Any, target: pa.DataType, zone: Zone) -> Any:
    """Arrow timestamps for a TIMESTAMP column, those without a zone in the session's."""
    if is_instant(target) and pa.types.is_timestamp(values.type) and values.type.tz is None:
        return instants_of_arrow(values, zone)
    return values


def _conform(value: Any, target: pa.DataType, zone: Zone) -> Any:
    """A nested value with its structs' fields under their own names, and its times as instants.

    Arrow would leave a field that is called otherwise NULL without a word.
    """
    if value is None:
        return None
    if is_instant(target):
        return instant(value, zone)
    if is_variant(target):
        if not isinstance(value, VariantVal):
            raise TypeError("give a pyspark VariantVal, such as VariantVal.parseJson(text)")
        return {"value": value.value, "metadata": value.metadata}
    if pa.types.is_struct(target):
        if isinstance(value, Row) and hasattr(value, "__fields__"):
            value = value.asDict()
        if isinstance(value, Mapping):
            given = {str(name).lower(): item for name, item in value.items()}
            unknown = given.keys() - {field.name.lower() for field in target}
            if unknown:
                names = ", ".join(field.name for field in target)
                raise TypeError(f"unknown field '{sorted(unknown)[0]}'; the fields are {names}")
            items = [given.get(field.name.lower()) for field in target]
        else:
            items = list(value)
            if len(items) != target.num_fields:
                raise TypeError(f"a struct of {target.num_fields} fields, not of {len(items)}")
        return {f.name: _conform(item, f.type, zone) for f, item in zip(target, items, strict=True)}
    if pa.types.is_list(target) and not isinstance(value, str | bytes | Mapping):
        return [_conform(item, target.value_type, zone) for item in value]
    if pa.types.is_map(target) and not isinstance(value, str | bytes):
        pairs = value.items() if isinstance(value, Mapping) else value
        return [
            (_conform(key, target.key_type, zone), _conform(item, target.item_type, zone))
            for key, item in pairs
        ]
    return value


def _is_missing(value: Any) -> bool:
    return (
        value is None
        or value is pd.NA
        or value is pd.NaT
        or (isinstance(value, float) and math.isnan(value))
    )


def _safely_cast(values: Any, target: pa.DataType) -> Any:
    if values.type == target:
        return values
    into_text = pa.types.is_string(target) or pa.types.is_binary(target)
    from_text = any(
        test(values.type)
        for test in (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    )
    if into_text != (from_text or _is_binary(values.type)) and not pa.types.is_null(values.type):
        raise TypeError(f"cannot store {values.type} as {target}")
    return pc.cast(values, target)


def _is_binary(type_: pa.DataType) -> bool:
    return bool(pa.types.is_binary(type_) or pa.types.is_large_binary(type_))


def _refuse_lossy(values: Sequence[Any], target: pa.DataType) -> None:
    """Arrow would take a bool for a number, and a whole float for an integer."""
    if pa.types.is_integer(target) or pa.types.is_floating(target):
        for value in values:
            if isinstance(value, bool):
                raise TypeError(f"{value!r} is a boolean")
            if pa.types.is_integer(target) and isinstance(value, float):
                raise TypeError(f"{value!r} is not an integer")


def _bad_value(
    values: Any, field: Field, target: pa.DataType, table: str, error: Exception
) -> RowError:
    found = ""
    where = ""
    sequence = values.to_pylist() if hasattr(values, "to_pylist") else list(values)
    for number, value in enumerate(sequence):
        try:
            _refuse_lossy([value], target)
            nested = pa.types.is_nested(target)
            pa.array([_conform(value, target, _any_zone) if nested else value], type=target)
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            found, where = f" the value {value!r}", f" in row {number + 1}"
            break
    return RowError(
        f"column '{field.name}' of '{table}' is {field.type} and cannot take{found or ' the data'}"
        f"{where}",
        detail=str(error),
        hint=f"convert the value to {field.type}",
    )


def _any_zone() -> str:
    """A zone, where it does not matter which."""
    return "Z"


def check_not_null(columns: pa.Table, schema: Schema, table: str) -> None:
    """Raise unless every NOT NULL column has values only."""
    for i, field in enumerate(schema):
        if not field.nullable and columns.column(i).null_count:
            mask = pc.is_null(columns.column(i))
            row = pc.index(mask, True).as_py()
            raise RowError(
                f"column '{field.name}' of '{table}' is NOT NULL, but row {row + 1} has NULL there",
                detail=f"the row is {show_row(columns, row)}",
            )


def check_lengths(columns: pa.Table, table: Table) -> None:
    """Raise unless no text is longer than its column may hold."""
    for i, declared in table.declared.items():
        row = min(rows_too_long(columns.column(i), of_json(declared)), default=None)
        if row is not None:
            raise RowError(
                f"column '{table.schema.names[i]}' of '{table.name}' is "
                f"{declared_type(table, i).upper()}, "
                f"but row {row + 1} has a longer text",
                detail=f"the row is {show_row(columns, row)}",
                hint="shorten the text, or make the column a STRING",
            )


def show_row(columns: pa.Table, row: int) -> str:
    """A row for an error message."""
    payload = [name for name in columns.column_names if not is_added(name)]
    return "(" + ", ".join(_shown(columns.column(name)[row]) for name in payload) + ")"


def _shown(value: pa.Scalar) -> str:
    found = value.as_py()
    if found is None:
        return "NULL"
    if is_variant(value.type):
        return str(VariantVal(**found))
    return repr(found)
