"""Random databases under random transactions: the laws of DESIGN.md after every step."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import DefinitionError, EvaluationError
from rekindle.runtime.database import Database
from rekindle.spark import inline
from rekindle.traces import near
from tests.property import changes, coverage, queries, schemas
from tests.property.changes import Edit, Model
from tests.property.dangers import DANGERS
from tests.property.laws import Subject, check_work
from tests.property.policies import POLICIES, policy_views
from tests.property.relations import Drawing
from tests.property.schemas import TableSpec

pytestmark = pytest.mark.usefixtures("adaptive")

Aim = tuple[str, str]
"""A feature of queries that an example shall have: its title and its name."""
ATTEMPTS = 3
COMMON: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    # No shrinking: an example takes seconds, and the notes give the SQL and the rows of a failure.
    "phases": (Phase.explicit, Phase.reuse, Phase.generate),
    "suppress_health_check": list(HealthCheck),
}
BOUNDED = settings(max_examples=8, derandomize=True, database=None, **COMMON)
FEW = settings(max_examples=2, derandomize=True, database=None, **COMMON)
LONG = settings(max_examples=int(os.environ.get("REKINDLE_FUZZ_EXAMPLES", "60")), **COMMON)


@pytest.fixture(autouse=True)
def _stretches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of a few rows are not read whole: what reads less of them is what is tested."""
    monkeypatch.setattr(near, "_MORE", 2)


