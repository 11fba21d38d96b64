"""Changes handed on in the process, at once after each commit and without a Spark job.

    with db.subscribe("spend") as changes:         db.subscribe("spend", callback, since=7)
        for batch in changes: ...

A subscription remembers the last epoch that it has handed on, and what is next are the changes
after it: so each epoch comes once, in order, whether it was committed before or after somebody
subscribed. It reads the files of the committed state; the one who commits only wakes it up, so that
nothing a subscriber does, or fails to do, holds up or harms a commit. A callback has a thread of
its own. Where other processes write, the log is looked at from time to time.
"""

from __future__ import annotations

import datetime as dt
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

import numpy as np
import pyarrow as pa

from rekindle.errors import ClosedError, HistoryError, RekindleError, SubscriptionError
from rekindle.runtime.arguments import callback as check_callback
from rekindle.runtime.arguments import optional_seconds
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import State, check_epoch
from rekindle.runtime.reading.arrow import ArrowReader, changed_parts
from rekindle.traces.arrays import integers
from rekindle.traces.store import Store

AT_ONCE = 256
"""So many epochs are read together by one who catches up."""
LOOK_EVERY = 0.2
"""Seconds between two looks at a log that others write."""
_BEGINNING = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_LOG = logging.getLogger("rekindle")


@dataclass(frozen=True, slots=True)
class Batch:
    """The changes of one epoch: rows with `_epoch`, `_weight` and the columns."""

    epoch: int
    table: pa.Table
    timestamp: dt.datetime | None
    """When the epoch was committed; early databases do not say."""


Callback = Callable[[Batch], object]


class Committed(Protocol):
    """Where committed states come from."""

    def held(self) -> AbstractContextManager[ArrowReader]:
        """The newest state, whose files stay for the time of a block."""

    def wait(self, epoch: int, seconds: float) -> None:
        """Return when there may be an epoch after this one, or after so many seconds."""

    @property
    def is_closed(self) -> bool:
        """Will there be no more epochs?"""


class Following:
    """The states of a database that another process may write."""

    def __init__(self, store: Store, state: State, is_closed: Callable[[], bool]) -> None:
        self._store = store
        self._log = CommitLog(store)
        self._state = state
        self._is_closed = is_closed

    @contextmanager
    def held(self) -> Iterator[ArrowReader]:
        self._state = self._log.follow(self._state)
        yield ArrowReader(self._state, self._store)

    def wait(self, epoch: int, seconds: float) -> None:
        time.sleep(min(seconds, LOOK_EVERY))

    @property
    def is_closed(self) -> bool:
        return self._is_closed()


