"""Tables and views as a Spark data source.

    spark.read.format("rekindle").load("warehouse/orders")

The source reads the commit log and the mapped files by itself: it needs no connection and no lock,
and may run beside a writer. It reads the last committed epoch, or the one that the option `epoch`
names. Year-month intervals come as their number of months, which is how Arrow in Python holds them.

A table of Spark's catalog made by `CREATE TABLE ... USING rekindle OPTIONS (path '...')` is read in
two acts: Spark asks for its columns with all options when it is created, and later for its rows
with none of them. So the columns that the catalog keeps remember where they came from.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from rekindle.errors import (
    DefinitionError,
    HistoryError,
    RekindleError,
    UnsupportedError,
    did_you_mean,
    unknown_name,
)
from rekindle.nested.levels import Level
from rekindle.runtime.contents import repeated, snapshot
from rekindle.runtime.history import Changes
from rekindle.runtime.log import CommitLog
from rekindle.runtime.nested_arrow import nested_rows, nested_schema
from rekindle.runtime.places import placed
from rekindle.runtime.state import Entry, State, ViewEntry
from rekindle.runtime.stored import sound_definition
from rekindle.traces.partition import ALL_KEYS, KeyRange, key_ranges
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace

ROWS_PER_PARTITION = 1_000_000
OPTIONS = ("path", "epoch")
_ORIGIN = "rekindle"
"""The metadata of a catalog's columns that says what to read."""

P = ParamSpec("P")
R = TypeVar("R")


@dataclass
class KeyRangePartition(InputPartition):
    """One range of the key-hash space."""

    low: int
    high: int

    def __init__(self, key_range: KeyRange) -> None:
        self.low, self.high = key_range


