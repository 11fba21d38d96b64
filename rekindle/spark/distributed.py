"""A step on Spark, for changes of any size; rows never pass through the driver.

Each node that keeps an integral writes its change as a sorted run, which is both what its trace
grows by and what the nodes after it read. Joins, distinct and aggregates are kernels over one range
of the key-hash space, fed from the mapped files of the change and of the trace. A view over
existing data is first filled in the same way, as one large change.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial, reduce
from typing import TypeAlias, assert_never

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from rekindle.calculus.bodies import Measures
from rekindle.calculus.terms import First, Near, Onwards, Quantiles
from rekindle.circuit.circuit import Scope
from rekindle.circuit.nodes import (
    Arrangement,
    Constant,
    Deduplicate,
    Group,
    HalfJoin,
    Indexed,
    Indexing,
    Moment,
    Node,
    Recur,
    Regroup,
    Routed,
    Table,
    Variable,
    View,
)
from rekindle.circuit.ranges import told_apart
from rekindle.circuit.stages import Branch
from rekindle.errors import EvaluationError, RekindleError
from rekindle.kernels.aggregate import (
    Existence,
    buffer_change,
    buffer_schema,
    empty_buffers,
    state_change,
)
from rekindle.kernels.regroup import (
    MOMENT,
    deciding_rows,
    group_schema,
    touched_groups,
    touched_onwards,
)
from rekindle.kernels.settle import (
    distinct_at_every_stamp,
    from_until,
    groups_at_every_stamp,
    stamped_group_schema,
)
from rekindle.spark.columnar import Columnar, through
from rekindle.spark.frames import (
    Frames,
    of_table,
    spark_schema,
    sum_of,
    to_arrow,
)
from rekindle.spark.inline import InlineStep, constant_rows, empty_results, write_table
from rekindle.spark.pairs import of_pairs, pairs_of
from rekindle.spark.plans import (
    Plans,
    group_columns,
    meeting_of,
    merged_column,
    output_columns,
    with_positional_names,
)
from rekindle.spark.stages import WEIGHT
from rekindle.spark.step import NodeStep, Placement, StepContext, StepResult
from rekindle.spark.tasks import Examination, Tasks, over_ranges
from rekindle.traces.partition import KEY_LOW, KeyRange
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.trace import Trace

CHANGE_ROWS = 200_000
Rows: TypeAlias = Tasks | DataFrame
"""An output of `_weight` and columns: of kernels, or what only Spark can make."""
Columns: TypeAlias = Callable[[Sequence[int]], Rows]
"""Some columns of the rows that a branch begins with."""


class DistributedStep:
    """Runs one step on files."""

    def __init__(self, plans: Plans, frames: Frames, context: StepContext) -> None:
        self._plans = plans
        self._frames = frames
        self._context = context
        self._changes: dict[str, Trace] = {}
        self._given: dict[str, DataFrame] = {}
        self._rows: dict[str, int] = {}
        self._scratch: set[str] = set()
        """Files that only this step reads."""

    def load(self, node: Table, frame: DataFrame, examine: Examination = iter) -> Run:
        """Write the change of a table, given as `_weight` and columns, as a run."""
        stages = self._plans.columnar(node, Branch(node.id, node.schema))
        if stages is not None:
            with suppress(EvaluationError):  # Spark hashes NULL lists, for one.
                return self._write(node, frame, partial(_through, stages, 1, None), examine)
        prepared = self._frames.apply(frame, self._plans.lowering.preparation(node))
        return self._write(node, prepared, examine=examine)

    def run(self, seeds: Mapping[str, Trace]) -> StepResult:
        """The step's runs.

        `seeds` are the changes of nodes that need no visit: of tables, or, when a new view is
        filled, the contents of whatever exists.
        """
        result = StepResult()
        scopes = self._context.circuit.scopes
        inside = {node.id for scope in scopes.values() for node in scope.members}
        for node in self._context.circuit.nodes.values():
            if node.id in scopes and node.id not in seeds:
                self._iterate(scopes[node.id], result)
            if node.id in inside and node.id not in seeds:
                continue
            seed = seeds.get(node.id)
            if seed is None:
                self._run(node, result)
            elif seed.rows or self._context.announces(node):
                self.seed(node.id, seed)
        return result

    def seed(self, key: str, change: Trace) -> None:
        """Let a node have changed by what was written of it."""
        self._changes[key] = change
        self._rows[key] = max(1, change.rows)

    def give(self, key: str, change: pa.Table) -> None:
        """Let a node have changed by rows in the driver, of `_weight`, c0, c1..."""
        self._given[key] = of_table(self._frames.catalyst.spark, change)
        self._rows[key] = len(change)

    def run_some(self, nodes: Iterable[Node], result: StepResult) -> dict[str, Run]:
        """Visit some nodes only; gives their runs, which are not yet part of the result."""
        found = StepResult(nodes=result.nodes)
        for node in nodes:
            self._run(node, found)
        return found.runs

    def _run(self, node: Node, result: StepResult) -> None:
        """Visit a node if anything that it reads has changed."""
        read = sum(self._rows.get(key, 0) for key in dict.fromkeys(node.inputs))
        if isinstance(node, Table) or not (read or self._context.announces(node)):
            return
        started = time.perf_counter()
        with self._plans.under_settings_of(node):
            run = self._visit(node)
        result.passing |= self._scratch
        if isinstance(node, Routed):
            result.passing.update(() if run is None else run.paths)
        elif run is not None:
            result.runs[node.id] = run
        step = NodeStep(
            read, self._rows.get(node.id, 0), time.perf_counter() - started, Placement.SPARK
        )
        result.nodes[node.id] = step.after(result.nodes.get(node.id))

    def _iterate(self, scope: Scope, result: StepResult) -> None:
        """A recursion: its iterations are many and mostly small, and run in the driver.

        Large ones are Spark jobs.
        """
        read = {key for node in scope.members for key in node.inputs if key in self._rows}
        outside = {key: self._changed_rows(self._context.circuit.nodes[key]) for key in read}
        step = InlineStep(self._plans, self._context)
        turns = _LargeTurns(self._plans, self._frames, self._context)
        changed = step.iterate(scope, outside, result, turns.take)
        for key, table in changed.items():
            if len(table):
                run = write_table(self._context, key, table)
                result.runs[key] = run
                self.seed(key, Trace(self._context.traces[key].layout, (run,)))
        turns.close()

    def _changed_rows(self, node: Node) -> pa.Table:
        """What a node changed by, in the driver."""
        if node.id in self._changes and not isinstance(node, Group):
            return TraceReader.of_trace(self._changes[node.id], self._context.store).whole()
        return with_positional_names(to_arrow(self._frame(self._output(node))))

    def _visit(self, node: Node) -> Run | None:
        match node:
            case Arrangement() | Routed() | View() | Group() | Recur():
                return self._write_form(node)
            case HalfJoin():
                if self._integral(node).rows:
                    self._note(node.id, self._rows.get(node.change, 0))
                return None
            case Deduplicate() | Regroup():
                self._note(node.id, self._rows.get(node.arrangement, 0))
                if self._context.announces(node):
                    self._rows[node.id] = 1
                return None
            case Constant():
                return self._constant(node)
            case Table() | Variable():
                return None
        assert_never(node)

    def _note(self, key: str, rows: int) -> None:
        """Remember that a node's output, computed when it is read, may have so many rows."""
        if rows:
            self._rows[key] = rows

    def _write_form(self, node: Arrangement | Routed | View | Group | Recur) -> Run | None:
        branches = [branch for branch in node.form.branches if branch.node in self._rows]
        if self._context.announces(node):
            self._rows[node.id] = 1
        if not branches:
            return None
        try:
            run = self._evaluated(node, [(b, partial(self._taken, b)) for b in branches])
        except EvaluationError:
            added = self._added_up(branches)
            if added is None:
                raise
            run = self._evaluated(node, added)
        if not run.rows:
            return None
        self._changes[node.id] = Trace(self._plans.layout(node), (run,))
        self._rows[node.id] = run.rows
        return run

    def _evaluated(
        self,
        node: Arrangement | Routed | View | Group | Recur,
        given: Sequence[tuple[Branch, Columns]],
    ) -> Run:
        """Columns of branches through their stages, written."""
        parts = [
            (branch, columns(self._plans.lowered(node, branch).read)) for branch, columns in given
        ]
        tasks = self._columnar(node, parts)
        if tasks is not None:
            try:
                layout, prefix = self._plans.layout(node), self._context.path(node.id, "bulk")
                return self._frames.write_tasks(tasks, layout, self._context.store, prefix)
            except EvaluationError:
                pass  # Spark knows better which row broke which expression, if any did.
        frames = []
        for branch, found in parts:
            lowered = self._plans.lowered(node, branch)
            frame = self._frames.apply(self._frame(found), lowered.stages)
            frames.append(_signed(frame, branch))
        frame = reduce(DataFrame.unionByName, frames)
        return self._write(node, frame, self._partial(node))

    def _columnar(
        self,
        node: Arrangement | Routed | View | Group | Recur,
        parts: Sequence[tuple[Branch, Rows]],
    ) -> list[Tasks] | None:
        """The branches as tasks without the JVM; None if one of them needs it."""
        layout, last = self._plans.layout(node), self._partial(node)
        found = []
        for branch, rows in parts:
            stages = self._plans.columnar(node, branch)
            if stages is None or not isinstance(rows, Tasks):
                return None
            found.append(rows.map(partial(_through, stages, branch.sign, last), layout.schema))
        return found

    def _frame(self, rows: Rows) -> DataFrame:
        return self._frames.of_tasks(rows) if isinstance(rows, Tasks) else rows

    def _added_up(self, branches: Sequence[Branch]) -> list[tuple[Branch, Columns]] | None:
        """What is left of the pairs of joins when they are added up; None if there are none."""
        nodes = self._context.circuit.nodes
        found: dict[Branch, Columns] = {b: partial(self._output, nodes[b.node]) for b in branches}
        joined = pairs_of(self._context.circuit, branches)
        for pairs in joined:
            for branch in pairs:
                del found[branch]
            parts = [
                _signed(self._frame(self._output(nodes[branch.node])), branch) for branch in pairs
            ]
            whole = of_pairs(pairs)
            lowered = self._plans.lowered(whole, whole.form.branches[0])
            frame = self._frames.apply(reduce(DataFrame.unionByName, parts), lowered.stages)
            run = self._write(whole, frame)
            self._scratch.update(run.paths)
            self._changes[whole.id] = Trace(self._plans.layout(whole), (run,))
            found[replace(pairs[0], sign=1)] = partial(self._output, whole)
        return list(found.items()) if joined else None

    def _constant(self, node: Constant) -> Run | None:
        rows = constant_rows(self._plans, node)
        if not len(rows):
            return None
        run = write_table(self._context, node.id, rows)
        self._changes[node.id] = Trace(self._plans.layout(node), (run,))
        self._rows[node.id] = run.rows
        return run

    def _write(
        self,
        node: Indexing,
        frame: DataFrame,
        first: Callable[[pa.Table], pa.Table] | None = None,
        examine: Examination = iter,
    ) -> Run:
        layout, prefix = self._plans.layout(node), self._context.path(node.id, "bulk")
        return self._frames.write_frame(frame, layout, self._context.store, prefix, first, examine)

    def _partial(self, node: Indexing) -> Callable[[pa.Table], pa.Table] | None:
        """How rows of a group are summed up, many at a time, before they are sorted."""
        if not isinstance(node, Group):
            return None
        return partial(
            state_change,
            layout=self._plans.layout(node),
            accumulators=self._plans.accumulators(node),
            merged=merged_column(node),
        )

    # ---- outputs, of `_weight`, c0, c1... --------------------------------------------------

    def _taken(self, branch: Branch, read: Sequence[int]) -> Rows:
        """What a branch takes: of the pairs of a join one for several, where it sees no more."""
        node = self._context.circuit.nodes[branch.node]
        if isinstance(node, HalfJoin) and node.lookup is not None and node.id not in self._given:
            return self._joined(node, read, told_apart(node, [branch]))
        return self._output(node, read)

    def _output(self, node: Node, read: Sequence[int] | None = None) -> Rows:
        """What a node changed by; only the columns at the positions `read`, if these are given."""
        if node.id in self._given:
            return _selected(self._given[node.id], read)
        match node:
            case Table() | Constant() | Arrangement() | Routed() | View() | Recur():
                return self._changed(node, read)
            case HalfJoin():
                return self._joined(node, read)
            case Deduplicate():
                return _selected(self._deduplicated(node), read)
            case Group():
                return _selected(self._grouped(node), read)
            case Regroup():
                return _selected(self._regrouped(node), read)
            case Variable():
                raise RekindleError("a variable of a recursion is read outside of it")
        assert_never(node)

    def _changed(self, node: Indexed, read: Sequence[int] | None) -> Tasks:
        trace = self._changes[node.id]
        names = trace.layout.payload.names
        wanted = names if read is None else [names[i] for i in read]
        return self._frames.scan(trace, self._context.store, [WEIGHT, *wanted])

    def _joined(
        self,
        node: HalfJoin,
        read: Sequence[int] | None,
        apart: Sequence[int] | None = None,
    ) -> Rows:
        """Both sides are sorted by the key already, so nothing is shuffled.

        This holds when a view is first filled too: the integral is then this step's change.
        """
        trace = self._integral(node)
        if not trace.rows:
            return _selected(self._nothing(node), read)
        written = self._changes[node.change]
        store, meeting = self._context.store, meeting_of(node, apart)
        named = _positional(meeting.schema(written.layout.schema, trace.layout.schema))
        if read is not None:
            named = pa.schema([named.field(0), *(named.field(1 + i) for i in read)])

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            reader = TraceReader.of_trace(trace, store, key_range)
            for table in TraceReader.of_trace(written, store, key_range).scan(CHANGE_ROWS):
                for joined in meeting.batches(table, reader, wanted=read):
                    yield joined.rename_columns(named.names)

        rows = self._rows[node.change] + trace.rows // 100
        return over_ranges(kernel, named, self._frames.partitions(rows))

    def _integral(self, node: HalfJoin) -> Trace:
        """What the change of a join is paired with."""
        changed = self._changes.get(node.against)
        match node.moment:
            case Moment.BEFORE:
                return self._context.traces[node.against]
            case Moment.AFTER:
                return sum_of(self._context.traces[node.against], changed)
            case Moment.DURING:
                nothing = Trace(self._plans.layout(self._indexed(node.against)))
                return nothing if changed is None else changed
        assert_never(node.moment)

    def _nothing(self, node: HalfJoin) -> DataFrame:
        change, against = (self._indexed(key) for key in (node.change, node.against))
        layouts = [self._plans.layout(n).schema for n in (change, against)]
        schema = _positional(meeting_of(node).schema(*layouts))
        return self._frames.catalyst.spark.createDataFrame([], spark_schema(schema))

    def _deduplicated(self, node: Deduplicate) -> Tasks:
        before = self._context.traces[node.arrangement]
        written = self._changes[node.arrangement]
        store = self._context.store
        names = [WEIGHT, *written.layout.payload.names]
        schema = pa.schema([written.layout.schema.field(name) for name in names])
        stamps = node.stamps

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            reader = TraceReader.of_trace(before, store, key_range)
            for table in TraceReader.of_trace(written, store, key_range).scan_keys(CHANGE_ROWS):
                yield distinct_at_every_stamp(table, reader, stamps).select(names)

        return over_ranges(kernel, schema, self._frames.partitions(written.rows))

    def _grouped(self, node: Group) -> Tasks:
        before = self._context.traces[node.id]
        accumulators, store = self._plans.accumulators(node), self._context.store
        announced = self._context.announces(node)
        written = self._changes.get(node.id, Trace(before.layout))
        existence = Existence.WITH_ROWS if node.keys else Existence.ALWAYS
        names = output_columns(node)
        full = buffer_schema(before.layout, accumulators)
        schema = pa.schema([full.field(name) for name in names])

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            if announced and key_range[0] == KEY_LOW:
                first = empty_buffers(accumulators)
                yield first.add_column(0, WEIGHT, pa.array([1], pa.int64())).select(names)
            reader = TraceReader.of_trace(before, store, key_range)
            for table in TraceReader.of_trace(written, store, key_range).scan(CHANGE_ROWS):
                yield buffer_change(table, reader, accumulators, existence).select(names)

        return over_ranges(kernel, schema, self._frames.partitions(written.rows))

    def _regrouped(self, node: Regroup) -> DataFrame:
        """Kernels gather the rows of the touched groups, and Spark computes what they become."""
        arrangement = self._indexed(node.arrangement)
        before = self._context.traces[node.arrangement]
        written = self._changes.get(node.arrangement, Trace(before.layout))
        after = sum_of(before, written)
        store, extent, stamps = self._context.store, node.extent, node.stamps
        kept = None if node.kept is None else self._context.traces[node.kept.id]

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            old = TraceReader.of_trace(before, store, key_range)
            new = TraceReader.of_trace(after, store, key_range)
            changes = TraceReader.of_trace(written, store, key_range)
            if isinstance(extent, First | Quantiles):
                for keys in changes.keys(CHANGE_ROWS):
                    yield deciding_rows(keys, old, new, extent)
                return
            for table in changes.scan_keys(CHANGE_ROWS):
                if stamps:
                    yield groups_at_every_stamp(table, old, stamps)
                elif isinstance(extent, Onwards):
                    assert kept is not None
                    results = TraceReader.of_trace(kept, store, key_range)
                    yield touched_onwards(table, old, results, extent)
                else:
                    yield touched_groups(table, old, new, extent)

        given = (before if kept is None else kept).layout.schema
        schema = stamped_group_schema(given, stamps) if stamps else group_schema(given)
        tasks = over_ranges(kernel, schema, self._frames.partitions(written.rows))
        rows = self._frames.of_tasks(tasks)
        keys, types = group_columns(node, arrangement.schema)
        attributes = self._plans.bodies.attributes(types)
        becoming = rows if kept is None else rows.where(F.col(MOMENT) >= 0)
        leaf = self._frames.aliased(becoming, attributes)
        frame = self._frames.of_plan(self._plans.bodies.of_node(node, keys, leaf, attributes))
        if stamps:
            return _from_until(frame, len(node.keys), stamps)
        if isinstance(extent, Near):
            return frame.withColumn(WEIGHT, F.signum(WEIGHT).cast("bigint"))
        if kept is not None:
            leaving = rows.where(F.col(MOMENT) < 0).withColumnRenamed(MOMENT, WEIGHT)
            return frame.unionByName(leaving)
        if node.keys or not isinstance(node.body, Measures):
            return frame
        result = with_positional_names(to_arrow(frame))
        touched = pa.table({MOMENT: result.column(WEIGHT)})
        more = empty_results(self._plans, node, arrangement.schema, touched, self._context)
        if more:
            result = pa.concat_tables([result.cast(more[0].schema), *more])
        return of_table(self._frames.catalyst.spark, result)

    def _indexed(self, key: str) -> Indexed:
        node = self._context.circuit.nodes[key]
        assert isinstance(node, Indexed)
        return node


