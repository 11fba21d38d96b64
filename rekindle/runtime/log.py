"""The commit log: one record for each epoch, and now and then a checkpoint of the whole state.

A transaction is committed at the instant its record gets its final name, and not before: data files
are durable by then, and a file that no record names is garbage. A record holds what changed: the
entries, the traces of the nodes touched, and the runs that became history. The state is the last
checkpoint plus the records after it. Every file begins with a checksum of the rest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

import xxhash

from rekindle.errors import CorruptionError
from rekindle.runtime.state import (
    Change,
    State,
    change_from_json,
    change_to_json,
    entry_from_json,
    entry_to_json,
)
from rekindle.runtime.stored import damaged, read_record, refuse_unsound, sound
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace

DIRECTORY = "log"
_NAMED = re.compile(rf"{DIRECTORY}/[0-9]{{16}}\.(record|checkpoint)")
CHECKPOINT_EVERY = 64
FORMAT = 1
RACES = 5


class _VanishedError(CorruptionError):
    """A file that was listed is gone; a writer's checkpoint may have removed it meanwhile."""


class CommitLog:
    """The log of the database in `store`."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def exists(self) -> bool:
        return bool(self._files())

    def create(self) -> State:
        """Begin an empty database."""
        state = State()
        self.checkpoint(state)
        return state

    def commit(self, before: State, after: State) -> None:
        """Make `after` the state of the database, atomically: it is, or an error is raised."""
        name = _record_name(after.epoch)
        try:
            self._write(name, _record(before, after))
        except OSError:
            # The record may have its name without being durable; it must not come to life later.
            self._store.delete([name])
            raise

    def maintain(self, state: State) -> None:
        """Write a checkpoint when it is time. The epoch is committed: no failure may undo it."""
        if state.epoch % CHECKPOINT_EVERY == 0:
            with suppress(OSError):
                self.checkpoint(state)

    def is_committed(self, epoch: int) -> bool:
        """Does a record or checkpoint of the epoch, or of a later one, exist?"""
        return any(_epoch_of(path) >= epoch for path in self._files())

    def checkpoint(self, state: State) -> None:
        """Write the whole state and remove the records it makes superfluous."""
        self._write(_checkpoint_name(state.epoch), _record(State(epoch=-1), state))
        old = [path for path in self._files() if _epoch_of(path) < state.epoch]
        old += [_record_name(state.epoch)] if state.epoch else []
        self._store.delete(path for path in old if path != _checkpoint_name(state.epoch))

    def load(self) -> State:
        """The last committed state."""
        for _ in range(RACES):
            with suppress(_VanishedError):
                return self._load()
        return self._load()

    def _load(self) -> State:
        files = self._files()
        checkpoints = [path for path in files if path.endswith(".checkpoint")]
        if not checkpoints:
            raise CorruptionError(
                f"the commit log of '{self._store.uri}' has no checkpoint",
                hint="restore the log directory from a backup",
            )
        latest = max(checkpoints, key=_epoch_of)
        state = self._applied(State(epoch=-1), latest)
        return self._follow(state, files, latest)

    def _applied(self, state: State, path: str) -> State:
        """The state after the record in a file."""
        record = self._read(path)
        with sound(path):
            return _apply(state, record)

    def follow(self, state: State) -> State:
        """The state after the records committed since."""
        try:
            return self._follow(state, self._files())
        except _VanishedError:
            return self.load()

    def _follow(self, state: State, files: list[str], last: str = "") -> State:
        known = set(files)
        while (path := _record_name(state.epoch + 1)) in known:
            state, last = self._applied(state, path), path
        newer = [path for path in known if _epoch_of(path) > state.epoch]
        if newer:
            if any(path.endswith(".checkpoint") for path in newer):
                return self._load()
            raise CorruptionError(
                f"the commit log lacks the record of epoch {state.epoch + 1}",
                detail=f"later records exist: {', '.join(sorted(newer)[:3])}",
                hint="restore the log directory from a backup",
            )
        if last:
            with sound(last):
                refuse_unsound(state)
        return state

    def _files(self) -> list[str]:
        return [
            path
            for path in self._store.list(DIRECTORY)
            if _NAMED.fullmatch(path)
        ]

    def _write(self, path: str, record: Mapping[str, Any]) -> None:
        body = json.dumps(record, separators=(",", ":")).encode()
        self._store.write_atomically(path, xxhash.xxh3_64_hexdigest(body).encode() + b"\n" + body)

    def _read(self, path: str) -> dict[str, Any]:
        try:
            checksum, _, body = self._store.read_bytes(path).partition(b"\n")
        except FileNotFoundError as error:
            raise _VanishedError(f"file '{path}' of the commit log is missing") from error
        if xxhash.xxh3_64_hexdigest(body).encode() != checksum:
            raise CorruptionError(
                f"file '{path}' of the commit log is damaged",
                detail="its checksum does not match its content",
                hint="restore the file from a backup",
            )
        record = read_record(path, body, FORMAT)
        if record["epoch"] != _epoch_of(path):
            raise damaged(path, f"it is the record of epoch {record['epoch']}")
        return record


def _record_name(epoch: int) -> str:
    return f"{DIRECTORY}/{epoch:016}.record"


def _checkpoint_name(epoch: int) -> str:
    return f"{DIRECTORY}/{epoch:016}.checkpoint"


def _epoch_of(path: str) -> int:
    return int(path.rsplit("/", 1)[-1].split(".")[0])


def _record(before: State, after: State) -> dict[str, Any]:
    """What leads from one state to the next."""
    traces = {k: t for k, t in after.traces.items() if before.traces.get(k) is not t}
    history = {
        node: [change_to_json(c) for c in changes if c.epoch > before.epoch]
        for node, changes in after.history.items()
    }
    return {
        "format": FORMAT,
        "epoch": after.epoch,
        "entries": [
            entry_to_json(entry)
            for name, entry in after.entries.items()
            if before.entries.get(name) != entry
        ],
        "dropped_entries": [name for name in before.entries if name not in after.entries],
        "traces": {key: trace.to_json() for key, trace in traces.items()},
        "dropped_traces": [key for key in before.traces if key not in after.traces],
        "history": {node: changes for node, changes in history.items() if changes},
        "horizon": after.horizon,
    }


def _apply(state: State, record: Mapping[str, Any]) -> State:
    entries = {k: v for k, v in state.entries.items() if k not in record["dropped_entries"]}
    for data in record["entries"]:
        entry = entry_from_json(data)
        entries[entry.name] = entry
    dropped = set(record["dropped_traces"])
    traces = {k: t for k, t in state.traces.items() if k not in dropped}
    traces.update({key: Trace.from_json(data) for key, data in record["traces"].items()})
    history: dict[str, tuple[Change, ...]] = {
        node: changes for node, changes in state.history.items() if node not in dropped
    }
    for node, changes in record["history"].items():
        history[node] = history.get(node, ()) + tuple(change_from_json(c) for c in changes)
    horizon = record["horizon"]
    if horizon > state.horizon:
        history = {
            node: tuple(c for c in changes if c.epoch > horizon)
            for node, changes in history.items()
        }
    return replace(
        state,
        epoch=record["epoch"],
        entries=entries,
        traces=traces,
        history=history,
        horizon=horizon,
    )
