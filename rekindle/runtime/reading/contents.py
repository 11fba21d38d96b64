"""Contents and changes of tables and views as DataFrames.

What is small is read in the driver, what is large by Spark tasks. Contents at an earlier epoch are
the contents now less the changes since, so no old file is kept for them but those of the history.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType, YearMonthIntervalType

from rekindle.calculus.schema import Schema
from rekindle.catalyst.jvm import Catalyst, analysed_plan
from rekindle.catalyst.types import data_type, payload_schema, struct_of
from rekindle.columns import column_name, column_names
from rekindle.errors import CorruptionError
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.names import RESERVED
from rekindle.runtime.epochs.changes import changed, undoing
from rekindle.runtime.epochs.history import Changes
from rekindle.spark.frames import Frames, of_table
from rekindle.spark.tasks import PartitionKernel, over_ranges
from rekindle.traces.arrays import WEIGHT, integers
from rekindle.traces.partition import ALL_KEYS, KeyRange
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace

EPOCH = "_epoch"

INLINE_ROWS = 200_000


class Contents:
    """Reads tables and views of one database."""

    def __init__(self, catalyst: Catalyst, frames: Frames, leaves: Leaves, store: Store) -> None:
        self._catalyst = catalyst
        self._frames = frames
        self._leaves = leaves
        self._store = store

    def table(
        self,
        name: str | None,
        schema: Schema,
        trace: Trace,
        since: Changes | None = None,
        pending: Sequence[pa.Table] = (),
    ) -> DataFrame:
        """The rows of a trace less the changes `since`, each as often as its multiplicity.

        `pending` are arranged changes that are not committed yet. Without a name the frame does
        not stand for a table, so that no view can be defined over it.
        """
        store, width = self._store, len(schema)

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            for table in snapshot(trace, since, store, key_range, pending):
                yield repeated(without_holes(table, schema), width)

        rows = trace.rows + (0 if since is None else since.rows)
        frame = self._decoded(self._frame(kernel, payload_schema(schema), rows), schema)
        if name is None:
            return self._cut(frame, struct_of(schema))
        return self._opaque(name, frame, self._leaves.schema(name))

    def support(self, schema: Schema, trace: Trace, since: Changes | None = None) -> DataFrame:
        """The rows of a trace less the changes `since`, each once, whatever its weight."""
        store, names = self._store, column_names(len(schema))

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            for table in snapshot(trace, since, store, key_range):
                yield without_holes(table, schema).select(names)

        rows = trace.rows + (0 if since is None else since.rows)
        return self._decoded(self._frame(kernel, payload_schema(schema), rows), schema)

    def of_table(self, name: str, schema: Schema, rows: pa.Table) -> DataFrame:
        """Given arranged rows, as if they were all the contents of the table."""
        frame = of_table(self._catalyst.spark, repeated(rows, len(schema)))
        return self._opaque(name, self._decoded(frame, schema), self._leaves.schema(name))

    def of_rows(self, schema: Schema, rows: pa.Table, name: str | None = None) -> DataFrame:
        """Given stored rows of these columns, which may stand for the table or view of a name."""
        frame = self._decoded(of_table(self._catalyst.spark, rows), schema)
        struct = struct_of(schema)
        return self._cut(frame, struct) if name is None else self._opaque(name, frame, struct)

    def changes(self, schema: Schema, trace: Trace, changes: Changes) -> DataFrame:
        """Rows with `_epoch` and `_weight`, for each of the given changes."""
        store, layout = self._store, trace.layout
        columns = payload_schema(schema)
        full = pa.schema([*((name, pa.int64()) for name in RESERVED), *columns])

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            for rows, epochs in changed(changes, layout, store, key_range):
                table = without_holes(rows, schema)
                yield table.select([WEIGHT, *columns.names]).add_column(0, EPOCH, epochs)

        frame = self._frame(kernel, full, changes.rows)
        named = Schema(schema.fields)
        decoded = self._decoded(frame, named, prefix=RESERVED)
        head = [StructField(name, LongType(), False) for name in RESERVED]
        target = StructType([*head, *struct_of(schema).fields])
        return self._cut(decoded, target)

    def _frame(self, kernel: PartitionKernel, schema: pa.Schema, rows: int) -> DataFrame:
        if rows > INLINE_ROWS:
            tasks = over_ranges(kernel, schema, self._frames.partitions(rows))
            return self._frames.of_tasks(tasks)
        tables = [table.select(schema.names).cast(schema) for table in kernel(ALL_KEYS)]
        table = pa.concat_tables(tables) if tables else schema.empty_table()
        return of_table(self._catalyst.spark, table)

    def _decoded(self, frame: DataFrame, schema: Schema, prefix: tuple[str, ...] = ()) -> DataFrame:
        """Stored columns in their own types; a collation is no matter of the values."""
        types = [data_type(f.type) for f in schema]
        if not any(isinstance(type_, YearMonthIntervalType) for type_ in types):
            return frame
        plain = [frame[name] for name in prefix]
        columns = [
            F.make_ym_interval(F.lit(0), F.col(column_name(i))).cast(type_).alias(column_name(i))
            if isinstance(type_, YearMonthIntervalType)
            else frame[column_name(i)]
            for i, type_ in enumerate(types)
        ]
        return frame.select(*plain, *columns)

    def _opaque(self, name: str, frame: DataFrame, schema: StructType) -> DataFrame:
        """The frame as a leaf that a view definition recognises as the table `name`."""
        cut = self._cut(frame, schema)
        plan = analysed_plan(cut)
        self._leaves.recognise(plan.rdd().id(), name)
        return cut

    def cut(self, frame: DataFrame, schema: Schema) -> DataFrame:
        """The frame as rows of exactly this schema, with nothing to be seen of its plan."""
        return self._cut(frame, struct_of(schema))

    def cut_to(self, frame: DataFrame, schema: StructType) -> DataFrame:
        """The same for columns of Spark."""
        return self._cut(frame, schema)

    def _cut(self, frame: DataFrame, schema: StructType) -> DataFrame:
        session = self._catalyst.session
        rdd = frame._jdf.queryExecution().toRdd()
        java = session.internalCreateDataFrame(rdd, session.parseDataType(schema.json()), False)
        return DataFrame(java, self._catalyst.spark)


def snapshot(
    trace: Trace,
    undone: Changes | None,
    store: Store,
    key_range: KeyRange,
    pending: Sequence[pa.Table] = (),
) -> Iterator[pa.Table]:
    """Tables of the trace less the changes `undone`, plus changes in memory; each row once."""
    extra = list(pending)
    if undone is not None:
        extra += undoing(undone, trace.layout, store, key_range)
    yield from TraceReader.of_trace(trace, store, key_range, extra).contents()


def without_holes(table: pa.Table, schema: Schema) -> pa.Table:
    """The table; raises `CorruptionError` if a column that has no NULLs has one.

    Spark does not look whether there is one, and would read what stands in its place.
    """
    for i, field in enumerate(schema):
        if not field.nullable and table.column(column_name(i)).null_count:
            raise CorruptionError(
                f"the column '{field.name}' has a NULL where none may be",
                detail="its files and its definition do not fit together",
                hint="restore the database from a backup",
            )
    return table


def repeated(table: pa.Table, width: int) -> pa.Table:
    """The payload of a table, each row as often as its weight says."""
    weights = integers(table.column(WEIGHT))
    if (weights < 0).any():
        raise CorruptionError(
            "a row occurs less than no times",
            detail="the query takes away (negate) what is not there, or files do not fit together",
            hint="write what it is taken from: a union negate(b). If there is no negate in the "
            "query or in a view that it reads, restore the database from a backup",
        )
    payload = table.select(column_names(width))
    if (weights == 1).all():
        return payload
    return payload.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
