"""Files that a state no longer needs, and how long they are left to readers of an older one.

Readers in this process hold their epoch (`snapshots.py`), and what it needs stays. Readers in other
processes hold nothing: a file is left to them for some epochs, and for some seconds where epochs
are short.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from rekindle.runtime.epochs.snapshots import Snapshots
from rekindle.runtime.epochs.state import State
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
    """Plans the removal of one database's files."""

    def __init__(self, store: Store, snapshots: Snapshots) -> None:
        self._store = store
        self._snapshots = snapshots
        self._waiting: deque[Unneeded] = deque()

    def discard(self, paths: Iterable[str], epoch: int) -> None:
        """Plan the removal of files that the state of an epoch does not need."""
        now = time.monotonic()
        self._waiting += [Unneeded(epoch, now, path) for path in paths]

    def replaced(self, before: State, after: State, passing: Iterable[str] = ()) -> None:
        """Plan the removal of what one state needs and the next does not, and of `passing` files.

        Only nodes that differ are looked at: a file belongs to one node, or goes with its history
        to another.
        """
        unneeded, needed = set(passing), set[str]()
        differing = _differing(before.traces, after.traces)
        for node in differing | _differing(before.history, after.history):
            unneeded |= before.files_of(node)
            needed |= after.files_of(node)
        if before.times is not after.times:
            unneeded.update(segment.path for segment in before.times.segments)
            needed.update(segment.path for segment in after.times.segments)
        self.discard(unneeded - needed, after.epoch)

    def sweep(self, epoch: int) -> None:
        """Remove, at an epoch, what has waited long enough and nobody holds."""
        last = epoch - GRACE_EPOCHS
        oldest = self._snapshots.oldest
        if oldest is not None:
            last = min(last, oldest)
        until = time.monotonic() - GRACE_SECONDS
        over = []
        # They wait in the order in which they came, so nobody behind the first one is due before.
        while self._waiting and self._waiting[0].epoch <= last and self._waiting[0].since <= until:
            over.append(self._waiting.popleft().path)
        self._store.delete(over)

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
        self._waiting = deque(held)
        return found


def _differing(before: Mapping[str, object], after: Mapping[str, object]) -> set[str]:
    """The keys whose values are not the same object, or that only one of two mappings has."""
    found = {key for key, value in after.items() if before.get(key) is not value}
    return found | before.keys() - after.keys()
