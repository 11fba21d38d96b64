"""Tables and views as a Spark data source.

    spark.read.format("rekindle").load("warehouse/orders")

The source reads the commit log and the mapped files by itself: it needs no connection and no lock,
and may run beside a writer. It reads the last committed epoch, or the one that the option `epoch`
names. Year-month intervals come as their number of months, which is how Arrow in Python holds them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import ParamSpec, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructField, StructType

from rekindle.errors import DefinitionError, HistoryError, RekindleError, UnsupportedError
from rekindle.runtime.contents import repeated, snapshot
from rekindle.runtime.log import CommitLog
from rekindle.runtime.state import Entry, State, ViewEntry
from rekindle.runtime.stored import sound_definition
from rekindle.traces.partition import KeyRange, key_ranges
from rekindle.traces.segment import Run
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace

ROWS_PER_PARTITION = 1_000_000

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

    def _open(self) -> tuple[Store, State, Entry]:
        path = self.options.get("path", "").rstrip("/")
        root, _, name = path.rpartition("/")
        if not name:
            raise DefinitionError(
                "the data source 'rekindle' needs the path of a table or view",
                hint='such as spark.read.format("rekindle").load("warehouse/orders")',
            )
        root = root or "."
        store = Store(root if "://" in root else os.path.abspath(root))
        log = CommitLog(store)
        if not log.exists():
            raise DefinitionError(f"there is no database at '{root}'")
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
        _, state, entry = self._open()
        payload = state.traces[entry.node].layout.payload
        with sound_definition(entry.name):
            stored = from_arrow_schema(payload, prefer_timestamp_ntz=True)
        return StructType(
            [
                StructField(field.name, column.dataType)
                for field, column in zip(entry.schema, stored.fields, strict=True)
            ]
        )

    @briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        store, state, entry = self._open()
        undone: tuple[Run, ...] = ()
        if "epoch" in self.options:
            undone = tuple(change.run for change in state.undone(entry.name, self._epoch()))
        return RekindleReader(store, state.traces[entry.node], undone, entry.schema.names)

    def _epoch(self) -> int:
        given = self.options["epoch"]
        try:
            return int(given)
        except ValueError:
            raise HistoryError(f"the option epoch is '{given}', which is no number") from None


class RekindleReader(DataSourceReader):
    """Reads a snapshot, one key range a task."""

    def __init__(
        self, store: Store, trace: Trace, undone: tuple[Run, ...], names: tuple[str, ...]
    ) -> None:
        self._store = store
        self._trace = trace
        self._undone = undone
        self._names = list(names)

    def partitions(self) -> list[InputPartition]:
        wanted = max(2, self._trace.rows // ROWS_PER_PARTITION)
        count = 1 << (wanted - 1).bit_length()
        return [KeyRangePartition(key_range) for key_range in key_ranges(count)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, KeyRangePartition)
        key_range = (partition.low, partition.high)
        for table in snapshot(self._trace, list(self._undone), self._store, key_range):
            rows = repeated(table, len(self._names)).rename_columns(self._names)
            yield from rows.to_batches()
