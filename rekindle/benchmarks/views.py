"""Does a step know only the views that it reaches? 1,000 views over 20 tables.

Ten of the views read the first table. A step on that table is measured in a database with all the
views and in one with those ten alone, taking turns; creating and dropping a view beside all the
others is measured too.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from rekindle.benchmarks.harness import Harness, stepped, timed
from rekindle.benchmarks.report import Bound, Report, Sample, Series, ratio_verdict
from rekindle.runtime.database import Database

TABLES = 20
REACHED = 10
ROWS = 1_000
LIMIT = 3.0
KINDS = (
    "SELECT k, sum(x) AS s, count(*) AS n FROM {t} WHERE id % {m} <> 1 GROUP BY k",
    "SELECT a.k, b.s, a.x + {n} AS y FROM {t} a JOIN {u} b ON a.id = b.id WHERE b.x <> {n}",
    "SELECT DISTINCT k, s FROM {t} WHERE x <> {n}",
    "SELECT k, max(x) AS m, min(id) AS f FROM {t} WHERE id > {n} GROUP BY k",
    "SELECT id, s FROM {t} a WHERE NOT EXISTS (SELECT 1 FROM {u} b WHERE b.id = a.id + {n})",
)


def run(harness: Harness) -> Report:
    """Steps in a database of many views and of few, taking turns."""
    views = list(_queries(harness.views(1_000)))
    reached = views[:REACHED]
    many, created = _filled(harness, "many", views)
    few, _ = _filled(harness, "few", reached)
    found = harness.interleave(
        {
            f"step, {len(views):,} views": _Steps(many).step,
            f"step, {REACHED} views": _Steps(few).step,
        },
        harness.rounds(40),
        warm_up=10,
    )
    first, last = Series("create, at first", created[:20]), Series("create, at last", created[-20:])
    dropped = [timed(partial(many.drop_view, name)) for name in _last_names(many, 20)]
    beside_many, beside_few = found.values()
    return Report(
        name="views",
        claim=f"{len(views):,} views over {TABLES} tables, of which a step reaches {REACHED}",
        series=[beside_many, beside_few, first, last, Series("drop", dropped)],
        verdicts=[
            ratio_verdict(
                f"a step beside {len(views):,} views against {REACHED}",
                beside_many,
                beside_few,
                Bound.AT_MOST,
                LIMIT,
            )
        ],
        machine=harness.machine,
        settings={"views": len(views), "tables": TABLES, "rows": ROWS},
        facts={
            "nodes_visited": {name: _visited(db) for name, db in (("many", many), ("few", few))},
        },
    )


class _Steps:
    """Endless transactions of one new row and one changed row of the first table."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._next = ROWS

    def step(self) -> Sample:
        rows = [(self._next, self._next % 10, 3, "new"), (self._next % ROWS, 4, 5, "changed")]
        self._next += 1
        return stepped(self._db, lambda tx: tx.upsert("t0", rows))


def _queries(views: int) -> Iterator[str]:
    """The first ten read the first table; no other does."""
    for i in range(views):
        number = i // len(KINDS)
        table = 0 if i < REACHED else 1 + i % (TABLES - 1)
        partner = 1 + (table + 3) % (TABLES - 1)
        names = {"t": f"t{table}", "u": f"t{partner}", "n": number, "m": number + 2}
        yield KINDS[i % len(KINDS)].format(**names)


def _filled(harness: Harness, name: str, queries: list[str]) -> tuple[Database, list[Sample]]:
    """A database with all tables and some views, and how long creating each view took."""
    db = harness.database(name)
    created = []
    with harness.phase(f"{name}: tables", TABLES) as advance:
        for i in range(TABLES):
            db.sql(f"CREATE TABLE t{i} (id BIGINT, k INT, x INT, s STRING, PRIMARY KEY (id))")
            db.sql(
                f"INSERT INTO t{i} SELECT id, CAST(id % 10 AS INT), CAST((id * {i + 3}) % 7 AS INT)"
                f", concat('s', id % 5) FROM range({ROWS})"
            )
            advance()
    with harness.phase(f"{name}: views", len(queries)) as advance:
        for i, query in enumerate(queries):
            created.append(timed(partial(db.create_view, f"v{i}", query)))
            advance()
    return db, created


def _last_names(db: Database, count: int) -> list[str]:
    return [*db.views[: -min(count, len(db.views) - REACHED) - 1 : -1]]


def _visited(db: Database) -> int:
    return 0 if db.last_step is None else len(db.last_step.nodes)
