"""Open segments: verified files of this process, kept mapped, least recently used ones dropped.

Verification costs one pass over the bytes and happens once per process and file: the size, then
the checksum, before a single byte is interpreted. The checksum says that the bytes are those which
the log names, not that they are an Arrow file: who wrote the log wrote it too. So the rows are
validated as well, once: offsets inside their buffers, texts of text, as many rows and the keys that
the log says, in order. A file that this process wrote is trusted. An
entry is found only with the checksum the caller expects, so a file rewritten under the same name
by a retried step is verified anew.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import xxhash

from rekindle.errors import CorruptionError
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, Int64s, integers
from rekindle.traces.packed import stands_for, with_weights
from rekindle.traces.segment import Segment
from rekindle.traces.weight_sums import WeightSums

_T = TypeVar("_T")


class Mapped(NamedTuple):
    """The bytes of a file, to be read in order or anywhere; mostly the same buffer."""

    in_order: Any
    anywhere: Any


@dataclass(frozen=True)
class OpenSegment:
    """The rows of a segment, or of an arranged table in memory, and a vector of their keys.

    `table` is for single rows anywhere, `in_order` for one row after the other: a large file is
    mapped twice, since the system reads ahead, by megabytes, wherever it may think that it should.
    The payload may be `packed`: who takes rows unpacks them.
    """

    table: Any
    keys: Int64s
    in_order: Any

    @classmethod
    def of_table(cls, table: Any, in_order: Any = None) -> OpenSegment:
        column = table.column(KEY)
        rows = table if in_order is None else in_order
        if column.num_chunks == 1:
            return cls(table, column.chunk(0).to_numpy(zero_copy_only=True), rows)
        keys = column.to_numpy() if column.num_chunks else np.zeros(0, np.int64)
        return cls(table, keys, rows)

    @cached_property
    def weights(self) -> WeightSums:
        """The running sums of the weights."""
        return WeightSums(*(integers(t.column(WEIGHT)) for t in (self.in_order, self.table)))

    def refuse_misfit(self, segment: Segment, schema: Any) -> None:
        """Raise unless the rows have the columns of a schema; asked of a schema, it is asked once.

        Packed columns say in their metadata what they stand for, and are believed if that is it.
        """
        fitting: list[Any] = self.__dict__.setdefault("_fitting", [])
        if any(known is schema for known in fitting):
            return
        for wanted in schema:
            place = self.table.schema.get_field_index(wanted.name)
            found = None if place < 0 else self.table.schema.field(place)
            if found is None or not stands_for(found, wanted.type):
                shown = "none" if found is None else str(found.type)
                detail = f"column {wanted.name}: {wanted.type} committed, {shown} found"
                raise _invalid(segment, detail)
        fitting.append(schema)

    def of_columns(self, names: Sequence[str]) -> OpenSegment:
        """The same rows with some of their columns."""
        return OpenSegment(self.table.select(names), self.keys, self.in_order.select(names))


class OpenSegments:
    """The process-wide cache of open segments; safe to use from several threads."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._open: OrderedDict[tuple[str, str], tuple[str, OpenSegment]] = OrderedDict()
        self._trusted: OrderedDict[tuple[str, str], str] = OrderedDict()

    def get(self, uri: str, segment: Segment, map_file: Callable[[Segment], Mapped]) -> OpenSegment:
        """The open segment; maps and verifies the file unless that was done before."""
        name = (uri, segment.path)
        with self._lock:
            found = self._open.get(name)
            if found is not None and found[0] == segment.checksum:
                self._open.move_to_end(name)
                return found[1]
            trusted = self._trusted.get(name) == segment.checksum
        data = map_file(segment)
        if not trusted:
            verify(segment, data.in_order)
            _validate(segment, data.in_order)
        in_order = with_weights(pa.ipc.open_file(data.in_order).read_all())
        table = in_order
        if data.anywhere is not data.in_order:
            table = with_weights(pa.ipc.open_file(data.anywhere).read_all())
        opened = OpenSegment.of_table(table, in_order)
        self.trust(uri, segment, opened)
        return opened

    def trust(self, uri: str, segment: Segment, opened: OpenSegment | None = None) -> None:
        """The file need not be verified again, nor opened if its rows are given."""
        name = (uri, segment.path)
        with self._lock:
            _remember(self._trusted, name, segment.checksum, 16 * self._capacity)
            if opened is not None:
                _remember(self._open, name, (segment.checksum, opened), self._capacity)

    def forget(self, uri: str, path: str) -> None:
        """The file is about to change or to go."""
        with self._lock:
            self._open.pop((uri, path), None)
            self._trusted.pop((uri, path), None)

    def release(self, uri: str, path: str) -> None:
        """The file will go, and shall not be held open until then; its bytes stay trusted."""
        with self._lock:
            self._open.pop((uri, path), None)

    def clear(self) -> None:
        """Forget everything, as a new process would have."""
        with self._lock:
            self._open.clear()
            self._trusted.clear()


OPEN_SEGMENTS = OpenSegments(capacity=4096)


def _remember(
    names: OrderedDict[tuple[str, str], _T], name: tuple[str, str], found: _T, limit: int
) -> None:
    names[name] = found
    names.move_to_end(name)
    while len(names) > limit:
        names.popitem(last=False)


def verify(segment: Segment, data: Any) -> None:
    """Raise unless the bytes of a file are those that were written."""
    found = xxhash.xxh3_64_hexdigest(data)
    if found != segment.checksum:
        raise CorruptionError(
            f"file '{segment.path}' has a checksum mismatch",
            detail=f"{found} found, {segment.checksum} committed",
            hint="restore the file from a backup, or rebuild the views that use it",
        )


def _validate(segment: Segment, data: Any) -> None:
    """Raise unless the bytes are the arranged rows that the log says."""
    try:
        stored = pa.ipc.open_file(data).read_all()
        stored.validate(full=True)
        table = with_weights(stored)
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError) as error:
        raise _invalid(segment, f"{type(error).__name__}: {str(error)[:200]}") from error
    for name in (KEY, *IDENTITY):
        place = table.schema.get_field_index(name)
        if place < 0 or table.schema.field(place).type != pa.int64():
            raise _invalid(segment, f"it has no column {name} of 64-bit integers")
        if table.column(place).null_count:
            raise _invalid(segment, f"its column {name} has nulls")
    if len(table) != segment.rows:
        raise _invalid(segment, f"{len(table)} rows found, {segment.rows} committed")
    keys = integers(table.column(KEY))
    if not len(keys) or (int(keys[0]), int(keys[-1])) != (segment.low, segment.high):
        raise _invalid(segment, "its keys are not in the range that was committed")
    if not (keys[1:] >= keys[:-1]).all():
        raise _invalid(segment, "its keys are not in order")


def _invalid(segment: Segment, detail: str) -> CorruptionError:
    return CorruptionError(
        f"file '{segment.path}' does not hold what was committed",
        detail=detail,
        hint="restore the file from a backup, or rebuild the views that use it",
    )
