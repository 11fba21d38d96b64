"""A database that is only read, in a process without Spark and without Java.

    shop = rekindle.read("warehouse")
    shop.arrow("spend")

It follows the commit log and the files, as a reading connection does, and takes no lock. Nothing
that is stored is run: definitions, plans and functions are not even loaded. What it has read of the
log stays as it is until `refresh`, so several reads are of one epoch.
"""

from __future__ import annotations

import datetime as dt
from types import TracebackType

import pyarrow as pa

from rekindle.errors import DefinitionError, HistoryError
from rekindle.redaction import without_secrets
from rekindle.runtime.epochs.instants import instant_in_utc
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.epochs.state import TableEntry, ViewEntry
from rekindle.runtime.places import database_place
from rekindle.runtime.reading.arrow import ArrowReader, Where
from rekindle.runtime.reading.subscriptions import Callback, Following, Subscription
from rekindle.traces.faults import named_by_path
from rekindle.traces.store import Store


class Reader:
    """The tables and views of a database at one epoch. Made by `rekindle.read`."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._store = Store(database_place(path))
        self._log = CommitLog(self._store)
        if not self._log.exists():
            raise DefinitionError(
                f"there is no database at '{path}'",
                hint="create it with rekindle.connect(path)",
            )
        self._state = self._log.load()

    @property
    def epoch(self) -> int:
        """The epoch that is read, unless another is named."""
        return self._state.epoch

    @property
    def tables(self) -> list[str]:
        """Names of the tables."""
        return [e.name for e in self._state.shown if isinstance(e, TableEntry)]

    @property
    def views(self) -> list[str]:
        """Names of the views."""
        return [e.name for e in self._state.shown if isinstance(e, ViewEntry)]

    def refresh(self) -> int:
        """Read the last committed epoch from now on; gives its number."""
        self._state = self._log.follow(self._state)
        return self._state.epoch

    def arrow(
        self,
        name: str,
        epoch: int | None = None,
        *,
        timestamp: dt.datetime | dt.date | str | None = None,
        where: Where | None = None,
    ) -> pa.Table:
        """The contents of a table or view; a time without a zone is in UTC.

        `where` looks rows up by the values of columns, such as `{"id": 77}` or `{"id": [77, 78]}`.
        """
        if timestamp is not None:
            if epoch is not None:
                raise HistoryError(
                    "contents are as of an epoch or as of a time", hint="leave one of them out"
                )
            instant = instant_in_utc(timestamp)
            epoch = self._state.epoch_at(instant, str(timestamp), self._store)
        return self._reader.table(name, epoch, where)

    def changes_arrow(self, name: str, since: int = 0) -> pa.Table:
        """The changes of a table or view after an epoch: `_epoch`, `_weight` and its columns."""
        return self._reader.changes(name, since)

    def subscribe(
        self, name: str, callback: Callback | None = None, since: int | None = None
    ) -> Subscription:
        """The changes of a table or view as others commit them; see `db.subscribe`."""
        following = Following(self._store, self._state, lambda: False)
        return Subscription(following, name, since, callback)

    @property
    def _reader(self) -> ArrowReader:
        return ArrowReader(self._state, self._store)

    def __repr__(self) -> str:
        return f"<Reader of '{without_secrets(self.path)}', epoch {self.epoch}>"

    def __enter__(self) -> Reader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Nothing is held."""


@named_by_path
def read(path: str) -> Reader:
    """Open a database to read it as Arrow tables, without Spark and without Java."""
    return Reader(path)
