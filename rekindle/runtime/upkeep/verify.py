"""Every byte that the log names is read and held against its checksum, without Spark.

A database reads a file when it first needs it, which for old history may be never; so damage waits.
`verify` reads all there is to read: the checkpoint and the records of the log, and each file of the
present state and of the history. It takes no lock and changes nothing. A writer may go on: a file
that has gone is missing only if the log, read again, still names it.

Files that no record names are not damage. A replaced file waits some epochs for readers of an older
state, and one of an interrupted step for the next writer; both are `waiting`. What has no name that
we would give is `foreign`.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import Enum
from typing import Any

import xxhash

from rekindle.errors import CorruptionError, DefinitionError
from rekindle.redaction import without_secrets
from rekindle.runtime.epochs.log import DIRECTORY, CommitLog
from rekindle.runtime.epochs.state import State
from rekindle.runtime.places import placed
from rekindle.traces.faults import named
from rekindle.traces.segment import Segment
from rekindle.traces.store import Store

Progress = Callable[[int, int], None]
"""Is told how many bytes are done, and how many there are."""

_OURS = re.compile(r"data/[^/]+/e\d{10}-|.*\.tmp$")
_LOGGED = re.compile(rf"{DIRECTORY}/\d{{16}}\.(record|checkpoint)$")
_OF_LOG = re.compile(rf"{DIRECTORY}/\d{{16}}\.[a-z]+$")
_THREADS = 4


class Damage(Enum):
    """What is wrong with a file."""

    MISSING = "missing"
    TRUNCATED = "truncated"
    TOO_LONG = "too long"
    CHANGED = "changed"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True)
class Damaged:
    """A file that is not what was committed, and the tables and views that need it."""

    path: str
    damage: Damage
    detail: str
    needed_by: tuple[str, ...] = ()

    def __str__(self) -> str:
        needed = f"; needed by {', '.join(self.needed_by)}" if self.needed_by else ""
        return f"{self.path}: {self.damage.value} ({self.detail}){needed}"


@dataclass(frozen=True, slots=True)
class Verification:
    """What `verify` found."""

    path: str
    epoch: int | None
    files: int
    bytes: int
    damaged: tuple[Damaged, ...] = ()
    waiting: tuple[str, ...] = ()
    foreign: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Is every byte there that was committed?"""
        return not self.damaged

    def __str__(self) -> str:
        at = "" if self.epoch is None else f" at epoch {self.epoch}"
        head = f"'{self.path}'{at}: {self.files:,} files, {self.bytes:,} bytes read, "
        lines = [head + (f"{len(self.damaged)} damaged" if self.damaged else "all as committed")]
        lines += [f"  damaged: {each}" for each in self.damaged]
        if self.waiting:
            lines.append(f"  {len(self.waiting):,} files wait to be removed, which is usual")
        lines += [f"  not of this database: {path}" for path in self.foreign]
        return "\n".join(lines)

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {
            "path": self.path,
            "ok": self.ok,
            "epoch": self.epoch,
            "files": self.files,
            "bytes": self.bytes,
            "damaged": [
                {
                    "path": each.path,
                    "damage": each.damage.value,
                    "detail": each.detail,
                    "needed_by": list(each.needed_by),
                }
                for each in self.damaged
            ],
            "waiting": list(self.waiting),
            "foreign": list(self.foreign),
        }


def verify(path: str, progress: Progress | None = None) -> Verification:
    """Read every byte that the log of a database names, and say what is damaged or too much."""
    store = Store(placed(path))
    with named(path):
        return _Verifying(store, progress or _silent).run()


def segments_of(state: State) -> dict[str, Segment]:
    """Every data file that a state needs, by its path."""
    return {segment.path: segment for segment in state.segments}


