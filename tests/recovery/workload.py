"""A seeded sequence of transactions and, in plain Python, what the database must then hold.

Step number k leads from epoch `SETUP + k - 1` to epoch `SETUP + k`, and depends on nothing but the
seed and k. So whoever finds a database at some epoch, after whatever accident, knows every row of
every table and view that it must have.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from rekindle.runtime.database import Database
from rekindle.runtime.epochs import garbage, log, rolling
from rekindle.traces import trace

Row = tuple[Any, ...]
Bag = Counter[Row]

TABLES = {
    "orders": "CREATE TABLE orders (id BIGINT, cust BIGINT, total BIGINT, PRIMARY KEY (id))",
    "events": "CREATE TABLE events (cust BIGINT, tag STRING, amount DOUBLE)",
}
VIEWS = {
    "spend": "SELECT o.cust, count(*) AS n, sum(o.total) AS total, sum(e.amount) AS amount "
    "FROM orders o JOIN events e ON o.cust = e.cust GROUP BY o.cust",
    "tags": "SELECT DISTINCT cust, tag FROM events",
    "busy": "SELECT n % 3 AS slot, count(*) AS customers, sum(total) AS total "
    "FROM spend GROUP BY n % 3",
}
PASSING = "popular"
PASSING_VIEW = "SELECT tag, count(*) AS n FROM tags GROUP BY tag"
SETUP = len(TABLES) + len(VIEWS)
"""The epoch of the empty database."""

PERIOD = 12
"""Step kinds repeat after so many steps; see `_kind`."""


@dataclass(frozen=True, slots=True)
class Edit:
    """One call of a transaction."""

    call: str
    table: str
    rows: tuple[Row, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """What leads to `epoch`: edits, or the creation or the end of the passing view."""

    epoch: int
    kind: str
    edits: tuple[Edit, ...] = ()


@dataclass(slots=True)
class Model:
    """The contents of the tables at an epoch; those of the views follow."""

    orders: dict[int, Row] = field(default_factory=dict)
    events: Bag = field(default_factory=Counter)
    passing: bool = False

    def copy(self) -> Model:
        return Model(dict(self.orders), Counter(self.events), self.passing)

    def contents(self) -> dict[str, Bag]:
        """Every table and view as a bag."""
        spend = self._spend()
        pairs = {(cust, tag) for cust, tag, _ in self.events}
        found = {
            "orders": Counter(self.orders.values()),
            "events": +self.events,
            "spend": Counter(spend),
            "tags": Counter(pairs),
            "busy": Counter(_busy(spend)),
        }
        if self.passing:
            counted = Counter(tag for _, tag in pairs)
            found[PASSING] = Counter(counted.items())
        return found

    def _spend(self) -> list[Row]:
        joined: dict[int, list[tuple[int | None, float | None]]] = {}
        by_customer: dict[int, list[tuple[float | None, int]]] = {}
        for (cust, _, amount), n in self.events.items():
            if cust is not None:
                by_customer.setdefault(cust, []).append((amount, n))
        for _, cust, total in self.orders.values():
            for amount, n in by_customer.get(cust, ()) if cust is not None else ():
                joined.setdefault(cust, []).extend([(total, amount)] * n)
        return [
            (cust, len(rows), _sum(t for t, _ in rows), _sum(a for _, a in rows))
            for cust, rows in joined.items()
        ]

    def apply(self, step: Step) -> None:
        if step.kind in ("create", "drop"):
            self.passing = step.kind == "create"
        for edit in step.edits:
            for row in edit.rows:
                self._apply(edit, row)

    def _apply(self, edit: Edit, row: Row) -> None:
        match edit.table, edit.call:
            case "orders", "delete":
                assert self.orders.pop(row[0]) == row
            case "orders", "insert":
                assert row[0] not in self.orders
                self.orders[row[0]] = row
            case "orders", "upsert":
                self.orders[row[0]] = row
            case "events", "insert":
                self.events[row] += 1
            case "events", "delete":
                assert self.events[row] > 0
                self.events[row] -= 1
                self.events = +self.events if not self.events[row] else self.events
            case _:
                raise AssertionError(edit)


def _sum(values: Iterable[Any]) -> Any:
    """Spark's sum: NULLs are left out, and of nothing it is NULL."""
    present = [value for value in values if value is not None]
    if not present:
        return None
    return math.fsum(present) if isinstance(present[0], float) else sum(present)


def _busy(spend: list[Row]) -> list[Row]:
    slots: dict[int, list[Any]] = {}
    for _, n, total, _ in spend:
        slots.setdefault(n % 3, []).append(total)
    return [(slot, len(totals), _sum(totals)) for slot, totals in slots.items()]


