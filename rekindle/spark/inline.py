"""A step in the driver, for changes of up to some hundred thousand rows."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.circuit.circuit import Scope
from rekindle.circuit.nodes import (
    Formed,
    GroupMap,
    HalfJoin,
    Indexing,
    Keeping,
    Moment,
    Node,
    Passing,
)
from rekindle.circuit.operators.running import Cut, Reading, Work
from rekindle.circuit.stages import Branch, LinearForm
from rekindle.errors import EvaluationError
from rekindle.kernels.arrange import arrange
from rekindle.kernels.waiting import Time
from rekindle.spark.environment import StepEnvironment
from rekindle.spark.group_maps import mapped_in_driver
from rekindle.spark.loops import Loop
from rekindle.spark.pairs import of_pairs, pairs_of
from rekindle.spark.plans import Plans, with_positional_names
from rekindle.spark.stages import WEIGHT
from rekindle.spark.step import NodeStep, Placement, StepContext, StepResult, TooLargeError
from rekindle.traces.arrays import KEY
from rekindle.traces.consolidate import distinct_keys
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
        self._environment = StepEnvironment(plans, context)
        self._changes: dict[str, pa.Table] = {}
        """What nodes give."""
        self._states: dict[str, pa.Table] = {}
        """What nodes keep changes by, where it is not what they give."""
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
        inputs = [key for key in node.driving if key in self._changes]
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
            for feedback in loop.scope.feedbacks:
                if feedback.id in self._changes:
                    changed.setdefault(feedback.id, []).append(self._changes[feedback.id])
            for feedback in loop.led_back:
                if feedback.id in self._changes:
                    loop.waiting.add(feedback.variable.id, self._changes[feedback.id])
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
        """Let a node have changed by a table, of what it keeps."""
        if isinstance(node, Passing):
            if len(table):
                self._states[node.id] = table
            output = self._done(node.work(self._environment))
            if output is not None:
                self._changes[node.id] = output
        elif len(table):
            self._changes[node.id] = table

    def _write(self, seeds: Mapping[str, pa.Table], result: StepResult) -> None:
        """Write what traces grow by, last, so that a step that fails leaves no files."""
        for node in self._context.circuit.nodes.values():
            if node.id in seeds or not isinstance(node, Keeping):
                continue
            state = self._states if isinstance(node, Passing) else self._changes
            table = state.get(node.id)
            if table is not None and len(table):
                result.runs[node.id] = write_table(self._context, node.id, table)

    def _visit(self, node: Node) -> pa.Table | None:
        """What a node gives, after what it keeps has changed."""
        written = self._written(node)
        if not isinstance(node, Passing):
            return written
        if written is not None:
            self._states[node.id] = written
        work = node.work(self._environment, node.told_apart(self._environment))
        rows = self._done(work)
        if not isinstance(node, GroupMap):
            return rows
        rows = work.schema.empty_table() if rows is None else rows
        return mapped_in_driver(self._plans, self._context, node, rows)

    def _written(self, node: Node) -> pa.Table | None:
        """What a node that has rows by a key changes by."""
        if isinstance(node, Formed):
            rows = self._form(node)
            if rows is None:
                return None
            summing = node.summing(self._environment)
            return arrange(rows, self._plans.layout(node)) if summing is None else summing(rows)
        if isinstance(node, Indexing) and (rows := node.initial()) is not None:
            return prepared(self._plans, node, weighed(rows))
        return None

    def _done(self, work: Work) -> pa.Table | None:
        """The tables of a kernel over the whole change, as one."""
        tables = [] if work.first is None else [work.first]
        change = self._states.get(work.change, self._changes.get(work.change))
        if change is not None and len(change):
            piece = distinct_keys(change) if work.cut is Cut.KEYS_ALONE else change
            rows = 0
            for table in work.kernel(piece, [self._integral(each) for each in work.reads]):
                rows += len(table)
                if self._most_rows is not None and rows > self._most_rows:
                    raise TooLargeError(f"a node of this step gives more than {rows} rows")
                tables.append(table)
        return pa.concat_tables(tables) if tables else None

    def _integral(self, reading: Reading) -> TraceReader:
        """What a kernel looks things up in."""
        key = reading.key
        changed = [self._changes[key]] if key in self._changes else []
        match reading.moment:
            case Moment.BEFORE:
                return self._before(key)
            case Moment.AFTER:
                return self._before(key, changed)
            case Moment.DURING:
                return TraceReader.of_tables(self._environment.layout(key), changed)
        assert_never(reading.moment)

    def _form(self, node: Formed) -> pa.Table | None:
        """The rows that the branches of a linear form give, prepared for the node.

        If an expression fails it may have failed on a pair that was never there: see `pairs.py`.
        """
        given = [
            (branch, rows.select(_rows(rows)))
            for branch in node.form.branches
            if (rows := self._changes.get(branch.node)) is not None
        ]
        try:
            return self._evaluated(node, given)
        except EvaluationError:
            added = self._added_up(node.form, given)
            if added is None:
                raise
        return self._evaluated(node, added)

    def _evaluated(
        self,
        node: Formed,
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
        return given if half.lookup is None else self._done(half.work(self._environment))

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


def weighed(rows: pa.Table) -> pa.Table:
    """Rows as a change: each comes once."""
    ones = pa.array(np.ones(len(rows), dtype=np.int64))
    return with_positional_names(rows.add_column(0, WEIGHT, ones))


def prepared(plans: Plans, node: Indexing, rows: pa.Table) -> pa.Table:
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
