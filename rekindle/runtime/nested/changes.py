"""Changes of a nested table as changes of its parts.

What is added is a function of the rows (`flat_rows.py`). What is removed is looked up by key and by
labels, since only the parts know the positions of elements. A row that comes where one with its key
went away, in the same transaction, keeps the positions of what both have: the two cancel but for
what differs.

A transaction that has read an array relies on it: somebody else who adds to the array of a row that
this one removes would leave an element that belongs to nothing. So it watches what it has read, and
a change of that by another transaction is a conflict.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.runtime.nested.flat_rows import (
    Flat,
    Label,
    Positions,
    Stored,
    flattened,
    labels_of,
    values_of,
)
from rekindle.runtime.nested.positions import kept, placed
from rekindle.runtime.nested.tables import NestedTable, Part
from rekindle.runtime.rows.keys import comparable, keys_of
from rekindle.traces.arrays import WEIGHT, Int64s, integers
from rekindle.traces.consolidate import distinct_keys
from rekindle.traces.reader import TraceReader

ReaderOf = Callable[[Table], TraceReader]


class Changing(Protocol):
    """What this needs of a transaction."""

    def reader(self, node: Table) -> TraceReader: ...

    def before(self, node: Table) -> TraceReader: ...

    def arranged(self, node: Table, rows: pa.Table) -> pa.Table: ...

    def collect(self, node: Table, rows: pa.Table) -> None: ...

    def watch(self, node: Table, keys: Int64s) -> None: ...

    @property
    def changed(self) -> frozenset[str]: ...


@dataclass(frozen=True, slots=True)
class NestedChanges:
    """Changes of one nested table in one transaction."""

    nested: NestedTable
    tx: Changing

    # ---- rows ------------------------------------------------------------------------------

    def add(self, columns: pa.Table, weights: Int64s) -> list[pa.Table]:
        """Add rows, remove those of negative weights; gives rows that were not there to remove."""
        gone = np.flatnonzero(weights < 0)
        missing: list[pa.Table] = []
        if len(gone):
            taken = np.repeat(gone, -weights[gone])
            missing = self._remove(columns.take(pa.array(taken)))
        come = np.flatnonzero(weights > 0)
        if len(come):
            self._bring(columns.take(pa.array(come)), weights[come])
        return missing

    def replace(self, columns: pa.Table) -> None:
        """Remove whatever rows have the keys of the given ones, then add these."""
        stored = self.find(columns, self.tx.reader)
        self.remove_all(stored, self.nested.top, range(len(stored.top)))
        self._bring(columns, np.ones(len(columns), dtype=np.int64))

    def _bring(self, columns: pa.Table, weights: Int64s) -> None:
        positions = None
        top = self.nested.top.node
        if top.name in self.tx.changed:
            before = self.find(columns, self.tx.before)
            if len(before.top):
                positions = _aligned(self.nested, columns, before)
        for name, flat in flattened(self.nested, columns, positions).items():
            self._collect(name, flat.columns, weights[flat.rows])

    def _remove(self, columns: pa.Table) -> list[pa.Table]:
        """Remove rows that are given in full; gives those that are not there, one by one.

        Their flat rows would not tell: a row whose array is not that of the table may have the
        flat row of one in the table, and some of its elements.
        """
        top = self.nested.top
        seen = self.find(columns, self.tx.reader)
        left = self._remove_found(seen, columns)
        if len(left) and top.node.name in self.tx.changed:
            # A row that came in this transaction may have the key of one that goes away now, and
            # their arrays are one until then; what was there before is by itself.
            columns = columns.take(left)
            left = self._remove_found(self.find(columns, self.tx.before), columns)
        return [columns.slice(number, 1) for number in left.to_pylist()]

    def _remove_found(self, stored: Stored, columns: pa.Table) -> pa.Array:
        """Remove the given rows that are there, once; gives the numbers of the others."""
        top = self.nested.top
        same = _same_rows(stored, columns, self.nested)
        if same is not None:
            self.remove_all(stored, top, same)
            return pa.array([], pa.int64())
        places: dict[Any, list[int]] = {}
        keys = list(keys_of(stored.top, self.nested.owner.key))
        counts = Counter(keys)
        for number, value in enumerate(stored.values(top)):
            places.setdefault(value, []).append(number)
        left, found = [], []
        for number, value in enumerate(values_of(columns)):
            there = places.get(value)
            if there and counts[keys[there[0]]] == 1:
                found.append(there.pop())
            else:
                left.append(number)
        self.remove_all(stored, top, found)
        return pa.array(left, pa.int64())

    def remove_all(self, stored: Stored, part: Part, numbers: Sequence[int]) -> None:
        """Remove rows of a part with all that is in their arrays."""
        for each, found in stored.below(part, numbers):
            if found:
                rows = stored.rows[each.node.name].take(pa.array(sorted(found), pa.int64()))
                self.tx.collect(each.node, _negative(rows))

    def _collect(self, name: str, rows: pa.Table, weights: Int64s) -> None:
        if len(rows):
            (node,) = [part.node for part in self.nested.parts if part.node.name == name]
            self.tx.collect(node, _weighted(rows, weights))

    def collect(self, found: dict[str, Flat], weight: int) -> None:
        """Add rows of parts, so many times each."""
        for name, flat in found.items():
            self._collect(name, flat.columns, np.full(len(flat.columns), weight, dtype=np.int64))

    # ---- looking up ------------------------------------------------------------------------

    def find(self, columns: pa.Table, reader: ReaderOf) -> Stored:
        """The rows with the keys of the given ones, with all that is in their arrays."""
        stored = Stored(self.nested, {})
        top = self.nested.top
        stored.rows[top.node.name] = self.top_rows(columns, reader)
        self._below(top, stored, reader)
        return stored

    def top_rows(self, columns: pa.Table, reader: ReaderOf) -> pa.Table:
        """The flat rows with the keys of the given ones."""
        top, key = self.nested.top, self.nested.owner.key
        given = columns.select([column_name(i) for i in key])
        rows = self._probe(top.node, dict(zip(key, given.columns, strict=True)), reader)
        wanted = set(keys_of(columns, key))
        held = [each in wanted for each in keys_of(rows, key)]
        return rows if all(held) else rows.filter(pa.array(held, pa.bool_()))

    def find_elements(self, part: Part, labels: Any, reader: ReaderOf) -> Stored:
        """The elements of the arrays of some labels, with all that is in theirs."""
        stored = Stored(self.nested, {})
        self._elements(part, labels, stored, reader)
        return stored

    def flat_elements(self, part: Part, labels: Any, reader: ReaderOf) -> pa.Table:
        """The elements of the arrays of some labels, flat."""
        labels = labels.drop_null()
        rows = self._probe(part.node, {0: labels}, reader)
        wanted = set(labels_of(labels))
        held = [each in wanted for each in labels_of(rows.column(column_name(0)))]
        return rows if all(held) else rows.filter(pa.array(held, pa.bool_()))

    def _below(self, part: Part, stored: Stored, reader: ReaderOf) -> None:
        for place, inner in part.bags:
            labels = stored.rows[part.node.name].column(column_name(place))
            self._elements(inner, labels, stored, reader)

    def _elements(self, part: Part, labels: Any, stored: Stored, reader: ReaderOf) -> None:
        stored.rows[part.node.name] = self.flat_elements(part, labels, reader)
        self._below(part, stored, reader)

    def _probe(self, node: Table, values: dict[int, Any], reader: ReaderOf) -> pa.Table:
        """The rows of a part whose key or index has one of the values."""
        schema = payload_schema(node.schema)
        count = len(next(iter(values.values())))
        arrays = [
            values[i].cast(field.type) if i in values else pa.nulls(count, field.type)
            for i, field in enumerate(schema)
        ]
        given = _weighted(
            pa.Table.from_arrays(arrays, names=schema.names), np.ones(count, dtype=np.int64)
        )
        keys = distinct_keys(self.tx.arranged(node, given))
        self.tx.watch(node, keys)
        rows, _ = reader(node).probe(keys)
        return rows


def _same_rows(stored: Stored, columns: pa.Table, nested: NestedTable) -> list[int] | None:
    """The numbers of the stored rows, if they are just the given ones; None if one may differ."""
    numbers = _numbers(stored, columns, nested)
    if numbers is None or len(set(numbers)) < len(columns) or len(columns) < len(stored.top):
        return None
    found = stored.nested_rows(nested.top, numbers)
    return numbers if found.equals(columns.cast(found.schema)) else None


def _numbers(stored: Stored, columns: pa.Table, nested: NestedTable) -> list[int] | None:
    """For each of the given rows the number of the stored one with its key, if all have one."""
    rows = {key: number for number, key in enumerate(keys_of(stored.top, nested.owner.key))}
    found = [rows.get(key) for key in keys_of(columns, nested.owner.key)]
    numbers = [number for number in found if number is not None]
    return numbers if len(numbers) == len(found) else None


def _negative(rows: pa.Table) -> pa.Table:
    place = rows.column_names.index(WEIGHT)
    return rows.set_column(place, WEIGHT, pa.array(-integers(rows.column(WEIGHT))))


def _weighted(columns: pa.Table, weights: Int64s) -> pa.Table:
    return columns.add_column(0, WEIGHT, pa.array(weights))


# ---- positions ---------------------------------------------------------------------------------


def _aligned(nested: NestedTable, columns: pa.Table, before: Stored) -> Positions:
    """Positions for the elements of rows, those of equal elements where there were such before."""
    key = nested.owner.key
    rows = {each: number for number, each in enumerate(keys_of(before.top, key))}
    found: dict[tuple[str, ...], list[int]] = {part.path: [] for part in nested.parts}
    changed = _keep_same(nested, columns, before, found)
    lists = {place - changed.first: columns.column(place).to_pylist() for place, _ in changed.bags}
    for number, each in enumerate(keys_of(columns, key) if changed.bags else ()):
        values = {place: column[number] for place, column in lists.items()}
        _align(changed, values, rows.get(each), before, found)
    return {path: np.array(each, dtype=np.int64) for path, each in found.items()}


def _keep_same(
    nested: NestedTable,
    columns: pa.Table,
    before: Stored,
    found: dict[tuple[str, ...], list[int]],
) -> Part:
    """Note the positions of the columns that are as they were; gives the top with the others."""
    top = nested.top
    numbers = _numbers(before, columns, nested)
    if numbers is None:
        return top
    old = before.nested_rows(top, numbers)
    others = []
    for place, inner in top.bags:
        if old.column(place).equals(columns.column(place).cast(old.column(place).type)):
            _keep(top, place, inner, numbers, before, found)
        else:
            others.append((place, inner))
    return replace(top, bags=tuple(others))


def _keep(
    part: Part,
    place: int,
    inner: Part,
    numbers: Sequence[int],
    before: Stored,
    found: dict[tuple[str, ...], list[int]],
) -> None:
    """Note the positions that all in the arrays of a column of some rows has."""
    rows = before.rows[part.node.name].take(pa.array(numbers, pa.int64()))
    places = before.elements(inner)
    labels = labels_of(rows.column(column_name(place)))
    elements = [n for label in labels if label is not None for n in places.get(label, [])]
    at = before.positions(inner)
    found[inner.path] += at[elements].tolist()
    for below, deeper in inner.bags:
        _keep(inner, below, deeper, elements, before, found)


def _align(
    part: Part,
    values: Mapping[int, Any],
    old: int | None,
    before: Stored,
    found: dict[tuple[str, ...], list[int]],
) -> None:
    """Note the positions of all that is in the arrays of a row or element."""
    for place, inner in part.bags:
        elements = values[place - part.first]
        if elements is None:
            continue
        numbers: list[int] = []
        if old is not None:
            labels = before.rows[part.node.name].column(column_name(place)).slice(old, 1)
            (label,) = labels_of(labels)
            numbers = [] if label is None else before.elements(inner).get(label, [])
        held, at = before.values(inner), before.positions(inner)
        same = kept(
            [held[n] for n in numbers],
            [None if e is None else tuple(map(comparable, e.values())) for e in elements],
        )
        known = [int(at[numbers[same[i]]]) if i in same else None for i in range(len(elements))]
        positions = placed(known)
        found[inner.path] += positions
        for i, element in enumerate(elements):
            if element is None:
                continue
            stays = i in same and positions[i] == known[i]
            _align(
                inner,
                dict(enumerate(element.values())),
                numbers[same[i]] if stays else None,
                before,
                found,
            )


def element_positions(
    part: Part, rows: pa.Table, old: Sequence[int], before: Stored
) -> tuple[Int64s, Positions]:
    """The positions of elements that take the place of others, and of all that is in them."""
    at = before.positions(part)[list(old)]
    found: dict[tuple[str, ...], list[int]] = {each.path: [] for each in part.all}
    lists = [column.to_pylist() for column in rows.columns]
    for number, place in enumerate(old):
        values = {i: column[number] for i, column in enumerate(lists)}
        _align(part, values, place, before, found)
    return at, {path: np.array(each, dtype=np.int64) for path, each in found.items()}


def label_at(rows: pa.Table, number: int, place: int) -> pa.Scalar:
    """The label in a column of a flat row."""
    return rows.column(column_name(place))[number]


def labels_in(label: pa.Scalar) -> pa.Array:
    """A label as a column."""
    return pa.array([label.as_py()], label.type)


def label_of(label: pa.Scalar) -> Label:
    """A label as a value that has a hash."""
    (found,) = labels_of(labels_in(label))
    assert found is not None
    return found
