"""The change feed as the data source gives it: in batches, and as a stream.

A `FeedRead` says all that a task needs: it is made where the read is planned, of the state then,
and is sent to the tasks. A stream's offset is an epoch. Its first batch are the contents at an
epoch, unless the user says where to begin; every other one are the changes after an epoch and up to
another. Both are functions of the epochs alone, so that a batch which Spark asks for again, after a
restart from its checkpoint, is the same rows; that is what makes the stream exact, as long as the
history is retained. A view that was replaced meanwhile has another history, which the offset tells.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxFiles,
    SupportsTriggerAvailableNow,
)

from rekindle.catalyst.hashing import KEY_SEED
from rekindle.errors import DefinitionError, HistoryError
from rekindle.kernels.xxhash import row_hashes
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import Entry, State, TableEntry
from rekindle.runtime.nested.stored_parts import (
    Nested,
    Part,
    Parts,
    batches_of,
    hashes_of,
    is_hashed,
    parts_at,
)
from rekindle.runtime.reading.arrow import changed_parts, changes_of
from rekindle.runtime.reading.feed_options import ChangeFormat, FeedOptions
from rekindle.traces.arrays import Int64s, integers, single_chunk
from rekindle.traces.partition import ALL_KEYS, KeyRange, key_ranges
from rekindle.traces.store import Store

ROWS_PER_PARTITION = 1_000_000
SNAPSHOT = -1
"""The epoch of an offset before the contents were read."""

_ADDED = {
    "_epoch": pa.int64(),
    "_weight": pa.int64(),
    "_change_type": pa.string(),
    "_commit_version": pa.int64(),
    "_commit_timestamp": pa.timestamp("us", "UTC"),
}


def feed_schema(payload: pa.Schema, format_: ChangeFormat) -> pa.Schema:
    """The columns of a feed; refuses a table or view that has one of them itself."""
    taken = {name.lower() for name in payload.names}
    for name in (*format_.before, *format_.after):
        if name in taken:
            raise DefinitionError(
                f"the change feed has a column '{name}', and so has what is read",
                hint="read a view that gives the column another name",
            )
    before, after = ([pa.field(n, _ADDED[n]) for n in ns] for ns in (format_.before, format_.after))
    return pa.schema([*before, *payload, *after])


@dataclass(frozen=True, slots=True)
class FeedRead:
    """Changes of a table or view, or its contents as a first change, ready to be read."""

    store: Store
    parts: Parts
    format: ChangeFormat
    key: tuple[int, ...]
    """The positions of the primary key, by which an update is told."""
    times: tuple[Int64s, Int64s]
    """Epochs and the instants of their commits."""
    contents_at: int | None = None
    until: int | None = None

    @staticmethod
    def of(
        state: State, store: Store, entry: Entry, format_: ChangeFormat, since: int, until: int
    ) -> FeedRead:
        """The changes after an epoch and up to another, or the contents up to the latter."""
        key = entry.key if isinstance(entry, TableEntry) else ()
        first = until if since == SNAPSHOT else since
        known = list(state.times.known(store, first))
        empty = np.zeros(0, np.int64)
        times = (
            np.concatenate([empty, *(epochs for epochs, _ in known)]),
            np.concatenate([empty, *(instants for _, instants in known)]),
        )
        if since == SNAPSHOT:
            parts = parts_at(state, entry, until)
            return FeedRead(store, parts, format_, key, times, contents_at=until)
        parts = changed_parts(state, entry, since, until)
        return FeedRead(store, parts, format_, key, times, until=until)

    def ranges(self) -> list[KeyRange]:
        """The ranges of keys that tasks read; nested rows are put together in one."""
        if isinstance(self.parts, Nested):
            return [ALL_KEYS]
        part = self.parts
        changes = 0 if part.changes is None else part.changes.rows
        rows = changes if self.contents_at is None else part.trace.rows + changes
        return key_ranges(1 << (max(1, rows // ROWS_PER_PARTITION) - 1).bit_length())

    def tables(self, key_range: KeyRange) -> Iterator[pa.Table]:
        """The rows in the format that is asked for."""
        if self.contents_at is None:
            found = changes_of(self.parts, self.store, key_range, self.until)
        else:
            found = self._contents(self.contents_at, key_range)
        if self.format is ChangeFormat.WEIGHTS:
            for table in found:
                yield table.append_column("_commit_timestamp", self._instants(table.column(0)))
            return
        tables = list(found)
        if tables:
            # An update may lie in two tables of one epoch.
            yield self._typed(pa.concat_tables(tables))

    def _contents(self, epoch: int, key_range: KeyRange) -> Iterator[pa.Table]:
        parts = self.parts
        tables: Iterator[pa.Table]
        if isinstance(parts, Part):
            tables = (parts.named([table]) for table in parts.tables(self.store, key_range))
        else:
            tables = iter([parts.rows(self.store)])
        for rows in tables:
            head = [pa.array(np.full(len(rows), each, np.int64)) for each in (epoch, 1)]
            names = ["_epoch", "_weight", *rows.column_names]
            yield pa.Table.from_arrays([*head, *rows.columns], names=names)

    def _instants(self, epochs: pa.ChunkedArray) -> pa.Array:
        """When epochs were committed, NULL where that was not noted."""
        known, instants = self.times
        wanted = integers(epochs)
        if not len(known):
            return pa.nulls(len(wanted), _ADDED["_commit_timestamp"])
        place = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
        found = pa.array(instants[place], mask=known[place] != wanted)
        return found.cast(_ADDED["_commit_timestamp"])

    def _typed(self, table: pa.Table) -> pa.Table:
        """Changes with the names of what was done; a row for each time that it was."""
        weights = integers(table.column(1).combine_chunks())
        epochs = integers(table.column(0).combine_chunks())
        updates, order = np.zeros(len(table), dtype=bool), np.argsort(epochs, kind="stable")
        if self.key and self.contents_at is None:
            keys = [_hashes(table.column(2 + i)) for i in self.key]
            (codes,) = row_hashes([pa.array(epochs), *map(pa.array, keys)], [KEY_SEED], len(table))
            _, groups = np.unique(integers(codes), return_inverse=True)
            signs = [np.zeros(groups.max(initial=0) + 1, dtype=bool) for _ in range(2)]
            signs[0][groups[weights < 0]] = True
            signs[1][groups[weights > 0]] = True
            updates = (signs[0] & signs[1])[groups]
            order = np.lexsort((weights > 0, groups, epochs))
        kinds = np.where(
            updates,
            np.where(weights < 0, "update_preimage", "update_postimage"),
            np.where(weights < 0, "delete", "insert"),
        )
        rows = np.repeat(order, np.abs(weights[order]))
        taken = table.take(pa.array(rows))
        columns = [*taken.columns[2:], pa.array(kinds[rows].tolist(), pa.string())]
        names = [*table.column_names[2:], *ChangeFormat.CDC.after]
        columns += [taken.column(0), self._instants(taken.column(0))]
        return pa.Table.from_arrays(columns, names=names)


def _hashes(column: pa.ChunkedArray) -> Int64s:
    array = single_chunk(column)
    if is_hashed(array.type) and not array.null_count:
        return hashes_of(array)
    return np.array([hash(str(value)) for value in array.to_pylist()], dtype=np.int64)


@dataclass
class FeedPartition(InputPartition):
    """A range of keys of a feed, with all that is needed to read it."""

    feed: FeedRead
    low: int
    high: int

    def __init__(self, feed: FeedRead, key_range: KeyRange) -> None:
        self.feed = feed
        self.low, self.high = key_range

    def batches(self, wanted: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
        """The columns that are asked for, under the names that they are asked by."""
        for table in self.feed.tables((self.low, self.high)):
            yield from batches_of(table, wanted)


class FeedReader(DataSourceReader):
    """Reads the changes of a range of epochs."""

    def __init__(self, feed: FeedRead | None, wanted: Mapping[str, str]) -> None:
        self._feed = feed
        self._wanted = dict(wanted)

    def partitions(self) -> list[InputPartition]:
        if self._feed is None:
            return [InputPartition(None)]
        return [FeedPartition(self._feed, each) for each in self._feed.ranges()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, FeedPartition):
            yield from partition.batches(self._wanted)


class FeedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads contents and then changes, batch by batch; an offset is the last epoch read."""

    def __init__(
        self, store: Store, name: str, options: FeedOptions, wanted: Mapping[str, str]
    ) -> None:
        self._store = store
        self._name = name
        self._options = options
        self._wanted = dict(wanted)
        self._target: int | None = None

    def _state(self) -> State:
        return CommitLog(self._store).load()

    def initialOffset(self) -> dict[str, Any]:
        state = self._state()
        entry = state.entry(self._name)
        first = self._options.since(state, self._store) if self._options.begins else SNAPSHOT
        return {"epoch": first, "created": entry.created}

    def getDefaultReadLimit(self) -> ReadLimit:
        limit = self._options.limit
        # Of Spark's limits it is the one on whole things; here they are epochs.
        return ReadAllAvailable() if limit is None else ReadMaxFiles(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        state, begun = self._state(), int(start["epoch"])
        last = state.epoch if self._target is None else min(self._target, state.epoch)
        until = self._options.until(state, self._store)
        last = last if until is None else min(last, until)
        if isinstance(limit, ReadMaxFiles) and begun != SNAPSHOT:
            last = min(last, begun + limit.max_files)
        return start if last <= begun else {**start, "epoch": last}

    def prepareForTriggerAvailableNow(self) -> None:
        self._target = self._state().epoch

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[InputPartition]:
        begun, last = int(start["epoch"]), int(end["epoch"])
        if begun == last:
            return []
        state = self._state()
        entry = state.entry(self._name)
        if entry.created != end["created"]:
            raise HistoryError(
                f"'{entry.name}' was made anew at epoch {entry.created}",
                detail=f"the stream follows the one of epoch {end['created']}",
                hint="begin another stream, with a checkpoint of its own",
            )
        feed = FeedRead.of(state, self._store, entry, self._options.format, begun, last)
        return [FeedPartition(feed, each) for each in feed.ranges()]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, FeedPartition)
        yield from partition.batches(self._wanted)


def whole_feed(state: State, store: Store, entry: Entry, options: FeedOptions) -> FeedRead | None:
    """What a batch read is asked for; None where there are no epochs between its two ends."""
    since = options.since(state, store)
    until = options.until(state, store)
    last = state.epoch if until is None else until
    state.refuse_uncommitted(last)
    return FeedRead.of(state, store, entry, options.format, since, last) if last > since else None
