"""A step in the driver, for changes of up to some hundred thousand rows."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.bodies import Measures
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Near, Onwards
from rekindle.circuit.circuit import Scope
from rekindle.circuit.nodes import (
    Arrangement,
    Constant,
    Deduplicate,
    Group,
    HalfJoin,
    Keeping,
    Moment,
    Node,
    Recur,
    Regroup,
    Routed,
    Table,
    Variable,
    View,
)
from rekindle.circuit.ranges import branches_of, told_apart
from rekindle.circuit.stages import Branch, LinearForm
from rekindle.errors import EvaluationError
from rekindle.kernels.aggregate import (
    Existence,
    aggregate_change,
    buffer_change,
    empty_buffers,
)
from rekindle.kernels.arrange import arrange
from rekindle.kernels.regroup import (
    MOMENT,
    parted,
    touched_groups,
    touched_onwards,
    with_signs,
)
from rekindle.kernels.settle import distinct_at_every_stamp, from_until, groups_at_every_stamp
from rekindle.kernels.waiting import Time
from rekindle.spark.loops import Loop
from rekindle.spark.pairs import of_pairs, pairs_of
from rekindle.spark.plans import (
    Plans,
    meeting_of,
    merged_column,
    output_columns,
    with_positional_names,
)
from rekindle.spark.stages import WEIGHT
from rekindle.spark.step import (
    NodeStep,
    Placement,
    StepContext,
    StepResult,
    TooLargeError,
    driving,
)
from rekindle.traces.arrays import KEY
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.store import Durability

MAXIMUM_JOIN_ROWS = 4_000_000
MAXIMUM_TURN_ROWS = 500_000
"""From so many changed rows on an iteration is a Spark job, in a step that runs on Spark."""
MAXIMUM_PIECES = 6
"""How many changes of earlier iterations are read one by one before they are added up."""
Elsewhere: TypeAlias = Callable[
    [Sequence[Node], Mapping[str, pa.Table], Mapping[str, list[pa.Table]], StepResult],
    dict[str, pa.Table],
]
"""Takes a turn of some nodes: from what is due, and what changed before, to what changes."""


class InlineStep:
    """Runs one step on tables in memory."""

    def __init__(
        self, plans: Plans, context: StepContext, most_rows: int | None = MAXIMUM_JOIN_ROWS
    ) -> None:
        self._plans = plans
        self._context = context
        self._most_rows = most_rows
        self._changes: dict[str, pa.Table] = {}
        self._states: dict[str, pa.Table] = {}
        self._stored: dict[str, TraceReader] = {}
        self._past: dict[str, list[pa.Table]] = {}
        """What nodes changed by in earlier iterations of the recursion that is running."""

    def run(
        self, seeds: Mapping[str, pa.Table], checked: Callable[[], None] | None = None
    ) -> StepResult:
        """The step's runs.

        `seeds` are arranged tables of nodes that need no visit: the changes of tables, or, when a
        new view is filled, the contents of whatever exists. Before anything is written, `checked`
        has the last word.
        """
        result = StepResult()
        self._visit_all(seeds, result)
        if checked is not None:
            checked()
        self._write(seeds, result)
        return result

    def outcome(self, seeds: Mapping[str, pa.Table], key: str) -> pa.Table | None:
        """What one node changes by; nothing is written."""
        self._visit_all(seeds, StepResult())
        return self._changes.get(key)

    def _visit_all(self, seeds: Mapping[str, pa.Table], result: StepResult) -> None:
        scopes = self._context.circuit.scopes
        inside = {node.id for scope in scopes.values() for node in scope.members}
        for node in self._context.circuit.nodes.values():
            seed = seeds.get(node.id)
            if seed is not None:
                self._seed(node, seed)
            elif node.id in scopes:
                self._changes |= self.iterate(scopes[node.id], self._changes, result)
            elif node.id not in inside:
                self._run(node, result)

    def _run(self, node: Node, result: StepResult) -> None:
        """Visit a node if anything that it reads has changed."""
        inputs = [key for key in driving(node) if key in self._changes]
        read = sum(len(self._changes[key]) for key in inputs)
        if not read and not self._context.announces(node):
            return
        started = time.perf_counter()
        with self._plans.under_settings_of(node):
            change = self._visit(node)
        if change is not None and len(change):
            self._changes[node.id] = change
        step = NodeStep(
            read,
            0 if change is None else len(change),
            time.perf_counter() - started,
            Placement.INLINE,
        )
        result.nodes[node.id] = step.after(result.nodes.get(node.id))

    def iterate(
        self,
        scope: Scope,
        outside: Mapping[str, pa.Table],
        result: StepResult,
        elsewhere: Elsewhere | None = None,
    ) -> dict[str, pa.Table]:
        """Run a recursion until nothing changes: (6.1), one iteration after another.

        What changed `outside` is there at iteration 0. A turn that is too large is taken
        `elsewhere`, if that is given. Gives the changes of the nodes that keep an integral.
        """
        before = self._changes
        self._turns(Loop.of(scope, self._plans), (), outside, result, elsewhere)
        changed = {
            node.id: self._summed(node.id, self._past[node.id])
            for node in scope.members
            if isinstance(node, Keeping) and self._past.get(node.id)
        }
        self._changes, self._past = before, {}
        return changed

    def _turns(
        self,
        loop: Loop,
        within: Time,
        outside: Mapping[str, pa.Table],
        result: StepResult,
        elsewhere: Elsewhere | None,
    ) -> dict[str, list[pa.Table]]:
        """The iterations of a recursion, at one iteration of each that it is in.

        What the relations change by is led back one iteration later; changes of later iterations
        wait for their turn, also for that of an outer recursion. Gives what the relations changed
        by, turn by turn; what was outside is as if it had not been read.
        """
        due = {key: outside[key] for key in loop.read if key in outside}
        past = {key: list(self._past.get(key, ())) for key in due}
        changed: dict[str, list[pa.Table]] = {}
        iteration = 0 if due else loop.soonest(within)
        while iteration is not None:
            loop.check(iteration)
            due |= loop.waiting.take((*within, iteration))
            self._changes = self._turn(loop, (*within, iteration), due, result, elsewhere)
            for key, change in self._changes.items():
                if key not in loop.inside:
                    self._past.setdefault(key, []).append(change)
            for recur in loop.scope.recurs:
                if recur.id in self._changes:
                    changed.setdefault(recur.id, []).append(self._changes[recur.id])
            for recur in loop.led_back:
                if recur.id in self._changes:
                    loop.waiting.add(recur.variable.id, self._changes[recur.id])
            due, iteration = {}, loop.soonest(within)
        self._past |= past
        return changed

    def _turn(
        self,
        loop: Loop,
        time: Time,
        due: Mapping[str, pa.Table],
        result: StepResult,
        elsewhere: Elsewhere | None,
    ) -> dict[str, pa.Table]:
        """What nodes change by at an iteration."""
        if loop.inner:
            return self._turn_around(loop, time, due, result, elsewhere)
        if elsewhere is not None and sum(map(len, due.values())) > MAXIMUM_TURN_ROWS:
            return elsewhere(loop.members, due, self._past, result)
        self._changes = dict(due)
        try:
            for node in loop.members:
                self._run(node, result)
        except TooLargeError:
            if elsewhere is None:
                raise
            return elsewhere(loop.members, due, self._past, result)
        return self._changes

    def _turn_around(
        self,
        loop: Loop,
        time: Time,
        due: Mapping[str, pa.Table],
        result: StepResult,
        elsewhere: Elsewhere | None,
    ) -> dict[str, pa.Table]:
        """The same where other recursions come to their end meanwhile.

        The turn cannot be taken again elsewhere when these have run, so nothing is too large for
        what is around them; their own turns may be.
        """
        most, here = self._most_rows, dict(due)
        for node in loop.members:
            if node.id in loop.inner:
                changed = self._turns(loop.inner[node.id], time, here, result, elsewhere)
                here |= {key: self._summed(key, tables) for key, tables in changed.items()}
            elif node.id not in loop.inside:
                self._changes = here
                self._most_rows = most if elsewhere is None else None
                self._run(node, result)
                self._most_rows = most
        return here

    def _summed(self, key: str, changes: Sequence[pa.Table]) -> pa.Table:
        """Arranged changes of a node as one."""
        whole = pa.concat_tables(changes)
        return whole if len(changes) == 1 else arrange(whole, self._context.traces[key].layout)

    def _seed(self, node: Node, table: pa.Table) -> None:
        if not isinstance(node, Group):
            if len(table):
                self._changes[node.id] = table
            return
        outputs = self._announced(node)
        if len(table):
            nothing = TraceReader.of_tables(self._plans.layout(node), [])
            outputs.append(
                buffer_change(table, nothing, self._plans.accumulators(node), _existence(node))
            )
        if outputs:
            whole = pa.concat_tables(outputs).select(output_columns(node))
            self._changes[node.id] = with_positional_names(whole)

    def _write(self, seeds: Mapping[str, pa.Table], result: StepResult) -> None:
        """Write what traces grow by, last, so that a step that fails leaves no files."""
        for node in self._context.circuit.nodes.values():
            if node.id in seeds or not isinstance(node, Keeping):
                continue
            state = self._states if isinstance(node, Group) else self._changes
            table = state.get(node.id)
            if table is not None and len(table):
                result.runs[node.id] = write_table(self._context, node.id, table)

    @cached_property
    def _branches(self) -> dict[str, list[Branch]]:
        """What this step takes from a node, by the node."""
        return branches_of(self._context.circuit.nodes.values())

    def _visit(self, node: Node) -> pa.Table | None:
        match node:
            case Arrangement() | Routed() | View() | Recur():
                rows = self._form(node, node.form)
                return None if rows is None else arrange(rows, self._plans.layout(node))
            case HalfJoin():
                if node.lookup is None:
                    return self._join(node)
                return self._join(node, told_apart(node, self._branches.get(node.id, ())))
            case Deduplicate():
                change = self._changes[node.arrangement]
                before = self._before(node.arrangement)
                output = distinct_at_every_stamp(change, before, node.stamps)
                return with_positional_names(output.select(_rows(output)))
            case Group():
                return self._group(node)
            case Regroup():
                return self._regroup(node)
            case Constant():
                return constant_rows(self._plans, node)
            case Table() | Variable():
                return None
        assert_never(node)

    def _form(
        self, node: Arrangement | Routed | Group | View | Recur, form: LinearForm
    ) -> pa.Table | None:
        """The rows that the branches of a linear form give, prepared for the node.

        If an expression fails it may have failed on a pair that was never there: see `pairs.py`.
        """
        given = [
            (branch, rows.select(_rows(rows)))
            for branch in form.branches
            if (rows := self._changes.get(branch.node)) is not None
        ]
        try:
            return self._evaluated(node, given)
        except EvaluationError:
            added = self._added_up(form, given)
            if added is None:
                raise
        return self._evaluated(node, added)

    def _evaluated(
        self,
        node: Arrangement | Routed | Group | View | Recur,
        given: Sequence[tuple[Branch, pa.Table]],
    ) -> pa.Table | None:
        """Rows of branches through their stages."""
        parts = []
        for branch, change in given:
            rows = self._plans.segment(node, branch).run(change)
            if rows is not None:
                parts.append(_signed(rows, branch))
        return pa.concat_tables(parts) if parts else None

    def _added_up(
        self, form: LinearForm, given: Sequence[tuple[Branch, pa.Table]]
    ) -> list[tuple[Branch, pa.Table]] | None:
        """What is left of the pairs of joins when they are added up; None if there are none."""
        found = dict(given)
        joined = pairs_of(self._context.circuit, form.branches)
        for branches in joined:
            parts = [
                _signed(rows, branch)
                for branch in branches
                if (rows := self._pairs(branch.node, found.pop(branch, None))) is not None
            ]
            if not parts:
                continue
            whole = of_pairs(branches)
            hashed = self._plans.segment(whole, whole.form.branches[0]).run(pa.concat_tables(parts))
            if hashed is not None:
                table = arrange(hashed, self._plans.layout(whole))
                found[replace(branches[0], sign=1)] = table.select(_rows(table))
        return list(found.items()) if joined else None

    def _pairs(self, key: str, given: pa.Table | None) -> pa.Table | None:
        """The pairs of a half join, each by itself also where one was `given` for several."""
        half = self._context.circuit.nodes[key]
        assert isinstance(half, HalfJoin)
        return given if half.lookup is None else self._join(half)

    def _join(self, node: HalfJoin, apart: Sequence[int] | None = None) -> pa.Table | None:
        """The pairs of a half join; of rows that agree in the columns `apart` one for all."""
        change = self._changes.get(node.change)
        reader = None if change is None else self._against(node)
        if reader is None:
            return None
        tables = []
        rows = 0
        for table in meeting_of(node, apart).batches(change, reader):
            rows += len(table)
            if self._most_rows is not None and rows > self._most_rows:
                raise TooLargeError(f"a join of this step gives more than {rows} rows")
            tables.append(table)
        return with_positional_names(pa.concat_tables(tables)) if tables else None

    def _group(self, node: Group) -> pa.Table | None:
        outputs = self._announced(node)
        accumulators = self._plans.accumulators(node)
        rows = self._form(node, node.form)
        if rows is not None:
            state, output = aggregate_change(
                rows, self._before(node.id), accumulators, _existence(node), merged_column(node)
            )
            self._states[node.id] = state
            outputs.append(output)
        if not outputs:
            return None
        return with_positional_names(pa.concat_tables(outputs).select(output_columns(node)))

    def _announced(self, node: Group) -> list[pa.Table]:
        """The buffers of no rows, where a group without keys begins with them."""
        if not self._context.announces(node):
            return []
        first = empty_buffers(self._plans.accumulators(node))
        return [first.add_column(0, WEIGHT, pa.array([1], pa.int64()))]

    def _regroup(self, node: Regroup) -> pa.Table | None:
        arrangement = self._context.circuit.nodes[node.arrangement]
        layout = self._context.traces[node.arrangement].layout
        change = self._changes.get(node.arrangement, layout.empty())
        before = self._before(node.arrangement)
        match node.extent:
            case _ if node.stamps:
                rows = groups_at_every_stamp(change, before, node.stamps)
            case Onwards():
                assert node.kept is not None
                rows = touched_onwards(change, before, self._before(node.kept.id), node.extent)
            case _:
                after = self._before(node.arrangement, [change])
                rows = touched_groups(change, before, after, node.extent)
        if self._most_rows is not None and len(rows) > self._most_rows:
            raise TooLargeError(f"the touched groups of this step have {len(rows)} rows")
        schema = arrangement.schema
        parts = []
        if len(rows):
            if isinstance(node.extent, Onwards):
                leaving, rows = parted(rows)
                parts.append(with_positional_names(leaving))
            result = self._plans.regroup(node, schema).run(rows)
            if node.stamps:
                result = from_until(result, len(node.keys), node.stamps)
            elif isinstance(node.extent, Near):
                result = with_signs(result)
            parts.append(with_positional_names(result))
        if not node.keys and isinstance(node.body, Measures):
            parts += empty_results(self._plans, node, schema, rows, self._context)
        return pa.concat_tables(parts) if parts else None

    def _against(self, node: HalfJoin) -> TraceReader | None:
        """What the change of a join is paired with; None for nothing."""
        changed = [self._changes[node.against]] if node.against in self._changes else []
        match node.moment:
            case Moment.BEFORE:
                return self._before(node.against)
            case Moment.AFTER:
                return self._before(node.against, changed)
            case Moment.DURING:
                layout = self._plans.layout(self._routed(node.against))
                return TraceReader.of_tables(layout, changed) if changed else None
        assert_never(node.moment)

    def _routed(self, key: str) -> Routed:
        node = self._context.circuit.nodes[key]
        assert isinstance(node, Routed)
        return node

    def _before(self, key: str, extra: Sequence[pa.Table] = ()) -> TraceReader:
        """A node's integral before its change, or with some of it."""
        past = self._past.get(key, [])
        if len(past) > MAXIMUM_PIECES:
            whole = arrange(pa.concat_tables(past), self._context.traces[key].layout)
            past = self._past[key] = [whole]
        if key not in self._stored:
            trace = self._context.traces[key]
            self._stored[key] = TraceReader.of_trace(trace, self._context.store)
        return self._stored[key].plus([*past, *extra])