class _LargeTurns:
    """Iterations of a recursion as Spark jobs.

    What is due and what has changed before is written as runs, and the members are visited as in
    any step on Spark. The changes of the relations are mapped files to the driver, which sorts out
    what is due when; what the joins between them give never passes through it.
    """

    def __init__(self, plans: Plans, frames: Frames, context: StepContext) -> None:
        self._plans, self._frames, self._context = plans, frames, context
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
            if key in traces:
                runs = [self._run_of(context, key, i, table) for i, table in enumerate(tables)]
                traces[key] = replace(traces[key], runs=(*traces[key].runs, *runs))
        context = replace(context, traces=traces)
        step = DistributedStep(self._plans, self._frames, context)
        for key, table in due.items():
            if key in context.traces:
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


def _from_until(frame: DataFrame, keys: int, stamps: int) -> DataFrame:
    """`from_until` on a frame."""
    weight, *columns = frame.schema.fields
    kept = [*columns[:keys], *columns[keys + 2 * stamps :], *columns[keys : keys + stamps]]
    schema = StructType([weight, *(StructField(f"c{i}", f.dataType) for i, f in enumerate(kept))])

    def changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from from_until(pa.Table.from_batches([batch]), keys, stamps).to_batches()

    return frame.mapInArrow(changes, schema)


def _selected(rows: Rows, read: Sequence[int] | None) -> Rows:
    """The weight and the columns at some positions."""
    if read is None:
        return rows
    if isinstance(rows, Tasks):
        return rows.select([0, *(1 + i for i in read)])
    weight, *names = rows.columns
    return rows.select(weight, *(names[i] for i in read))


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
    if sign < 0:
        rows = rows.set_column(0, WEIGHT, pc.negate(rows.column(WEIGHT)))
    return rows if last is None else last(rows)


def _signed(frame: DataFrame, branch: Branch) -> DataFrame:
    return frame if branch.sign > 0 else frame.withColumn(WEIGHT, -F.col(WEIGHT))


def _positional(schema: pa.Schema) -> pa.Schema:
    names = [WEIGHT, *(f"c{i}" for i in range(len(schema) - 1))]
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
