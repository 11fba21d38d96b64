"""Deep updates: elements of one array, of one row, at any depth.

    tx.nested("customers", 7, "orders").insert([(4, [])])
    tx.nested("customers", 7, "orders", {"okey": 3}, "lines").delete([("bolt", 2)])

Where the table is kept shredded and the way leads through labels, the rows of parts change that the
element is made of, and an insertion reads only the rows on the way. An array that is in its row, of
scalars or in a table that is not shredded, is changed by rewriting the row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from rekindle.calculus.schema import Schema
from rekindle.catalyst.types import data_type, payload_schema, schema_of, type_text
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.errors import ConstraintError, DefinitionError, RowError, unknown_name
from rekindle.runtime.arguments import names
from rekindle.runtime.nested.changes import (
    Changing,
    NestedChanges,
    element_positions,
    label_at,
    label_of,
    labels_in,
)
from rekindle.runtime.nested.elements import ElementType, RowFormat, Where, of_values
from rekindle.runtime.nested.flat_rows import Stored, flat_elements
from rekindle.runtime.nested.positions import later
from rekindle.runtime.nested.tables import Part
from rekindle.runtime.rows.conversion import to_arrow
from rekindle.runtime.rows.keys import keys_of
from rekindle.traces.arrays import WEIGHT


class Deepening(Changing, Protocol):
    """What this needs of a transaction."""

    def changeable(self, table: str) -> Table: ...

    def nested_changes(self, node: Table) -> NestedChanges | None: ...

    def rows_of(self, node: Table, keys: pa.Table) -> pa.Table: ...

    def replace(self, node: Table, columns: pa.Table) -> None: ...

    def all_or_nothing(self) -> AbstractContextManager[None]: ...

    @property
    def reading(self) -> RowFormat: ...


@dataclass(frozen=True, slots=True)
class _Array:
    """An array of a shredded table: its part, its label, and the flat row that has the label."""

    part: Part
    label: pa.Scalar
    above: Part
    row: pa.Table
    place: int

    @property
    def is_null(self) -> bool:
        return not self.label.is_valid


@dataclass(frozen=True, slots=True)
class DeepUpdate:
    """The elements of one array, to be changed as part of a transaction."""

    tx: Deepening
    table: str
    path: tuple[Any, ...]

    def insert(self, rows: Any) -> None:
        """Add elements at the end of the array; a NULL array becomes one of these elements."""
        with self.tx.all_or_nothing():
            self._changed(_Insertion(rows))

    def insert_query(self, rows: DataFrame, columns: Sequence[str] = ()) -> None:
        """Add the rows of a query, whose columns are fields by their places, or some of them."""
        if not isinstance(rows, DataFrame):
            raise DefinitionError(
                f"the elements of a query are a DataFrame, not a {type(rows).__name__}",
                hint="give other rows to insert(rows)",
            )
        columns = names("the columns of a query", columns)
        with self.tx.all_or_nothing():
            self._changed(_Insertion(_Query(rows, tuple(columns))))

    def delete(self, rows: Any) -> None:
        """Remove elements, each given in full, as often as it is given."""
        with self.tx.all_or_nothing():
            self._changed(_Deletion(rows))

    def delete_where(self, where: Where = None) -> int:
        """Remove the elements that a condition holds for; gives how many."""
        with self.tx.all_or_nothing():
            return self._changed(_DeletionWhere(where))

    def update(self, where: Where, set: Mapping[str, Any]) -> int:
        """Change fields of the elements that a condition holds for; gives how many there are.

        The condition has values of fields, or is a text of SQL. What a field becomes is a value, or
        an expression of SQL over the fields if it is a text: `{"state": "'sent'"}`.
        """
        with self.tx.all_or_nothing():
            return self._changed(_Update(where, set))

    # ---- the way ---------------------------------------------------------------------------

    def _changed(self, work: _Insertion | _Deletion | _DeletionWhere | _Update) -> int:
        node = self.tx.changeable(self.table)
        if len(self.path) < 2 or len(self.path) % 2:
            raise DefinitionError(
                f"a way into '{node.name}' is the key of a row and a field, then the selector of "
                "an element and a field, as often as it goes deeper",
                detail=f"given: {', '.join(map(repr, self.path)) or 'nothing'}",
                hint='such as tx.nested("customers", 7, "orders", {"okey": 3}, "lines")',
            )
        if not node.key:
            raise DefinitionError(
                f"'{node.name}' has no primary key, so a row of it cannot be named",
                hint="declare PRIMARY KEY (...) on the table",
            )
        keys = self._keys(node)
        changes = self.tx.nested_changes(node)
        parts = None if changes is None else self._parts(changes.nested.top)
        if changes is None or parts is None:
            return self._rewritten(node, keys, work)
        array = self._found(changes, keys, parts)
        name = ".".join((node.name, *array.part.path))
        schema = changes.nested.elements(array.part)
        type_ = ElementType(name, schema, False, self.tx.reading)
        return work.shredded(changes, array, type_)

    def _keys(self, node: Table) -> pa.Table:
        """The key of the row as stored columns, under their own names."""
        given, fields = self.path[0], [node.schema.fields[i] for i in node.key]
        if not isinstance(given, Mapping | tuple | list):
            given = (given,)
        zone = self.tx.reading.zone
        try:
            columns = to_arrow([given], Schema(tuple(fields)), node.name, zone)
        except RowError as error:
            names = ", ".join(field.name for field in fields)
            raise RowError(
                f"{self.path[0]!r} is not a key of '{node.name}'",
                detail=f"the primary key is ({names}); {error.message}",
            ) from error
        return columns.rename_columns([column_name(i) for i in node.key])

    def _parts(self, top: Part) -> list[Part] | None:
        """The parts on the way, if each field of it is one."""
        found, part = [], top
        for field in self.path[1::2]:
            inner = part.bag(field) if isinstance(field, str) else None
            if inner is None:
                return None
            found.append(inner)
            part = inner
        return found

    def _found(self, changes: NestedChanges, keys: pa.Table, parts: Sequence[Part]) -> _Array:
        nested = changes.nested
        rows = changes.top_rows(keys, self.tx.reader)
        if not len(rows):
            raise _no_row(nested.owner, keys)
        above, row = nested.top, rows.slice(0, 1)
        for depth, part in enumerate(parts):
            place = next(p for p, inner in above.bags if inner.path == part.path)
            array = _Array(part, label_at(row, 0, place), above, row, place)
            if depth == len(parts) - 1:
                return array
            elements = changes.flat_elements(part, labels_in(array.label), self.tx.reader)
            name = ".".join((nested.owner.name, *part.path))
            type_ = ElementType(name, part.fields, False, self.tx.reading)
            self._refuse_labels(part, self.path[2 * depth + 2], name)
            fields = elements.select([column_name(2 + i) for i in range(len(part.fields))])
            number = type_.single(fields, self.path[2 * depth + 2])
            above, row = part, elements.slice(number, 1)
        raise AssertionError("a way has a field")

    def _refuse_labels(self, part: Part, selector: Any, name: str) -> None:
        for field in selector if isinstance(selector, Mapping) else ():
            if isinstance(field, str) and part.bag(field) is not None:
                raise RowError(
                    f"an element of '{name}' cannot be named by its array '{field}'",
                    hint="name fields that are no arrays of structs",
                )

    # ---- rows as a whole -------------------------------------------------------------------

    def _rewritten(
        self, node: Table, keys: pa.Table, work: _Insertion | _Deletion | _DeletionWhere | _Update
    ) -> int:
        """Change an array that is in its row."""
        rows = self.tx.rows_of(node, keys)
        if not len(rows):
            raise _no_row(node, keys)
        values = [column[0].as_py() for column in rows.columns]
        fields, name = node.schema, node.name
        holder: Any = dict(zip(fields.names, values, strict=True))
        whole = holder
        for depth, field in enumerate(self.path[1::2]):
            known = [each for each in fields if each.name.lower() == str(field).lower()]
            if not known or not isinstance(field, str):
                raise unknown_name("field", field, fields.names, name)
            place, name = known[0].name, f"{name}.{known[0].name}"
            array = data_type(known[0].type)
            if not isinstance(array, T.ArrayType):
                raise DefinitionError(
                    f"'{name}' is {known[0].type}, and no array",
                    hint="a way leads through arrays; use UPDATE for the row",
                )
            element = array.elementType
            scalars = not isinstance(element, T.StructType)
            fields = _fields(element)
            type_ = ElementType(name, fields, scalars, self.tx.reading)
            listed = holder[place] or []
            if depth == len(self.path) // 2 - 1:
                edit = work.in_row(type_, _elements(listed, fields, scalars))
                if edit.is_made:
                    holder[place] = edit.of(listed, fields, scalars)
                    self.tx.replace(node, _row(node, whole))
                return edit.count
            number = type_.single(_elements(listed, fields, scalars), self.path[2 * depth + 2])
            holder = listed[number]
        raise AssertionError("a way has a field")


def _fields(element: T.DataType) -> Schema:
    """The fields of elements of a type."""
    if isinstance(element, T.StructType):
        return schema_of(element)
    return of_values(type_text(element))


def _no_row(node: Table, keys: pa.Table) -> ConstraintError:
    (values,) = keys_of(keys, node.key)
    names = [node.schema.names[i] for i in node.key]
    said = ", ".join(f"{n} = {v!r}" for n, v in zip(names, values, strict=True))
    return ConstraintError(f"no row of '{node.name}' has {said}", hint="nothing was applied")


def _elements(listed: Sequence[Any], fields: Schema, scalars: bool) -> pa.Table:
    """The elements of an array in a row as stored columns; those that are NULL have NULLs."""
    rows = [(each,) if scalars else tuple((each or {}).values()) for each in listed]
    width = len(fields)
    rows = [row or (None,) * width for row in rows]
    schema = payload_schema(fields)
    arrays = [pa.array([row[i] for row in rows], schema.field(i).type) for i in range(width)]
    return pa.Table.from_arrays(arrays, names=schema.names)


@dataclass(frozen=True, slots=True)
class _Edit:
    """What becomes of an array in a row: elements that go away or change, and rows that come."""

    gone: Sequence[int] = ()
    changed: Sequence[int] = ()
    rows: pa.Table | None = None

    @property
    def is_made(self) -> bool:
        return bool(self.gone or self.changed) or self.rows is not None

    @property
    def count(self) -> int:
        return len(self.gone) if self.rows is None else len(self.rows)

    def of(self, listed: Sequence[Any], fields: Schema, scalars: bool) -> list[Any]:
        """The array with the change."""
        rows: list[Any] = []
        if self.rows is not None:
            rows = self.rows.column(0).to_pylist()
            if not scalars:
                rows = list(self.rows.rename_columns(list(fields.names)).to_pylist())
        places = dict(zip(self.changed, rows, strict=False))
        dropped = set(self.gone)
        kept = [places.get(i, each) for i, each in enumerate(listed) if i not in dropped]
        return kept if self.changed else [*kept, *rows]


def _row(node: Table, values: Mapping[str, Any]) -> pa.Table:
    schema = payload_schema(node.schema)
    arrays = [
        pa.array([value], field.type) for value, field in zip(values.values(), schema, strict=True)
    ]
    return pa.Table.from_arrays(arrays, names=schema.names)


# ---- what is done ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Insertion:
    """Adds elements."""

    rows: Any

    def shredded(self, changes: NestedChanges, array: _Array, type_: ElementType) -> int:
        elements = self._rows(type_)
        if array.is_null:
            array = _made(changes, array)
        positions = later(len(elements))
        changes.collect(flat_elements(array.part, array.label, elements, positions), 1)
        return len(elements)

    def in_row(self, type_: ElementType, elements: pa.Table) -> _Edit:
        # Also without rows: a NULL array becomes an empty one.
        return _Edit(rows=self._rows(type_))

    def _rows(self, type_: ElementType) -> pa.Table:
        given = self.rows
        return type_.rows(given.named(type_) if isinstance(given, _Query) else given)


@dataclass(frozen=True, slots=True)
class _Query:
    """The rows of a query, and the fields that its columns are; all of them if none is named."""

    rows: DataFrame
    columns: tuple[str, ...]

    def named(self, type_: ElementType) -> DataFrame:
        names = [type_.schema.names[type_.position(each)] for each in self.columns]
        names = names or list(type_.schema.names)
        if len(set(names)) < len(names) or len(names) != len(self.rows.columns):
            raise RowError(
                f"INSERT INTO NESTED {type_.name} gives {len(self.rows.columns)} values a row, "
                f"not {len(names)}",
                detail=f"the fields are {', '.join(names)}",
                hint="give a value, or NULL, for every field",
            )
        rows = self.rows.toDF(*names)
        absent = {
            field.name: F.lit(None).cast(field.type)
            for field in type_.schema
            if field.name not in names
        }
        return rows.withColumns(absent) if absent else rows


@dataclass(frozen=True, slots=True)
class _Deletion:
    """Removes elements that are given."""

    rows: Any

    def shredded(self, changes: NestedChanges, array: _Array, type_: ElementType) -> int:
        rows = type_.rows(self.rows)
        stored, order, elements = _held(changes, array)
        numbers = type_.given(elements, rows)
        changes.remove_all(stored, array.part, [order[i] for i in numbers])
        return len(numbers)

    def in_row(self, type_: ElementType, elements: pa.Table) -> _Edit:
        return _Edit(gone=type_.given(elements, type_.rows(self.rows)))


@dataclass(frozen=True, slots=True)
class _DeletionWhere:
    """Removes the elements that a condition holds for."""

    where: Where

    def shredded(self, changes: NestedChanges, array: _Array, type_: ElementType) -> int:
        stored, order, elements = _held(changes, array)
        numbers = type_.where(elements, self.where)
        changes.remove_all(stored, array.part, [order[i] for i in numbers])
        return len(numbers)

    def in_row(self, type_: ElementType, elements: pa.Table) -> _Edit:
        return _Edit(gone=type_.where(elements, self.where))


@dataclass(frozen=True, slots=True)
class _Update:
    """Changes fields of elements."""

    where: Where
    set: Mapping[str, Any]

    def shredded(self, changes: NestedChanges, array: _Array, type_: ElementType) -> int:
        stored, order, elements = _held(changes, array)
        numbers, rows = type_.updated(elements, self.where, self.set)
        if not numbers:
            return 0
        old = [order[i] for i in numbers]
        at, inner = element_positions(array.part, rows, old, stored)
        changes.remove_all(stored, array.part, old)
        changes.collect(flat_elements(array.part, array.label, rows, at, inner), 1)
        return len(numbers)

    def in_row(self, type_: ElementType, elements: pa.Table) -> _Edit:
        numbers, rows = type_.updated(elements, self.where, self.set)
        return _Edit(changed=numbers, rows=rows if numbers else None)


def _held(changes: NestedChanges, array: _Array) -> tuple[Stored, list[int], pa.Table]:
    """What is in an array, the numbers of its elements in their order, and these."""
    stored = changes.find_elements(array.part, labels_in(array.label), changes.tx.reader)
    places = stored.elements(array.part)
    order = [] if array.is_null else places.get(label_of(array.label), [])
    return stored, order, stored.nested_rows(array.part, order)


def _made(changes: NestedChanges, array: _Array) -> _Array:
    """The array, which was NULL, as an empty one."""
    type_ = payload_schema(array.above.node.schema).field(array.place).type
    row = array.row
    if array.above.path:
        at = row.column(column_name(1))[0].as_py()
        values = [*label_at(row, 0, 0).as_py().values(), at]
    else:
        values = [row.column(column_name(i))[0].as_py() for i in changes.nested.owner.key]
    names = [type_.field(i).name for i in range(type_.num_fields)]
    label = pa.scalar(dict(zip(names, values, strict=True)), type_)
    changes.tx.collect(array.above.node, _taken(row, -1))
    payload = [WEIGHT, *payload_schema(array.above.node.schema).names]
    fresh = row.select(payload)
    place = payload.index(column_name(array.place))
    fresh = fresh.set_column(place, payload[place], labels_in(label))
    changes.tx.collect(array.above.node, fresh)
    return _Array(array.part, label, array.above, fresh, array.place)


def _taken(row: pa.Table, weight: int) -> pa.Table:
    place = row.column_names.index(WEIGHT)
    return row.set_column(place, WEIGHT, pa.array([weight], pa.int64()))
