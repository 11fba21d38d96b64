"""Whose transaction is open: each thread, and each asyncio task, has its own.

A connection is shared by the threads and tasks of an application. A statement belongs to the
transaction that its own thread or task has open, and to one of its own where there is none;
transactions of others are never joined. The key is the thread's or task's object and not its
number, which the system gives to another thread once the first has ended; what a thread leaves
open when it ends is forgotten with it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from rekindle.runtime.transactions.transaction import Transaction


class Sessions:
    """The open transactions of one connection."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: WeakKeyDictionary[Any, Transaction] = WeakKeyDictionary()

    @property
    def transaction(self) -> Transaction | None:
        """The transaction that the thread or task has open."""
        with self._lock:
            found = self._open.get(_caller())
        return found if found is not None and found.is_open else None

    @property
    def open(self) -> list[Transaction]:
        """All open transactions."""
        with self._lock:
            return [each for each in self._open.values() if each.is_open]

    def begin(self, transaction: Transaction) -> None:
        """Let a transaction be the one of this thread or task."""
        with self._lock:
            self._open[_caller()] = transaction

    @contextmanager
    def within(self, transaction: Transaction) -> Iterator[None]:
        """Let the statements of a block belong to a transaction, whoever began it."""
        caller = _caller()
        with self._lock:
            before = self._open.get(caller)
            self._open[caller] = transaction
        try:
            yield
        finally:
            with self._lock:
                if before is None:
                    self._open.pop(caller, None)
                else:
                    self._open[caller] = before


def _caller() -> object:
    """The running asyncio task, or else the thread."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        task = None
    return threading.current_thread() if task is None else task