def briefly(method: Callable[P, R]) -> Callable[P, R]:
    """The method, whose errors of ours do not show the calls that led to them.

    Spark quotes the whole traceback of a data source in front of what it says; it drops its own
    frames and shows those of others, so only this one is left.
    """

    @wraps(method)
    def brief(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return method(*args, **kwargs)
        except RekindleError as error:
            raise error.with_traceback(None) from None

    return brief


class RekindleSource(DataSource):
    """The data source `rekindle`."""

    @classmethod
    def name(cls) -> str:
        return "rekindle"

    def _open(self, options: Mapping[str, str]) -> tuple[Store, State, Entry]:
        path = options.get("path", "").rstrip("/")
        root, _, name = path.rpartition("/")
        if not name:
            raise DefinitionError(
                "the data source 'rekindle' needs the path of a table or view",
                hint='such as spark.read.format("rekindle").load("warehouse/orders")',
            )
        root = root or "."
        store = Store(placed(root))
        log = CommitLog(store)
        if not log.exists():
            raise _no_database(root, path)
        state = log.load()
        entry = state.entry(name)
        if isinstance(entry, ViewEntry) and entry.factorisation is not None:
            raise UnsupportedError(
                f"'{name}' is kept factorised and has no rows to read",
                hint="read it with db.table(...) or db.factorised(...)",
            )
        return store, state, entry

    @briefly
    def schema(self) -> StructType:
        options = given_options(self.options)
        _, state, entry = self._open(options)
        with sound_definition(entry.name):
            payload = _columns(state, entry)
            stored = from_arrow_schema(payload, prefer_timestamp_ntz=True)
        origin = {_ORIGIN: json.dumps(options)} if _is_of_catalog(self.options) else None
        return StructType(
            [
                StructField(field.name, column.dataType, metadata=origin)
                for field, column in zip(entry.schema, stored.fields, strict=True)
            ]
        )

    @briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        options = {**_remembered(schema), **given_options(self.options)}
        store, state, entry = self._open(options)
        epoch = _epoch(options["epoch"]) if "epoch" in options else None
        places = {name.lower(): i for i, name in enumerate(entry.schema.names)}
        for name in schema.names:
            if name.lower() not in places:
                raise unknown_name("column", name, entry.schema.names, entry.name)
        wanted = {name: places[name.lower()] for name in schema.names}
        if entry.level is not None:
            names = {name: entry.schema.names[place] for name, place in wanted.items()}
            parts = [_Part.of(state, each.view, epoch) for _, each in entry.level.paths()]
            return NestedReader(store, entry.level, parts, names)
        undone = None if epoch is None else state.undone(entry.name, epoch)
        return RekindleReader(store, state.traces[entry.node], undone, wanted, len(entry.schema))


def _columns(state: State, entry: Entry) -> pa.Schema:
    """The columns of a table or view, as they are stored or put together."""
    if entry.level is None:
        return state.traces[entry.node].layout.payload
    views = [state.entry(level.view) for _, level in entry.level.paths()]
    return nested_schema(entry.level, {view.name: _named(state, view) for view in views})


def _named(state: State, part: Entry) -> pa.Schema:
    payload = state.traces[part.node].layout.payload
    pairs = zip(payload, part.schema.names, strict=True)
    return pa.schema([field.with_name(name) for field, name in pairs])


def given_options(options: Mapping[str, str]) -> dict[str, str]:
    """What a user gave as options; refuses those that the source does not know.

    Spark's catalog hands over a table's properties too, and marks what were its options.

    >>> given_options({"Path": "w/t", "EPOCH": "3"})
    {'path': 'w/t', 'epoch': '3'}
    >>> given_options({"provider": "rekindle", "path": "w/t", "owner": "me", "option.epoch": "3"})
    {'path': 'w/t', 'epoch': '3'}
    """
    folded = {name.lower(): value for name, value in options.items()}
    if _is_of_catalog(options):
        mark = "option."
        given = {n.removeprefix(mark): v for n, v in folded.items() if n.startswith(mark)}
        folded = ({"path": folded["path"]} if "path" in folded else {}) | given
    if "paths" in folded:
        raise DefinitionError(
            f"the data source 'rekindle' reads one table at a time, not {folded['paths']}",
            hint="read each path, and unionAll what they give",
        )
    unknown = [name for name in folded if name not in OPTIONS]
    if unknown:
        raise DefinitionError(
            f"unknown option '{unknown[0]}' of the data source 'rekindle'",
            detail=f"known: {', '.join(OPTIONS)}",
            hint=did_you_mean(unknown[0], OPTIONS),
        )
    return folded


def _is_of_catalog(options: Mapping[str, str]) -> bool:
    return "provider" in options


def _remembered(schema: StructType) -> dict[str, str]:
    """The options that a table of the catalog was created with."""
    for field in schema.fields:
        origin = (field.metadata or {}).get(_ORIGIN)
        if origin is not None:
            return {str(name): str(value) for name, value in json.loads(origin).items()}
    return {}


def _no_database(root: str, path: str) -> DefinitionError:
    """The error for a path whose directory holds no database; it may be one itself."""
    inner = CommitLog(Store(placed(path)))
    if not inner.exists():
        return DefinitionError(f"there is no database at '{root}'")
    names = [entry.name for entry in inner.load().shown]
    return DefinitionError(
        f"'{path}' is a database, and the data source reads one of its tables or views",
        detail=f"available: {', '.join(names) or 'none'}",
        hint=f"load('{path}/NAME')",
    )


def _epoch(given: str) -> int:
    try:
        return int(given)
    except ValueError:
        raise HistoryError(f"the option epoch is '{given}', which is no number") from None


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of a nested table or view: its rows, and the names of its columns."""

    name: str
    names: tuple[str, ...]
    trace: Trace
    undone: Changes | None

    @staticmethod
    def of(state: State, name: str, epoch: int | None) -> _Part:
        entry = state.entry(name)
        undone = None if epoch is None else state.undone(name, epoch)
        return _Part(name, entry.schema.names, state.traces[entry.node], undone)

    def rows(self, store: Store) -> pa.Table:
        """The rows, each as often as it occurs."""
        found = [
            repeated(table, len(self.names))
            for table in snapshot(self.trace, self.undone, store, ALL_KEYS)
        ]
        empty = self.trace.layout.payload.empty_table()
        return pa.concat_tables([empty, *found]).rename_columns(list(self.names))


class NestedReader(DataSourceReader):
    """Reads nested rows in one task, which holds the elements that it puts together."""

    def __init__(
        self, store: Store, level: Level, parts: Sequence[_Part], wanted: Mapping[str, str]
    ) -> None:
        self._store = store
        self._level = level
        self._parts = {part.name: part for part in parts}
        self._wanted = dict(wanted)

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows = nested_rows(self._level, lambda name: self._parts[name].rows(self._store))
        chosen = rows.select(list(self._wanted.values())).rename_columns(list(self._wanted))
        yield from chosen.to_batches()


class RekindleReader(DataSourceReader):
    """Reads a snapshot, one key range a task."""

    def __init__(
        self,
        store: Store,
        trace: Trace,
        undone: Changes | None,
        wanted: Mapping[str, int],
        width: int,
    ) -> None:
        self._store = store
        self._trace = trace
        self._undone = undone
        self._wanted = dict(wanted)
        self._width = width

    def partitions(self) -> list[InputPartition]:
        wanted = max(2, self._trace.rows // ROWS_PER_PARTITION)
        count = 1 << (wanted - 1).bit_length()
        return [KeyRangePartition(key_range) for key_range in key_ranges(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, KeyRangePartition)
        key_range = (partition.low, partition.high)
        for table in snapshot(self._trace, self._undone, self._store, key_range):
            rows = repeated(table, self._width).select(list(self._wanted.values()))
            yield from rows.rename_columns(list(self._wanted)).to_batches()
