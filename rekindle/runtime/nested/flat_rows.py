"""Nested rows as rows of flat tables, and back, on Arrow columns.

Labels are made of the row's key and of positions, so `flattened` needs nothing but the rows and the
positions of their elements; `nested_rows` is its inverse on what the parts hold.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.catalyst.types import data_type, payload_schema
from rekindle.columns import column_name, column_names
from rekindle.names import quoted
from rekindle.runtime.nested.positions import GAP, loaded
from rekindle.runtime.nested.tables import NestedTable, Part
from rekindle.runtime.rows.keys import comparable
from rekindle.traces.arrays import WEIGHT, Int64s, integers

Positions = Mapping[tuple[str, ...], Int64s]
"""The positions of the elements of a part, in the order of rows, by its path."""


@dataclass(frozen=True, slots=True)
class Flat:
    """Rows of a part, and for each the number of the nested row that it comes from."""

    columns: pa.Table
    rows: Int64s


def flattened(
    nested: NestedTable, columns: pa.Table, positions: Positions | None = None
) -> dict[str, Flat]:
    """The rows of every part for nested rows; without positions those of arrays that are loaded."""
    arrays = [_whole(column) for column in columns.columns]
    label = [arrays[i] for i in nested.owner.key]
    found: dict[str, Flat] = {}
    rows = np.arange(len(columns), dtype=np.int64)
    _flatten(nested.top, arrays, label, rows, positions or {}, found)
    return found


def flat_elements(
    part: Part,
    label: pa.Scalar,
    elements: pa.Table,
    at: Int64s,
    positions: Positions | None = None,
) -> dict[str, Flat]:
    """The rows of a part, and of those below, for elements of one array at some positions."""
    count = len(elements)
    labels = pa.array([label.as_py()] * count, label.type)
    arrays = [labels, pa.array(at), *(_whole(column) for column in elements.columns)]
    found: dict[str, Flat] = {}
    rows = np.arange(count, dtype=np.int64)
    _flatten(part, arrays, [*labels.flatten(), pa.array(at)], rows, positions or {}, found)
    return found


def _flatten(
    part: Part,
    arrays: list[pa.Array],
    label: list[pa.Array],
    rows: Int64s,
    positions: Positions,
    found: dict[str, Flat],
) -> None:
    """Add the rows of a part, given its columns with arrays, and those of the parts below."""
    below = []
    columns = list(arrays)
    schema = payload_schema(part.node.schema)
    for place, inner in part.bags:
        lists = arrays[place]
        columns[place] = _labels(label, schema.field(place).type, lists.is_null())
        below.append((inner, lists))
    table = pa.Table.from_arrays(columns, names=schema.names).cast(schema)
    found[part.node.name] = Flat(table, rows)
    for inner, lists in below:
        lengths = pc.fill_null(pc.list_value_length(lists), 0).to_numpy(zero_copy_only=False)
        lengths = lengths.astype(np.int64)
        parents = np.repeat(np.arange(len(lists), dtype=np.int64), lengths)
        numbers = np.arange(len(parents), dtype=np.int64) - np.repeat(
            np.cumsum(lengths) - lengths, lengths
        )
        at = positions[inner.path] if inner.path in positions else loaded(numbers)
        elements = lists.flatten()
        absent = elements.is_null().to_numpy(zero_copy_only=False)
        stored = pa.array(np.where(absent, ~at, at))
        owners = [part_.take(pa.array(parents)) for part_ in label]
        type_ = payload_schema(inner.node.schema).field(0).type
        nested = [_labels(owners, type_, None), stored, *elements.flatten()]
        _flatten(inner, nested, [*owners, pa.array(at)], rows[parents], positions, found)


def _labels(values: Sequence[pa.Array], type_: pa.StructType, absent: pa.Array | None) -> pa.Array:
    fields = [type_.field(i) for i in range(type_.num_fields)]
    arrays = [value.cast(each.type) for value, each in zip(values, fields, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=fields, mask=absent)


def _whole(column: Any) -> pa.Array:
    """A column as one array that begins where its buffers do."""
    values = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(values, pa.ChunkedArray):
        values = pa.concat_arrays(values.chunks) if values.chunks else pa.array([], values.type)
    return values.take(pa.array(range(len(values)))) if values.offset else values


# ---- on Spark ----------------------------------------------------------------------------------


def flattened_frames(nested: NestedTable, rows: DataFrame) -> dict[str, DataFrame]:
    """The rows of every part for a frame of stored nested rows, as frames of stored rows."""
    label = [F.col(column_name(i)) for i in nested.owner.key]
    found: dict[str, DataFrame] = {}

    def flatten(part: Part, frame: DataFrame, label: list[Any]) -> None:
        shown = [F.col(name) for name in column_names(len(part.node.schema))]
        for place, inner in part.bags:
            lists = column_name(place)
            type_ = data_type(part.node.schema.fields[place].type)
            shown[place] = F.when(F.col(lists).isNotNull(), _label(label, type_)).alias(lists)
            names = [f"k{i}" for i in range(len(label))]
            keys = [each.alias(name) for each, name in zip(label, names, strict=True)]
            elements = frame.select(*keys, F.posexplode(lists).alias("n", "e"))
            fields = payload_schema(inner.node.schema).names
            at = (F.col("n").cast("bigint") + 1) * F.lit(GAP)
            inner_label = data_type(inner.node.schema.fields[0].type)
            written = [F.col(f"e.{quoted(f.name)}") for f in nested.elements(inner)]
            shown_inner = [
                _label([F.col(name) for name in names], inner_label).alias(fields[0]),
                F.when(F.col("e").isNull(), F.bitwise_not(at)).otherwise(at).alias(fields[1]),
                *(c.alias(name) for c, name in zip(written, fields[2:], strict=True)),
                at.alias("at"),
                *(F.col(name) for name in names),
            ]
            flatten(
                inner,
                elements.select(*shown_inner),
                [*(F.col(name) for name in names), F.col("at")],
            )
        found[part.node.name] = frame.select(*shown)

    flatten(nested.top, rows, label)
    return found


def _label(values: Sequence[Any], type_: Any) -> Any:
    fields = [
        value.cast(f.dataType).alias(f.name) for value, f in zip(values, type_.fields, strict=True)
    ]
    return F.struct(*fields)


# ---- back --------------------------------------------------------------------------------------

Label = tuple[Any, ...]


@dataclass(slots=True)
class Stored:
    """Rows of the parts of a nested table, with their weights, by the names of the parts."""

    nested: NestedTable
    rows: dict[str, pa.Table]
    _places: dict[str, dict[Label, list[int]]] = field(default_factory=dict)
    _values: dict[str, list[tuple[Any, ...]]] = field(default_factory=dict)
    _positions: dict[str, Int64s] = field(default_factory=dict)

    @property
    def top(self) -> pa.Table:
        return self.rows[self.nested.top.node.name]

    def elements(self, part: Part) -> dict[Label, list[int]]:
        """The numbers of the rows of a part by their labels, in the order of positions."""
        if part.node.name not in self._places:
            rows = self.rows[part.node.name]
            labels = labels_of(rows.column(column_name(0)))
            order = np.argsort(self.positions(part), kind="stable")
            places: dict[Label, list[int]] = {}
            for number in order.tolist():
                label = labels[number]
                assert label is not None
                places.setdefault(label, []).append(number)
            self._places[part.node.name] = places
        return self._places[part.node.name]

    def positions(self, part: Part) -> Int64s:
        """The positions of the rows of a part, also of elements that are NULL."""
        name = part.node.name
        if name not in self._positions:
            at = integers(self.rows[name].column(column_name(1)))
            self._positions[name] = np.where(at < 0, ~at, at)
        return self._positions[name]

    def nested_rows(self, part: Part, numbers: Sequence[int]) -> pa.Table:
        """Some rows of a part with arrays for labels; of elements the fields alone."""
        table = self.rows[part.node.name].take(pa.array(numbers, pa.int64()))
        bags = dict(part.bags)
        schema = payload_schema(self.nested.elements(part))
        arrays = []
        for i in range(len(part.fields)):
            column = table.column(column_name(part.first + i))
            inner = bags.get(part.first + i)
            arrays.append(column if inner is None else self._arrays(inner, column))
        return pa.Table.from_arrays(arrays, names=schema.names).cast(schema)

    def _arrays(self, part: Part, labels: pa.ChunkedArray) -> pa.Array:
        places = self.elements(part)
        given = labels_of(labels)
        found = [[] if label is None else places.get(label, []) for label in given]
        numbers = [number for each in found for number in each]
        offsets = np.concatenate([[0], np.cumsum([len(each) for each in found])])
        elements = self.nested_rows(part, numbers)
        fields = [
            pa.field(f.name, t)
            for f, t in zip(self.nested.elements(part), elements.schema.types, strict=True)
        ]
        rows = self.rows[part.node.name].take(pa.array(numbers, pa.int64()))
        absent = integers(rows.column(column_name(1))) < 0
        structs = pa.StructArray.from_arrays(
            [_whole(c) for c in elements.columns], fields=fields, mask=pa.array(absent)
        )
        return pa.ListArray.from_arrays(
            pa.array(offsets, pa.int32()),
            structs,
            mask=pa.array([label is None for label in given], pa.bool_()),
        )

    def values(self, part: Part) -> list[Any]:
        """What each row of a part is with its arrays, to be compared; a NULL element is None."""
        name = part.node.name
        if name not in self._values:
            rows = self.rows[name]
            table = self.nested_rows(part, range(len(rows)))
            found: list[Any] = list(values_of(table))
            if part.path:
                absent = integers(rows.column(column_name(1))) < 0
                found = [None if gone else v for v, gone in zip(found, absent, strict=True)]
            self._values[name] = found
        return self._values[name]

    def below(self, part: Part, numbers: Sequence[int]) -> Iterator[tuple[Part, list[int]]]:
        """Some rows of a part and all that is in their arrays."""
        yield part, list(numbers)
        rows = self.rows[part.node.name]
        for place, inner in part.bags:
            places = self.elements(inner)
            labels = labels_of(rows.column(column_name(place)).take(pa.array(numbers, pa.int64())))
            found = [n for label in labels if label is not None for n in places.get(label, [])]
            yield from self.below(inner, found)

    def weights(self, part: Part) -> Int64s:
        return integers(self.rows[part.node.name].column(WEIGHT))


def labels_of(column: Any) -> list[Label | None]:
    """Labels as values that have a hash."""
    return [None if each is None else tuple(each.values()) for each in column.to_pylist()]


def values_of(columns: pa.Table) -> Iterator[tuple[Any, ...]]:
    """Rows as values that are equal where Spark takes them for equal."""
    lists = [column.to_pylist() for column in columns.columns]
    if not lists:
        return iter(())
    return (tuple(map(comparable, row)) for row in zip(*lists, strict=True))
