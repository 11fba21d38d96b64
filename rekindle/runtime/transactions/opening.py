"""Transactions of one connection: those that a user begins, and those of statements by themselves.

A statement by itself is tried beside others, and run while they wait when that has met with too
many conflicts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pyspark.sql import DataFrame

from rekindle.errors import ConflictError, StatementError
from rekindle.frontends.spark_sql.parameters import Arguments
from rekindle.runtime.arguments import callback, optional_seconds
from rekindle.runtime.connection import Connection
from rekindle.runtime.transactions.transaction import FrameEncoder, Transaction

RETRIES = 3
"""How often a statement by itself is tried beside others, before it is run while they wait."""


@dataclass(frozen=True, slots=True)
class Transactions:
    """Begins the transactions of one connection."""

    connection: Connection
    encode: FrameEncoder
    run: Callable[[str, Arguments | None], DataFrame]
    """Runs a statement in the transaction of the caller."""

    def begin(self, timeout: float | None) -> Transaction:
        """Begin a transaction of this thread or asyncio task."""
        self.connection.check_writable()
        timeout = optional_seconds("the timeout of a transaction", timeout)
        if timeout == 0:
            raise StatementError("the timeout of a transaction must be above 0")
        sessions = self.connection.sessions
        if sessions.transaction is not None:
            raise StatementError(
                "a transaction is already open in this thread or task",
                hint="end it before you begin another",
            )
        transaction = self._new(timeout)
        sessions.begin(transaction)
        return transaction

    def _new(self, timeout: float | None = None) -> Transaction:
        frame = self.connection.contents.of_rows
        return Transaction(self.connection.engine, self.encode, self._run_within, frame, timeout)

    def _run_within(
        self, transaction: Transaction, statement: str, args: Arguments | None
    ) -> DataFrame:
        with self.connection.sessions.within(transaction):
            return self.run(statement, args)

    def change(self, work: Callable[[Transaction], None]) -> int | None:
        """Let `work` change tables, in the open transaction or in one of its own."""
        self.connection.check_writable()
        callback("the work of a transaction", work)
        joined = self.connection.sessions.transaction
        if joined is not None:
            with joined.all_or_nothing():
                work(joined)
            return None
        for _ in range(RETRIES):
            try:
                return self._changed(work)
            except ConflictError:
                continue
        with self.connection.turn:
            return self._changed(work)

    def _changed(self, work: Callable[[Transaction], None]) -> int | None:
        with self._new() as transaction:
            with self.connection.sessions.within(transaction):
                work(transaction)
            transaction.commit()
        return transaction.epoch
