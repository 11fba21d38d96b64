"""The flat collections behind a table or view, read from files: by range, by key or by label.

A flat table or view is one part. A nested one has a part for each of its levels, and its rows are
put together from theirs (`arrow.py`). What is here knows traces, changes and names, nothing
of Spark; it is sent to tasks of the data source as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from rekindle.calculus.schema import Schema
from rekindle.catalyst.hashing import KEY_SEED
from rekindle.columns import column_name
from rekindle.errors import UnsupportedError
from rekindle.kernels.xxhash import is_hashable, row_hashes
from rekindle.nested.levels import Level
from rekindle.runtime.epochs.changes import undoing
from rekindle.runtime.epochs.history import Changes
from rekindle.runtime.epochs.state import Entry, State, TableEntry, ViewEntry
from rekindle.runtime.nested.arrow import nested_rows, nested_schema
from rekindle.runtime.reading.contents import repeated, snapshot, without_holes
from rekindle.runtime.reading.lookups import Arranged, Lookup
from rekindle.runtime.rows.keys import comparable
from rekindle.traces.arrays import Booleans, Int64s, integers, single_chunk
from rekindle.traces.partition import ALL_KEYS, KeyRange
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace


@dataclass(frozen=True, slots=True)
class Part:
    """A flat collection: its columns, its rows, and changes, to be taken back or to be given."""

    name: str
    schema: Schema
    trace: Trace
    arranged: Arranged
    changes: Changes | None = None

    @staticmethod
    def of(state: State, name: str, changes: Changes | None = None) -> Part:
        """The part of that name in a state."""
        entry = state.entry(name)
        if isinstance(entry, TableEntry):
            arranged = Arranged(entry.key or entry.index)
        else:
            arranged = Arranged(entry.index, is_spread=bool(entry.index))
        return Part(entry.name, entry.schema, state.traces[entry.node], arranged, changes)

    @property
    def columns(self) -> pa.Schema:
        """The columns under the names that users know."""
        pairs = zip(self.trace.layout.payload, self.schema, strict=True)
        return pa.schema([f.with_name(g.name).with_nullable(g.nullable) for f, g in pairs])

    def tables(
        self, store: Store, key_range: KeyRange = ALL_KEYS, lookup: Lookup | None = None
    ) -> Iterator[pa.Table]:
        """Stored rows without the changes, each as often as it occurs."""
        found = (
            snapshot(self.trace, self.changes, store, key_range)
            if lookup is None
            else iter([lookup.rows(self.reader(store, key_range), self.arranged)])
        )
        for table in found:
            yield repeated(without_holes(table, self.schema), len(self.schema))

    def reader(self, store: Store, key_range: KeyRange = ALL_KEYS) -> TraceReader:
        """The rows without the changes, to be looked up."""
        extra = []
        if self.changes is not None:
            extra = undoing(self.changes, self.trace.layout, store, key_range)
        return TraceReader.of_trace(self.trace, store, key_range, extra)

    def rows(self, store: Store, lookup: Lookup | None = None) -> pa.Table:
        """The rows that are asked for, under the names that users know."""
        return self.named(list(self.tables(store, ALL_KEYS, lookup)))

    def labelled(self, store: Store, labels: Int64s) -> pa.Table:
        """The rows of the bags that have labels of some sorted hashes."""
        reader, name = self.reader(store), column_name(0)
        if self.arranged.by == (0,) and is_hashed(self.trace.layout.payload.types[0]):
            found = self.arranged.rows(reader, labels)
        else:
            found = reader.chosen([name], lambda rows: within(hashes_of(rows.column(name)), labels))
        return self.named([repeated(without_holes(found, self.schema), len(self.schema))])

    def named(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Stored rows as one table, under the names that users know."""
        stored = self.trace.layout.payload
        whole = pa.concat_tables([stored.empty_table(), *(t.select(stored.names) for t in tables)])
        return pa.Table.from_arrays(whole.columns, schema=self.columns)


