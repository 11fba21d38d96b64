"""Who commits for others is interrupted, at whatever instant: nobody is told a wrong thing."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pytest

from rekindle.calculus.schema import Field, Schema
from rekindle.circuit.nodes import Table
from rekindle.errors import EvaluationError, StorageError
from rekindle.runtime.commits import Commits, Request, Turn
from rekindle.runtime.stepping import TableChange

TABLE = Table("t", Schema((Field("id", "int", True),)), (), "a")


class Interrupt(BaseException):
    """Ctrl-C."""


class Store:
    """Epochs, in memory; each may be interrupted before or after it is there."""

    def __init__(self) -> None:
        self.epoch = 0
        self.applied: list[int] = []
        self.before: BaseException | None = None
        self.after: BaseException | None = None

    def apply(
        self, changes: Mapping[Table, TableChange], moved: object = (), watched: object = ()
    ) -> int:
        (change,) = changes.values()
        error, self.before = self.before, None
        if error is not None:
            raise error
        self.applied.append(change.estimate)
        self.epoch += 1
        error, self.after = self.after, None
        if error is not None:
            raise error
        return self.epoch


def request(number: int) -> Request:
    """One that is committed by itself, as those of DataFrames are."""
    frame: Any = object()
    return Request({TABLE: TableChange(frame=frame, estimate=number)})


def commits_of(store: Store) -> Commits:
    return Commits(Turn(), store.apply, lambda: store.epoch)


@pytest.mark.parametrize("error", [Interrupt(), StorageError("no answer")])
def test_an_error_after_the_record_is_there_is_a_commit(error: BaseException) -> None:
    store = Store()
    commits, asked = commits_of(store), request(1)
    store.after = error
    if isinstance(error, Interrupt):
        with pytest.raises(Interrupt):
            commits.commit(asked)
    else:
        assert commits.commit(asked) == 1
    assert asked.epoch == 1 and asked.error is None
    assert commits.commit(request(2)) == 2
    assert store.applied == [1, 2], "and is not applied again"


@pytest.mark.parametrize("error", [Interrupt(), StorageError("full"), EvaluationError("1/0")])
def test_an_error_before_it_is_none(error: BaseException) -> None:
    store = Store()
    commits, asked = commits_of(store), request(1)
    store.before = error
    with pytest.raises(type(error)):
        commits.commit(asked)
    assert asked.epoch is None
    assert commits.commit(request(2)) == 1 and store.applied == [2]


def test_those_who_waited_for_the_interrupted_are_committed_by_others() -> None:
    store = Store()
    commits = commits_of(store)
    told: dict[int, int] = {}

    def ask(number: int) -> None:
        told[number] = commits.commit(request(number))

    threads = [threading.Thread(target=ask, args=(number,)) for number in (2, 3)]

    def interrupted(
        changes: Mapping[Table, TableChange], moved: object = (), watched: object = ()
    ) -> int:
        commits._apply = store.apply
        for thread in threads:
            thread.start()
        while len(commits._waiting) < len(threads):
            time.sleep(0.001)
        raise Interrupt

    commits._apply = interrupted
    with pytest.raises(Interrupt):
        commits.commit(request(1))
    for thread in threads:
        thread.join(10)
    assert sorted(store.applied) == [2, 3] and sorted(told.values()) == [1, 2]
