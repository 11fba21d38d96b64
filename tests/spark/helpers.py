"""Small things that the tests of a whole database share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import pyarrow as pa
import pytest

from rekindle.circuit.operators import group_map
from rekindle.errors import RekindleError
from rekindle.kernels import regroup
from rekindle.runtime.database import Database
from tests.property.oracle import Bag, bag, collected, weighted

__all__ = ["bag", "collected", "contents", "refused", "rows", "weighted"]


def rows(db: Database, name: str, epoch: int | None = None) -> Bag:
    """What a table or view holds."""
    return collected(db.table(name, epoch=epoch))


def contents(db: Database) -> dict[str, Bag]:
    """What every table and view holds."""
    return {name: rows(db, name) for name in [*db.tables, *db.views]}


@contextmanager
def refused(db: Database, kind: type[RekindleError], *words: str) -> Iterator[None]:
    """The block raises `kind`, its text has the words, and the database stays as it was.

    What was committed is compared by its files, which are never rewritten, so that Spark reads
    nothing; only what an open transaction sees has to be read.
    """
    before = _standing(db)
    with pytest.raises(kind) as caught:
        yield
    for word in words:
        assert word in str(caught.value)
    assert _standing(db) == before


def _standing(db: Database) -> tuple[Any, ...]:
    """All that decides what the tables and views hold; the files of it are there."""
    engine, names = db._engine, [*db.tables, *db.views]
    state = engine.state
    gone = state.paths - set(engine.store.list("data"))
    assert not gone, f"files of the state that are not there: {gone}"
    pending = contents(db) if db._connection.sessions.transaction is not None else {}
    return db.epoch, names, dict(state.entries), dict(state.traces), dict(state.history), pending


def rows_of_groups_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows of touched groups every later step in the driver reads, node by node."""
    read: list[int] = []

    def counting(kernel: Callable[..., pa.Table]) -> Callable[..., pa.Table]:
        def counted(*given: Any) -> pa.Table:
            rows = kernel(*given)
            read.append(len(rows))
            return rows

        return counted

    for kernel in (regroup.touched_groups, regroup.deciding_rows):
        monkeypatch.setattr(group_map, kernel.__name__, counting(kernel))
    return read


def strays(db: Database) -> list[str]:
    """Data files that neither the state has nor readers of an older one, for whom they wait."""
    engine = db._engine
    known = engine.state.paths | {file.path for file in engine._garbage._waiting}
    return [path for path in engine.store.list("data") if path not in known]


def follow_groups(
    db: Database, type_: str, values: Sequence[str], views: Mapping[str, str], steps: Sequence[str]
) -> None:
    """Views of t (n, k, x), x of a type with some values and NULL, are right after each step."""
    db.sql(f"CREATE TABLE t (n INT, k INT, x {type_})")
    for name, query in views.items():
        db.create_view(name, query)
    rows = ", ".join(
        f"({n}, {1 + n % 2}, CAST({value} AS {type_}))" for n, value in enumerate([*values, "NULL"])
    )
    for statement in (f"INSERT INTO t VALUES {rows}", *steps):
        db.sql(statement)
        for view in views:
            assert collected(db.table(view)) == collected(db.recompute(view)), statement
