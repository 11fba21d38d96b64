"""What nodes give in a step on Spark: tasks, or frames where only Spark can compute it.

Outputs have the columns `_weight`, c0, c1... They are computed from the runs by which the inputs of
a node change, when somebody reads them: by kernels over one range of the key-hash space, fed from
the mapped files of the change and of the trace.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias, assert_never

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from rekindle.calculus.bodies import Measures
from rekindle.calculus.terms import First, Near, Onwards, Quantiles
from rekindle.catalyst.types import payload_schema
from rekindle.circuit.nodes import (
    Arrangement,
    Constant,
    Deduplicate,
    Group,
    HalfJoin,
    Indexed,
    Moment,
    Node,
    Passing,
    Recur,
    Regroup,
    Routed,
    Table,
    Variable,
    View,
)
from rekindle.errors import RekindleError
from rekindle.kernels.aggregate import Existence, buffer_change, buffer_schema, empty_buffers
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
from rekindle.spark.frames import Frames, of_table, sum_of, to_arrow
from rekindle.spark.inline import empty_results
from rekindle.spark.plans import (
    Plans,
    group_columns,
    meeting_of,
    output_columns,
    with_positional_names,
)
from rekindle.spark.stages import WEIGHT
from rekindle.spark.step import StepContext
from rekindle.spark.tasks import Tasks, over_ranges
from rekindle.traces.partition import KEY_LOW, KeyRange
from rekindle.traces.reader import TraceReader
from rekindle.traces.trace import Trace

CHANGE_ROWS = 200_000
Rows: TypeAlias = Tasks | DataFrame
"""An output of `_weight` and columns: of kernels, or what only Spark can make."""


class Outputs:
    """The outputs of the nodes of one step, from the changes that were written."""

    def __init__(self, plans: Plans, frames: Frames, context: StepContext) -> None:
        self._plans = plans
        self._frames = frames
        self._context = context
        self.changes: dict[str, Trace] = {}
        """By what nodes that are arranged, or groups, changed."""
        self.in_driver: dict[str, DataFrame] = {}
        """The outputs of nodes whose rows came from the driver."""

    def of(
        self,
        node: Node,
        read: Sequence[int] | None = None,
        apart: Sequence[int] | None = None,
    ) -> Rows:
        """What a node changed by; only the columns at the positions `read`, if these are given.

        Of the pairs of a join that agree in the columns `apart` there is one for all of them.
        """
        if node.id in self.in_driver:
            return selected(self.in_driver[node.id], read)
        match node:
            case Table() | Constant() | Arrangement() | Routed() | View() | Recur():
                return self._changed(node, read)
            case HalfJoin():
                return self._joined(node, read, apart)
            case Deduplicate():
                return selected(self._deduplicated(node), read)
            case Group():
                return selected(self._grouped(node), read)
            case Regroup():
                return selected(self._regrouped(node), read)
            case Variable():
                raise RekindleError("a variable of a recursion is read outside of it")
        assert_never(node)

    def schema(self, node: Passing) -> pa.Schema:
        """The columns of a node's output."""
        match node:
            case HalfJoin():
                sides = (self._plans.layout(self._indexed(k)) for k in (node.change, node.against))
                return _positional(meeting_of(node).schema(*(side.schema for side in sides)))
            case Group():
                return self._buffers(node)
            case Deduplicate() | Regroup():
                return pa.schema([(WEIGHT, pa.int64()), *payload_schema(node.schema)])
        assert_never(node)

    def is_empty(self, node: HalfJoin) -> bool:
        """Is there nothing that the change of a join could be paired with?"""
        return not self._integral(node).rows

    def _changed(self, node: Indexed, read: Sequence[int] | None) -> Tasks:
        trace = self.changes[node.id]
        names = trace.layout.payload.names
        wanted = names if read is None else [names[i] for i in read]
        return self._frames.scan(trace, self._context.store, [WEIGHT, *wanted])

    def _joined(
        self,
        node: HalfJoin,
        read: Sequence[int] | None,
        apart: Sequence[int] | None,
    ) -> Tasks:
        """Both sides are sorted by the key already, so nothing is shuffled.

        This holds when a view is first filled too: the integral is then this step's change.
        """
        trace = self._integral(node)
        written = self.changes[node.change]
        store, meeting = self._context.store, meeting_of(node, apart)
        named = _positional(meeting.schema(written.layout.schema, trace.layout.schema))
        if read is not None:
            named = pa.schema([named.field(0), *(named.field(1 + i) for i in read)])

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            reader = TraceReader.of_trace(trace, store, key_range)
            for table in TraceReader.of_trace(written, store, key_range).scan(CHANGE_ROWS):
                for joined in meeting.batches(table, reader, wanted=read):
                    yield joined.rename_columns(named.names)

        rows = written.rows + trace.rows // 100
        return over_ranges(kernel, named, self._frames.partitions(rows))

    def _integral(self, node: HalfJoin) -> Trace:
        """What the change of a join is paired with."""
        changed = self.changes.get(node.against)
        match node.moment:
            case Moment.BEFORE:
                return self._context.traces[node.against]
            case Moment.AFTER:
                return sum_of(self._context.traces[node.against], changed)
            case Moment.DURING:
                nothing = Trace(self._plans.layout(self._indexed(node.against)))
                return nothing if changed is None else changed
        assert_never(node.moment)

    def _deduplicated(self, node: Deduplicate) -> Tasks:
        before = self._context.traces[node.arrangement]
        written = self.changes[node.arrangement]
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
        written = self.changes.get(node.id, Trace(before.layout))
        existence = Existence.WITH_ROWS if node.keys else Existence.ALWAYS
        schema = self._buffers(node)
        names = schema.names

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            if announced and key_range[0] == KEY_LOW:
                first = empty_buffers(accumulators)
                yield first.add_column(0, WEIGHT, pa.array([1], pa.int64())).select(names)
            reader = TraceReader.of_trace(before, store, key_range)
            for table in TraceReader.of_trace(written, store, key_range).scan(CHANGE_ROWS):
                yield buffer_change(table, reader, accumulators, existence).select(names)

        return over_ranges(kernel, schema, self._frames.partitions(written.rows))

    def _buffers(self, node: Group) -> pa.Schema:
        full = buffer_schema(self._plans.layout(node), self._plans.accumulators(node))
        return pa.schema([full.field(name) for name in output_columns(node)])

    def _regrouped(self, node: Regroup) -> DataFrame:
        """Kernels gather the rows of the touched groups, and Spark computes what they become."""
        arrangement = self._indexed(node.arrangement)
        before = self._context.traces[node.arrangement]
        written = self.changes.get(node.arrangement, Trace(before.layout))
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


def _from_until(frame: DataFrame, keys: int, stamps: int) -> DataFrame:
    """`from_until` on a frame."""
    weight, *columns = frame.schema.fields
    kept = [*columns[:keys], *columns[keys + 2 * stamps :], *columns[keys : keys + stamps]]
    schema = StructType([weight, *(StructField(f"c{i}", f.dataType) for i, f in enumerate(kept))])

    def changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from from_until(pa.Table.from_batches([batch]), keys, stamps).to_batches()

    return frame.mapInArrow(changes, schema)


def selected(rows: Rows, read: Sequence[int] | None) -> Rows:
    """The weight and the columns at some positions."""
    if read is None:
        return rows
    if isinstance(rows, Tasks):
        return rows.select([0, *(1 + i for i in read)])
    weight, *names = rows.columns
    return rows.select(weight, *(names[i] for i in read))


def _positional(schema: pa.Schema) -> pa.Schema:
    names = [WEIGHT, *(f"c{i}" for i in range(len(schema) - 1))]
    return pa.schema([field.with_name(name) for field, name in zip(schema, names, strict=True)])