def _existence(node: Group) -> Existence:
    return Existence.WITH_ROWS if node.keys else Existence.ALWAYS


def empty_results(
    plans: Plans, node: Regroup, rows: Schema, touched: pa.Table, context: StepContext
) -> list[pa.Table]:
    """The result over no rows, for the moments at which an aggregate without keys has none."""
    moments = set(touched.column(MOMENT).unique().to_pylist())
    if node.id in context.fresh:
        moments.add(-1)
    result = plans.of_nothing(node, rows)
    return [
        result.add_column(0, WEIGHT, pa.array([moment], pa.int64()))
        for moment in (-1, 1)
        if moment not in moments
    ]


def constant_rows(plans: Plans, node: Constant) -> pa.Table:
    """The rows of a constant, arranged."""
    rows = node.relation.table
    ones = pa.array(np.ones(len(rows), dtype=np.int64))
    return prepared(plans, node, with_positional_names(rows.add_column(0, WEIGHT, ones)))


def prepared(plans: Plans, node: Table | Constant, rows: pa.Table) -> pa.Table:
    """Rows with weights as an arranged change of a source; parts may be arranged already."""
    layout = plans.layout(node)
    if is_arranged(rows):
        return arrange(rows, layout)
    hashed = plans.segment(node, Branch(node.id, node.schema)).run(rows)
    return layout.empty() if hashed is None else arrange(hashed, layout)


def is_arranged(rows: pa.Table) -> bool:
    """Whether rows have their keys and identities beside them."""
    return KEY in rows.column_names


def write_table(context: StepContext, key: str, table: pa.Table) -> Run:
    """Write an arranged change as a run; it is not yet durable."""
    numbers = itertools.count()
    return context.store.write_run(
        table, lambda: context.path(key, f"{next(numbers):05}.arrow"), Durability.DEFERRED
    )


def _signed(rows: pa.Table, branch: Branch) -> pa.Table:
    if branch.sign > 0:
        return rows
    return rows.set_column(0, WEIGHT, pc.negate(rows.column(WEIGHT)))


def _rows(table: pa.Table) -> list[str]:
    """The weight and the payload columns, without hashes."""
    return [WEIGHT, *(name for name in table.column_names if not name.startswith("_"))]
