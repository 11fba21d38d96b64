"""What Spark makes of the rows of touched groups: the second half of a group map.

The first half gathers the rows (`circuit/operators/group_map.py`). What they become is a function
that only Spark knows, in the driver as a plan over a local relation, else as a frame.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField, StructType

from rekindle.calculus.bodies import Measures
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import RunningFrame, SlidingFrame
from rekindle.circuit.nodes import GroupMap
from rekindle.columns import column_name
from rekindle.kernels.nested_time import from_until
from rekindle.kernels.regroup import MOMENT, parted, with_signs
from rekindle.spark.frames import Frames, of_table, to_arrow
from rekindle.spark.plans import Plans, group_columns, with_positional_names
from rekindle.spark.step import StepContext
from rekindle.spark.tasks import Tasks
from rekindle.traces.arrays import WEIGHT


def mapped_in_driver(
    plans: Plans, context: StepContext, node: GroupMap, rows: pa.Table
) -> pa.Table | None:
    """The change of a group map, from the rows of its touched groups."""
    schema = context.circuit.nodes[node.arrangement].schema
    parts = []
    if len(rows):
        if isinstance(node.reach, RunningFrame):
            leaving, rows = parted(rows)
            parts.append(with_positional_names(leaving))
        result = plans.regroup(node, schema).run(rows)
        if node.stamps:
            result = from_until(result, node.bounds, node.stamps)
        elif isinstance(node.reach, SlidingFrame):
            result = with_signs(result)
        parts.append(with_positional_names(result))
    if not node.keys and isinstance(node.body, Measures):
        parts += _of_nothing(plans, node, schema, rows, context)
    return pa.concat_tables(parts) if parts else None


def mapped_on_spark(
    plans: Plans, frames: Frames, context: StepContext, node: GroupMap, tasks: Tasks
) -> DataFrame:
    """The same, from the tasks that gather the rows of touched groups."""
    schema = context.circuit.nodes[node.arrangement].schema
    rows = frames.of_tasks(tasks)
    keys, types = group_columns(node, schema)
    attributes = plans.bodies.attributes(types)
    becoming = rows if node.kept is None else rows.where(F.col(MOMENT) >= 0)
    leaf = frames.aliased(becoming, attributes)
    frame = frames.of_plan(plans.bodies.of_node(node, keys, leaf, attributes))
    if node.stamps:
        return _from_until(frame, node.bounds, node.stamps)
    if isinstance(node.reach, SlidingFrame):
        return frame.withColumn(WEIGHT, F.signum(WEIGHT).cast("bigint"))
    if node.kept is not None:
        leaving = rows.where(F.col(MOMENT) < 0).withColumnRenamed(MOMENT, WEIGHT)
        return frame.unionByName(leaving)
    if node.keys or not isinstance(node.body, Measures):
        return frame
    result = with_positional_names(to_arrow(frame))
    touched = pa.table({MOMENT: result.column(WEIGHT)})
    more = _of_nothing(plans, node, schema, touched, context)
    if more:
        result = pa.concat_tables([result.cast(more[0].schema), *more])
    return of_table(frames.catalyst.spark, result)


def _of_nothing(
    plans: Plans, node: GroupMap, rows: Schema, touched: pa.Table, context: StepContext
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


def _from_until(frame: DataFrame, bounds: int, stamps: int) -> DataFrame:
    """`from_until` on a frame."""
    weight, *columns = frame.schema.fields
    kept = [*columns[:bounds], *columns[bounds + 2 * stamps :], *columns[bounds : bounds + stamps]]
    schema = StructType(
        [weight, *(StructField(column_name(i), f.dataType) for i, f in enumerate(kept))]
    )

    def changes(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield from from_until(pa.Table.from_batches([batch]), bounds, stamps).to_batches()

    return frame.mapInArrow(changes, schema)
