"""The laws of a database, checked after a step against the test's own model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from math import inf
from typing import Any

from pyspark.sql import SparkSession

from rekindle.circuit.nodes import (
    Arrangement,
    DistinctRows,
    Group,
    GroupMap,
    HalfJoin,
    Table,
    Variable,
    View,
)
from rekindle.runtime.database import Database
from rekindle.traces.trace import Trace
from tests.property import coverage, oracle
from tests.property.changes import Edit, Model
from tests.property.oracle import Bag
from tests.property.schemas import TableSpec


class Subject:
    """A database under test beside the model it must agree with."""

    def __init__(
        self,
        db: Database,
        spark: SparkSession,
        specs: Sequence[TableSpec],
        views: Mapping[str, str],
        options: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.db = db
        self.spark = spark
        self.specs = list(specs)
        self.views = dict(views)
        self.options = dict(options or {})
        self.sums: dict[str, Bag] = {name: Counter() for name in [s.name for s in specs] + [*views]}
        self.seen = 0
        self.before: Mapping[str, Trace] = {}
        """The traces as they were before the last step."""

    def define(self) -> None:
        """Create the tables and views."""
        self.define_tables()
        self.define_views()

    def define_tables(self) -> None:
        for spec in self.specs:
            self.db.sql(spec.ddl)

    def define_views(self) -> None:
        for name, query in self.views.items():
            self.db.create_view(name, query, **self.options.get(name, {}))

    @property
    def listed(self) -> list[str]:
        """Tables and views that have changes: not those that are kept factorised."""
        return [n for n in self.sums if "representation" not in self.options.get(n, {})]

    def run(self, edits: Sequence[Edit]) -> None:
        """The edits as one transaction."""
        self.before = self.db._engine.state.traces
        if len(edits) == 1 and edits[0].sql:
            self.db.sql(edits[0].sql)
        else:
            with self.db.transaction() as tx:
                for edit in edits:
                    getattr(tx, edit.verb)(edit.table, list(edit.rows))
        coverage.note("change", [edit.verb for edit in edits])
        coverage.note_step(self.db)

    def contents(self) -> dict[str, Bag]:
        """What every table and view holds."""
        return {name: oracle.collected(self.db.table(name)) for name in self.sums}

    def check(self, model: Model, expected: Mapping[str, Bag] | None = None) -> dict[str, Bag]:
        """Laws 1 and 2 now; gives the contents."""
        if expected is None:
            expected = self.recompute(model)
        actual = self.contents()
        for name, rows in expected.items():
            at = f"at epoch {self.db.epoch}"
            oracle.assert_equal(actual[name], rows, f"law 1: {self._about(name)} {at}")
        for name in self.listed:
            self.sums[name].update(oracle.weighted(self.db.changes(name, since=self.seen)))
            self.sums[name] = oracle.without_zeros(self.sums[name])
            oracle.assert_equal(
                self.sums[name], actual[name], f"law 2: the changes of {self._about(name)}"
            )
        self.seen = self.db.epoch
        return actual

    def recompute(self, model: Model) -> dict[str, Bag]:
        """What tables and views must hold, from the model."""
        expected = {}
        for spec in self.specs:
            oracle.publish(self.spark, spec, model.rows[spec.name])
            expected[spec.name] = oracle.collected(self.spark.table(spec.name))
        return expected | oracle.recomputed(self.spark, self.views)

    def check_all_changes(self) -> None:
        """Law 2 on the whole history at once."""
        for name in self.listed:
            total = oracle.weighted(self.db.changes(name))
            actual = oracle.collected(self.db.table(name))
            oracle.assert_equal(total, actual, f"law 2: all changes of {self._about(name)}")

    def _about(self, name: str) -> str:
        return f"{name} ({self.views[name]})" if name in self.views else name


def check_work(
    db: Database, edits: Sequence[Edit], before: Mapping[str, Trace] | None = None
) -> None:
    """Law 6: the last step visited only what the edits reach, with no more rows than they cause.

    `before` are the traces before the step.
    """
    step = db.last_step
    assert step is not None and step.epoch == db.epoch
    circuit = db._engine.circuit
    given: Counter[str] = Counter()
    for edit in edits:
        # An upsert removes at most as many rows as it adds; a statement may touch any number.
        given[edit.table.lower()] += len(edit.rows) * (2 if edit.verb == "upsert" else 1)
    exact = not any(edit.sql for edit in edits)
    reached: dict[str, bool] = {}
    gave: dict[str, Any] = {}
    for node in circuit.nodes.values():
        if isinstance(node, Table):
            reached[node.id] = node.name in given
            gave[node.id] = given[node.name]
            assert node.id not in step.nodes
            continue
        if isinstance(node, Variable):
            # What comes back along it, an iteration later, is bounded by no change.
            reached[node.id], gave[node.id] = True, inf
            continue
        reached[node.id] = any(reached[key] for key in node.inputs)
        did = step.nodes.get(node.id)
        if did is None:
            gave[node.id] = 0
            continue
        assert reached[node.id], f"{node.id} was visited although nothing it reads changed"
        assert not did.rebuilt, f"{node.id} was filled anew: {did.rebuilt}"
        if exact:
            # A join of an arrangement with itself reads its change on both sides.
            bound = sum(gave[key] for key in node.inputs)
            assert did.rows_in <= bound, f"{node} read {did.rows_in} rows of a change of {bound}"
        gave[node.id] = did.rows_out
        if any(gave[key] == inf for key in node.inputs):
            gave[node.id] = inf
            continue
        match node:
            case Arrangement() | View():
                expanding = any(stage_grows(b) for b in node.form.branches)
                branches = len(node.form.branches)
                if not expanding:
                    assert did.rows_out <= did.rows_in * branches
            case Group():
                assert did.rows_out <= 2 * max(1, did.rows_in * len(node.form.branches)) or any(
                    stage_grows(b) for b in node.form.branches
                )
            case DistinctRows():
                assert did.rows_out <= did.rows_in
            case GroupMap():
                # No more results than the touched groups have rows, before and after. Copies of a
                # row count: each may become another result.
                if before is not None:
                    bound = db._engine.state.traces[node.arrangement].live
                    bound += before[node.arrangement].live
                    assert did.rows_out <= max(2, bound), f"{node} gave {did.rows_out} of {bound}"
            case HalfJoin():
                # What leaves is there twice meanwhile: as it was stored, and as it changes.
                stored = db._engine.state.traces[node.against].rows + gave[node.against]
                if before is not None:
                    stored += before[node.against].rows
                assert did.rows_out <= did.rows_in * stored


def stage_grows(branch: Any) -> bool:
    """Does a branch make several rows of one?"""
    return any(
        type(stage).__name__ not in ("Project", "Where", "Match", "Finish")
        for stage in branch.stages
    )
