"""Tables and views as a Spark data source.

    spark.read.format("rekindle").load("warehouse/orders")

The source reads the commit log and the mapped files by itself: it needs no connection and no lock,
and may run beside a writer. It reads the last committed epoch, or the one that the option `epoch`
names; with the options of `feed_options.py` it reads changes, in a batch or as a stream. Year-month
intervals come as their number of months, which is how Arrow in Python holds them.

Filters by values of columns are taken where the session pushes them
(`spark.sql.python.filterPushdown.enabled`): a key is looked up, by another column rows are chosen.

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
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    EqualTo,
    Filter,
    In,
    InputPartition,
)
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from rekindle.calculus.schema import Schema
from rekindle.errors import (
    DefinitionError,
    HistoryError,
    RekindleError,
    did_you_mean,
    unknown_name,
)
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import Entry, State
from rekindle.runtime.epochs.stored import sound_definition
from rekindle.runtime.nested.stored_parts import (
    Nested,
    Part,
    Parts,
    batches_of,
    parts_at,
    refuse_factorised,
)
from rekindle.runtime.places import placed
from rekindle.runtime.reading.arrow import declared
from rekindle.runtime.reading.feed_options import FEED_OPTIONS, FeedOptions
from rekindle.runtime.reading.feed_reading import (
    FeedReader,
    FeedStreamReader,
    feed_schema,
    whole_feed,
)
from rekindle.runtime.reading.lookups import Lookup, is_compared, values_of
from rekindle.traces.partition import ALL_KEYS, KeyRange, key_ranges
from rekindle.traces.store import Store

ROWS_PER_PARTITION = 1_000_000
ROWS_SEARCHED = 16_000_000
"""So many rows are searched by one task: comparing a column of them takes less than a task."""
OPTIONS = ("path", "epoch", *FEED_OPTIONS)
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
        refuse_factorised(entry)
        return store, state, entry

    @briefly
    def schema(self) -> StructType:
        options = given_options(self.options)
        _, state, entry = self._open(options)
        feed = FeedOptions.of(options)
        with sound_definition(entry.name):
            payload = _columns(state, entry)
            if feed is not None:
                payload = feed_schema(payload, feed.format)
            stored = from_arrow_schema(payload, prefer_timestamp_ntz=True)
        origin = {_ORIGIN: json.dumps(options)} if _is_of_catalog(self.options) else None
        return StructType(
            [
                StructField(name, column.dataType, metadata=origin)
                for name, column in zip(payload.names, stored.fields, strict=True)
            ]
        )

    @briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        options = {**_remembered(schema), **given_options(self.options)}
        store, state, entry = self._open(options)
        feed = FeedOptions.of(options)
        if feed is not None:
            wanted = _wanted(schema, feed_schema(_columns(state, entry), feed.format), entry)
            return FeedReader(whole_feed(state, store, entry, feed), wanted)
        epoch = _epoch(options["epoch"]) if "epoch" in options else None
        wanted = _wanted(schema, _columns(state, entry), entry)
        return RekindleReader(store, entry, parts_at(state, entry, epoch), wanted)

    @briefly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        options = {**_remembered(schema), **given_options(self.options)}
        store, state, entry = self._open(options)
        feed = FeedOptions.of(options)
        if feed is None:
            raise DefinitionError(
                f"a stream of '{entry.name}' is a stream of its changes",
                detail="Spark has asked for the columns of its contents",
                hint='say so: spark.readStream.format("rekindle").option("readChangeFeed", "true")',
            )
        wanted = _wanted(schema, feed_schema(_columns(state, entry), feed.format), entry)
        return FeedStreamReader(store, entry.name, feed, wanted)


def _columns(state: State, entry: Entry) -> pa.Schema:
    """The columns of a table or view, as they are stored or put together."""
    return declared(parts_at(state, entry), entry)


def _wanted(schema: StructType, columns: pa.Schema, entry: Entry) -> dict[str, str]:
    """The columns that are asked for, by the names that they are asked by."""
    known = {name.lower(): name for name in columns.names}
    for name in schema.names:
        if name.lower() not in known:
            raise unknown_name("column", name, columns.names, entry.name)
    return {name: known[name.lower()] for name in schema.names}


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
    known = {name.lower() for name in OPTIONS}
    unknown = [name for name in folded if name not in known]
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


class RekindleReader(DataSourceReader):
    """Reads a snapshot, one key range a task; nested rows, and those of a lookup, in one task."""

    def __init__(self, store: Store, entry: Entry, parts: Parts, wanted: Mapping[str, str]) -> None:
        self._store = store
        self._entry_schema = entry.schema
        self._parts = parts
        self._wanted = dict(wanted)
        self._lookup: Lookup | None = None
        # Where the session does not push filters, Spark refuses a reader that says it takes them.
        self.pushFilters = _Taking(self._take)  # type: ignore[method-assign]

    def _take(self, filters: list[Filter]) -> Iterator[Filter]:
        """Note what can be looked up. Spark filters once more: nothing is promised."""
        part = self._parts if isinstance(self._parts, Part) else self._parts.top
        self._lookup = lookup_by(filters, part.schema, part.trace.layout.payload)
        return iter(filters)

    def partitions(self) -> list[InputPartition]:
        if isinstance(self._parts, Nested):
            return [KeyRangePartition(ALL_KEYS)]
        if self._lookup is not None and self._lookup.keys(self._parts.arranged) is not None:
            return [KeyRangePartition(ALL_KEYS)]
        rows = self._parts.trace.rows
        if self._lookup is not None:
            wanted = max(1, rows // ROWS_SEARCHED)
        else:
            wanted = max(2, rows // ROWS_PER_PARTITION)
        count = 1 << (wanted - 1).bit_length()
        return [KeyRangePartition(key_range) for key_range in key_ranges(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, KeyRangePartition)
        parts, key_range = self._parts, (partition.low, partition.high)
        if isinstance(parts, Nested):
            tables = iter([parts.rows(self._store, self._lookup)])
        else:
            found = parts.tables(self._store, key_range, self._lookup)
            tables = (parts.named([table]) for table in found)
        for rows in tables:
            shown = rows.rename_columns(list(self._entry_schema.names))
            yield from batches_of(shown, self._wanted)


class _Taking:
    """A `pushFilters` that a session which pushes none does not see."""

    __func__ = DataSourceReader.pushFilters

    def __init__(self, take: Callable[[list[Filter]], Iterator[Filter]]) -> None:
        self._take = take

    def __call__(self, filters: list[Filter]) -> Iterator[Filter]:
        return self._take(filters)


def lookup_by(filters: Sequence[Filter], schema: Schema, stored: pa.Schema) -> Lookup | None:
    """What filters ask for of columns whose values are given; None where nothing can be used."""
    places = {name: i for i, name in enumerate(schema.names)}
    wanted: dict[int, pa.Array] = {}
    for each in filters:
        if not isinstance(each, EqualTo | In) or len(each.attribute) != 1:
            continue
        place = places.get(each.attribute[0])
        if place is None or place in wanted:
            continue
        values = list(each.value) if isinstance(each, In) else [each.value]
        values = [value for value in values if value is not None]
        if not is_compared(schema.fields[place].type, stored.types[place]):
            continue
        found = values_of(values, stored.types[place]) if values else None
        if found is not None:
            wanted[place] = found
    return Lookup(tuple(wanted.items())) if wanted else None
