"""How many small transactions do many threads commit in the time that one does?

Transactions of one row, on a table that a join and a group follow: the same number by one thread,
one after the other, and by sixteen at the same time. Those that wait together become one epoch.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from rekindle.benchmarks.harness import Harness
from rekindle.benchmarks.report import Bound, Report, Sample, ratio_verdict
from rekindle.benchmarks.workload import Workload
from rekindle.runtime.database import Database

THREADS = 16
EACH = 25
"""Transactions of a thread in a round. Of few, a good part are the first, which come alone, and the
last, which wait for those who are done: of six each, all together gain 4 times."""
LIMIT = 5.0


def run(harness: Harness) -> Report:
    """Rounds of one thread and of many, taking turns."""
    workload = Workload(harness.rows(100_000))
    db = harness.filled(workload).db
    ids = count(10 * workload.rows)
    epochs: dict[str, list[int]] = {}
    alone, many = "one thread", f"{THREADS} threads"

    def committing(name: str, threads: ThreadPoolExecutor, size: int) -> Callable[[], Sample]:
        def work(each: int) -> None:
            for _ in range(each):
                insert_one(db, next(ids))

        def sample() -> Sample:
            before, started = db.epoch, time.perf_counter()
            list(threads.map(work, [THREADS * EACH // size] * size))
            seconds = time.perf_counter() - started
            epochs.setdefault(name, []).append(db.epoch - before)
            return Sample(seconds, THREADS * EACH)

        return sample

    with ThreadPoolExecutor(1) as one, ThreadPoolExecutor(THREADS) as sixteen:
        found = harness.interleave(
            {alone: committing(alone, one, 1), many: committing(many, sixteen, THREADS)},
            harness.rounds(15),
            warm_up=3,
        )
    per_round = THREADS * EACH
    return Report(
        name="commits",
        claim=f"{per_round} transactions of one row, {workload.rows:,} orders",
        series=list(found.values()),
        verdicts=[
            ratio_verdict(
                f"{per_round} transactions by one thread against {THREADS} threads",
                found[alone],
                found[many],
                Bound.AT_LEAST,
                LIMIT,
            )
        ],
        machine=harness.machine,
        settings={"rows": workload.rows, "threads": THREADS, "transactions": per_round},
        facts={"epochs_a_round": epochs},
    )


def insert_one(db: Database, key: int) -> None:
    """A transaction that inserts an order."""
    with db.transaction() as tx:
        tx.insert("orders", [(key, key % 1000, 1.5)])
