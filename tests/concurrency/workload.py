"""Random transactions on registers, by as many threads as wanted, and what each was told."""

from __future__ import annotations

import itertools
import math
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from rekindle.errors import ConflictError, TransactionTimeoutError
from rekindle.runtime.database import Database
from tests.concurrency.serial import Key, Observed, Outcome, Writers

KEYS = [f"r{i}" for i in range(6)]
TABLES = [
    "CREATE TABLE registers (k STRING, writers STRING, PRIMARY KEY (k))",
    "CREATE TABLE log (id BIGINT, k STRING)",
]
VIEWS = {
    "written": "SELECT k, count(*) AS n, sum(id) AS ids FROM log GROUP BY k",
    "lengths": "SELECT r.k, length(r.writers) AS size, w.n FROM registers r "
    "LEFT JOIN written w ON r.k = w.k",
}


class RolledBackError(Exception):
    """Somebody changes their mind."""


def build(db: Database) -> None:
    for statement in TABLES:
        db.sql(statement)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    with db.transaction() as tx:
        tx.insert("registers", [(key, "") for key in KEYS])


def writers(text: str) -> Writers:
    """
    >>> writers(",4,7")
    (4, 7)
    """
    return tuple(int(part) for part in text.split(",")[1:])


def registers(frame: DataFrame) -> dict[Key, Writers]:
    return {row.k: writers(row.writers) for row in frame.collect()}


@dataclass(slots=True)
class Diary:
    """What everybody was told; `note` is called by many threads."""

    first: int = 1
    observed: list[Observed] = field(default_factory=list)
    failures: list[BaseException] = field(default_factory=list)
    on_intent: Callable[[Observed], None] = lambda intent: None
    """Called before a transaction is committed, of which nobody knows yet what will become."""
    on_outcome: Callable[[Observed], None] = lambda observed: None
    _ids: itertools.count[int] = field(init=False)

    def __post_init__(self) -> None:
        self._ids = itertools.count(self.first)

    def identify(self) -> int:
        return next(self._ids)

    def note(self, observed: Observed) -> None:
        self.observed.append(observed)
        self.on_outcome(observed)


@dataclass(frozen=True, slots=True)
class Client:
    """Somebody who runs transactions, one after the other."""

    db: Database
    diary: Diary
    random: random.Random

    def run(self, count: int) -> None:
        for _ in range(count):
            kind = self.random.choices(
                [self.read, self.append, self.update, self.fail, self.add], [2, 4, 1, 1, 4]
            )[0]
            try:
                kind()
            except Exception as error:
                self.diary.failures.append(error)

    def _some(self, most: int) -> list[str]:
        return self.random.sample(KEYS, self.random.randint(1, most))

    def _note(
        self,
        id_: int,
        begun: float,
        outcome: Outcome,
        epoch: int | None = None,
        reads: dict[Key, Writers] | None = None,
        appends: list[str] | None = None,
    ) -> None:
        observed = Observed(
            id_, begun, time.monotonic(), outcome, epoch, reads or {}, frozenset(appends or ())
        )
        self.diary.note(observed)

    def _intend(
        self,
        id_: int,
        begun: float,
        appends: list[str] | None = None,
        reads: dict[Key, Writers] | None = None,
    ) -> None:
        intent = Observed(
            id_, begun, math.inf, Outcome.UNKNOWN, None, reads or {}, frozenset(appends or ())
        )
        self.diary.on_intent(intent)

    def read(self) -> None:
        """Everything, now or as of the epoch that is the last."""
        id_, begun = self.diary.identify(), time.monotonic()
        if self.random.random() < 0.5:
            found = registers(self.db.table("registers"))
        else:
            found = registers(self.db.table("registers", epoch=self.db.epoch))
        self._note(id_, begun, Outcome.COMMITTED, None, found)

    def append(self) -> None:
        """Read some registers and append to them, and perhaps read others."""
        id_, begun = self.diary.identify(), time.monotonic()
        keys, timeout = self._some(2), self.random.choice([None, 60.0])
        seen: dict[Key, Writers] = {}
        epoch = None
        try:
            with self.db.transaction(timeout=timeout) as tx:
                seen = registers(self.db.table("registers"))
                tx.upsert("registers", [(k, _text((*seen[k], id_))) for k in keys])
                tx.insert("log", [(id_, k) for k in keys])
                if self.random.random() < 0.3:
                    again = registers(self.db.sql("SELECT * FROM registers"))
                    assert again == seen | {k: (*seen[k], id_) for k in keys}, "its own changes"
                self._intend(id_, begun, keys, seen)
            epoch = tx.epoch
            assert epoch is not None
            self._note(id_, begun, Outcome.COMMITTED, epoch, seen, keys)
        except (ConflictError, TransactionTimeoutError):
            self._note(id_, begun, Outcome.ABORTED, None, seen, keys)

    def update(self) -> None:
        """One statement by itself, which never meets with a conflict."""
        id_, begun, key = self.diary.identify(), time.monotonic(), self.random.choice(KEYS)
        statement = f"UPDATE registers SET writers = concat(writers, ',{id_}') WHERE k = '{key}'"
        self._intend(id_, begun, [key])
        epoch = self.db.sql(statement).collect()[0].epoch
        self._note(id_, begun, Outcome.COMMITTED, epoch, None, [key])

    def add(self) -> None:
        """Rows without a key, many at a time, so that groups form."""
        id_ = self.diary.identify()
        for _ in range(3):
            begun = time.monotonic()
            self._intend(-id_, begun)
            with self.db.transaction() as tx:
                tx.insert("log", [(id_, "none")])
            self._note(-id_, begun, Outcome.COMMITTED, tx.epoch)

    def fail(self) -> None:
        """Write, and take it back."""
        id_, begun, keys = self.diary.identify(), time.monotonic(), self._some(3)
        try:
            with self.db.transaction() as tx:
                tx.upsert("registers", [(k, f",{id_}") for k in keys])
                tx.insert("log", [(id_, k) for k in keys])
                raise RolledBackError
        except RolledBackError:
            self._note(id_, begun, Outcome.ABORTED, None, None, keys)


def _text(ids: Writers) -> str:
    return "".join(f",{each}" for each in ids)


def together(jobs: list[Callable[[], None]]) -> None:
    """Run jobs at the same time, each in a thread of its own."""
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def check_log(db: Database, diary: Diary) -> None:
    """The change feed has, at every epoch, what those who were told of it had written."""
    expected: dict[int, Counter[tuple[int, str]]] = defaultdict(Counter)
    for each in diary.observed:
        if each.outcome is Outcome.COMMITTED and each.epoch is not None:
            if each.id < 0:
                expected[each.epoch][-each.id, "none"] += 1
            elif each.reads:  # A statement by itself writes no log.
                expected[each.epoch].update((each.id, str(key)) for key in each.appends)
    found: dict[int, Counter[tuple[int, str]]] = defaultdict(Counter)
    for row in db.changes("log").collect():
        found[row["_epoch"]][row.id, row.k] += row["_weight"]
    assert {e: c for e, c in found.items() if c} == {e: c for e, c in expected.items() if c}
