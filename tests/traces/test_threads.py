"""Work that is done by several threads."""

from __future__ import annotations

import threading

import pytest

from rekindle.traces.threads import aside, each


@pytest.mark.parametrize("together", [False, True])
def test_results_come_in_the_order_of_the_items(together: bool) -> None:
    assert each(lambda x: x * x, range(50), together=together) == [x * x for x in range(50)]
    assert each(lambda x: x, [], together=together) == []


def test_an_error_is_raised_when_nothing_runs_any_more() -> None:
    running: set[int] = set()
    begun = threading.Event()

    def work(item: int) -> None:
        if item == 0:
            begun.wait(5)
            raise KeyError(item)
        running.add(item)
        begun.set()
        threading.Event().wait(0.05)
        running.discard(item)

    with pytest.raises(KeyError):
        each(work, [1, 0, 2, 3, 4], together=True)
    assert not running


def test_work_may_have_parts() -> None:
    def inner(number: int) -> list[int]:
        return each(lambda x: x + number, range(9), together=True)

    found = each(inner, range(20), together=True)
    assert found == [[x + number for x in range(9)] for number in range(20)]


@pytest.mark.parametrize("together", [False, True])
def test_what_is_done_meanwhile_counts_only_if_the_task_succeeds(together: bool) -> None:
    done: list[str] = []

    def task() -> None:
        done.append("task")

    with aside(task, together=together) as finished:
        finished()
        assert done == ["task"]

    def failing() -> None:
        raise ValueError("the task")

    with pytest.raises(ValueError, match="the task"), aside(failing, together=together):
        done.append("meanwhile")
        raise KeyError("its consequence")
    with pytest.raises(ValueError, match="the task"), aside(failing, together=together):
        done.append("meanwhile")
    with pytest.raises(KeyError), aside(task, together=together):
        raise KeyError("alone")
    assert done.count("meanwhile") == (2 if together else 0)
