"""Is a step worth it? A small change against recomputing the view from Parquet.

The tables are written to Parquet once, by Spark; the recomputation reads them, joins, aggregates
and throws the result away. Steps and recomputations take turns.
"""

from __future__ import annotations

from rekindle.benchmarks.harness import Harness
from rekindle.benchmarks.report import Bound, Report, Series, ratio_verdict
from rekindle.benchmarks.workload import Workload

SHARE = 0.0001
LIMIT = 20.0
STEPS_A_ROUND = 3


def run(harness: Harness) -> Report:
    """Recomputation against the median step."""
    workload = Workload(harness.rows(10_000_000))
    changed = max(2, round(workload.rows * SHARE))
    recomputation = harness.recomputation(workload)
    filled = harness.filled(workload)
    steps = [f"step {i + 1} of a round" for i in range(STEPS_A_ROUND)]
    actions = {name: (lambda: filled.step(changed)) for name in steps}
    found = harness.interleave(
        {"recomputation from Parquet": recomputation, **actions}, harness.rounds(15), warm_up=4
    )
    recomputed, *rest = found.values()
    step = Series(
        f"step of {changed:,} rows", [sample for series in rest for sample in series.samples]
    )
    return Report(
        name="recompute",
        claim=f"A step against recomputing the view, {workload.rows:,} orders",
        series=[step, recomputed],
        verdicts=[
            ratio_verdict(
                f"recomputation against a step with {changed / workload.rows:.2%} changed",
                recomputed,
                step,
                Bound.AT_LEAST,
                LIMIT,
            )
        ],
        machine=harness.machine,
        settings={"rows": workload.rows, "changed_rows": changed},
        facts={"stored_rows": dict(filled.stored)},
    )
