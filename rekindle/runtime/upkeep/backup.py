"""Copies of a database: taken while it is written to, complete or not there.

A state names immutable files, so a copy of it is a copy of these files, and after that one
checkpoint, whose name appears at once. Until then the target is what it was before. What an earlier
backup to the same place has already, the next one does not copy; what it no longer needs goes when
its own checkpoint is there.

A writer removes files that its newer states do not need. Where that overtakes the copy, the copy
goes on from the newer state, with all that it has; each file is held against its checksum on the
way, so that damage is found here and not when the backup is wanted.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import xxhash

from rekindle.errors import CorruptionError, DefinitionError
from rekindle.redaction import without_secrets
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import State
from rekindle.runtime.epochs.stored import sound
from rekindle.runtime.places import placed
from rekindle.runtime.upkeep.verify import segments_of
from rekindle.shapes import open_record, read_json, text
from rekindle.traces.faults import named, storage_error
from rekindle.traces.segment import Segment
from rekindle.traces.store import Store

Progress = Callable[[int, int], None]
MARK = "backup.json"
"""Tells a backup from a database that somebody works with, and says what it is a backup of."""
_ATTEMPTS = 20


class _OvertakenError(Exception):
    """A file was removed before it was copied: the writer has gone on."""


@dataclass(frozen=True, slots=True)
class Backup:
    """What a backup or a restoration did."""

    path: str
    epoch: int
    files: int
    copied: int
    copied_bytes: int
    removed: int = 0
    left_out: tuple[str, ...] = ()
    """Tables and views that did not exist, as they are defined now, at the wanted epoch."""

    def __str__(self) -> str:
        head = f"'{self.path}' holds epoch {self.epoch}: {self.files:,} files, "
        text = head + f"{self.copied:,} of them copied ({self.copied_bytes:,} bytes)"
        if self.left_out:
            text += f"; left out, as made later: {', '.join(self.left_out)}"
        return text

    def to_json(self) -> dict[str, Any]:
        """The same as plain values."""
        return {name: getattr(self, name) for name in self.__slots__} | {
            "left_out": list(self.left_out)
        }


def backup(path: str, target: str, progress: Progress | None = None) -> Backup:
    """Make `target` hold the last epoch of the database at `path`, copying what it lacks."""
    with named(path):
        source = Store(placed(path))
        if not CommitLog(source).exists():
            raise DefinitionError(f"there is no database at '{path}'", hint="is the path right?")
    with named(target):
        return _BackingUp(source, Store(placed(target)), progress or _silent).run()


class _BackingUp:
    """One backup."""

    def __init__(self, source: Store, target: Store, progress: Progress) -> None:
        self._source, self._target = source, target
        self._progress = progress

    def run(self) -> Backup:
        before = self._previous()
        copied: dict[str, int] = {}
        for attempt in range(_ATTEMPTS):
            state = CommitLog(self._source).load()
            self._check_newer(before, state)
            try:
                copied |= copy_files(
                    self._source, self._target, self._lacking(state, before), self._progress
                )
                break
            except _OvertakenError as error:
                self._check_overtaken(state, str(error), last=attempt == _ATTEMPTS - 1)
        needed = segments_of(state)
        had = {} if before is None else segments_of(before)
        self._target.flush(path for path in needed if had.get(path) != needed[path])
        if before != state:
            CommitLog(self._target).checkpoint(state)
        spare = [path for path in self._target.list("data") if path not in needed]
        self._target.delete(spare)
        return Backup(
            without_secrets(self._target.uri),
            state.epoch,
            len(needed),
            len(copied),
            sum(copied.values()),
            len(spare),
        )

    def _previous(self) -> State | None:
        """The state that the target holds; it must be a backup of this database, or empty.

        The mark comes first: where a first backup was interrupted the next one may go on.
        """
        of = without_secrets(self._source.uri)
        if not self._target.exists(MARK):
            check_empty(self._target, "a backup")
            self._target.write_atomically(MARK, json.dumps({"format": 1, "of": of}).encode())
            return None
        with sound(MARK):
            mark = read_json(self._target.read_bytes(MARK), open_record(of=text))
        if mark["of"] != of:
            raise DefinitionError(
                f"'{self._target.uri}' is a backup of another database",
                detail=f"it is one of '{mark['of']}', and not of '{of}'",
                hint="choose another target",
            )
        log = CommitLog(self._target)
        return log.load() if log.exists() else None

    def _check_newer(self, before: State | None, state: State) -> None:
        if before is not None and before.epoch == state.epoch and before != state:
            raise DefinitionError(
                f"'{self._target.uri}' holds another state of epoch {state.epoch}",
                hint="choose another target; was the database restored from an older backup?",
            )
        if before is not None and before.epoch > state.epoch:
            raise DefinitionError(
                f"'{self._target.uri}' holds epoch {before.epoch}, which is newer",
                detail=f"the database is at epoch {state.epoch}",
                hint="choose another target; was the database restored from an older backup?",
            )

    def _check_overtaken(self, state: State, path: str, *, last: bool) -> None:
        """A file that is gone is no damage if the state that names it is no longer the last."""
        now = CommitLog(self._source).load()
        if last or (now.epoch == state.epoch and path in segments_of(now)):
            raise CorruptionError(
                f"file '{path}' is missing",
                detail=f"the state of epoch {state.epoch} of '{self._source.uri}' needs it",
                hint="rekindle verify lists all that is damaged; the earlier backup is untouched",
            )

    def _lacking(self, state: State, before: State | None) -> list[Segment]:
        """The files that the target does not have yet.

        What the earlier backup names was durable before it was named. Other files, left by a backup
        that was interrupted, may be anything.
        """
        sizes = self._target.sizes("data")
        had = {} if before is None else segments_of(before)
        return [
            segment
            for path, segment in segments_of(state).items()
            if sizes.get(path) != segment.size
            or (had.get(path) != segment and not _is_whole(self._target, segment))
        ]


def copy_files(
    source: Store, target: Store, segments: list[Segment], progress: Progress
) -> dict[str, int]:
    """Copy files, each held against its checksum on the way; gives their sizes by path."""
    total, done = sum(segment.size for segment in segments), 0
    copied = {}
    for segment in segments:
        copy_file(source, target, segment, segment.path)
        copied[segment.path] = segment.size
        done += segment.size
        progress(done, total)
    return copied


def copy_file(source: Store, target: Store, segment: Segment, path: str) -> None:
    """Copy a file under a name, unless its bytes are not the ones that were committed."""

    def chunks() -> Iterator[bytes]:
        hashed = xxhash.xxh3_64()
        try:
            for data in source.read_chunks(segment.path):
                hashed.update(data)
                yield data
        except FileNotFoundError:
            raise _OvertakenError(segment.path) from None
        except OSError as error:
            raise storage_error(error, source.uri) from None
        if hashed.hexdigest() != segment.checksum:
            raise CorruptionError(
                f"file '{segment.path}' is damaged and was not copied",
                detail=f"checksum {hashed.hexdigest()} found, {segment.checksum} committed",
                hint="rekindle verify lists all that is damaged; the target is as it was",
            )

    target.write_chunks(path, chunks())


def check_empty(store: Store, what: str) -> None:
    """Raise unless there is nothing at a place."""
    found = store.list()
    if found:
        raise DefinitionError(
            f"'{store.uri}' is not empty and cannot become {what}",
            detail=f"it holds {', '.join(found[:3])}" + (" and more" if len(found) > 3 else ""),
            hint="choose a place with nothing in it",
        )


def _is_whole(store: Store, segment: Segment) -> bool:
    hashed = xxhash.xxh3_64()
    for data in store.read_chunks(segment.path):
        hashed.update(data)
    return bool(hashed.hexdigest() == segment.checksum)


def _silent(done: int, total: int) -> None:
    """Nobody wants to know."""
