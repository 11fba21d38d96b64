"""A step in the driver, for changes of up to some hundred thousand rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
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
    Moment,
    Node,
    Passing,
    Stateful,
)
from rekindle.circuit.operators.running import Cut, IntegralRead, Work
from rekindle.circuit.stages import Branch
from rekindle.columns import is_added
from rekindle.kernels.arrange import arrange
from rekindle.kernels.waiting import Time
from rekindle.spark.executor import Executor
from rekindle.spark.group_maps import mapped_in_driver
from rekindle.spark.loops import Loop
from rekindle.spark.pairs import of_pairs
from rekindle.spark.plans import Plans, with_positional_names
from rekindle.spark.step import Placement, StepContext, StepResult, TooLargeError
from rekindle.traces.arrays import KEY, WEIGHT
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


class InlineStep(Executor[pa.Table, pa.Table, pa.Table | None]):
    """Runs one step on tables in memory."""

    placement = Placement.INLINE

    def __init__(
        self, plans: Plans, context: StepContext, most_rows: int | None = MAXIMUM_JOIN_ROWS
    ) -> None:
        super().__init__(plans, context)
        self._most_rows = most_rows
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
        self._walk(seeds, result)
        if checked is not None:
            checked()
        self._write(seeds, result)
        return result

    def outcome(self, seeds: Mapping[str, pa.Table], key: str) -> pa.Table | None:
        """What one node changes by; nothing is written."""
        self._walk(seeds, StepResult())
        return self._changes.get(key)

    def _may_change(self, key: str) -> bool:
        return self._rows_of(key) > 0

    def _rows_of(self, key: str) -> int:
        return len(self._changes.get(key, ()))

    def _run_scope(self, scope: Scope, result: StepResult) -> None:
        self._changes |= self.iterate(scope, self._changes, result)

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
            if isinstance(node, Stateful) and self._past.get(node.id)
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
                    loop.lead_back(feedback, self._changes[feedback.id])
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
        if isinstance(node, Passing):
            if len(table):
                self._states[node.id] = table
            output = self._done(node.work(self._environment))
            if output is not None and len(output):
                self._changes[node.id] = output
        elif len(table):
            self._changes[node.id] = table

    def _write(self, seeds: Mapping[str, pa.Table], result: StepResult) -> None:
        """Write what traces grow by, last, so that a step that fails leaves no files."""
        for node in self._context.circuit.nodes.values():
            if node.id in seeds or not isinstance(node, Stateful):
                continue
            state = self._states if isinstance(node, Passing) else self._changes
            table = state.get(node.id)
            if table is not None and len(table):
                result.runs[node.id] = write_table(self._context, node.id, table)

    def _visit(self, node: Node, result: StepResult) -> None:
        change = self._written(node)
        if isinstance(node, Passing):
            if change is not None:
                self._states[node.id] = change
            change = self._given(node)
        if change is not None and len(change):
            self._changes[node.id] = change

    def _given(self, node: Passing) -> pa.Table | None:
        """What a node gives that stores nothing of it."""
        work = node.work(self._environment, node.told_apart(self._environment))
        rows = self._done(work)
        if not isinstance(node, GroupMap):
            return rows
        rows = work.schema.empty_table() if rows is None else rows
        return mapped_in_driver(self._plans, self._context, node, rows)

    def _written(self, node: Node) -> pa.Table | None:
        """What a node that has rows by a key changes by."""
        if isinstance(node, Formed):
            changes = [(branch, self._changes.get(branch.node)) for branch in node.form.branches]
            rows = self._formed(
                node, [(b, rows.select(_rows(rows))) for b, rows in changes if rows is not None]
            )
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

    def _integral(self, reading: IntegralRead) -> TraceReader:
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

    def _evaluated(
        self,
        node: Formed,
        given: Sequence[tuple[Branch, pa.Table]],
    ) -> pa.Table | None:
        parts = []
        for branch, change in given:
            rows = self._plans.compiled(node, branch).run(change)
            if rows is not None:
                parts.append(signed(rows, branch.sign))
        return pa.concat_tables(parts) if parts else None

    def _added_up(self, given: Sequence[tuple[Branch, pa.Table]]) -> pa.Table | None:
        branches = [branch for branch, _ in given]
        parts = [
            signed(pairs, branch.sign)
            for branch, rows in given
            if (pairs := self._pairs(branch.node, rows)) is not None
        ]
        if not parts:
            return None
        whole = of_pairs(branches)
        hashed = self._plans.compiled(whole, whole.form.branches[0]).run(pa.concat_tables(parts))
        if hashed is None:
            return None
        table = arrange(hashed, self._plans.layout(whole))
        return table.select(_rows(table))

    def _pairs(self, key: str, given: pa.Table) -> pa.Table | None:
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
    hashed = plans.compiled(node, Branch(node.id, node.schema)).run(rows)
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


def signed(rows: pa.Table, sign: int) -> pa.Table:
    """The rows times a sign."""
    return rows if sign > 0 else rows.set_column(0, WEIGHT, pc.negate(rows.column(WEIGHT)))


def _rows(table: pa.Table) -> list[str]:
    """The weight and the payload columns, without hashes."""
    return [WEIGHT, *(name for name in table.column_names if not is_added(name))]
