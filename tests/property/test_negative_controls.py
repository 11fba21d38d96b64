"""Planted bugs: the checker of the laws must catch each of them, and pass without.

One fixed scenario goes through inserts, deletes, duplicates, cancelling changes and a reopening.
A bug is planted by replacing one function for the length of a test.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.circuit.nodes import HalfJoin, Moment
from rekindle.circuit.operators import group
from rekindle.kernels import nested_time
from rekindle.runtime import engine
from rekindle.runtime.epochs import log
from tests.property import values
from tests.property.changes import Edit, Model
from tests.property.laws import Subject, check_work
from tests.property.schemas import Column, TableSpec

# The package exports the function under the same name.
consolidate = importlib.import_module("rekindle.traces.consolidate")

SPECS = [
    TableSpec("r", (Column("k", values.INT), Column("n", values.INT)), keyed=False),
    TableSpec("q", (Column("k", values.INT), Column("m", values.INT)), keyed=False),
]
VIEWS = {
    "grouped": "SELECT k, sum(n) AS s, count(*) AS c FROM r GROUP BY k",
    "only": "SELECT DISTINCT k FROM r",
    "joined": "SELECT r.k, n, m FROM r JOIN q ON r.k = q.k",
    "kept": "SELECT n FROM r WHERE n > 1",
}
STEPS = [
    [Edit("insert", "r", ((1, 1), (1, 2), (2, 5))), Edit("insert", "q", ((1, 10), (3, 30)))],
    [Edit("insert", "r", ((1, 2), (1, 2), (3, 7))), Edit("insert", "q", ((1, 10), (2, 20)))],
    [Edit("insert", "r", ((4, 4),)), Edit("delete", "r", ((4, 4), (2, 5)))],
    [Edit("delete", "r", ((1, 2), (1, 1))), Edit("delete", "q", ((1, 10),))],
    [Edit("delete", "r", ((1, 2), (1, 2), (3, 7)))],
]


def scenario(path: Path, spark: SparkSession) -> None:
    """The scenario under the checker of the laws."""
    model = Model.empty(SPECS)
    subject = Subject(rekindle.connect(str(path), spark=spark), spark, SPECS, VIEWS)
    try:
        subject.define()
        subject.db.place("inline")
        for number, step in enumerate(STEPS):
            for edit in step:
                model.apply(edit)
            subject.run(step)
            check_work(subject.db, step, subject.before)
            subject.check(model)
            if number == 2:
                subject.db.close()
                subject.db = rekindle.connect(str(path), spark=spark)
                subject.db.place("inline")
                subject.check(model)
                subject.check_all_changes()
        subject.check_all_changes()
    finally:
        subject.db.close()


def distinct_loses_a_sign(patch: pytest.MonkeyPatch) -> None:
    right = nested_time.distinct_change

    def wrong(change: Any, reader: Any) -> Any:
        found = right(change, reader)
        return found.set_column(0, "_weight", pc.abs(found.column("_weight")))

    patch.setattr(nested_time, "distinct_change", wrong)


def aggregate_forgets_to_retract(patch: pytest.MonkeyPatch) -> None:
    right = group.buffer_change

    def wrong(*given: Any) -> Any:
        output = right(*given)
        return output.filter(pc.greater(output.column("_weight"), 0))

    patch.setattr(group, "buffer_change", wrong)


def join_reads_after_for_before(patch: pytest.MonkeyPatch) -> None:
    """Δa ⋈ (b + Δb) + (a + Δa) ⋈ Δb, which counts Δa ⋈ Δb twice."""
    right = HalfJoin.work
    patch.setattr(
        HalfJoin, "work", lambda self, *given: right(replace(self, moment=Moment.AFTER), *given)
    )


def join_reads_before_for_after(patch: pytest.MonkeyPatch) -> None:
    right = HalfJoin.work
    patch.setattr(
        HalfJoin, "work", lambda self, *given: right(replace(self, moment=Moment.BEFORE), *given)
    )


def commit_drops_a_run(patch: pytest.MonkeyPatch) -> None:
    right = engine.advance

    def wrong(trace: Any, run: Any, *rest: Any) -> Any:
        advanced = right(trace, run, *rest)
        return advanced._replace(trace=trace) if trace.rows else advanced

    patch.setattr(engine, "advance", wrong)


def commit_forgets_history(patch: pytest.MonkeyPatch) -> None:
    right = engine.Engine._commit

    def wrong(self: Any, after: Any, *rest: Any) -> None:
        kept = {key: c for key, c in after.history.items() if not key.startswith("view-")}
        right(self, replace(after, history=kept), *rest)

    patch.setattr(engine.Engine, "_commit", wrong)


def record_lacks_history(patch: pytest.MonkeyPatch) -> None:
    """Right in memory, wrong after reopening."""
    right = log._record
    patch.setattr(log, "_record", lambda before, after: {**right(before, after), "history": {}})


def record_lacks_a_trace(patch: pytest.MonkeyPatch) -> None:
    right = log._record

    def wrong(before: Any, after: Any) -> Any:
        record = right(before, after)
        if after.epoch > 7:
            record["traces"] = {}
        return record

    patch.setattr(log, "_record", wrong)


def consolidation_keeps_zeros(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(
        consolidate, "is_zero", lambda layout, columns: np.zeros(len(columns[0][0]), dtype=bool)
    )


def consolidation_does_not_add(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(consolidate, "segment_starts", lambda identity: np.arange(len(identity[0])))


PLANTED: list[Callable[[pytest.MonkeyPatch], None]] = [
    distinct_loses_a_sign,
    aggregate_forgets_to_retract,
    join_reads_after_for_before,
    join_reads_before_for_after,
    commit_drops_a_run,
    commit_forgets_history,
    record_lacks_history,
    record_lacks_a_trace,
    consolidation_keeps_zeros,
    consolidation_does_not_add,
]


def test_the_scenario_passes_without_a_bug(tmp_path: Path, spark: SparkSession) -> None:
    scenario(tmp_path / "w", spark)


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_caught(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, spark: SparkSession
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        with pytest.raises(AssertionError) as caught:
            scenario(tmp_path / "w", spark)
    print(plant.__name__, "->", type(caught.value).__name__, str(caught.value)[:200])
