"""Is a step ever dearer than recomputing? Changes from a thousandth of the data to all of it.

So many of the orders leave in one step and come back in the next. The recomputation reads Parquet,
joins, aggregates and throws the result away; the fixed overhead of a step is that of one row.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rekindle.cli.bench.harness import Filled, Harness, stepped
from rekindle.cli.bench.report import Bound, Report, Sample, Verdict
from rekindle.cli.bench.workload import Workload

SHARES = (0.001, 0.01, 0.1, 0.5, 0.9)
LIMIT = 1.3


def run(harness: Harness) -> Report:
    """Steps of growing size against recomputation, taking turns."""
    workload = Workload(harness.rows(1_000_000))
    recomputation = harness.recomputation(workload)
    moves = _Moves(harness.filled(workload))
    actions = {"recomputation": recomputation, "a row comes": moves.come, "a row goes": moves.go}
    for share in SHARES:
        rows = int(workload.rows * share)
        actions[f"{share:.1%} leave"] = partial(moves.move, -rows)
        actions[f"{share:.1%} come back"] = partial(moves.move, rows)
    found = harness.interleave(actions, harness.rounds(7), warm_up=2)
    overhead = max(found[name].median for name in ("a row comes", "a row goes"))
    large = [series for name, series in found.items() if "%" in name]
    worst = max(series.median - overhead for series in large) / found["recomputation"].median
    return Report(
        name="shares",
        claim=f"Steps of growing size against recomputing the view, {workload.rows:,} orders",
        series=list(found.values()),
        verdicts=[
            Verdict(
                "the dearest step, less the overhead, against recomputation",
                worst,
                Bound.AT_MOST,
                LIMIT,
            )
        ],
        machine=harness.machine,
        settings={"rows": workload.rows, "shares": list(SHARES)},
        facts={"courses": moves.courses},
    )


class _Moves:
    """Orders that leave and come back, and what the engine did about it."""

    def __init__(self, filled: Filled) -> None:
        self._filled = filled
        self.courses: dict[str, str] = {}

    def come(self) -> Sample:
        return self._run("insert", np.array([self._filled.workload.rows]))

    def go(self) -> Sample:
        return self._run("delete", np.array([self._filled.workload.rows]))

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