class Subscription:
    """The changes of a table or view after an epoch, batch by batch. Made by `db.subscribe`.

    Without a callback it is an iterator of batches, which waits for the next one.
    """

    def __init__(
        self, committed: Committed, name: str, since: int | None, callback: Callback | None
    ) -> None:
        if callback is not None:
            check_callback("the callback of a subscription", callback)
        with committed.held() as reader:
            entry = reader.state.entry(name)
            self.name = entry.name
            self._epoch = reader.state.epoch if since is None else since
            self._created = entry.created
            # What cannot be read is said to the one who subscribes, and not later in a thread.
            changed_parts(reader.state, entry, self._epoch)
        self._committed = committed
        self._ready: deque[Batch] = deque()
        self._turn = threading.Lock()
        """Held by whoever takes the next batch, so that each is handed on once."""
        self._handed = threading.Condition()
        self._told = self._epoch
        self._closed = False
        self.error: RekindleError | None = None
        """Why the subscription ended, if not because somebody ended it."""
        self._thread: threading.Thread | None = None
        if callback is not None:
            self._thread = threading.Thread(
                target=self._run, args=(callback,), name=f"rekindle-{self.name}", daemon=True
            )
            self._thread.start()

    @property
    def epoch(self) -> int:
        """The last epoch that was handed on, or found to have changed nothing."""
        return self._told

    @property
    def is_closed(self) -> bool:
        return self._closed

    @property
    def _is_callback(self) -> bool:
        """Is this asked in the thread of the callback?"""
        return threading.current_thread() is self._thread

    # ---- batches ---------------------------------------------------------------------------

    def next(self, timeout: float | None = None) -> Batch | None:
        """The next batch; None when the subscription has ended, or after so many seconds."""
        if self._thread is not None and not self._is_callback:
            raise ClosedError(
                f"the changes of '{self.name}' go to the callback",
                hint="subscribe without one to iterate over them",
            )
        timeout = optional_seconds("a timeout", timeout)
        until = None if timeout is None else time.monotonic() + timeout
        while not self._closed:
            is_last = self._committed.is_closed
            with self._turn:
                batch = self._taken()
            if batch is not None:
                if self._thread is None:
                    self._tell(batch.epoch)
                return batch
            if is_last:
                self._end(None)
                return None
            left = 1.0 if until is None else until - time.monotonic()
            if left <= 0:
                return None
            self._committed.wait(self._epoch, min(left, 1.0))
        if self.error is not None:
            raise self.error
        return None

    def __iter__(self) -> Subscription:
        return self

    def __next__(self) -> Batch:
        batch = self.next()
        if batch is None:
            raise StopIteration
        return batch

    def _taken(self) -> Batch | None:
        """The next batch that is committed, if there is one; to be called in turn."""
        while not self._closed:
            if self._ready:
                return self._ready.popleft()
            if not self._read():
                self._tell(self._epoch)
                break
        return None

    def _read(self) -> bool:
        """Make ready what was committed since, some epochs at a time; was there anything?"""
        try:
            with self._committed.held() as reader:
                state = reader.state
                if state.epoch <= self._epoch:
                    return False
                entry = state.entry(self.name)
                if entry.created != self._created:
                    raise HistoryError(
                        f"'{self.name}' was made anew at epoch {entry.created}",
                        hint="subscribe again, after you have read its contents",
                    )
                until = min(state.epoch, self._epoch + AT_ONCE)
                self._ready += _by_epoch(reader, reader.changes(self.name, self._epoch, until))
                self._epoch = until
                return True
        except RekindleError as error:
            self._end(error)
            raise

    # ---- callbacks -------------------------------------------------------------------------

    def _run(self, callback: Callback) -> None:
        epoch = self._epoch
        try:
            for batch in self:
                epoch = batch.epoch
                callback(batch)
                self._tell(epoch)
        except RekindleError as error:
            self._fail(error if self.error is error else _failed(self.name, epoch, error), error)
        except BaseException as error:
            self._fail(_failed(self.name, epoch, error), error)

    def _fail(self, said: RekindleError, error: BaseException) -> None:
        self._end(said)
        _LOG.error("%s", said, exc_info=error)

    def wait(self, epoch: int | None = None, timeout: float | None = None) -> bool:
        """Wait until the callback was told of all epochs up to one, by default the newest.

        Gives whether it was, within so many seconds; raises the error that ended the subscription.
        """
        timeout = optional_seconds("a timeout", timeout)
        if self._is_callback:
            raise SubscriptionError(
                f"the callback of a subscription to '{self.name}' would wait for itself",
                hint="wait for it in another thread",
            )
        if epoch is not None:
            check_epoch(epoch)
        else:
            with self._committed.held() as reader:
                epoch = reader.state.epoch
        with self._handed:
            left = None if timeout is None else min(timeout, threading.TIMEOUT_MAX)
            done = self._handed.wait_for(lambda: self._told >= epoch or self._closed, left)
        if self.error is not None:
            raise self.error
        return done and self._told >= epoch

    def _tell(self, epoch: int) -> None:
        with self._handed:
            self._told = max(self._told, epoch)
            self._handed.notify_all()

    # ---- the end ---------------------------------------------------------------------------

    def _end(self, error: RekindleError | None) -> None:
        with self._handed:
            self._closed = True
            self.error = self.error or error
            self._handed.notify_all()

    def close(self) -> None:
        """End the subscription; a callback that runs comes to its end first."""
        self._end(None)
        self._committed.wait(-1, 0)
        if self._thread is not None and not self._is_callback:
            self._thread.join()

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        if self.error is not None and error is None:
            raise self.error


def _failed(name: str, epoch: int, error: BaseException) -> SubscriptionError:
    return SubscriptionError(
        f"the callback of a subscription to '{name}' failed at epoch {epoch}",
        detail=f"{type(error).__name__}: {error}",
        hint=f"what was committed stays; subscribe again with since={epoch - 1}",
    )


def _by_epoch(reader: ArrowReader, changes: pa.Table) -> Iterator[Batch]:
    """Changes parted by epochs, ascending: large ones and older ones may come in any order."""
    if not len(changes):
        return
    given = integers(changes.column(0).combine_chunks())
    order = np.argsort(given, kind="stable")
    epochs, starts = np.unique(given[order], return_index=True)
    times: dict[int, int] = {}
    for known, instants in reader.state.times.known(reader.store, int(epochs[0])):
        times.update(zip(known.tolist(), instants.tolist(), strict=True))
    for epoch, rows in zip(epochs.tolist(), np.split(order, starts[1:]), strict=True):
        at = times.get(epoch)
        when = None if at is None else _BEGINNING + dt.timedelta(microseconds=at)
        yield Batch(epoch, changes.take(pa.array(rows)), when)
