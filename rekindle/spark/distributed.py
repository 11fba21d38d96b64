"""A step on Spark, for changes of any size; rows never pass through the driver.

Each node that keeps an integral writes its change as a sorted run, which is both what its trace
grows by and what the nodes after it read. Joins, distinct and aggregates are kernels over one range
of the key-hash space (`outputs.py`), which run in the tasks of whoever reads them: a node with one
reader needs no job of its own. For several readers it is computed once (`sharing.py`). A view over
existing data is first filled in the same way, as one large change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.catalyst.bodies import CatalystGroupMap
from rekindle.circuit.circuit import Scope
from rekindle.circuit.nodes import Formed, GroupMap, Indexing, Node, Passing, Stateful, Table
from rekindle.circuit.stages import Branch
from rekindle.errors import EvaluationError
from rekindle.spark.columnar import Columnar, through
from rekindle.spark.executor import Executor
from rekindle.spark.frames import Frames, Written, of_table, to_arrow
from rekindle.spark.in_driver import InDriver
from rekindle.spark.inline import (
    MAXIMUM_JOIN_ROWS,
    InlineStep,
    prepared,
    signed,
    weighed,
    write_table,
)
from rekindle.spark.outputs import Outputs, Rows
from rekindle.spark.pairs import of_pairs
from rekindle.spark.placing import Placing
from rekindle.spark.plans import Plans, with_positional_names
from rekindle.spark.sharing import Sharing
from rekindle.spark.step import NodeStep, Placement, StepContext, StepResult
from rekindle.spark.tasks import Examination, Tasks
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.trace import Trace

Columns: TypeAlias = Callable[[Sequence[int]], Rows]
"""Some columns of the rows that a branch begins with."""


class DistributedStep(Executor[Trace, Columns, Run]):
    """Runs one step on files."""

    placement = Placement.SPARK

    def __init__(
        self, plans: Plans, frames: Frames, context: StepContext, placing: Placing
    ) -> None:
        super().__init__(plans, context)
        self._frames = frames
        self._placing = placing
        self._outputs = Outputs(plans, frames, context, self._environment)
        self._sharing = Sharing(plans, frames, context, self._outputs)
        self._in_driver = InDriver(plans, context, self._outputs, self._sharing, placing)
        self._written_here: set[str] = set()
        """Nodes of which the driver wrote what they keep."""
        self._rows: dict[str, int] = {}
        """How many rows nodes gave, as far as they were computed."""
        self._unread: set[str] = set()
        """Nodes that may give rows, which whoever reads them first computes and counts."""
        self._waiting: dict[str, NodeStep] = {}
        """What unread nodes did, but for the rows that they give."""
        self._scratch: set[str] = set()
        """Runs of pairs that were added up, which only this step reads."""

    def load(self, node: Table, frame: DataFrame, examine: Examination = iter) -> Run:
        """Write the change of a table, given as `_weight` and columns, as a run."""
        stages = self._plans.columnar(node, Branch(node.id, node.schema))
        if stages is not None:
            with suppress(EvaluationError):  # Spark hashes NULL lists, for one.
                return self._write(node, frame, partial(_through, stages, 1, None), examine).run
        prepared = self._frames.apply(frame, self._plans.lowering.preparation(node))
        return self._write(node, prepared, examine=examine).run

    def run(self, seeds: Mapping[str, Trace]) -> StepResult:
        """The step's runs.

        `seeds` are the changes of nodes that need no visit: of tables, or, when a new view is
        filled, the contents of whatever exists.
        """
        result = StepResult()
        self._walk(seeds, result)
        self._sharing.close()
        return result

    def seed(self, key: str, change: Trace) -> None:
        """Let a node have changed by what was written of it."""
        self._seed(self._context.circuit.nodes[key], change)

    def _seed(self, node: Node, change: Trace) -> None:
        if isinstance(node, Passing):
            if change.rows or self._context.announces(node):
                self._outputs.changes[node.id] = change
                self._unread.add(node.id)
        elif change.rows:
            self._outputs.changes[node.id] = change
            self._rows[node.id] = change.rows

    def give(self, key: str, change: pa.Table) -> None:
        """Let a node have changed by rows in the driver, of `_weight`, c0, c1..."""
        self._outputs.in_driver[key] = of_table(self._frames.catalyst.spark, change)
        self._rows[key] = len(change)

    def run_some(self, nodes: Iterable[Node], result: StepResult) -> dict[str, Run]:
        """Visit some nodes only; gives their runs, which are not yet part of the result."""
        apart = StepResult(nodes=result.nodes, passing=result.passing)
        for node in nodes:
            self._run(node, apart)
        self._sharing.close()
        return apart.runs

    def _note(self, key: str, step: NodeStep, result: StepResult) -> None:
        if key in self._unread:
            self._waiting[key] = step
        else:
            super()._note(key, step, result)

    def _rows_of(self, key: str) -> int:
        return self._rows.get(key, 0)

    def _may_change(self, key: str) -> bool:
        return key in self._unread or self._rows.get(key, 0) > 0

    def _remember_read(self, result: StepResult) -> None:
        """Note what the nodes did whose rows were counted meanwhile."""
        for key in [key for key in self._waiting if key not in self._unread]:
            placement = self._placement_of(self._context.circuit.nodes[key])
            step = replace(self._waiting.pop(key), rows_out=self._rows[key], placement=placement)
            if (division := self._outputs.divisions.get(key)) is not None:
                step = replace(step, heavy_keys=division.keys, threshold=division.threshold)
            super()._note(key, step, result)

    def _placement_of(self, node: Node) -> Placement:
        """Spark, unless all that a node keeps and gives was computed in the driver."""
        here = self._written_here if isinstance(node, Formed) else self._in_driver.given
        return Placement.INLINE if node.id in here else self.placement

    def _count(self, key: str, rows: int) -> None:
        """Take note of how many rows a node gave, when it is first read."""
        if key in self._unread:
            self._unread.discard(key)
            self._rows[key] = rows

    def _keep(self, keys: Iterable[str]) -> None:
        """Compute nodes for several readers, in jobs of their own."""
        for key in keys:
            passed = self._sharing.keep(self._context.circuit.nodes[key])
            self._count(key, passed.rows)

    def _run_scope(self, scope: Scope, result: StepResult) -> None:
        """A recursion: its iterations are many and mostly small, and run in the driver.

        Large ones are Spark jobs.
        """
        read = {key for node in scope.members for key in node.inputs if self._may_change(key)}
        outside = {key: self._changed_rows(self._context.circuit.nodes[key]) for key in read}
        self._remember_read(result)
        turns = _LargeTurns(self._plans, self._frames, self._context, self._placing)
        # What a Python function gives does not say at which iteration: it is called in the driver.
        in_driver = any(
            isinstance(node, GroupMap) and isinstance(node.body, CatalystGroupMap)
            for node in scope.members
        )
        step = InlineStep(self._plans, self._context, None if in_driver else MAXIMUM_JOIN_ROWS)
        changed = step.iterate(
            scope,
            {key: rows for key, rows in outside.items() if len(rows)},
            result,
            None if in_driver else turns.take,
        )
        for key, table in changed.items():
            if len(table):
                run = write_table(self._context, key, table)
                result.runs[key] = run
                self.seed(key, Trace(self._context.traces[key].layout, (run,)))
        turns.close()

    def _changed_rows(self, node: Node) -> pa.Table:
        """What a node changed by, in the driver."""
        changes = self._outputs.changes
        if node.id in changes and not isinstance(node, Passing):
            return TraceReader.of_trace(changes[node.id], self._context.store).whole()
        rows = self._in_driver.rows(node)
        if rows is not None:
            self._have_given([node.id])
            return rows
        self._keep(self._sharing.unkept([node.id]))
        rows = with_positional_names(to_arrow(self._frame(self._sharing.all_columns(node))))
        self._count(node.id, len(rows))
        return rows

    def _visit(self, node: Node, result: StepResult) -> None:
        """Write what a node keeps, or passes on by a key; what others give is read later."""
        run = self._written(node) if isinstance(node, Indexing) else None
        if isinstance(node, Passing):
            if self._may_give(node, run):
                self._unread.add(node.id)
        elif run is not None:
            self._rows[node.id] = run.rows
        result.passing |= self._scratch
        if run is not None and isinstance(node, Stateful):
            result.runs[node.id] = run
        elif run is not None:
            result.passing.update(run.paths)
        self._remember_read(result)

    def _written(self, node: Indexing) -> Run | None:
        """What a node that has rows by a key changes by."""
        run = None
        if isinstance(node, Formed):
            run = self._write_form(node)
        elif (rows := node.initial()) is not None:
            arranged = prepared(self._plans, node, weighed(rows))
            run = write_table(self._context, node.id, arranged) if len(arranged) else None
        if run is not None:
            self._outputs.changes[node.id] = Trace(self._plans.layout(node), (run,))
        return run

    def _may_give(self, node: Passing, run: Run | None) -> bool:
        """Is a node to be read, after what it keeps has changed by a run?"""
        if isinstance(node, Stateful):
            return run is not None or self._context.announces(node)
        return not self._outputs.is_empty(node)

    def _write_form(self, node: Formed) -> Run | None:
        branches = [branch for branch in node.form.branches if self._may_change(branch.node)]
        if not branches:
            return None
        arranged = self._in_driver.evaluated(node, branches)
        if arranged is not None:
            self._have_given(branch.node for branch in branches)
            self._written_here.add(node.id)
            return write_table(self._context, node.id, arranged) if len(arranged) else None
        self._keep(self._sharing.read_twice(branches))
        run = self._formed(node, [(b, partial(self._sharing.taken, b)) for b in branches])
        return run if run.rows else None

    def _have_given(self, keys: Iterable[str]) -> None:
        """Take note of nodes that were computed in the driver, for whoever else reads them."""
        for key in keys:
            rows = self._in_driver.given.get(key)
            if rows is not None and key in self._unread:
                self._count(key, len(rows))
                self._sharing.leave(self._context.circuit.nodes[key], rows)

    def _evaluated(self, node: Formed, given: Sequence[tuple[Branch, Columns]]) -> Run:
        branches = [branch for branch, _ in given]
        unkept = self._sharing.unkept([branch.node for branch in branches])
        if self._needs_jvm(node, branches):
            self._keep(unkept)
        parts = self._parts(node, given)
        tasks = self._columnar(node, parts)
        if tasks is not None:
            try:
                layout, prefix = self._plans.layout(node), self._context.path(node.id, "bulk")
                written = self._frames.write_tasks(tasks, layout, self._context.store, prefix)
                return self._noted(branches, written)
            except EvaluationError:
                # Spark knows better which row broke which expression, if any did.
                self._keep(unkept)
                parts = self._parts(node, given)
        frames = []
        for i, (branch, rows) in enumerate(parts):
            lowered = self._plans.lowered(node, branch)
            frame = self._frames.counted(self._frame(rows), i)
            frames.append(_signed(self._frames.apply(frame, lowered.stages), branch))
        frame = reduce(DataFrame.unionByName, frames)
        return self._noted(
            branches, self._write(node, frame, self._summing(node), parts=len(parts))
        )

    def _parts(
        self, node: Formed, given: Sequence[tuple[Branch, Columns]]
    ) -> list[tuple[Branch, Rows]]:
        return [
            (branch, columns(self._plans.lowered(node, branch).read)) for branch, columns in given
        ]

    def _noted(self, branches: Sequence[Branch], written: Written) -> Run:
        """The run, after what passed of each branch's rows was taken note of."""
        for branch, passed in zip(branches, written.passed, strict=True):
            if passed.files:
                self._sharing.have_kept(branch.node, passed)
            self._count(branch.node, passed.rows)
        return written.run

    def _needs_jvm(self, node: Formed, branches: Sequence[Branch]) -> bool:
        """Is one of the branches for Spark alone to compute?"""
        return any(
            self._plans.columnar(node, branch) is None
            or not self._sharing.gives_tasks(self._context.circuit.nodes[branch.node])
            for branch in branches
        )

    def _columnar(self, node: Formed, parts: Sequence[tuple[Branch, Rows]]) -> list[Tasks] | None:
        """The branches as tasks without the JVM; None if one of them needs it."""
        layout, last = self._plans.layout(node), self._summing(node)
        tasks = []
        for branch, rows in parts:
            stages = self._plans.columnar(node, branch)
            if stages is None or not isinstance(rows, Tasks):
                return None
            tasks.append(rows.map(partial(_through, stages, branch.sign, last), layout.schema))
        return tasks

    def _frame(self, rows: Rows) -> DataFrame:
        return self._frames.of_tasks(rows) if isinstance(rows, Tasks) else rows

    def _added_up(self, given: Sequence[tuple[Branch, Columns]]) -> Columns:
        nodes = self._context.circuit.nodes
        pairs = [branch for branch, _ in given]
        parts = []
        for i, branch in enumerate(pairs):
            rows = self._frames.counted(self._frame(self._outputs.of(nodes[branch.node])), i)
            parts.append(_signed(rows, branch))
        whole = of_pairs(pairs)
        lowered = self._plans.lowered(whole, whole.form.branches[0])
        frame = self._frames.apply(reduce(DataFrame.unionByName, parts), lowered.stages)
        run = self._noted(pairs, self._write(whole, frame, parts=len(parts)))
        self._scratch.update(run.paths)
        self._outputs.changes[whole.id] = Trace(self._plans.layout(whole), (run,))
        return partial(self._outputs.of, whole)

    def _summing(self, node: Formed) -> Callable[[pa.Table], pa.Table] | None:
        """How rows of a node are summed up, many at a time, before they are sorted."""
        return node.summing(self._environment)

    def _write(
        self,
        node: Indexing,
        frame: DataFrame,
        first: Callable[[pa.Table], pa.Table] | None = None,
        examine: Examination = iter,
        parts: int = 0,
    ) -> Written:
        layout, prefix = self._plans.layout(node), self._context.path(node.id, "bulk")
        return self._frames.write_frame(
            frame, layout, self._context.store, prefix, first, examine, parts
        )


