"""Random databases under random transactions: the laws of DESIGN.md after every step."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, event, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rekindle
from tests.property import changes, coverage, queries, schemas
from tests.property.changes import Edit, Model
from tests.property.laws import Subject, check_work

COMMON: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    # No shrinking: an example takes seconds, and the notes give the SQL and the rows of a failure.
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
    "suppress_health_check": list(HealthCheck),
}
BOUNDED = settings(max_examples=8, derandomize=True, database=None, **COMMON)
FEW = settings(max_examples=2, derandomize=True, database=None, **COMMON)
LONG = settings(max_examples=int(os.environ.get("REKINDLE_FUZZ_EXAMPLES", "200")), **COMMON)


def _define(data: st.DataObject, tables: int, views: int) -> tuple[list[Any], dict[str, str]]:
    specs = [data.draw(schemas.tables(f"r{i}"), f"r{i}") for i in range(tables)]
    drawn = data.draw(queries.views(specs, views), "views")
    for query in drawn.values():
        event(query.kind)
        coverage.SEEN["queries"][query.kind] += 1
    for spec in specs:
        note(spec.ddl)
        coverage.SEEN["types"].update(column.type.sql for column in spec.columns)
    for name, query in drawn.items():
        note(f"{name}: {query.sql}")
    return specs, {name: query.sql for name, query in drawn.items()}


def _every_step(spark: SparkSession, data: st.DataObject) -> None:
    """Laws 1, 2, 5 and 6."""
    specs, views = _define(data, data.draw(st.integers(1, 3)), 5)
    model = Model.empty(specs)
    steps = data.draw(st.integers(2, 5))
    reopen_after = data.draw(st.integers(0, steps))
    late = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as path:
        subject = Subject(rekindle.connect(path, spark=spark), spark, specs, views)
        try:
            if late:
                # Views that are filled from rows that are there, rather than followed from nothing.
                for spec in specs:
                    subject.db.sql(spec.ddl)
                subject.run(_noted(data.draw(changes.transactions(model, 8), "before the views")))
                for name, query in views.items():
                    subject.db.create_view(name, query)
            else:
                subject.define()
            subject.check(model)
            for step in range(steps):
                edits = _noted(data.draw(changes.transactions(model), f"step {step}"))
                course = data.draw(st.sampled_from(["followed", "followed", "rebuilt"]), "course")
                subject.db.take(course)
                subject.run(edits)
                if course == "followed":
                    check_work(subject.db, edits)
                subject.check(model)
                if step == reopen_after:
                    epoch = subject.db.epoch
                    subject.db.close()
                    subject.db = rekindle.connect(path, spark=spark)
                    assert subject.db.epoch == epoch
                    subject.check(model)
            subject.check_all_changes()
        finally:
            subject.db.close()


def _noted(edits: list[Edit]) -> list[Edit]:
    for edit in edits:
        note(f"  {edit.verb} {edit.table} {edit.sql or list(edit.rows)}")
    note("  -- commit")
    return edits


def _split_and_merged(spark: SparkSession, data: st.DataObject) -> None:
    """Law 3: one transaction, its parts apart, and its parts in another order."""
    specs, views = _define(data, 2, 4)
    model = Model.empty(specs)
    batches = [data.draw(changes.calls(model, 4), f"batch {i}") for i in range(3)]
    edits = _noted([edit for batch in batches for edit in batch])
    with tempfile.TemporaryDirectory() as root:
        found = []
        for number, plan in enumerate((_together, _apart, _by_table)):
            db = rekindle.connect(f"{root}/{number}", spark=spark)
            subject = Subject(db, spark, specs, views)
            try:
                subject.define()
                for part in plan(edits):
                    subject.run(part)
                expected = found[0] if found else None
                found.append(subject.check(model, expected))
            finally:
                db.close()


def _together(edits: list[Edit]) -> list[list[Edit]]:
    return [edits]


def _apart(edits: list[Edit]) -> list[list[Edit]]:
    return [[edit] for edit in edits]


def _by_table(edits: list[Edit]) -> list[list[Edit]]:
    """All of the last table first; edits of different tables commute."""
    names = sorted({edit.table for edit in edits}, reverse=True)
    return [[edit for edit in edits if edit.table == name] for name in names]


def _placed(spark: SparkSession, data: st.DataObject) -> None:
    """Law 4: in the driver, on Spark, and on Spark with another number of partitions."""
    specs, views = _define(data, 2, 3)
    model = Model.empty(specs)
    loaded = _noted(data.draw(changes.calls(model, 6), "load"))
    steps = [loaded]
    steps += [_noted(data.draw(changes.calls(model), f"step {i}")) for i in range(2)]
    model = Model.empty(specs)
    with tempfile.TemporaryDirectory() as root:
        subjects = []
        for number, (placement, partitions) in enumerate(
            [("inline", None), ("spark", None), ("spark", 8)]
        ):
            db = rekindle.connect(f"{root}/{number}", spark=spark, partitions=partitions)
            db.place(placement)
            subjects.append(Subject(db, spark, specs, views))
        try:
            for spec in specs:
                for subject in subjects:
                    subject.db.sql(spec.ddl)
            for number, step in enumerate(steps):
                if number == 1:
                    for subject in subjects:
                        for name, query in views.items():
                            subject.db.create_view(name, query)
                for edit in step:
                    model.apply(edit)
                for subject in subjects:
                    subject.run(step)
                if number:
                    expected = subjects[0].check(model)
                    for subject in subjects[1:]:
                        subject.check(model, expected)
        finally:
            for subject in subjects:
                subject.db.close()


LAWS: dict[str, Callable[[SparkSession, st.DataObject], None]] = {
    "every_step": _every_step,
    "split_and_merged": _split_and_merged,
    "placed": _placed,
}


@BOUNDED
@given(data=st.data())
def test_laws_after_every_step(spark: SparkSession, data: st.DataObject) -> None:
    _every_step(spark, data)


@settings(BOUNDED, max_examples=3)
@given(data=st.data())
def test_any_split_and_order_gives_the_same(spark: SparkSession, data: st.DataObject) -> None:
    _split_and_merged(spark, data)


@FEW
@given(data=st.data())
def test_any_placement_gives_the_same(spark: SparkSession, data: st.DataObject) -> None:
    _placed(spark, data)


@pytest.mark.fuzz
@pytest.mark.parametrize("law", LAWS)
def test_long_campaign(spark: SparkSession, law: str) -> None:
    share = {"every_step": 1.0, "split_and_merged": 0.3, "placed": 0.1}[law]
    examples = max(1, int(LONG.max_examples * share))

    @settings(LONG, max_examples=examples)
    @given(data=st.data())
    def campaign(data: st.DataObject) -> None:
        LAWS[law](spark, data)

    campaign()
