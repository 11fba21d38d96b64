"""Files that a state no longer needs, and how long they are left to readers of an older one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rekindle.runtime.state import Change, State
from rekindle.traces.store import Store

GRACE_EPOCHS = 16
"""For how many epochs a file that is no longer needed is left to readers of an older state."""


class Garbage:
    """Plans the removal of one database's files; those of its history stay while that is kept."""

    def __init__(self, store: Store, state: State) -> None:
        self._store = store
        self._waiting: list[tuple[int, str]] = []
        self._historic = _paths(state.history)

    def discard(self, paths: Iterable[str], epoch: int) -> None:
        """Plan the removal of files that the state of an epoch does not need."""
        self._waiting += [(epoch, path) for path in paths]

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
        """Remove, at an epoch, what has waited long enough."""
        last = epoch - GRACE_EPOCHS
        if self._waiting and self._waiting[0][0] <= last:
            self._store.delete(path for when, path in self._waiting if when <= last)
            self._waiting = [(when, path) for when, path in self._waiting if when > last]

    def collect(self, state: State, check_writer: Callable[[], None]) -> list[str]:
        """Remove every data file that the state does not need; gives their names.

        The files are listed before the writer is asked whether it still is the writer, so that
        none of a later one can be among them.
        """
        needed = state.paths
        found = [path for path in self._store.list("data") if path not in needed]
        for directory in ("log", "lease"):
            found += [path for path in self._store.list(directory) if path.endswith(".tmp")]
        check_writer()
        self._store.delete(found)
        self._waiting = []
        return found


def _paths(history: Mapping[str, tuple[Change, ...]]) -> set[str]:
    return {path for changes in history.values() for change in changes for path in change.run.paths}
