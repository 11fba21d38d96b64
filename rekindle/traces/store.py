"""The store: immutable, checksummed files under one root, on any `pyarrow.fs` filesystem.

A file gets its final name only when it is complete: it is written under a temporary name and
renamed (object stores publish on close, which is the same promise). Its checksum, the xxh3 of all
bytes, is in the commit log and not in the file, so nothing in a damaged file is ever trusted. A
process verifies each file once, when it first opens it; files it wrote itself it knows.

Durability is bought once a commit, not once a file: `write(..., Durability.DEFERRED)` leaves the
bytes to the page cache and `flush(paths)` makes many files durable together. A crash in between
leaves garbage that no commit record names.

A segment is one record batch, so that its keys are one vector; `MAXIMUM_ROWS` and `MAXIMUM_BYTES`
bound it (Arrow's 32-bit offsets end at 2 GiB). Only a single hot key may exceed them, and then the
file has several batches.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from itertools import pairwise
from typing import Any

import pyarrow as pa
import xxhash
from pyarrow import fs

from rekindle.errors import CorruptionError
from rekindle.traces.arrays import KEY, growth, integers
from rekindle.traces.links import files_within, refuse_links
from rekindle.traces.opened import OPEN_SEGMENTS, Mapped, OpenSegment
from rekindle.traces.packed import packed
from rekindle.traces.paging import advise_random
from rekindle.traces.segment import Run, Segment

MAXIMUM_ROWS = 4_000_000
MAXIMUM_BYTES = 2**30
LARGE_BYTES = 2**24
"""From here on it matters whether a mapped file is read in order or anywhere."""
_STREAMED_BYTES = 2**22
_HELD_BYTES = 2**16
"""A table of fewer bytes stays in memory as it was written: the next step will read it."""
_PUBLISHED_ON_CLOSE = {"s3", "gcs", "abfs"}
_NAMED: set[str] = set()
"""Directories whose names this process has made durable."""
_SYNCING = ThreadPoolExecutor(8, "rekindle-sync")
"""Threads that wait for the disk; starting some for every step would take longer than that."""


class Durability(Enum):
    """When the bytes of a written file survive a power failure."""

    IMMEDIATE = "immediate"
    DEFERRED = "deferred"


class _HashingSink:
    """A file object that hashes what passes through it."""

    def __init__(self, write: Callable[[Any], Any]) -> None:
        self._write = write
        self._hash = xxhash.xxh3_64()
        self.size = 0
        self.closed = False

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._write(data)
        self.size += len(data)
        return len(data)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None: ...

    def close(self) -> None:
        self.closed = True

    @property
    def checksum(self) -> str:
        return self._hash.hexdigest()


@lru_cache(maxsize=64)
def _resolve(uri: str) -> tuple[Any, str]:
    if "://" in uri:
        filesystem, root = fs.FileSystem.from_uri(uri)
        return filesystem, root.rstrip("/")
    return fs.LocalFileSystem(), os.path.abspath(uri)


@dataclass(frozen=True, slots=True)
class Store:
    """Files under a root given as a local path or a URI; all paths are relative, with '/'."""

    uri: str

    @property
    def filesystem(self) -> Any:
        return _resolve(self.uri)[0]

    @property
    def root(self) -> str:
        return _resolve(self.uri)[1]

    def locate(self, path: str) -> str:
        """The path as the filesystem knows it."""
        return f"{self.root}/{path}"

    def write(
        self, path: str, table: Any, durability: Durability = Durability.IMMEDIATE
    ) -> Segment:
        """Write a non-empty arranged table as one segment file."""
        keys = table.column(KEY)
        low, high = int(keys[0].as_py()), int(keys[-1].as_py())
        table = table.combine_chunks()
        stored = packed(table)
        if stored.nbytes < _STREAMED_BYTES:
            buffer = pa.BufferOutputStream()
            _write_batches(buffer, stored)
            data = buffer.getvalue()
            size, checksum = data.size, xxhash.xxh3_64_hexdigest(data)
            self._publish(path, lambda write: write(data), durability)
        else:
            sinks: list[_HashingSink] = []

            def stream(write: Callable[[Any], Any]) -> None:
                sinks.append(_HashingSink(write))
                _write_batches(pa.PythonFile(sinks[-1], mode="w"), stored)

            self._publish(path, stream, durability)
            size, checksum = sinks[-1].size, sinks[-1].checksum
        segment = Segment(path, len(table), low, high, size, checksum, growth(table))
        small = table.get_total_buffer_size() < _HELD_BYTES
        OPEN_SEGMENTS.trust(self.uri, segment, OpenSegment.of_table(table) if small else None)
        return segment

    def write_run(
        self,
        table: Any,
        name: Callable[[], str],
        durability: Durability = Durability.IMMEDIATE,
        maximum_rows: int = MAXIMUM_ROWS,
    ) -> Run:
        """Write an arranged table as a run, cut between keys into segments of bounded size."""
        if not len(table):
            return Run(())
        average = max(1, table.nbytes // len(table))
        limit = max(1, min(maximum_rows, MAXIMUM_BYTES // average))
        cuts = cut_between_keys(integers(table.column(KEY)), limit)
        return Run(
            tuple(
                self.write(name(), table.slice(start, end - start), durability)
                for start, end in pairwise(cuts)
            )
        )

    def open(self, segment: Segment) -> OpenSegment:
        """The segment's rows, mapped into memory; only after its bytes were verified once."""
        return OPEN_SEGMENTS.get(self.uri, segment, self._map)

    def release(self, paths: Iterable[str]) -> None:
        """Hold files open no longer, which somebody else is about to delete."""
        for path in paths:
            OPEN_SEGMENTS.release(self.uri, path)

    def flush(self, paths: Iterable[str]) -> None:
        """Make files written with `Durability.DEFERRED`, and their names, survive a crash."""
        if not self._local:
            return
        paths = list(dict.fromkeys(paths))
        places = [self.locate(path) for path in paths]
        list(_SYNCING.map(_sync, places) if len(places) > 1 else map(_sync, places))
        for directory in dict.fromkeys(os.path.dirname(path) for path in paths):
            self.sync(directory)

    def sync(self, directory: str = "") -> None:
        """Make the names in a directory, and its own, survive a crash.

        Who made the directory may have died before its name was durable, so the directories above
        are synced too, once in each process.
        """
        if not self._local:
            return
        place = self.locate(directory).rstrip("/")
        _sync(place)
        while place not in _NAMED and place != self.root:
            parent = os.path.dirname(place)
            _sync(parent)
            _NAMED.add(place)
            place = parent

    def delete(self, paths: Iterable[str]) -> None:
        """Remove files; those already gone are no error."""
        for path in paths:
            OPEN_SEGMENTS.forget(self.uri, path)
            if self._local:
                refuse_links(self.root, os.path.dirname(path))
            remove = os.unlink if self._local else self.filesystem.delete_file
            with suppress(FileNotFoundError):
                remove(self.locate(path))

    def list(self, directory: str = "") -> Sequence[str]:
        """The files under a directory, at any depth, sorted; none when it does not exist."""
        if self._local:
            return sorted(files_within(self.root, directory))
        selector = fs.FileSelector(
            self.locate(directory).rstrip("/"), recursive=True, allow_not_found=True
        )
        skip = len(self.root) + 1
        found = self.filesystem.get_file_info(selector)
        return sorted(info.path[skip:] for info in found if info.type == fs.FileType.File)

    def exists(self, path: str) -> bool:
        return bool(self.filesystem.get_file_info(self.locate(path)).type == fs.FileType.File)

    def read_bytes(self, path: str) -> bytes:
        if self._local:
            refuse_links(self.root, path)
        with self.filesystem.open_input_stream(self.locate(path)) as stream:
            data: bytes = stream.read()
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file that need not survive a power failure yet."""
        self._publish(path, lambda write: write(data), Durability.DEFERRED)

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace a file so that a reader, or a crash, sees the old bytes or the new ones."""
        self._publish(path, lambda write: write(data), Durability.IMMEDIATE)
        self.sync(path.rpartition("/")[0])

    @property
    def _local(self) -> bool:
        return isinstance(self.filesystem, fs.LocalFileSystem)

    def _publish(
        self,
        path: str,
        produce: Callable[[Callable[[Any], Any]], Any],
        durability: Durability,
    ) -> None:
        OPEN_SEGMENTS.forget(self.uri, path)
        place = self.locate(path)
        temporary = f"{place}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
        if self._local:
            try:
                file = open(temporary, "wb", buffering=0)  # noqa: SIM115
            except FileNotFoundError:
                _make_directories(os.path.dirname(place))
                file = open(temporary, "wb", buffering=0)  # noqa: SIM115
            try:
                with file:
                    produce(lambda data: _write_all(file.fileno(), data))
                    if durability is Durability.IMMEDIATE:
                        os.fsync(file.fileno())
                os.replace(temporary, place)
            except BaseException:
                with suppress(FileNotFoundError):
                    os.unlink(temporary)
                raise
            return
        self.filesystem.create_dir(place.rpartition("/")[0], recursive=True)
        final = self.filesystem.type_name in _PUBLISHED_ON_CLOSE
        with self.filesystem.open_output_stream(place if final else temporary) as stream:
            produce(stream.write)
        if not final:
            self.filesystem.move(temporary, place)

    def _map(self, segment: Segment) -> Mapped:
        place = self.locate(segment.path)
        info = self.filesystem.get_file_info(place)
        if info.type != fs.FileType.File:
            raise _corrupt(segment, "missing", f"no file at {place}")
        if info.size != segment.size:
            kind = "truncated" if info.size < segment.size else "too long"
            raise _corrupt(segment, kind, f"{info.size} bytes found, {segment.size} committed")
        if self._local:
            refuse_links(self.root, segment.path)
            data = pa.memory_map(place, "r").read_buffer()
            if data.size < LARGE_BYTES:
                return Mapped(data, data)
            anywhere = pa.memory_map(place, "r").read_buffer()
            advise_random(anywhere)
            return Mapped(data, anywhere)
        with self.filesystem.open_input_file(place) as file:
            data = file.read_buffer()
        return Mapped(data, data)


