"""What Spark did for an action: the rows that its stages read, and how evenly tasks took part."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from rekindle.benchmarks.harness import timed
from rekindle.benchmarks.report import Sample

_NUMBERS = itertools.count()


@dataclass(frozen=True, slots=True)
class Tasks:
    """The stages of an action added up: milliseconds of tasks, and rows."""

    longest: float
    median: float
    rows: int

    @property
    def imbalance(self) -> float | None:
        """The longest task against the median one, over stages of several tasks."""
        return self.longest / self.median if self.median else None


def watched(spark: SparkSession, action: Callable[[], object]) -> tuple[Sample, Tasks]:
    """How long an action takes, and what its stages did.

    Spark forgets old stages (`spark.ui.retainedStages`); those of one action are few.
    """
    context = spark.sparkContext
    group = f"rekindle-watched-{next(_NUMBERS)}"
    context.setJobGroup(group, "an action that is measured")
    try:
        sample = timed(action)
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    # What the store knows comes through the bus, some time later.
    context._jsc.sc().listenerBus().waitUntilEmpty()
    tracker = context.statusTracker()
    jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
    stages = sorted({stage for job in jobs if job is not None for stage in job.stageIds})
    found = [each for stage in stages if (each := _stage(context, stage)) is not None]
    tasks = Tasks(
        sum(each.longest for each in found),
        sum(each.median for each in found),
        sum(each.rows for each in found),
    )
    return Sample(sample.seconds, tasks.rows), tasks


def _stage(context: Any, stage: int) -> Tasks | None:
    """One stage; a stage that was skipped or forgotten has none."""
    store = context._jsc.sc().statusStore()
    try:
        facts = store.lastStageAttempt(stage)
    except Py4JJavaError:
        return None
    if str(facts.status()) != "COMPLETE":
        return None
    rows = int(facts.inputRecords()) + int(facts.shuffleReadRecords())
    if facts.numCompleteTasks() < 2:
        return Tasks(0.0, 0.0, rows)
    shares = context._gateway.new_array(context._jvm.double, 2)
    shares[0], shares[1] = 0.5, 1.0
    summary = store.taskSummary(stage, facts.attemptId(), shares)
    if not summary.isDefined():
        return Tasks(0.0, 0.0, rows)
    times = summary.get().executorRunTime()
    return Tasks(float(times.apply(1)), float(times.apply(0)), rows)