@dataclass(frozen=True, slots=True)
class Nested:
    """A nested table or view: the tree of its levels, and the part of each."""

    level: Level
    parts: tuple[Part, ...]

    @staticmethod
    def of(state: State, level: Level, epoch: int | None = None) -> Nested:
        """The parts in a state, with what is to be taken back for an earlier epoch."""
        names = dict.fromkeys(each.view for _, each in level.paths())
        return Nested(
            level,
            tuple(
                Part.of(state, name, None if epoch is None else state.undone(name, epoch))
                for name in names
            ),
        )

    def since(self, state: State, epoch: int) -> Nested:
        """The parts with what changed after an epoch."""
        return replace(
            self,
            parts=tuple(replace(p, changes=state.changes(p.name, epoch)) for p in self.parts),
        )

    @property
    def top(self) -> Part:
        return self.part(self.level.view)

    def part(self, name: str) -> Part:
        return next(part for part in self.parts if part.name == name)

    @property
    def columns(self) -> pa.Schema:
        return nested_schema(self.level, {part.name: part.columns for part in self.parts})

    def rows(self, store: Store, lookup: Lookup | None = None) -> pa.Table:
        """The nested rows; of those that are looked up only the elements that they have."""
        if lookup is None:
            return nested_rows(self.level, lambda name: self.part(name).rows(store))
        top = self.part(self.level.view).rows(store, lookup)
        found, labels = {self.level.view: top}, dict[str, Int64s]()
        self._look_up_bags(store, self.level, found, labels)
        return nested_rows(self.level, found.__getitem__)

    def _look_up_bags(
        self, store: Store, level: Level, found: dict[str, pa.Table], labels: dict[str, Int64s]
    ) -> None:
        """Add the rows of the levels below that are in the rows found of a level.

        Several columns may lead to one level: it has the rows of all labels that were met.
        """
        for path, below in level.bags:
            met = np.unique(hashes_of(at(found[level.view], path).drop_null()))
            if below.view in labels:
                met = np.union1d(labels[below.view], met)
            labels[below.view] = met
            found[below.view] = self.part(below.view).labelled(store, met)
            self._look_up_bags(store, below, found, labels)


Parts = Part | Nested


def parts_at(state: State, entry: Entry, epoch: int | None = None) -> Parts:
    """What keeps the rows of a table or view, as of an epoch."""
    if entry.level is not None:
        return Nested.of(state, entry.level, epoch)
    refuse_factorised(entry)
    return Part.of(state, entry.name, None if epoch is None else state.undone(entry.name, epoch))


def refuse_factorised(entry: Entry) -> None:
    """Raise if a view is kept factorised, so that no collection has its rows."""
    if isinstance(entry, ViewEntry) and entry.factorisation is not None:
        raise UnsupportedError(
            f"'{entry.name}' is kept factorised and has no rows to read",
            hint="read it with db.table(...) or db.factorised(...)",
        )


def batches_of(rows: pa.Table, wanted: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Some columns of rows, under the names that they are asked by, as Spark takes them.

    Spark compares the types to the word, and all columns of a data source may be NULL.
    """
    chosen = rows.select(list(wanted.values())).rename_columns(list(wanted))
    schema = pa.schema([field.with_nullable(True) for field in chosen.schema])
    yield from pa.Table.from_arrays(chosen.columns, schema=schema).to_batches()


# ---- labels ------------------------------------------------------------------------------------


def at(rows: pa.Table, path: str) -> pa.Array:
    """A column, or a field of one, by its path."""
    first, *inner = path.split(".")
    found = single_chunk(rows.column(first))
    for name in inner:
        found = pc.struct_field(found, name)
    return found


def is_hashed(type_: pa.DataType) -> bool:
    """Are labels of this type hashed as keys are? It is said by the type, whatever the values."""
    if pa.types.is_struct(type_):
        fields = [type_.field(i).type for i in range(type_.num_fields)]
        return all(is_hashable(each) and not pa.types.is_list(each) for each in fields)
    return is_hashable(type_) and not pa.types.is_list(type_)


def hashes_of(labels: pa.Array | pa.ChunkedArray) -> Int64s:
    """A hash of each label; there are no NULLs among them."""
    column = _with_one_zero(single_chunk(labels))
    if is_hashed(column.type):
        (found,) = row_hashes([column], [KEY_SEED], len(column))
        return integers(found)
    texts = (str(comparable(label)).encode() for label in column.to_pylist())
    words = [xxhash.xxh3_64_intdigest(text) for text in texts]
    return np.array(words, dtype=np.uint64).view(np.int64)


def _with_one_zero(labels: pa.Array) -> pa.Array:
    """The labels with 0.0 in the place of -0.0, as in the dictionary of their level."""
    if pa.types.is_floating(labels.type):
        return pc.add(labels, pa.scalar(0.0, labels.type))
    if not pa.types.is_struct(labels.type):
        return labels
    fields = list(labels.type)
    parts = [_with_one_zero(pc.struct_field(labels, [i])) for i in range(len(fields))]
    return pa.StructArray.from_arrays(parts, fields=fields, mask=labels.is_null())


def within(hashes: Int64s, labels: Int64s) -> Booleans:
    """Which hashes are among some sorted ones."""
    if not len(labels):
        return np.zeros(len(hashes), dtype=bool)
    place = np.minimum(np.searchsorted(labels, hashes), len(labels) - 1)
    found: Booleans = labels[place] == hashes
    return found