def cut_between_keys(keys: Any, limit: int) -> Sequence[int]:
    """Ascending row positions from 0 to the end, at most `limit` apart unless one key has more."""
    cuts = [0]
    while len(keys) - cuts[-1] > limit:
        end = cuts[-1] + limit
        cut = int(keys[: end + 1].searchsorted(keys[end]))
        if cut == cuts[-1]:
            cut += int(keys[cut:].searchsorted(keys[cut], side="right"))
        if cut == len(keys):
            break
        cuts.append(cut)
    return [*cuts, len(keys)]


def _corrupt(segment: Segment, what: str, detail: str) -> CorruptionError:
    return CorruptionError(
        f"file '{segment.path}' is {what}",
        detail=detail,
        hint="restore the file from a backup, or rebuild the views that use it",
    )


def _write_batches(sink: Any, table: Any) -> None:
    with pa.ipc.new_file(sink, table.schema) as writer:
        writer.write_table(table)


def _write_all(descriptor: int, data: Any) -> None:
    view = memoryview(data).cast("B")
    while view:
        view = view[os.write(descriptor, view) :]


def _make_directories(directory: str) -> None:
    """Create a directory and its parents so that their names survive a crash."""
    if os.path.isdir(directory):
        return
    parent = os.path.dirname(directory)
    _make_directories(parent)
    os.makedirs(directory, exist_ok=True)
    _sync(parent)


def _sync(place: str) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
