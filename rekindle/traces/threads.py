"""Several threads for lookups, copies and sorts of rows, which do without the interpreter."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeVar

MANY_ROWS = 5_000
"""Work on fewer rows is not worth a second thread."""
_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
_POOL = ThreadPoolExecutor(min(4, os.cpu_count() or 1), "rekindle-each")
_ASIDE = ThreadPoolExecutor(4, "rekindle-aside")
_here = threading.local()


def each(
    function: Callable[[_Item], _Result], items: Iterable[_Item], *, together: bool
) -> list[_Result]:
    """What a function gives for each of the items; `together`, by several threads, if there are.

    All of it has ended when an error is raised, the first in the order of the items. Work that is
    itself a part of such work is done by its own thread.
    """
    if not together or getattr(_here, "is_worker", False):
        return [function(item) for item in items]

    def work(item: _Item) -> _Result:
        _here.is_worker = True
        return function(item)

    futures = [_POOL.submit(work, item) for item in items]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


@contextmanager
def aside(task: Callable[[], None], *, together: bool) -> Iterator[Callable[[], None]]:
    """Does a task while the caller does something that counts only if the task succeeds.

    Gives what waits for the task and raises what it has raised. An error of the task is raised
    before one of the caller. Not `together`, the task is done first.
    """
    done: Future[None] = Future()
    if together:
        done = _ASIDE.submit(task)
    else:
        task()
        done.set_result(None)
    try:
        yield done.result
    except BaseException:
        wait([done])
        done.result()
        raise
    done.result()
