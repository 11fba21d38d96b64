"""What does a step cost beside the least that Spark could do?

A small step (100 rows) against a Spark job of one task that does nothing; a large one (100,000
rows) against a Spark job that only shuffles the same rows. The rows of the shuffle are handed to
Spark before the clock starts, which favours Spark; handing them over is shown beside it.
"""

from __future__ import annotations

import time

import pyarrow as pa

from rekindle.benchmarks.harness import Filled, Harness, run_to_nowhere, timed
from rekindle.benchmarks.report import Bound, Report, Sample, ratio_verdict
from rekindle.benchmarks.workload import ChangeStream, Workload

SMALL, SMALL_LIMIT = 100, 5.0
LARGE, LARGE_LIMIT = 100_000, 8.0


def run(harness: Harness) -> Report:
    """Steps and Spark jobs, taking turns."""
    workload = Workload(harness.rows(1_000_000))
    filled = harness.filled(workload)
    small = min(SMALL, workload.rows // 10)
    large = min(LARGE, workload.rows // 2)
    small_step, large_step = f"step of {small:,} rows", f"step of {large:,} rows"
    job, rdd = "one-task job", "one-task RDD job in the JVM"
    shuffle, handed = f"shuffle of {large:,} rows", f"hand over and shuffle {large:,} rows"
    shuffles = _Shuffles(harness, workload, large)
    found = harness.interleave(
        {
            small_step: lambda: filled.step(small),
            job: lambda: timed(lambda: harness.spark.range(0, 1, 1, 1).collect()),
            rdd: lambda: timed(lambda: _count_in_jvm(harness)),
        },
        harness.rounds(60),
        warm_up=20,
    )
    found |= harness.interleave(
        {
            large_step: lambda: filled.step(large),
            shuffle: shuffles.shuffle,
            handed: shuffles.hand_over_and_shuffle,
        },
        harness.rounds(15),
        warm_up=4,
    )
    return Report(
        name="overhead",
        claim=f"Steps beside the least of Spark's jobs, {workload.rows:,} orders",
        series=list(found.values()),
        verdicts=[
            ratio_verdict(
                f"a step of {small:,} rows against a one-task job",
                found[small_step],
                found[job],
                Bound.AT_MOST,
                SMALL_LIMIT,
            ),
            ratio_verdict(
                f"a step of {large:,} rows against a shuffle of the same rows",
                found[large_step],
                found[shuffle],
                Bound.AT_MOST,
                LARGE_LIMIT,
            ),
        ],
        machine=harness.machine,
        settings={"rows": workload.rows, "small": small, "large": large},
        facts={"stored_rows": dict(filled.stored), "placement": _placement(filled)},
    )


class _Shuffles:
    """Spark jobs that move rows to the partition of their customer and do nothing else."""

    def __init__(self, harness: Harness, workload: Workload, rows: int) -> None:
        self._spark = harness.spark
        self._stream = ChangeStream(workload)
        self._rows = rows
        self._partitions = int(self._spark.conf.get("spark.sql.shuffle.partitions") or 2)

    def shuffle(self) -> Sample:
        frame = self._spark.createDataFrame(self._take())
        return timed(lambda: run_to_nowhere(frame.repartition(self._partitions, "cust")))

    def hand_over_and_shuffle(self) -> Sample:
        rows = self._take()
        started = time.perf_counter()
        frame = self._spark.createDataFrame(rows)
        run_to_nowhere(frame.repartition(self._partitions, "cust"))
        return Sample(time.perf_counter() - started)

    def _take(self) -> pa.Table:
        return pa.concat_tables(self._stream.take(self._rows))


def _count_in_jvm(harness: Harness) -> None:
    """A job of one task without any plan or Python worker."""
    context = harness.spark.sparkContext
    values = context._gateway.jvm.java.util.ArrayList()  # type: ignore[union-attr]
    values.add(1)
    context._jsc.parallelize(values, 1).count()


def _placement(filled: Filled) -> str:
    """Where the last step, the large one, ran."""
    last = filled.db.last_step
    return "" if last is None else last.placement.value
