"""Tables that are kept shredded: which columns are, and the flat tables that stand for one.

    customers(id, name, orders ARRAY<STRUCT<okey, lines ARRAY<STRUCT<part, qty>>>>), key (id)

    customers·              id, name, orders                     arranged by its key
    customers·orders        _label, _position, okey, lines       arranged by the label
    customers·orders.lines  _label, _position, part, qty         arranged by the label

The label of an array is the way to it: the key of the row, then the position of each element on the
way, so the flat rows of a nested row are a function of that row alone. A NULL array has no label,
an empty one has a label without elements. An array that is loaded has positions with room between
them. An element that comes later gets a larger one from a clock, without a look at the array. The
position of an element that is NULL itself is the complement of its position, a negative number.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from pyspark.sql import types as T

from rekindle.calculus.schema import Schema
from rekindle.catalyst.types import data_type, schema_of, struct_of
from rekindle.circuit.nodes import Table
from rekindle.names import HIDDEN, RESERVED
from rekindle.nested.levels import LABEL, POSITION, Level
from rekindle.runtime.engine import table_node
from rekindle.runtime.epochs.state import State, TableEntry

FULL, NONE = "full", "none"
SHREDDINGS = (FULL, NONE)

_RESERVED = frozenset([LABEL, POSITION, *RESERVED])
_KEYS = (
    T.BooleanType,
    T.IntegralType,
    T.DecimalType,
    T.StringType,
    T.BinaryType,
    T.DateType,
    T.TimestampType,
    T.TimestampNTZType,
)
"""The types of keys that labels are made of: values that are equal only where they are the same."""


@dataclass(frozen=True, slots=True)
class Part:
    """A flat table of a nested one: its node, and the parts that its columns of labels lead to."""

    node: Table
    path: tuple[str, ...]
    bags: tuple[tuple[int, Part], ...] = ()
    """The positions of columns of labels in the node's rows, and the elements of their arrays."""

    @property
    def first(self) -> int:
        """Where the columns of rows, or the fields of elements, begin."""
        return 2 if self.path else 0

    @property
    def fields(self) -> Schema:
        """The columns of rows, or the fields of elements, with labels for arrays."""
        return Schema(self.node.schema.fields[self.first :])

    @property
    def all(self) -> Iterator[Part]:
        """The part and those below it."""
        yield self
        for _, below in self.bags:
            yield from below.all

    def bag(self, name: str) -> Part | None:
        """The elements of a column by its name, in whatever case."""
        for place, below in self.bags:
            if self.node.schema.names[place].lower() == name.lower():
                return below
        return None


@dataclass(frozen=True, slots=True)
class NestedTable:
    """A nested table: the node that has its columns, which is not in the circuit, and its parts."""

    owner: Table
    top: Part

    @property
    def parts(self) -> list[Part]:
        return list(self.top.all)

    def elements(self, part: Part) -> Schema:
        """The fields of the elements of a part, with their arrays; of the top, the columns."""
        schema = self.owner.schema
        for name in part.path:
            (found,) = [f.type for f in schema if f.name == name]
            array = data_type(found)
            assert isinstance(array, T.ArrayType) and isinstance(array.elementType, T.StructType)
            schema = schema_of(array.elementType)
        return schema


def nested_table(entry: TableEntry, state: State) -> NestedTable:
    """A table with a level, as its parts are in a state."""
    assert entry.level is not None

    def part(level: Level, path: tuple[str, ...]) -> Part:
        found = state.entries[level.view]
        assert isinstance(found, TableEntry)
        names = found.schema.names
        bags = [(names.index(c), part(below, (*path, c))) for c, below in level.bags]
        return Part(table_node(found), path, tuple(bags))

    return NestedTable(table_node(entry), part(entry.level, ()))


def shredded_entries(entry: TableEntry) -> tuple[TableEntry, list[TableEntry]]:
    """A new table as one that stands for parts, and these; itself if nothing of it is shredded."""
    struct = struct_of(entry.schema)
    keys = [struct.fields[i].dataType for i in entry.key]
    if not keys or not all(isinstance(each, _KEYS) for each in keys):
        return entry, []
    parts: list[TableEntry] = []
    label = [T.StructField(f"k{i}", each) for i, each in enumerate(keys)]
    kept = [f for i, f in enumerate(struct.fields) if i in entry.declared]
    level = _level(entry, struct.fields, (), label, parts, kept)
    if not level.bags:
        return entry, []
    return replace(entry, level=level), parts


def widened(top: TableEntry, owner: TableEntry, added: int) -> TableEntry:
    """The top of a nested table that has got columns, which stay in its rows."""
    fields = [*top.schema.fields, *owner.schema.fields[-added:]]
    table = Table(top.name, Schema(tuple(fields)), top.key, secrets.token_hex(8), owner.declared)
    return replace(
        top,
        schema=table.schema,
        incarnation=table.incarnation,
        node=table.id,
        declared=table.declared,
    )


def _level(
    owner: TableEntry,
    fields: Sequence[T.StructField],
    path: tuple[str, ...],
    label: list[T.StructField],
    parts: list[TableEntry],
    kept: Sequence[T.StructField] = (),
) -> Level:
    """The level of rows or elements with these fields; adds its parts."""
    name = f"{owner.name}{HIDDEN}{'.'.join(path)}"
    inner = [*label, T.StructField(f"p{len(path)}", T.LongType())] if path else label
    columns: list[T.StructField] = []
    if path:
        columns = [
            T.StructField(LABEL, T.StructType(label), nullable=False),
            T.StructField(POSITION, T.LongType(), nullable=False),
        ]
    bags = [f for f in fields if f not in kept and is_shredded(f)]
    columns += [
        T.StructField(f.name, T.StructType(inner), f.nullable) if f in bags else f for f in fields
    ]
    schema = schema_of(T.StructType(columns))
    key, index = (owner.key, ()) if not path else ((), (0,))
    declared = {} if path else owner.declared
    table = Table(name, schema, key, secrets.token_hex(8), declared, index)
    parts.append(
        TableEntry(
            name,
            schema,
            key,
            table.incarnation,
            table.id,
            0,
            declared,
            part_of=owner.name,
            index=index,
        )
    )
    levels = [(f.name, _level(owner, _elements(f), (*path, f.name), inner, parts)) for f in bags]
    return Level(name, tuple(levels))


def is_shredded(field: T.StructField) -> bool:
    """Is a column an array of structs whose elements can be rows of a table?

    The type of what is read must be that which was declared, so fields are not NOT NULL.
    """
    type_ = field.dataType
    if not isinstance(type_, T.ArrayType) or not isinstance(type_.elementType, T.StructType):
        return False
    fields = type_.elementType.fields
    names = [f.name.lower() for f in fields]
    if not fields or len(set(names)) < len(names) or not _RESERVED.isdisjoint(names):
        return False
    if any("." in f.name or HIDDEN in f.name for f in (field, *fields)):
        return False
    return all(f.nullable for f in fields)


def _elements(field: T.StructField) -> list[T.StructField]:
    assert isinstance(field.dataType, T.ArrayType)
    assert isinstance(field.dataType.elementType, T.StructType)
    return list(field.dataType.elementType.fields)
