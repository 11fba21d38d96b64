"""A group waits for those who are about to come, and for nobody who is not."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping

import pyarrow as pa
import pytest

from rekindle.calculus.schema import Field, Schema
from rekindle.circuit.nodes import Table
from rekindle.runtime.transactions import commits
from rekindle.runtime.transactions.commits import Commits, Request, Turn
from rekindle.runtime.transactions.stepping import TableChange
from rekindle.traces.arrays import KEY, WEIGHT

TABLE = Table("t", Schema((Field("id", "int", True),)), (), "a")


def request(key: int) -> Request:
    """A row with a key of its own."""
    rows = pa.table({KEY: pa.array([key], pa.int64()), WEIGHT: pa.array([1], pa.int64())})
    return Request({TABLE: TableChange(rows=rows)})


class Epochs:
    """How many rows each epoch had."""

    def __init__(self) -> None:
        self.rows: list[int] = []

    def apply(
        self, changes: Mapping[Table, TableChange], moved: object = (), watched: object = ()
    ) -> int:
        (change,) = changes.values()
        assert change.rows is not None
        self.rows.append(len(change.rows))
        return len(self.rows)

    def commits(self, expected: int, seconds: float) -> Commits:
        """Commits whose last group was of so many, and took so long."""
        made = Commits(Turn(), self.apply, lambda: len(self.rows))
        made._expected, made._seconds = expected, seconds
        return made


def test_a_group_waits_while_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "GATHERING_SECONDS", 60.0)
    epochs = Epochs()
    made = epochs.commits(expected=4, seconds=4.0)
    threads = [threading.Thread(target=made.commit, args=(request(key),)) for key in range(4)]
    for thread in threads:
        thread.start()
        time.sleep(0.8)  # The last comes later than half of the last step after the first.
    for thread in threads:
        thread.join(50)
    assert epochs.rows == [4]


def test_a_group_goes_without_those_who_do_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "GATHERING_SECONDS", 60.0)
    epochs = Epochs()
    made = epochs.commits(expected=4, seconds=0.1)
    started = time.monotonic()
    assert made.commit(request(0)) == 1
    assert 0.01 < time.monotonic() - started < 30
    assert made._expected == 1, "the next one is not waited for"


def test_one_alone_waits_for_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(commits, "GATHERING_SECONDS", 60.0)
    epochs = Epochs()
    made = epochs.commits(expected=1, seconds=60.0)
    started = time.monotonic()
    assert [made.commit(request(key)) for key in range(3)] == [1, 2, 3]
    assert time.monotonic() - started < 25
