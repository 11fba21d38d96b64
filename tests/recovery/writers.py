"""Writers without Spark: a lease and a log, which are all that decides between two of them."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import State
from rekindle.runtime.writers import lease as lease_module
from rekindle.runtime.writers.lease import Lease
from rekindle.traces.store import Store

REPOSITORY = Path(__file__).parents[2]
TERM = 0.6
"""A term for tests: long enough for renewals, short enough to be waited for."""


@dataclass(slots=True)
class Writer:
    """One that has opened a database, and commits empty epochs."""

    lease: Lease
    log: CommitLog
    state: State

    @classmethod
    def open(cls, uri: str, wait: float = 0.0) -> Writer:
        store = Store(uri)
        lease = Lease(store, wait, CommitLog(store).last_fence)
        try:
            log = CommitLog(replace(store, writer=lease.token), lease)
            state = log.load() if log.exists() else log.create()
            return cls(lease, log, log.take_over(state) if lease.contested else state)
        except BaseException:
            lease.release()
            raise

    def commit(self) -> int:
        after = replace(self.state, epoch=self.state.epoch + 1)
        self.log.commit(self.state, after)
        self.state = after
        self.log.maintain(after)
        return after.epoch

    def close(self) -> None:
        self.lease.release()


def fall_asleep(lease: Lease) -> None:
    """The process of a writer stands still: it renews nothing and sees nothing."""
    sleeping: Any = lease
    sleeping.renew = lambda: None
    sleeping.check = lambda: None
    if lease._lock is not None:
        # What a lock of another host looks like from here: none at all.
        lease._lock.release()


def from_elsewhere(patch: pytest.MonkeyPatch) -> None:
    """Writers from now on are on another host."""
    patch.setattr(lease_module.socket, "gethostname", lambda: "elsewhere")


HOLD = """
import sys
from rekindle.runtime.writers import lease
lease.TERM = float(sys.argv[2])
from tests.recovery.writers import Writer
writer = Writer.open(sys.argv[1])
print(writer.commit(), flush=True)
sys.stdin.read()
"""


def hold_elsewhere(uri: str, term: float = TERM) -> subprocess.Popen[str]:
    """Another process that has opened the database and committed an epoch."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, uri, str(term)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline().strip().isdecimal()
    return process
