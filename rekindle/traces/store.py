"""The store: immutable, checksummed files under one root, on any `pyarrow.fs` filesystem.

A file gets its final name only when it is complete: it is written under a temporary name and
renamed (object stores publish on close, which is the same promise). Its checksum, the xxh3 of all
bytes, is in the commit log and not in the file, so nothing in a damaged file is ever trusted. A
process verifies each file once, when it first opens it; files it wrote itself it knows.

Durability is bought once a commit, not once a file: `write(..., Durability.DEFERRED)` leaves the
bytes to the page cache and `flush(paths)` makes many files durable together. A crash in between
leaves garbage that no commit record names.

`create` decides between writers: a name is given once, whoever asks, on every file system. Files
are private to the user who writes them (0600, in directories of 0700, less what the umask forbids).

A segment is one record batch, so that its keys are one vector; `MAXIMUM_ROWS` and `MAXIMUM_BYTES`
bound it (Arrow's 32-bit offsets end at 2 GiB). Only a single hot key may exceed them, and then the
file has several batches.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache, partial
from itertools import pairwise
from typing import Any

import pyarrow as pa
import xxhash
from pyarrow import fs

from rekindle.errors import CorruptionError, DefinitionError, UnsupportedError
from rekindle.redaction import without_secrets
from rekindle.traces.arrays import KEY, growth, integers
from rekindle.traces.conditional import UncertainError, creator
from rekindle.traces.faults import named_faults
from rekindle.traces.links import files_within, refuse_links
from rekindle.traces.opened import OPEN_SEGMENTS, Mapped, OpenSegment, verify
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
_PRIVATE_FILE = 0o600
_PRIVATE_DIRECTORY = 0o700
_NAMED: set[str] = set()
"""Directories whose names this process has made durable."""
_SYNCING = ThreadPoolExecutor(16, "rekindle-sync")
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
        try:
            filesystem, root = fs.FileSystem.from_uri(uri)
        except (ValueError, NotImplementedError) as error:
            said = str(error)
            raise DefinitionError(
                f"'{uri}' is not a place that a database can be in",
                detail=said,
                hint="give a local path, or a URI such as s3://bucket/warehouse?region=eu-west-1",
            ) from (error if without_secrets(said) == said else None)
        return filesystem, root.rstrip("/")
    return fs.LocalFileSystem(), os.path.abspath(uri)


@named_faults
@dataclass(frozen=True, slots=True)
class Store:
    """Files under a root given as a local path or a URI; all paths are relative, with '/'."""

    uri: str
    writer: str = ""
    """What tells the files of one writer from those of any other; readers have none."""

    def __repr__(self) -> str:
        return f"Store({without_secrets(self.uri)!r})"

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

    def write_rows(self, path: str, table: Any) -> Segment:
        """Write a table of any columns, in no order, that need not survive a power failure."""
        sinks: list[_HashingSink] = []

        def stream(write: Callable[[Any], Any]) -> None:
            sinks.append(_HashingSink(write))
            _write_batches(pa.PythonFile(sinks[-1], mode="w"), table)

        self._publish(path, stream, Durability.DEFERRED)
        return Segment(path, len(table), 0, 0, sinks[-1].size, sinks[-1].checksum, 0)

    def read_rows(self, segment: Segment) -> Any:
        """The table that `write_rows` wrote, verified and mapped into memory."""
        data = self._map(segment).in_order
        verify(segment, data)
        return pa.ipc.open_file(data).read_all()

    def open(self, segment: Segment) -> OpenSegment:
        """The segment's rows, mapped into memory; only after its bytes were verified once."""
        return OPEN_SEGMENTS.get(self.uri, segment, self._map)

    def release(self, paths: Iterable[str]) -> None:
        """Hold files open no longer, which somebody else is about to delete."""
        for path in paths:
            OPEN_SEGMENTS.release(self.uri, path)

    def flush(self, paths: Iterable[str]) -> None:
        """Make files written with `Durability.DEFERRED`, and their names, survive a crash."""
        if not self.is_local:
            return
        paths = list(dict.fromkeys(paths))
        syncs = [partial(_sync, self.locate(path)) for path in paths]
        directories = dict.fromkeys(os.path.dirname(path) for path in paths)
        syncs += [partial(self.sync, directory) for directory in directories]
        # Nothing names these files yet, so neither bytes nor names have to be there first. The
        # disk takes many syncs together: a step writes a file in a directory for each node.
        list(_SYNCING.map(_called, syncs) if len(paths) > 1 else map(_called, syncs))

    def sync(self, directory: str = "") -> None:
        """Make the names in a directory, and its own, survive a crash.

        Who made the directory may have died before its name was durable, so the directories above
        are synced too, once in each process.
        """
        if not self.is_local:
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
            if self.is_local:
                refuse_links(self.root, os.path.dirname(path))
            remove = os.unlink if self.is_local else self.filesystem.delete_file
            with suppress(FileNotFoundError):
                remove(self.locate(path))

    def list(self, directory: str = "") -> Sequence[str]:
        """The files under a directory, at any depth, sorted; none when it does not exist."""
        if self.is_local:
            return sorted(files_within(self.root, directory))
        selector = fs.FileSelector(
            self.locate(directory).rstrip("/"), recursive=True, allow_not_found=True
        )
        skip = len(self.root) + 1
        try:
            found = self.filesystem.get_file_info(selector)
        except FileNotFoundError:
            # Arrow looks twice, and in between the directory was made.
            found = self.filesystem.get_file_info(selector)
        return sorted(info.path[skip:] for info in found if info.type == fs.FileType.File)

    def sizes(self, directory: str = "") -> dict[str, int]:
        """The files under a directory, at any depth, with their sizes in bytes."""
        selector = fs.FileSelector(
            self.locate(directory).rstrip("/"), recursive=True, allow_not_found=True
        )
        skip = len(self.root) + 1
        found = self.filesystem.get_file_info(selector)
        return {info.path[skip:]: info.size for info in found if info.type == fs.FileType.File}

    def exists(self, path: str) -> bool:
        return bool(self.filesystem.get_file_info(self.locate(path)).type == fs.FileType.File)

    def read_bytes(self, path: str) -> bytes:
        """The bytes of a small file; FileNotFoundError if there is none, or none any more."""
        if self.is_local:
            refuse_links(self.root, path)
        try:
            with self.filesystem.open_input_stream(self.locate(path)) as stream:
                data: bytes = stream.read()
        except OSError as error:
            # Arrow asks S3 twice for a file; one that goes in between is any error to it.
            if not isinstance(error, FileNotFoundError) and not self.exists(path):
                raise FileNotFoundError(f"'{path}' is gone") from error
            raise
        return data

    def write_bytes(self, path: str, data: bytes) -> None:
        """Write a file that need not survive a power failure yet."""
        self._publish(path, lambda write: write(data), Durability.DEFERRED)

    def read_chunks(self, path: str) -> Iterator[bytes]:
        """The bytes of a file of any size, some at a time."""
        with self.filesystem.open_input_stream(self.locate(path)) as stream:
            while data := stream.read(_STREAMED_BYTES):
                yield data

    def write_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write a file that need not survive a power failure yet, some bytes at a time.

        It gets its name when the last of them is there: chunks that raise leave nothing.
        """

        def produce(write: Callable[[Any], Any]) -> None:
            for data in chunks:
                write(data)

        self._publish(path, produce, Durability.DEFERRED)

    def write_atomically(self, path: str, data: bytes) -> None:
        """Replace a file so that a reader, or a crash, sees the old bytes or the new ones."""
        self._publish(path, lambda write: write(data), Durability.IMMEDIATE)
        self.sync(path.rpartition("/")[0])

    def create(self, path: str, data: bytes) -> None:
        """Make a file that does not exist yet, whole and durable; else raise FileExistsError.

        Of several that create one name, in any process on any host, one succeeds. After an
        `UncertainError` the file may be there or not, or come to be there; after any other
        `OSError` it is not.
        """
        place = self.locate(path)
        OPEN_SEGMENTS.forget(self.uri, path)
        if self.is_local:
            self._link(place, data)
            try:
                self.sync(path.rpartition("/")[0])
            except OSError as error:
                raise UncertainError(f"'{path}' was created and may not be durable") from error
            return
        self.check_creatable()
        filesystem, kind = self.filesystem, self.filesystem.type_name
        if kind in _PUBLISHED_ON_CLOSE:
            bucket, _, key = place.partition("/")
            creator(self.uri, filesystem, bucket)(key, data)
            return
        temporary = _temporary(place)
        filesystem.create_dir(place.rpartition("/")[0], recursive=True)
        with filesystem.open_output_stream(temporary) as stream:
            stream.write(data)
        try:
            # HDFS renames atomically, and never onto a file that exists.
            filesystem.move(temporary, place)
        except OSError as error:
            if not self.exists(path):
                raise UncertainError(f"no answer to the creation of '{path}'") from error
            with suppress(OSError):
                filesystem.delete_file(temporary)
            raise FileExistsError(f"'{path}' exists") from error

    def check_creatable(self) -> None:
        """Fails unless this file system can create a file on condition that there is none."""
        kind = self.filesystem.type_name
        if kind in _PUBLISHED_ON_CLOSE:
            creator(self.uri, self.filesystem, self.root.partition("/")[0])
        elif not self.is_local and kind != "hdfs":
            raise UnsupportedError(
                f"a database cannot be written to on the file system '{kind}'",
                detail="it has no way to create a file on condition that there is none",
                hint="use a local path, S3, GCS, ABFS or HDFS",
            )

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace a small remote file; a reader may see it torn, a crash may leave it so."""
        with self.filesystem.open_output_stream(self.locate(path)) as stream:
            stream.write(data)

    @property
    def is_local(self) -> bool:
        """Are these files of this machine, or mounted as if they were?"""
        return isinstance(self.filesystem, fs.LocalFileSystem)

    @property
    def label(self) -> str:
        """The root as messages may show it."""
        return without_secrets(self.uri)

    def _publish(
        self,
        path: str,
        produce: Callable[[Callable[[Any], Any]], Any],
        durability: Durability,
    ) -> None:
        OPEN_SEGMENTS.forget(self.uri, path)
        place = self.locate(path)
        temporary = _temporary(place)
        if self.is_local:
            file = _new_file(temporary)
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
        final = self.filesystem.type_name in _PUBLISHED_ON_CLOSE
        if not final:
            self.filesystem.create_dir(place.rpartition("/")[0], recursive=True)
        with self.filesystem.open_output_stream(place if final else temporary) as stream:
            produce(stream.write)
        if not final:
            self.filesystem.move(temporary, place)

    def _link(self, place: str, data: bytes) -> None:
        """Give a file, whole and synced, a name that nobody has; the name is not durable yet."""
        temporary = _temporary(place)
        file = _new_file(temporary)
        try:
            with file:
                _write_all(file.fileno(), data)
                os.fsync(file.fileno())
            try:
                os.link(temporary, place)
            except OSError:
                # A network file system may do it, lose the answer, and find the name taken.
                if os.stat(temporary).st_nlink != 2:
                    raise
        finally:
            # The name decides; what is left of the other one is collected at the next open.
            with suppress(OSError):
                os.unlink(temporary)

    def _map(self, segment: Segment) -> Mapped:
        place = self.locate(segment.path)
        info = self.filesystem.get_file_info(place)
        if info.type != fs.FileType.File:
            raise _corrupt(segment, "missing", f"no file at {place}")
        if info.size != segment.size:
            kind = "truncated" if info.size < segment.size else "too long"
            raise _corrupt(segment, kind, f"{info.size} bytes found, {segment.size} committed")
        if self.is_local:
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


def _temporary(place: str) -> str:
    return f"{place}.{os.getpid()}-{secrets.token_hex(4)}.tmp"


def _new_file(place: str) -> Any:
    """A file to write, private to its user, and its directory if that is missing."""
    try:
        return open(place, "wb", buffering=0, opener=_private)
    except FileNotFoundError:
        _make_directories(os.path.dirname(place))
        return open(place, "wb", buffering=0, opener=_private)


def _private(place: str, flags: int) -> int:
    return os.open(place, flags, _PRIVATE_FILE)


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
    os.makedirs(directory, _PRIVATE_DIRECTORY, exist_ok=True)
    _sync(parent)


def _called(action: Callable[[], None]) -> None:
    action()


def _sync(place: str) -> None:
    descriptor = os.open(place, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