@pytest.fixture
def progress(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lines between the dots: a campaign takes its time."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def say(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, file=sys.stderr, flush=True)

    with coverage.told(say):
        yield


@dataclass(frozen=True)
class Definition:
    """Tables, and views with what their creation asks for."""

    specs: list[TableSpec]
    views: dict[str, str]
    options: dict[str, dict[str, str]]

    def subject(self, db: Database, spark: SparkSession) -> Subject:
        return Subject(db, spark, self.specs, self.views, self.options)


def _random(data: st.DataObject) -> Random:
    """Several numbers make the seed: Hypothesis likes some numbers better than others."""
    return Random(repr(data.draw(st.tuples(*[st.integers(0, 2**64)] * 4), "seed")))


def _define(data: st.DataObject, tables: int, views: int, aims: Sequence[Aim] = ()) -> Definition:
    if aims:
        specs = [schemas.wide(f"r{i}") for i in range(tables)]
    else:
        specs = [data.draw(schemas.tables(f"r{i}"), f"r{i}") for i in range(tables)]
    drawn = queries.views(_random(data), specs, views, aims)
    for spec in specs:
        coverage.note("type", [column.type.sql for column in spec.columns])
    for name, query in drawn.items():
        note(f"{name}: {query.sql}")
        for title, feature in query.features:
            coverage.note(title, [feature])
    coverage.note("count", ["databases"] + ["views"] * len(drawn))
    # Law 6: what can be followed is not recomputed as a whole.
    required = {
        name: {"incremental": "preferred" if query.may_recompute else "required"}
        for name, query in drawn.items()
    }
    return Definition(specs, {name: query.sql for name, query in drawn.items()}, required)


def _every_step(spark: SparkSession, data: st.DataObject, aims: Sequence[Aim] = ()) -> None:
    """Laws 1, 2, 5 and 6."""
    defined = _define(data, 2 if aims else data.draw(st.integers(1, 3)), 5, aims)
    model = Model.empty(defined.specs)
    steps = data.draw(st.integers(2, 5))
    reopen_after = data.draw(st.integers(0, steps))
    late = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as path:
        subject = defined.subject(rekindle.connect(path, spark=spark), spark)
        try:
            subject.define_tables()
            if late:
                # Views that are filled from rows that are there, rather than followed from nothing.
                subject.run(_noted(data.draw(changes.loads(model), "before the views")))
            subject.define_views()
            subject.check(model)
            for step in range(steps):
                edits = _noted(
                    data.draw(changes.transactions(model, 5, 2 if aims else 10), f"step {step}")
                )
                ways = st.sampled_from(["incremental", "incremental", "full"])
                refresh = data.draw(ways, "refresh")
                subject.db.refresh_by(refresh)
                subject.run(edits)
                if refresh == "incremental":
                    check_work(subject.db, edits, subject.before)
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


def _split_and_merged(spark: SparkSession, data: st.DataObject, views: int = 4) -> None:
    """Law 3: one transaction, its parts apart, and its parts in another order."""
    defined = _define(data, 2, views)
    model = Model.empty(defined.specs)
    batches = [data.draw(changes.calls(model, 4), f"batch {i}") for i in range(3)]
    edits = _noted([edit for batch in batches for edit in batch])
    with tempfile.TemporaryDirectory() as root:
        found = []
        for number, plan in enumerate((_together, _apart, _by_table)):
            db = rekindle.connect(f"{root}/{number}", spark=spark)
            subject = defined.subject(db, spark)
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


def _placed(
    spark: SparkSession, data: st.DataObject, aims: Sequence[Aim] = (), views: int = 3
) -> None:
    """Law 4: in the driver, on Spark, and on Spark with another number of partitions."""
    defined = _define(data, 2, views, aims)
    model = Model.empty(defined.specs)
    loaded = _noted(data.draw(changes.calls(model, 6), "load"))
    steps = [loaded]
    steps += [_noted(data.draw(changes.calls(model), f"step {i}")) for i in range(2)]
    refresh = data.draw(st.sampled_from(["incremental", "full"]), "refresh of the last")
    model = Model.empty(defined.specs)
    with tempfile.TemporaryDirectory() as root:
        subjects = []
        for number, (placement, partitions) in enumerate(
            [("inline", None), ("spark", None), ("spark", 8)]
        ):
            db = rekindle.connect(f"{root}/{number}", spark=spark, partitions=partitions)
            db.place(placement)
            db.refresh_by("incremental" if number < 2 else refresh)
            subjects.append(defined.subject(db, spark))
        try:
            for subject in subjects:
                subject.define_tables()
            for number, step in enumerate(steps):
                if number == 1:
                    for subject in subjects:
                        subject.define_views()
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


def _policies(
    spark: SparkSession,
    data: st.DataObject,
    aims: Sequence[Aim] = (),
    placement: str | None = None,
) -> None:
    """Law 4: one query under every policy that takes it, and a join in every representation."""
    specs = [data.draw(schemas.matrices(f"m{i}"), f"m{i}") for i in range(3)]
    drawing = Drawing(_random(data), dict(aims))
    query, listing = policy_views(drawing, [spec.name for spec in specs])
    wanted = {
        policy: (listing, {"representation": policy})
        if policy == "factorised"
        else (query, {"policy": policy})
        for policy in POLICIES
    }
    note(f"{query}\n{listing}")
    for title, feature in drawing.features:
        coverage.note(title, [feature])
    model = Model.empty(specs)
    late = data.draw(st.booleans())
    with tempfile.TemporaryDirectory() as path:
        db = rekindle.connect(path, spark=spark)
        try:
            db.place(placement or data.draw(st.sampled_from([None, None, "spark"])))
            tables = Subject(db, spark, specs, {})
            tables.define_tables()
            if late:
                tables.run(_noted(data.draw(changes.calls(model), "before the views")))
            taken = {}
            for policy, (text, options) in wanted.items():
                try:
                    db.create_view(policy, text, **options)
                except DefinitionError as refusal:
                    note(f"{policy}: {refusal}")
                    continue
                taken[policy] = (text, options)
            assert "first_order" in taken and "factorised" in taken
            coverage.note("policy", taken)
            coverage.note("count", ["databases"] + ["views"] * len(taken))
            subject = Subject(
                db,
                spark,
                specs,
                {name: text for name, (text, _) in taken.items()},
                {name: options for name, (_, options) in taken.items()},
            )
            subject.check(model)
            for step in range(data.draw(st.integers(2, 4))):
                subject.run(_noted(data.draw(changes.calls(model), f"step {step}")))
                subject.check(model)
            subject.check_all_changes()
        finally:
            db.close()


def _failing(spark: SparkSession, data: st.DataObject, aims: Sequence[Aim] = ()) -> None:
    """Law 5: a transaction fails exactly when Spark fails on what it leads to, and is undone."""
    specs = [data.draw(schemas.tables(f"r{i}"), f"r{i}") for i in range(2)]
    chosen = [name for _, name in aims] or _random(data).sample(list(DANGERS), 2)
    coverage.note("failure", chosen)
    views = {f"v{i}": DANGERS[name].format(r="r0", q="r1") for i, name in enumerate(chosen)}
    coverage.note("count", ["databases"] + ["views"] * len(views))
    model = Model.empty(specs)
    with tempfile.TemporaryDirectory() as path:
        subject = Subject(rekindle.connect(path, spark=spark), spark, specs, views)
        try:
            subject.define()
            subject.db.place(data.draw(st.sampled_from([None, None, "spark"])))
            before = subject.check(model)
            for step in range(data.draw(st.integers(3, 6))):
                after = Model(model.specs, {name: list(rows) for name, rows in model.rows.items()})
                edits = _noted(data.draw(changes.calls(after), f"step {step}"))
                try:
                    expected = subject.recompute(after)
                except (PySparkException, Py4JJavaError) as failure:
                    note(f"  -- Spark fails: {str(failure)[:80]}")
                    epoch = subject.db.epoch
                    with pytest.raises(EvaluationError):
                        subject.run(edits)
                    assert subject.db.epoch == epoch and subject.contents() == before
                    continue
                subject.run(edits)
                model = after
                before = subject.check(model, expected)
            subject.check_all_changes()
        finally:
            subject.db.close()


LAWS: dict[str, Callable[[SparkSession, st.DataObject], None]] = {
    "every_step": _every_step,
    "split_and_merged": _split_and_merged,
    "placed": _placed,
    "policies": _policies,
    "failing": _failing,
}
SHARES = {
    "every_step": 1.0,
    "split_and_merged": 0.3,
    "placed": 0.1,
    "policies": 0.2,
    "failing": 0.2,
}
"""How many examples of each law a campaign tries, beside those of `every_step`."""


@settings(BOUNDED, max_examples=3)
@given(data=st.data())
def test_laws_after_every_step(spark: SparkSession, data: st.DataObject) -> None:
    _every_step(spark, data)


@settings(BOUNDED, max_examples=2)
@given(data=st.data())
def test_any_split_and_order_gives_the_same(spark: SparkSession, data: st.DataObject) -> None:
    _split_and_merged(spark, data, views=2)


@FEW
@given(data=st.data())
def test_any_placement_gives_the_same(spark: SparkSession, data: st.DataObject) -> None:
    _placed(spark, data, views=1)


@pytest.mark.fuzz
@pytest.mark.usefixtures("progress")
@pytest.mark.parametrize("law", LAWS)
def test_long_campaign(spark: SparkSession, law: str) -> None:
    @settings(LONG, max_examples=max(1, int(LONG.max_examples * SHARES[law])))
    @given(data=st.data())
    def campaign(data: st.DataObject) -> None:
        coverage.note("law", [law])
        LAWS[law](spark, data)

    campaign()


@pytest.mark.fuzz
@pytest.mark.usefixtures("progress")
def test_the_campaign_covers_what_is_declared(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What chance has left out is aimed at; a declared kind that never occurs is a failure."""
    # A turn of a recursion is a Spark job where it has many rows, wherever the step is.
    monkeypatch.setattr(inline, "MAXIMUM_TURN_ROWS", 2)
    for _ in range(ATTEMPTS):
        for aims in _batches(coverage.missing(*queries.FEATURES), 5):
            _aimed(partial(_every_step, spark, aims=aims))
        for aims in _batches(coverage.missing("failure"), 2):
            _aimed(partial(_failing, spark, aims=aims))
        for aims in _batches(coverage.missing(coverage.BY_POLICIES), 1):
            _aimed(partial(_policies, spark, aims=aims))
        if coverage.missing("type", "change"):
            _aimed(partial(_every_step, spark, aims=[("query", "projection")]))
        leading = dict.fromkeys(coverage.WAYS[way] for way, _ in coverage.missing_ways())
        by_policies = [aim for aim in leading if aim[0] == coverage.BY_POLICIES]
        for aims in _batches([aim for aim in leading if aim not in by_policies], 3):
            _aimed(partial(_placed, spark, aims=aims), examples=4)
        if coverage.missing("policy") or by_policies:
            for placement in ("inline", "spark"):
                policies = partial(_policies, spark, aims=by_policies, placement=placement)
                _aimed(policies, examples=6)
    assert not coverage.missing() and not coverage.missing_ways()


def _batches(aims: list[Aim], size: int) -> list[list[Aim]]:
    return [aims[i : i + size] for i in range(0, len(aims), size)]


def _aimed(law: Callable[[st.DataObject], None], examples: int = 2) -> None:
    """The simplest example, which has next to no rows, and others."""

    @settings(LONG, max_examples=examples, database=None)
    @given(data=st.data())
    def tried(data: st.DataObject) -> None:
        law(data)

    tried()
