"""Does the time of a step depend on the size of the tables? It should not.

1,000 changed rows a step on tables of 10⁵, 10⁶ and 10⁷ rows. The databases are open side by side
and take turns, so that a disturbance of the machine meets all of them.
"""

from __future__ import annotations

from functools import partial

from rekindle.benchmarks.chart import Line, line_chart
from rekindle.benchmarks.harness import Harness
from rekindle.benchmarks.report import Bound, Report, ratio_verdict
from rekindle.benchmarks.workload import Workload

CHANGED = 1_000
LIMIT = 1.5


def run(harness: Harness) -> Report:
    """The median step at the largest size against the smallest."""
    largest = harness.rows(10_000_000)
    sizes = [max(100, largest // 100), max(100, largest // 10), largest]
    changed = min(CHANGED, sizes[0])
    filled = {size: harness.filled(Workload(size)) for size in sizes}
    actions = {f"{size:,} orders": partial(filled[size].step, changed) for size in sizes}
    found = harness.interleave(actions, harness.rounds(60), warm_up=15)
    series = list(found.values())
    points = [
        (size, [sample.seconds * 1000 for sample in line.samples])
        for size, line in zip(sizes, series, strict=True)
    ]
    return Report(
        name="flatness",
        claim=f"A step of {changed:,} changed rows as the tables grow",
        series=series,
        verdicts=[
            ratio_verdict(
                f"the median step at {sizes[-1]:,} rows against {sizes[0]:,}",
                series[-1],
                series[0],
                Bound.AT_MOST,
                LIMIT,
            )
        ],
        machine=harness.machine,
        settings={"sizes": sizes, "changed_rows": changed},
        facts={"stored_rows": {str(size): dict(filled[size].stored) for size in sizes}},
        picture=line_chart(
            f"A step of {changed:,} changed rows stays flat as the tables grow",
            "rows of the table (log scale)",
            "milliseconds",
            [Line("step", points)],
            limit=(LIMIT * series[0].median * 1000, f"{LIMIT} × the smallest size"),
        ),
    )
