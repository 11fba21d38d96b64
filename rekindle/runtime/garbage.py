"""Files that a state no longer needs, and how long they are left to readers of an older one.

Readers in this process hold their epoch (`snapshots.py`), and what it needs stays. Readers in other
processes hold nothing: a file is left to them for some epochs, and for some seconds where epochs
are short.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rekindle.runtime.snapshots import Snapshots
from rekindle.runtime.state import Change, State
from rekindle.traces.store import Store

GRACE_EPOCHS = 16
"""For how many epochs a file that is no longer needed is left to readers of an older state."""
GRACE_SECONDS = 10.0
"""For how long it is left to them at least."""


class Unneeded(NamedTuple):
    """A file that the states from an epoch on do not need, and when that became so."""

    epoch: int
    since: float
    path: str


class Garbage:
    """Plans the removal of one database's files; those of its history stay while that is kept."""

    def __init__(self, store: Store, state: State, snapshots: Snapshots) -> None:
        self._store = store
        self._snapshots = snapshots
        self._waiting: list[Unneeded] = []
        self._historic = _paths(state.history)

    def discard(self, paths: Iterable[str], epoch: int) -> None:
        """Plan the removal of files that the state of an epoch does not need."""
        now = time.monotonic()
        self._waiting += [Unneeded(epoch, now, path) for path in paths]

    def replaced(self, dropped: set[str], changed: set[str], state: State) -> None:
        """Plan the removal of what a step replaced, unless it is part of the history."""
        self._historic |= changed
        self.discard(dropped - self._historic, state.epoch)

    def forget_history(self, state: State) -> None:
        """Plan the removal of files that only expired changes needed."""
        retained = _paths(state.history)
        self.discard(self._historic - retained - state.paths, state.epoch)
        self._historic = retained

    def keep_history(self, state: State) -> None:
        """Let the history be that of a state, after something was dropped."""
        self._historic = _paths(state.history)

    def sweep(self, epoch: int) -> None:
        """Remove, at an epoch, what has waited long enough and nobody holds."""
        last = epoch - GRACE_EPOCHS
        oldest = self._snapshots.oldest
        if oldest is not None:
            last = min(last, oldest)
        until = time.monotonic() - GRACE_SECONDS
        if self._waiting and self._waiting[0].epoch <= last and self._waiting[0].since <= until:
            over = [file for file in self._waiting if file.epoch <= last and file.since <= until]
            self._store.delete(file.path for file in over)
            gone = set(over)
            self._waiting = [file for file in self._waiting if file not in gone]

    def collect(self, state: State, check_writer: Callable[[], None]) -> list[str]:
        """Remove every data file that neither the state needs nor anybody holds; their names.

        The files are listed before the writer is asked whether it still is the writer, so that
        none of a later one can be among them.
        """
        oldest = self._snapshots.oldest
        held = [file for file in self._waiting if oldest is not None and file.epoch > oldest]
        needed = state.paths | {file.path for file in held}
        found = [path for path in self._store.list("data") if path not in needed]
        for directory in ("log", "lease"):
            found += [path for path in self._store.list(directory) if path.endswith(".tmp")]
        check_writer()
        self._store.delete(found)
        self._waiting = held
        return found


def _paths(history: Mapping[str, tuple[Change, ...]]) -> set[str]:
    return {path for changes in history.values() for change in changes for path in change.run.paths}
