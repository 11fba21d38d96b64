"""Who commits for others is interrupted, at whatever instant: nobody is told a wrong thing."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest

from rekindle.calculus.schema import Field, Schema
from rekindle.circuit.nodes import Table
from rekindle.errors import EvaluationError, StorageError
from rekindle.runtime.transactions.commits import Commits, Request, Turn
from rekindle.runtime.transactions.stepping import TableChange
from rekindle.traces.arrays import KEY, WEIGHT

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
        self.fails_before = False

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


def test_an_epoch_of_what_goes_before_is_not_that_of_the_request() -> None:
    for error in (Interrupt(), StorageError("full"), EvaluationError("1/0")):
        for fails_before in (True, False):
            store = Store()

            def prepare(store: Store = store, error: BaseException = error) -> None:
                store.epoch += 1
                if store.fails_before:
                    raise error

            commits = Commits(Turn(), store.apply, lambda store=store: store.epoch, prepare)
            store.fails_before, store.before = fails_before, None if fails_before else error
            asked = request(1)
            with pytest.raises(type(error)):
                commits.commit(asked)
            assert asked.epoch is None and store.applied == []
            store.fails_before = False
            assert commits.commit(request(2)) == store.epoch == 3


def test_an_interrupt_between_two_parts_of_a_group_tells_nobody_of_the_others_epoch() -> None:
    """The rows of one are wrong, so its group is committed in parts, one after the other."""
    store = Store()
    commits = commits_of(store)
    first, second = (
        Request({TABLE: TableChange(rows=pa.table({KEY: [key], WEIGHT: [1]}))}) for key in (1, 2)
    )
    store.before = EvaluationError("somewhere in the group")
    tell = commits._tell

    def interrupted(*_: Any) -> None:
        commits._tell = tell  # type: ignore[method-assign]
        raise Interrupt

    commits._tell = interrupted  # type: ignore[method-assign]
    with commits._turn, pytest.raises(Interrupt):
        commits._run([first, second])
    assert (first.epoch, second.epoch) == (1, None) and len(store.applied) == 1
    assert commits._waiting == [second], "whoever leads next commits it"


def test_who_is_interrupted_before_it_leads_leaves_the_lead_to_others() -> None:
    store = Store()
    commits = commits_of(store)
    lead = commits._lead

    def interrupted(_: Request) -> None:
        commits._lead = lead  # type: ignore[method-assign]
        raise Interrupt

    commits._lead = interrupted  # type: ignore[method-assign]
    with pytest.raises(Interrupt):
        commits.commit(request(1))
    told: list[int] = []
    other = threading.Thread(target=lambda: told.append(commits.commit(request(2))), daemon=True)
    other.start()
    other.join(10)
    assert told == [1] and store.applied == [2] and commits._waiting == []


def test_who_waits_past_its_time_in_a_group_that_is_committed_does_not_spin() -> None:
    store = Store()
    commits = commits_of(store)
    begun, end = threading.Event(), threading.Event()
    waits: list[float | None] = []
    wait = commits._settled.wait

    def counted(timeout: float | None = None) -> bool:
        waits.append(timeout)
        return wait(timeout)

    commits._settled.wait = counted  # type: ignore[method-assign]

    def slow(*given: Any) -> int:
        begun.set()
        end.wait(10)
        return store.apply(*given)

    commits._apply = slow
    late = request(2)
    late.deadline = time.monotonic() + 0.05
    leader = threading.Thread(target=lambda: commits.commit(request(1)), daemon=True)
    leader.start()
    begun.wait(10)
    follower = threading.Thread(target=lambda: commits.commit(late), daemon=True)
    follower.start()
    while late not in commits._waiting:
        time.sleep(0.001)
    commits._waiting.remove(late)  # The leader has taken it.
    time.sleep(0.3)
    assert len(waits) < 10
    late.epoch = 7
    with commits._guard:
        commits._settled.notify_all()
    follower.join(10)
    end.set()
    leader.join(10)
    assert not follower.is_alive() and not leader.is_alive()
