"""Epochs that somebody is still reading, so that no file of theirs is removed meanwhile.

A state is immutable, but the files that it names are not there for ever: what a later state no
longer needs is removed after a while. Whoever works on a state for longer than a moment (an open
transaction, a check, a backup) holds its epoch.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager


class Snapshots:
    """The epochs held in one connection; safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: Counter[int] = Counter()
        self._released: deque[int] = deque()
        """Epochs that were let go since somebody looked."""

    def hold(self, epoch: int) -> None:
        """Keep the files of the state at `epoch`, until as many calls of `release`."""
        with self._lock:
            self._count()
            self._held[epoch] += 1

    def release(self, epoch: int) -> None:
        """Let the files go once.

        It takes no lock: it is called of whatever is forgotten, which the collector of garbage may
        find out in any thread at any time, also while that thread is in here.
        """
        self._released.append(epoch)

    @contextmanager
    def held(self, epoch: int) -> Iterator[None]:
        """Keep the files of the state at `epoch` for the time of a block."""
        self.hold(epoch)
        try:
            yield
        finally:
            self.release(epoch)

    @property
    def oldest(self) -> int | None:
        """The earliest epoch that is held.

        >>> snapshots = Snapshots()
        >>> with snapshots.held(7), snapshots.held(9):
        ...     snapshots.oldest
        7
        """
        with self._lock:
            self._count()
            return min(self._held, default=None)

    def _count(self) -> None:
        """Take those off that were let go; to be called with the lock."""
        while self._released:
            epoch = self._released.popleft()
            self._held[epoch] -= 1
            if self._held[epoch] <= 0:
                del self._held[epoch]
