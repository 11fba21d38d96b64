"""One writer at a time, on any store: a lease that is renewed, and taken over when it is not.

The lease keeps writers out of each other's way; it is not what keeps the database whole. That is
the commit log, where an epoch's record can be created once (`epochs/log.py`). So nothing here needs
clocks that agree: whoever waits judges by its own clock how long it has seen the same renewal, and
if it judges wrongly, because the holder was asleep, the holder finds the epoch taken and is fenced.

    holder   create lease/7 ── renew ── renew ── (asleep) ─────────────── commit: FencedError
    waiter              look ···· look ···· same renewal for a whole term: create lease/8
                                            load the log, put a record at its end, go on

A record at the end is needed only where something may be under way. A lease that was ended says
whether there is, and on a local path the lock of `host_lock.py` shows that a process is dead. Who
takes over and ends, or dies, before its record is there leaves the need for one to the next.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from rekindle.errors import FencedError, LockedError
from rekindle.runtime.writers import lease_file
from rekindle.runtime.writers.host_lock import HostLock
from rekindle.runtime.writers.lease_file import Holding, name_of
from rekindle.traces.conditional import UncertainError
from rekindle.traces.store import Store

TERM = 30.0
"""For so many seconds without a renewal a lease is respected."""
RENEWALS = 4
"""A holder renews so many times in a term."""
LOOK_EVERY = 0.1
LOOK_EVERY_REMOTE = 0.5


class Lease:
    """The right to write to a database, held until `release` or until another takes it over."""

    _descriptor = -1

    def __init__(
        self, store: Store, wait: float = 0.0, last_fence: Callable[[], int] = lambda: 0
    ) -> None:
        """Take the lease, or wait so many seconds for it; `last_fence` is that of the log."""
        self._store = store
        self._last_fence = last_fence
        self._local = store.is_local
        self._lock = HostLock(store.root) if self._local else None
        self._mutex = threading.Lock()
        self._stop = threading.Event()
        self._noted = threading.Event()
        self._lost = ""
        self._ended = False
        self.unsettled = False
        """Is the outcome of a commit unknown? Then it is left to the next writer to shut it out."""
        self.contested = False
        """May the writer before this one still commit something?"""
        try:
            self._holding = self._acquired(time.monotonic() + wait)
            self._head = self._holding.head
            self._pending = self.contested
            if self._local:
                place = store.locate(name_of(self.number))
                self._descriptor = os.open(place, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        except BaseException:
            self._let_go()
            raise
        self._renewed = time.monotonic()
        weakref.finalize(self, self._stop.set)
        renewer = threading.Thread(
            target=_keep_renewing,
            args=(weakref.ref(self), self._stop, self._noted, TERM / RENEWALS),
            name="rekindle-lease",
            daemon=True,
        )
        renewer.start()

    @property
    def number(self) -> int:
        """The fencing number: greater than that of every writer before."""
        return self._holding.number

    @property
    def token(self) -> str:
        """What tells this writer from any other."""
        return self._holding.token

    # ---- taking it -------------------------------------------------------------------------

    def _acquired(self, deadline: float) -> Holding:
        host, since = socket.gethostname()[: lease_file.LONGEST_HOST], time.time()
        token = secrets.token_hex(4)
        seen: tuple[int, int] | None = None
        unchanged = time.monotonic()
        while True:
            locked = self._lock is None or self._lock.take()
            latest, holding = self._latest()
            same = (latest, holding.renewals if holding else -1)
            if same != seen:
                seen, unchanged = same, time.monotonic()
            term = holding.term if holding else TERM
            ended = latest == 0 or (holding is not None and holding.ended)
            dead = self._local and holding is not None and holding.host == host
            if locked and (ended or dead or time.monotonic() - unchanged >= term):
                contested = not (ended or dead) or (holding is not None and holding.pending)
                mine = Holding(
                    number=(latest or self._last_fence()) + 1,
                    token=token,
                    host=host,
                    pid=os.getpid(),
                    since=since,
                    renewed=time.time(),
                    term=TERM,
                    head=lease_file.recorded_head(self._store),
                    pending=contested,
                )
                if self._created(mine):
                    self.contested = contested
                    older = [n for n in lease_file.numbers(self._store) if n < mine.number]
                    self._store.delete(map(name_of, older))
                    return mine
                continue
            if time.monotonic() >= deadline:
                raise self._refusal(holding)
            pause = LOOK_EVERY if self._local else LOOK_EVERY_REMOTE
            time.sleep(min(pause, max(0.0, deadline - time.monotonic())))

    def _latest(self) -> tuple[int, Holding | None]:
        numbers = lease_file.numbers(self._store)
        return (numbers[-1], lease_file.read(self._store, numbers[-1])) if numbers else (0, None)

    def _created(self, mine: Holding) -> bool:
        """Was the lease of this number created by us?"""
        try:
            self._store.create(name_of(mine.number), mine.to_bytes())
        except (FileExistsError, UncertainError):
            found = lease_file.read(self._store, mine.number)
            return found is not None and found.token == mine.token
        return True

    def _refusal(self, holding: Holding | None) -> LockedError:
        held = "held by another process" if holding is None else holding.describe()
        return LockedError(
            f"the database '{self._store.label}' is being written to by another connection",
            detail=held,
            hint="close that connection, wait for it with rekindle.connect(path, wait=60), or open "
            "this one with rekindle.connect(path, mode='read')",
        )

    # ---- holding it ------------------------------------------------------------------------

    def has_shut_out(self) -> None:
        """Nothing of the writers before this one can be committed any more."""
        self._pending = False

    def note(self, epoch: int) -> None:
        """Remember that an epoch was committed; the head of the log is recorded apart.

        On a local path this is one small write without a sync, elsewhere the renewing thread does
        it. It may lag, and a failure is made up for by the next one.
        """
        self._head = epoch
        if self._local:
            with suppress(OSError):
                self._write()
        else:
            self._noted.set()

    def renew(self) -> None:
        """Count up, and look whether another has taken over."""
        if self._lost:
            return
        with suppress(OSError):
            self._write()
            self._renewed = time.monotonic()
        with suppress(OSError):
            self._look()

    def check(self) -> None:
        """Fails if another writer has taken over, as far as can be known without asking.

        A holder that has not renewed for long asks first. That it may still be mistaken is what the
        commit log is for.
        """
        if not self._lost and (self._local or time.monotonic() - self._renewed > TERM / 2):
            self._look()
        if self._lost:
            raise self.fenced()

    def check_now(self) -> None:
        """Fails if another writer had taken over by now."""
        if not self._lost:
            self._look()
        if self._lost:
            raise self.fenced()

    def lose(self, reason: str) -> None:
        """Another writer has been found at work: this one may write nothing more."""
        self._lost = self._lost or reason

    def fenced(self) -> FencedError:
        return FencedError(
            f"another writer has taken over the database '{self._store.label}'",
            detail=self._lost,
            hint="nothing of this transaction was committed; close this connection, call "
            "rekindle.connect again and repeat it",
        )

    def _look(self) -> None:
        numbers = lease_file.numbers(self._store)
        if numbers and numbers[-1] > self.number:
            holding = lease_file.read(self._store, numbers[-1])
            self.lose(holding.describe() if holding else f"lease {numbers[-1]} is another's")

    def _write(self) -> None:
        with self._mutex:
            if self._stop.is_set():
                return
            self._holding = replace(
                self._holding,
                renewals=self._holding.renewals + 1,
                renewed=time.time(),
                head=self._head,
                ended=self._ended,
                pending=self._pending,
            )
            if self._local:
                os.pwrite(self._descriptor, self._holding.to_bytes(), 0)
            else:
                self._store.overwrite(name_of(self.number), self._holding.to_bytes())

    # ---- the end ---------------------------------------------------------------------------

    def release(self) -> None:
        """Let another writer in at once."""
        if not self._stop.is_set() and not self._lost:
            self._ended = True
            self._pending = self._pending or self.unsettled
            with suppress(OSError):
                self._write()
        self._let_go()

    def _let_go(self) -> None:
        self.lose("the connection is closed")
        self._stop.set()
        self._noted.set()
        with self._mutex:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1
        if self._lock is not None:
            self._lock.release()

    def __del__(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)


def _keep_renewing(
    lease: weakref.ref[Lease], stop: threading.Event, noted: threading.Event, every: float
) -> None:
    """Renew until the lease ends; a connection that nobody holds any more ends with it."""
    while True:
        noted.wait(every)
        noted.clear()
        held = lease()
        if stop.is_set() or held is None:
            return
        held.renew()
        del held
