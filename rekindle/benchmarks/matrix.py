"""Does a chain of matrices follow an update of one of them in p² or in p³?

The product of three dense p × p matrices is a view. An update changes one row of the middle matrix,
or adds a sum of four products of vectors to it. The policy `factored` leads the vectors through the
chain, which is p² work; first-order maintenance multiplies the changed entries out, which is p³ for
a row, and p⁴ where all entries change. Small matrices measure the fixed cost of a step, so the
powers are those of the largest three sizes. Multiplying the chain in the first place is p³ in
either case; that takes most of the run and bounds the sizes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from rich import box
from rich.table import Table

from rekindle.benchmarks.chart import Line, line_chart
from rekindle.benchmarks.growth import exponent, kept_rows
from rekindle.benchmarks.harness import Harness, stepped
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict, duration
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.transactions.transaction import Transaction

QUERY = """
    SELECT a.i, c.j AS k, sum(a.v * b.v * c.v) AS v
    FROM a1 a JOIN a2 b ON a.j = b.i JOIN a3 c ON b.j = c.i GROUP BY a.i, c.j
"""
RANK = 4
FITTED = 3
"""How many of the largest sizes a power is fitted to."""
ONE_ROW, RANK_R = "one row", f"rank {RANK}"
SIZES = {
    (Policy.FACTORED, ONE_ROW): (16, 32, 64, 128, 256),
    (Policy.FACTORED, RANK_R): (16, 32, 64, 128, 256),
    (Policy.FIRST_ORDER, ONE_ROW): (16, 32, 64),
    (Policy.FIRST_ORDER, RANK_R): (8, 16, 32),
}
Doubles = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Point:
    """What an update took at one size."""

    size: int
    rows: int
    step: Series


def run(harness: Harness) -> Report:
    """Both policies and both kinds of update, as the matrices double."""
    found = _measure(harness)
    powers = {name: _power(points) for name, points in found.items()}
    factored, first = (
        f"{policy.value}, {ONE_ROW}" for policy in (Policy.FACTORED, Policy.FIRST_ORDER)
    )
    rank = f"{Policy.FACTORED.value}, {RANK_R}"
    last = found[first][-1]
    same = next(point for point in found[factored] if point.size == last.size)
    return Report(
        name="matrix",
        claim="Updates of the middle one of three p × p matrices, factored and first-order",
        series=[point.step for points in found.values() for point in points],
        verdicts=[
            Verdict("one row, factored: the power of p", powers[factored], Bound.AT_MOST, 2.3, ""),
            Verdict(f"{RANK_R}, factored: the power of p", powers[rank], Bound.AT_MOST, 2.3, ""),
            Verdict("one row, first order: the power of p", powers[first], Bound.AT_LEAST, 2, ""),
            Verdict(
                f"one row at p = {last.size}, first order against factored",
                last.step.median / same.step.median,
                Bound.AT_LEAST,
                1,
            ),
            Verdict(
                f"rows kept at p = {last.size}, first order against factored",
                last.rows / same.rows,
                Bound.AT_LEAST,
                last.size / 4,
            ),
        ],
        machine=harness.machine,
        settings={"rank": RANK, "fitted_sizes": FITTED},
        notes=[f"{name}: a step grows as p^{power:.2f}" for name, power in powers.items()],
        facts={
            name: {
                "exponent": powers[name],
                "points": [{"p": p.size, "rows": p.rows, "step": p.step.median} for p in points],
            }
            for name, points in found.items()
        },
        picture=line_chart(
            "An update of one row in a chain of three p × p matrices",
            "p (log scale)",
            "milliseconds",
            [
                Line(name, [(p.size, [s.seconds * 1000 for s in p.step.samples]) for p in points])
                for name, points in found.items()
                if name in (factored, first)
            ],
        ),
        table=_table(found),
    )


def _measure(harness: Harness) -> dict[str, list[Point]]:
    subjects: dict[tuple[Policy, int], _Chain] = {}
    wanted = {(policy, p) for (policy, _), sizes in SIZES.items() for p in sizes}
    with harness.phase("multiplying", len(wanted)) as advance:
        for policy, p in sorted(wanted, key=lambda pair: (pair[0].value, pair[1])):
            subjects[policy, p] = _Chain(harness, policy, p)
            advance()
    actions = {
        f"{policy.value}, {kind}, p = {p}": partial(subjects[policy, p].update, kind)
        for (policy, kind), sizes in SIZES.items()
        for p in sizes
    }
    steps = harness.interleave(actions, harness.rounds(7), warm_up=2)
    return {
        f"{policy.value}, {kind}": [
            Point(p, subjects[policy, p].rows, steps[f"{policy.value}, {kind}, p = {p}"])
            for p in sizes
        ]
        for (policy, kind), sizes in SIZES.items()
    }


class _Chain:
    """Three matrices and the view of their product."""

    def __init__(self, harness: Harness, policy: Policy, size: int) -> None:
        self._policy, self._size = policy, size
        self._pick = np.random.default_rng(size)
        self._db = harness.database(f"{policy.value}-{size}", retain=1)
        self._middle: Doubles = self._pick.random((size, size))
        for name in ("a1", "a2", "a3"):
            self._db.sql(
                f"CREATE TABLE {name} (i INT NOT NULL, j INT NOT NULL, v DOUBLE NOT NULL, "
                "PRIMARY KEY (i, j))"
            )
        with self._db.transaction() as tx:
            tx.insert("a1", _entries(self._pick.random((size, size))))
            tx.insert("a2", _entries(self._middle))
            tx.insert("a3", _entries(self._pick.random((size, size))))
        self._db.create_view("product", QUERY, policy=policy.value)
        self.rows = kept_rows(self._db)

    def update(self, kind: str) -> Sample:
        """One row changes, or all entries by a sum of products; factored or written out."""
        rank = 1 if kind == ONE_ROW else RANK
        u: Doubles = self._pick.random((self._size, rank)) - 0.5
        if kind == ONE_ROW:
            row = int(self._pick.integers(self._size))
            u = np.zeros((self._size, 1))
            u[row, 0] = 1.0
        v: Doubles = self._pick.random((self._size, rank)) - 0.5
        self._middle = self._middle + u @ v.T
        changed = np.flatnonzero(np.abs(u).sum(axis=1))

        def factored(tx: Transaction) -> None:
            tx.update_factored("a2", u, v)

        def plain(tx: Transaction) -> None:
            tx.upsert("a2", _entries(self._middle, changed))

        return stepped(self._db, factored if self._policy is Policy.FACTORED else plain)


def _entries(matrix: Doubles, rows: npt.NDArray[np.int64] | None = None) -> pa.Table:
    chosen = np.arange(len(matrix)) if rows is None else rows
    width = matrix.shape[1]
    return pa.table(
        {
            "i": pa.array(np.repeat(chosen, width), pa.int32()),
            "j": pa.array(np.tile(np.arange(width), len(chosen)), pa.int32()),
            "v": pa.array(matrix[chosen].reshape(-1)),
        }
    )


def _power(points: list[Point]) -> float:
    return exponent([(point.size, point.step.median) for point in points[-FITTED:]])


def _table(found: Mapping[str, list[Point]]) -> Table:
    table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
    table.add_column("update")
    for name in ("p", "rows kept", "median", "fastest"):
        table.add_column(name, justify="right")
    for name, points in found.items():
        for p in points:
            fastest = duration(p.step.quantile(0.0))
            table.add_row(name, str(p.size), f"{p.rows:,}", duration(p.step.median), fastest)
        table.add_section()
    return table