class _Verifying:
    """One pass over a database."""

    def __init__(self, store: Store, progress: Progress) -> None:
        self._store = store
        self._log = CommitLog(store)
        self._progress = progress
        self._lock = threading.Lock()
        self._read = 0
        self._total = 0

    def run(self) -> Verification:
        if not self._log.exists() and not self._store.list("data"):
            raise DefinitionError(
                f"there is no database at '{self._store.uri}'", hint="is the path right?"
            )
        damaged = self._records()
        state = None
        try:
            state = self._log.load()
        except CorruptionError as error:
            if not damaged:
                damaged.append(Damaged(DIRECTORY, Damage.UNREADABLE, _brief(error)))
        needed = {} if state is None else segments_of(state)
        damaged += self._files(needed, state)
        known = self._store.list()
        over = [] if state is None else [p for p in known if self._is_over(p, needed, state)]
        logged = [p for p in known if _LOGGED.match(p)]
        return Verification(
            without_secrets(self._store.uri),
            None if state is None else state.epoch,
            len(needed) + len(logged),
            self._read,
            tuple(damaged),
            tuple(path for path in over if _OURS.match(path)),
            tuple(path for path in over if not _OURS.match(path)),
        )

    def _records(self) -> list[Damaged]:
        """The files of the log that are not what was written."""
        found = []
        for path in self._store.list(DIRECTORY):
            if not _LOGGED.match(path):
                continue
            try:
                data = self._store.read_bytes(path)
            except FileNotFoundError:
                continue  # A checkpoint has made it superfluous.
            self._read += len(data)
            checksum, _, body = data.partition(b"\n")
            if xxhash.xxh3_64_hexdigest(body).encode() != checksum:
                detail = "its checksum does not match its content"
                found.append(Damaged(path, Damage.CHANGED, detail))
        return found

    def _files(self, needed: dict[str, Segment], state: State | None) -> list[Damaged]:
        self._total = self._read + sum(segment.size for segment in needed.values())
        with ThreadPoolExecutor(_THREADS, "rekindle-verify") as pool:
            suspects = [each for each in pool.map(self._file, needed.values()) if each is not None]
        if state is None or not suspects:
            return suspects
        still = self._still_needed(needed)
        owners = _owners(state)
        return [
            Damaged(each.path, each.damage, each.detail, tuple(sorted(owners[each.path])))
            for each in suspects
            if each.path in still
        ]

    def _still_needed(self, needed: dict[str, Segment]) -> Iterable[str]:
        """What the log names now: a writer may have gone on."""
        try:
            return segments_of(self._log.load())
        except CorruptionError:
            return needed

    def _file(self, segment: Segment) -> Damaged | None:
        """What is wrong with a file, read to its end."""
        hashed, size = xxhash.xxh3_64(), 0
        try:
            for data in self._store.read_chunks(segment.path):
                hashed.update(data)
                size += len(data)
                self._advance(len(data))
        except FileNotFoundError:
            return Damaged(segment.path, Damage.MISSING, f"{segment.size:,} bytes committed")
        except OSError as error:
            said = without_secrets(error.strerror or str(error))
            return Damaged(segment.path, Damage.UNREADABLE, said)
        if size != segment.size:
            damage = Damage.TRUNCATED if size < segment.size else Damage.TOO_LONG
            return Damaged(
                segment.path, damage, f"{size:,} bytes found, {segment.size:,} committed"
            )
        found = hashed.hexdigest()
        if found != segment.checksum:
            detail = f"checksum {found} found, {segment.checksum} committed"
            return Damaged(segment.path, Damage.CHANGED, detail)
        return None

    def _advance(self, size: int) -> None:
        with self._lock:
            self._read += size
            self._progress(self._read, max(self._read, self._total))

    def _is_over(self, path: str, needed: dict[str, Segment], state: State) -> bool:
        """Is the file neither of the state, nor of the log, nor a writer's own at the top?"""
        if "/" not in path or path in needed:
            return False
        return not _OF_LOG.match(path) and path.startswith((f"{DIRECTORY}/", "data/"))


def _owners(state: State) -> dict[str, set[str]]:
    """The tables and views in whose contents or history each file is, by its path.

    State that several views share, and that no user has a name for, goes by its node.
    """
    names = {entry.node: entry.part_of or entry.name for entry in state.entries.values()}
    found: dict[str, set[str]] = {path: set() for path in segments_of(state)}
    for node, trace in state.traces.items():
        for segment in trace.segments:
            found[segment.path].add(names.get(node, node))
    for node, past in state.history.items():
        for segment in past.segments:
            found[segment.path].add(f"history of {names.get(node, node)}")
    for segment in state.times.segments:
        found[segment.path].add("times of epochs")
    return found


def _brief(error: CorruptionError) -> str:
    return f"{error.message}: {error.detail}" if error.detail else error.message


def _silent(done: int, total: int) -> None:
    """Nobody wants to know."""