class _LargeTurns:
    """Iterations of a recursion as Spark jobs.

    What is due and what has changed before is written as runs, and the members are visited as in
    any step on Spark. The changes of the relations are mapped files to the driver, which sorts out
    what is due when; what the joins between them give never passes through it.
    """

    def __init__(
        self, plans: Plans, frames: Frames, context: StepContext, placing: Placing
    ) -> None:
        self._plans, self._frames, self._context = plans, frames, context
        self._placing = placing
        self._turns = itertools.count()
        self._written: dict[int, tuple[pa.Table, Run]] = {}

    def take(
        self,
        members: Iterable[Node],
        due: Mapping[str, pa.Table],
        past: Mapping[str, list[pa.Table]],
        result: StepResult,
    ) -> dict[str, pa.Table]:
        """What the members change by at an iteration, and what was due."""
        attempt = f"{self._context.attempt}-i{next(self._turns)}"
        context = replace(self._context, attempt=attempt)
        traces = dict(context.traces)
        for key, tables in past.items():
            if self._is_arranged(key):
                runs = [self._run_of(context, key, i, table) for i, table in enumerate(tables)]
                traces[key] = replace(traces[key], runs=(*traces[key].runs, *runs))
        context = replace(context, traces=traces)
        step = DistributedStep(self._plans, self._frames, context, self._placing)
        for key, table in due.items():
            if self._is_arranged(key):
                run = self._run_of(context, key, len(past.get(key, ())), table)
                step.seed(key, Trace(context.traces[key].layout, (run,)))
            else:
                step.give(key, table)
        changed = dict(due)
        for key, run in step.run_some(members, result).items():
            trace = Trace(context.traces[key].layout, (run,))
            table = TraceReader.of_trace(trace, context.store).whole()
            changed[key] = table
            self._written[id(table)] = (table, run)
        return changed

    def _is_arranged(self, key: str) -> bool:
        """Are the changes of a node rows of its trace? What a group gives is not what it keeps."""
        node = self._context.circuit.nodes[key]
        return key in self._context.traces and not isinstance(node, Passing)

    def _run_of(self, context: StepContext, key: str, place: int, table: pa.Table) -> Run:
        """The file of a change, written if it has none."""
        if id(table) not in self._written:
            numbered = replace(context, attempt=f"{context.attempt}-{place}")
            self._written[id(table)] = (table, write_table(numbered, key, table))
        return self._written[id(table)][1]

    def close(self) -> None:
        """Remove the files: what they hold is part of the runs of the step."""
        self._context.store.delete(path for _, run in self._written.values() for path in run.paths)
        self._written.clear()


def _through(
    stages: Sequence[Columnar],
    sign: int,
    last: Callable[[pa.Table], pa.Table] | None,
    table: pa.Table,
) -> pa.Table:
    """A table through the stages of a branch and what its node does first.

    An expression that fails on Arrow columns is an `EvaluationError`: Spark, asked next, has a
    better one, or a result.
    """
    try:
        rows = through(stages, table)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise EvaluationError(str(error).splitlines()[0]) from error
    rows = signed(rows, sign)
    return rows if last is None else last(rows)


def _signed(frame: DataFrame, branch: Branch) -> DataFrame:
    return frame if branch.sign > 0 else frame.withColumn(WEIGHT, -F.col(WEIGHT))
