"""Is a step ever dearer than recomputing? Changes from a thousandth of the data to all of it.

So many of the orders leave in one step and come back in the next. The recomputation reads Parquet,
joins, aggregates and throws the result away. It does not bring the change into the table, which a
step does too, so every step is also taken by a database that has the tables and no view: what the
view adds to that is held against the recomputation. The whole step is in the facts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rekindle.benchmarks.harness import Filled, Harness, stepped
from rekindle.benchmarks.report import Bound, Report, Sample, Verdict
from rekindle.benchmarks.workload import Workload

SHARES = (0.001, 0.01, 0.1, 0.5, 0.9)
LIMIT = 1.3


def run(harness: Harness) -> Report:
    """Steps of growing size against recomputation, taking turns."""
    workload = Workload(harness.rows(1_000_000))
    recomputation = harness.recomputation(workload)
    moves = _Moves(harness.filled(workload))
    alone = _Moves(_tables_only(harness, workload))
    actions = {"recomputation": recomputation}
    for share in SHARES:
        rows = int(workload.rows * share)
        for words, sign in (("leave", -1), ("come back", 1)):
            actions[f"{share:.1%} {words}"] = partial(moves.move, sign * rows)
            actions[f"{share:.1%} {words}, no view"] = partial(alone.move, sign * rows)
    found = harness.interleave(actions, harness.rounds(7), warm_up=2)
    again = found["recomputation"].median
    steps = {name: found[name].median for name in found if f"{name}, no view" in found}
    added = {
        name: (step - found[f"{name}, no view"].median) / again for name, step in steps.items()
    }
    return Report(
        name="shares",
        claim=f"Steps of growing size against recomputing the view, {workload.rows:,} orders",
        series=list(found.values()),
        verdicts=[
            Verdict(
                "what the view adds to the dearest step, against recomputation",
                max(added.values()),
                Bound.AT_MOST,
                LIMIT,
            )
        ],
        machine=harness.machine,
        settings={"rows": workload.rows, "shares": list(SHARES)},
        facts={
            "courses": moves.courses,
            "added": added,
            "whole_steps": {name: step / again for name, step in steps.items()},
        },
    )


def _tables_only(harness: Harness, workload: Workload) -> Filled:
    db = harness.database("tables")
    workload.create_tables(db)
    workload.load_tables(db)
    return Filled(db, workload, {})


class _Moves:
    """Orders that leave and come back, and what the engine did about it."""

    def __init__(self, filled: Filled) -> None:
        self._filled = filled
        self.courses: dict[str, str] = {}

    def move(self, rows: int) -> Sample:
        """The first orders, back when `rows` is positive, away when it is negative."""
        return self._run("insert" if rows > 0 else "delete", np.arange(abs(rows)))

    def _run(self, verb: str, ids: np.ndarray[Any, np.dtype[np.int64]]) -> Sample:
        db = self._filled.db
        orders = self._filled.workload.order_rows(ids)
        sample = stepped(db, lambda tx: getattr(tx, verb)("orders", orders))
        last = db.last_step
        rebuilt = last is not None and any(node.rebuilt for node in last.nodes.values())
        self.courses[f"{verb} {len(ids):,}"] = "rebuilt" if rebuilt else "followed"
        return sample
