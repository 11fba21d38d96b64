"""Nested rows put together in Arrow from the rows of their parts, without Spark."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.nested.levels import LABEL, POSITION, VALUE, Level
from rekindle.runtime.rows.keys import comparable

RowsOf = Callable[[str], pa.Table]
"""The rows of a part by its name, each as often as it occurs, with the names of its columns."""
Columns = Mapping[str, pa.Schema]
"""The columns of each part."""


def nested_schema(level: Level, columns: Columns) -> pa.Schema:
    """The columns of the nested rows of a top level."""
    return pa.schema(
        [
            pa.field(field.name, _type(field.type, (field.name,), level, columns))
            for field in columns[level.view]
            if field.name not in (LABEL, POSITION)
        ]
    )


def _type(type_: pa.DataType, path: tuple[str, ...], level: Level, columns: Columns) -> pa.DataType:
    bag = level.bag(".".join(path))
    if bag is not None:
        element = nested_schema(bag, columns)
        return pa.list_(element.field(VALUE).type if bag.of_values else pa.struct(list(element)))
    if pa.types.is_struct(type_) and _holds_bags(path, level):
        fields = [type_.field(i) for i in range(type_.num_fields)]
        inner = [(f.name, _type(f.type, (*path, f.name), level, columns)) for f in fields]
        return pa.struct(inner)
    return type_


def _holds_bags(path: tuple[str, ...], level: Level) -> bool:
    return any(column.startswith(".".join(path) + ".") for column, _ in level.bags)


def nested_rows(level: Level, rows_of: RowsOf) -> pa.Table:
    """The rows of a top level with its labels replaced by the collections that they stand for."""
    rows = rows_of(level.view).combine_chunks()
    names = [name for name in rows.column_names if name not in (LABEL, POSITION)]
    return pa.table(
        {name: _filled(_one(rows.column(name)), (name,), level, rows_of) for name in names}
    )


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)


def _filled(array: pa.Array, path: tuple[str, ...], level: Level, rows_of: RowsOf) -> pa.Array:
    """A column, or a field of one, with its labels replaced."""
    bag = level.bag(".".join(path))
    if bag is not None:
        return _listed(array, *_bags(bag, rows_of))
    if pa.types.is_struct(array.type) and _holds_bags(path, level):
        names = [array.type.field(i).name for i in range(array.type.num_fields)]
        fields = [_filled(array.field(name), (*path, name), level, rows_of) for name in names]
        return pa.StructArray.from_arrays(fields, names, mask=array.is_null())
    return array


def _listed(labels: pa.Array, elements: pa.Array, places: Mapping[str, list[int]]) -> pa.Array:
    """The list of each label, or NULL where there is none."""
    taken: list[int] = []
    offsets: list[int | None] = []
    for label in labels.to_pylist():
        offsets.append(None if label is None else len(taken))
        taken += places.get(_told(label), []) if label is not None else []
    chosen = elements.take(pa.array(taken, pa.int64()))
    return pa.ListArray.from_arrays(pa.array([*offsets, len(taken)], pa.int32()), chosen)


def _told(label: object) -> str:
    """A label as text: equal for equal labels, of which -0.0 and 0.0 are two."""
    return str(comparable(label))


def _bags(level: Level, rows_of: RowsOf) -> tuple[pa.Array, dict[str, list[int]]]:
    """The elements of a level, and where those of each label are, in their order."""
    rows = rows_of(level.view).combine_chunks()
    inner = nested_rows(level, lambda view: rows if view == level.view else rows_of(view))
    elements: pa.Array
    if level.of_values:
        elements = _one(inner.column(VALUE))
    else:
        columns = [_one(column) for column in inner.columns]
        absent = None
        if POSITION in rows.column_names:
            # The position of an element that is NULL is the complement of where it stands.
            absent = pa.array(np.asarray(rows.column(POSITION)) < 0)
        elements = pa.StructArray.from_arrays(columns, inner.column_names, mask=absent)
    places: dict[str, list[int]] = defaultdict(list)
    labels = rows.column(LABEL).to_pylist()
    for place in _ordered(rows, elements):
        places[_told(labels[place])].append(place)
    return elements, places


def _ordered(rows: pa.Table, elements: pa.Array) -> list[int]:
    """By position, or by the order of values where they have one."""
    if POSITION in rows.column_names:
        given = np.asarray(rows.column(POSITION))
        order = np.argsort(np.where(given < 0, ~given, given), kind="stable")
        return [int(i) for i in order]
    values = elements.to_pylist()
    try:
        return sorted(range(len(values)), key=lambda i: _sortable(values[i]))
    except TypeError:
        return list(range(len(values)))


def _sortable(value: Any) -> Any:
    """A value with NULL before all others, also within it."""
    match value:
        case None:
            return (0,)
        case dict():
            return (1, tuple(_sortable(each) for each in value.values()))
        case list():
            return (1, tuple(_sortable(each) for each in value))
    return (1, value)