class Timeline:
    """The steps of a seed and the model after each."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._models = [Model()]
        self._steps: list[Step] = []
        self._contents: dict[int, dict[str, Bag]] = {}

    def at(self, epoch: int) -> Model:
        """The model after `epoch`."""
        self._reach(epoch)
        return self._models[epoch - SETUP]

    def contents(self, epoch: int) -> dict[str, Bag]:
        """Every table and view after `epoch`."""
        if epoch not in self._contents:
            self._contents[epoch] = self.at(epoch).contents()
        return self._contents[epoch]

    def change(self, name: str, epoch: int) -> Bag:
        """By what a table or view changes at `epoch`, with negative counts for what goes."""
        change: Bag = Counter(self.contents(epoch)[name])
        change.subtract(self.contents(epoch - 1).get(name, Counter()) if epoch > SETUP else {})
        return Counter({row: count for row, count in change.items() if count})

    def step_to(self, epoch: int) -> Step:
        """The step that makes `epoch`."""
        self._reach(epoch)
        return self._steps[epoch - SETUP - 1]

    def _reach(self, epoch: int) -> None:
        while len(self._models) <= epoch - SETUP:
            before = self._models[-1]
            number = len(self._models)
            step = _draw(random.Random(f"{self.seed}/{number}"), SETUP + number, before)
            after = before.copy()
            after.apply(step)
            self._steps.append(step)
            self._models.append(after)


def _kind(number: int) -> str:
    """Mostly small transactions; in every period one on Spark, and a view that comes and goes."""
    return {3: "create", 5: "spark", 8: "drop", 10: "large"}.get(number % PERIOD, "small")


def _draw(random_: random.Random, epoch: int, before: Model) -> Step:
    number = epoch - SETUP
    kind = _kind(number)
    if kind in ("create", "drop"):
        return Step(epoch, kind)
    size = {"small": 6, "spark": 60, "large": 150}[kind]
    if number == 1:
        size = 150
    edits = [
        *_orders_edits(random_, number, size, before),
        *_events_edits(random_, size, before),
    ]
    if number > 1 and random_.random() < 0.15:
        only = random_.choice(sorted(TABLES))
        edits = [edit for edit in edits if edit.table == only]
    asked = tuple(edit for edit in edits if edit.rows)
    # A transaction in which nothing was asked for makes no epoch.
    return Step(epoch, kind, asked or (Edit("insert", "events", (_event(random_),)),))


def _orders_edits(random_: random.Random, number: int, size: int, before: Model) -> list[Edit]:
    live = sorted(before.orders)
    random_.shuffle(live)
    count = random_.randint(0, min(len(live), size // 2))
    removed, kept = live[:count], live[count:]
    fresh = [1000 * number + i for i in range(random_.randint(0 if live else 1, size))]
    changed = kept[: random_.randint(0, min(len(kept), size // 3))]
    return [
        Edit("delete", "orders", tuple(before.orders[key] for key in removed)),
        Edit("insert", "orders", tuple(_order(random_, key) for key in fresh)),
        Edit("upsert", "orders", tuple(_order(random_, key) for key in changed)),
    ]


def _events_edits(random_: random.Random, size: int, before: Model) -> list[Edit]:
    stock = sorted(before.events.elements(), key=repr)
    random_.shuffle(stock)
    removed = stock[: random_.randint(0, min(len(stock), size // 2))]
    added = [_event(random_) for _ in range(random_.randint(0 if stock else 1, size))]
    if added and random_.random() < 0.3:
        added += added[:2]
    cancelled = [_event(random_)] if random_.random() < 0.3 else []
    return [
        Edit("insert", "events", tuple(added + cancelled)),
        Edit("delete", "events", tuple(removed + cancelled)),
    ]


def _order(random_: random.Random, key: int) -> Row:
    cust = None if random_.random() < 0.05 else random_.randint(1, 12)
    return key, cust, None if random_.random() < 0.1 else random_.randint(-50, 50)


def _event(random_: random.Random) -> Row:
    cust = None if random_.random() < 0.05 else random_.randint(1, 14)
    tag = random_.choice([None, "", "a", "b", "café", "d" * 40])
    return cust, tag, random_.choice([None, 0.1, 0.2, 0.3, -7.7, 1e9, 1e-9])


TIGHT = [
    (log, "CHECKPOINT_EVERY", 5),
    (garbage, "GRACE_EPOCHS", 3),
    (garbage, "GRACE_SECONDS", 0),
    (trace, "LEVEL_ZERO_ROWS", 8),
    (trace, "MINIMUM_FUEL", 16),
    (trace, "_SMALLEST_PIECE", 8),
    (trace, "_PIECES", 4),
    (rolling, "RECENT", 3),
    (rolling, "SHARE", 2),
    (rolling, "TIMES", 4),
]
"""Limits so low that small data has checkpoints, sweeps, levels, merges and moved changes."""


def tighten(set_attribute: Callable[[Any, str, int], object] = setattr) -> None:
    """Lower the limits of this process."""
    for module, name, value in TIGHT:
        set_attribute(module, name, value)


def build(db: Database) -> None:
    """Create the tables and views; the database is then at epoch `SETUP`."""
    for statement in TABLES.values():
        db.sql(statement)
    for name, query in VIEWS.items():
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
    assert db.epoch == SETUP


def perform(db: Database, step: Step, placement: str | None = None) -> None:
    """Run one step, if asked for at another place than its own."""
    if step.kind == "create":
        db.sql(f"CREATE MATERIALIZED VIEW {PASSING} AS {PASSING_VIEW}")
    elif step.kind == "drop":
        db.sql(f"DROP VIEW {PASSING}")
    else:
        db.place(placement or ("spark" if step.kind == "spark" else "inline"))
        try:
            transact(db, step.edits)
        finally:
            db.place(None)


def transact(db: Database, edits: Iterable[Edit]) -> None:
    """The edits as one transaction."""
    with db.transaction() as tx:
        for edit in edits:
            getattr(tx, edit.call)(edit.table, list(edit.rows))
