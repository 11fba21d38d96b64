"""Stages and traces as Spark DataFrames, for changes too large for the driver.

A frame has the columns `_weight`, `c0`, `c1`... in their stored types. Stages become plan nodes
over the very expressions that the driver would run: a plan's columns are aliased to the expression
ids that a stage was written over, so nothing is rewritten. Traces are read and written by kernels
in `mapInArrow`, one task for each range of the key-hash space; rows never pass through the driver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from rekindle.catalyst.failures import spark_error
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    analysed_plan,
    is_collated,
    items,
    simple_name,
)
from rekindle.catalyst.variants import collected, from_spark, to_spark
from rekindle.columns import column_name
from rekindle.errors import EvaluationError
from rekindle.spark.generate import generated
from rekindle.spark.passage import Passed
from rekindle.spark.stages import Lowered, Rowwise
from rekindle.spark.tasks import (
    REPORTS,
    Examination,
    Reports,
    Tasks,
    keeping,
    kept,
    merging,
    numbered,
    over_ranges,
    sorted_runs,
    sorting,
)
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.heavy import Heavy, even_ranges, heavy_keys
from rekindle.traces.layout import TraceLayout
from rekindle.traces.partition import KeyRange
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run, run_of
from rekindle.traces.store import Durability, Store
from rekindle.traces.trace import Trace

ROWS_PER_PARTITION = 1_000_000
_HEAVY = pa.schema([("key", pa.int64()), ("rows", pa.list_(pa.int64()))])

SORTED_ROWS = 200_000
MERGED_ROWS = 500_000
"""So few sorted rows are merged in the driver: a job takes longer."""


@dataclass(frozen=True, slots=True)
class Written:
    """A run, and what passed of each of the parts that it was made from."""

    run: Run
    passed: tuple[Passed, ...]


class Frames:
    """DataFrames of one session."""

    def __init__(self, catalyst: Catalyst, partitions: int | None = None) -> None:
        self.catalyst = catalyst
        self._chosen = partitions
        self.check_executors: Callable[[], None] = lambda: None
        """Raises unless tasks can run where they would."""

    # ---- stages ----------------------------------------------------------------------------

    def apply(self, frame: DataFrame, stages: Sequence[Lowered]) -> DataFrame:
        """The frame through the stages, with the last stage's column names."""
        plan = analysed_plan(frame)
        for i, stage in enumerate(stages):
            decode = _decoded if i == 0 else _unchanged
            plan = self._aliased(plan, stage.attributes, decode)
            if isinstance(stage, Rowwise):
                plan = self._rowwise(plan, stage)
            else:
                plan = generated(self.catalyst, plan, stage)
        return self.catalyst.dataframe(self._encoded(plan))

    def aliased(self, frame: DataFrame, attributes: Sequence[JavaObject]) -> JavaObject:
        """The frame's plan, its columns under the expression ids of all the attributes."""
        plan = analysed_plan(frame)
        named = [
            self.catalyst.alias(
                _decoded(self.catalyst, column, attribute.dataType()),
                attribute.name(),
                attribute.exprId(),
            )
            for column, attribute in zip(items(plan.output()), attributes, strict=True)
        ]
        return self._project(named, plan)

    def of_plan(self, plan: JavaObject) -> DataFrame:
        """What a plan of the moment and columns gives: `_weight`, c0, c1... in stored types."""
        columns = [
            self.catalyst.named(column, WEIGHT if i == 0 else column_name(i - 1))
            for i, column in enumerate(items(plan.output()))
        ]
        return self.catalyst.dataframe(self._encoded(self._project(columns, plan)))

    def _aliased(
        self,
        plan: JavaObject,
        attributes: Sequence[JavaObject],
        decode: Callable[[Catalyst, JavaObject, JavaObject], JavaObject],
    ) -> JavaObject:
        """The plan's columns under the expression ids of `attributes`, after the weight."""
        weight, *columns = items(plan.output())
        renamed = [
            self.catalyst.alias(
                decode(self.catalyst, column, attribute.dataType()),
                attribute.name(),
                attribute.exprId(),
            )
            for column, attribute in zip(columns, attributes, strict=True)
        ]
        return self._project([weight, *renamed], plan)

    def _rowwise(self, plan: JavaObject, stage: Rowwise) -> JavaObject:
        weight = plan.output().head()
        if stage.predicate is not None:
            plan = self.catalyst.plan("Filter")(stage.predicate, plan)
        outputs = [self.catalyst.named(output.expression, output.name) for output in stage.outputs]
        return self._project([weight, *outputs], plan)

    def _encoded(self, plan: JavaObject) -> JavaObject:
        """The plan's columns as they are stored: intervals as months, texts without collations."""
        output = items(plan.output())
        encoded = [_encoded(self.catalyst, column) for column in output]
        if all(after is before for after, before in zip(encoded, output, strict=True)):
            return plan
        named = [
            self.catalyst.named(after, before.name())
            for after, before in zip(encoded, output, strict=True)
        ]
        return self._project(named, plan)

    def _project(self, columns: Sequence[JavaObject], plan: JavaObject) -> JavaObject:
        return self.catalyst.plan("Project")(self.catalyst.seq(columns), plan)

    # ---- traces ----------------------------------------------------------------------------

    def partitions(self, rows: int) -> int:
        """How many partitions to cut work on so many rows into; a power of two."""
        if self._chosen is not None:
            return self._chosen
        cores = self.catalyst.spark.sparkContext.defaultParallelism
        wanted = max(cores, rows // ROWS_PER_PARTITION)
        return 1 << max(1, (wanted - 1).bit_length())

    def of_tasks(self, tasks: Tasks) -> DataFrame:
        """What tasks give, as a frame."""
        self.check_executors()
        schema = tasks.schema

        def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    for table in tasks.tables(number):
                        yield from table.select(schema.names).cast(schema).to_batches()

        spark = self.catalyst.spark
        numbers = spark.range(0, tasks.count, 1, tasks.count)
        return numbers.mapInArrow(run, spark_schema(schema))

    def scan(self, trace: Trace, store: Store, columns: Sequence[str]) -> Tasks:
        """Columns of the consolidated contents of a trace."""
        names = list(columns)
        schema = pa.schema([trace.layout.schema.field(name) for name in names])

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            for table in TraceReader.of_trace(trace, store, key_range).of_columns(names).scan():
                yield table.select(names)

        return over_ranges(kernel, schema, self.partitions(trace.rows))

    def heavy(
        self, traces: Sequence[Trace], store: Store, least: int, partitions: int
    ) -> list[Heavy]:
        """The keys of which one of the traces has at least so many rows."""

        def measure(key_range: KeyRange) -> Iterator[pa.Table]:
            readers = [TraceReader.of_trace(trace, store, key_range) for trace in traces]
            found = heavy_keys(readers, least)
            columns = [[each.key for each in found], [list(each.rows) for each in found]]
            yield pa.table(columns, schema=_HEAVY)

        measured = collect(self.of_tasks(over_ranges(measure, _HEAVY, partitions)))
        return sorted((Heavy(row.key, tuple(row.rows)) for row in measured), key=lambda h: h.key)

    def write_tasks(
        self, parts: Sequence[Tasks], layout: TraceLayout, store: Store, prefix: str
    ) -> Written:
        """What tasks give sorted by key, consolidated and written as a run, without the JVM."""
        tasks = self.of_tasks(sorting(parts, layout, store, prefix))
        reports = self._sorted(tasks, store, prefix, len(parts))
        return Written(self._merged(reports, layout, store, prefix, iter), reports.passed)

    def write_frame(
        self,
        frame: DataFrame,
        layout: TraceLayout,
        store: Store,
        prefix: str,
        first: Callable[[pa.Table], pa.Table] | None = None,
        examine: Examination = iter,
        parts: int = 0,
    ) -> Written:
        """The rows of a frame, through a function on tables if one is given, in the same way.

        Of so many `parts` of it the rows were `counted`.
        """
        self.check_executors()

        def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            tables = in_tables(batches, SORTED_ROWS)
            given = tables if first is None else map(first, tables)
            for run in sorted_runs(given, layout, store, prefix):
                yield from run.to_batches()

        written = frame.mapInArrow(write, spark_schema(REPORTS))
        reports = self._sorted(written, store, prefix, 0)
        passed = tuple(Passed(_count(written, part)) for part in range(parts))
        return Written(self._merged(reports, layout, store, prefix, examine), passed)

    def counted(self, frame: DataFrame, part: int) -> DataFrame:
        """The frame, whose rows are counted as they pass to whoever writes it.

        Between it and the writer there is no shuffle: Spark adds up what the tasks of the last
        stage observed, each once.
        """
        return frame.observe(_part_name(part), F.count(F.lit(1)).alias("rows"))

    def keep(self, rows: Tasks | DataFrame, schema: pa.Schema, store: Store, prefix: str) -> Passed:
        """Leave rows as files, for whoever reads them next."""
        if isinstance(rows, Tasks):
            frame = self.of_tasks(keeping(rows, store, prefix))
        else:
            self.check_executors()

            def write(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
                tables = in_tables(batches, SORTED_ROWS)
                stored = (table.select(schema.names).cast(schema) for table in tables)
                yield from kept(stored, store, prefix).to_batches()

            frame = rows.mapInArrow(write, spark_schema(REPORTS))
        return self._sorted(frame, store, prefix, 1).passed[0]

    def of_files(self, passed: Passed, schema: pa.Schema, store: Store) -> Tasks:
        """What was left as files; a task for each."""

        def read(number: int) -> Iterator[pa.Table]:
            return map(store.read_rows, passed.files[number : number + 1])

        # No files are no rows, of one task: Spark has no jobs without any.
        return Tasks(read, schema, max(1, len(passed.files)))

    def _sorted(self, frame: DataFrame, store: Store, prefix: str, parts: int) -> Reports:
        """What tasks wrote; of tasks that failed, nothing is left behind."""
        try:
            return self._reports(frame, parts)
        except EvaluationError:
            # Spark may be asked next, and have a result: what was written is in nobody's way.
            written = store.list(prefix.rpartition("/")[0])
            store.delete(path for path in written if path.startswith(prefix))
            raise

    def _merged(
        self,
        reports: Reports,
        layout: TraceLayout,
        store: Store,
        prefix: str,
        examine: Examination,
    ) -> Run:
        """The sum of sorted runs, which are deleted, as one."""
        runs = reports.runs
        try:
            rows = sum(run.rows for run in runs)
            if rows > MERGED_ROWS:
                ranges = even_ranges(reports.sample, self.partitions(rows))
                tasks = merging(runs, layout, store, prefix, ranges, examine)
                merged = self._reports(self.of_tasks(tasks), 0)
                return run_of(part for run in merged.runs for part in run.segments)
            whole = TraceReader.of_trace(Trace(layout, tuple(runs)), store).whole()
            for _ in examine(iter([whole] if len(whole) else [])):
                pass
            return store.write_run(whole, numbered(prefix), Durability.DEFERRED)
        finally:
            store.delete(path for run in runs for path in run.paths)

    def _reports(self, frame: DataFrame, parts: int) -> Reports:
        rows = collect(frame)
        return Reports.of(((r.run, r["keys"], r.part, r.passed) for r in rows), parts)


def collect(frame: DataFrame) -> list[Row]:
    """The rows of a frame; what fails in a Spark task is raised as it would be in the driver."""
    try:
        return frame.collect()
    except (Py4JJavaError, PySparkException) as error:
        raise spark_error(error) from error


def _part_name(part: int) -> str:
    return f"part {part}"


def _count(frame: DataFrame, part: int) -> int:
    """The rows of a part that passed when the frame was collected."""
    metrics = frame._jdf.queryExecution().observedMetrics()
    name = _part_name(part)
    # A part that the optimiser knew to be empty is not in the plan any more.
    return int(metrics.apply(name).getLong(0)) if metrics.contains(name) else 0


def in_tables(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Batches put together to tables of about so many rows: Spark sends 10,000 at a time."""
    waiting: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            count += batch.num_rows
        if count >= rows:
            yield from_spark(pa.Table.from_batches(waiting).combine_chunks())
            waiting, count = [], 0
    if waiting:
        yield from_spark(pa.Table.from_batches(waiting).combine_chunks())


def of_table(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The frame of stored columns that are in the driver.

    Left alone, PySpark takes a timestamp without a time zone for one of the session's zone.
    """
    return spark.createDataFrame(to_spark(table), spark_schema(table.schema))


def to_arrow(frame: DataFrame) -> pa.Table:
    """The rows of a frame as Arrow, in stored types, with errors as in `collect`."""
    try:
        return collected(frame)
    except (Py4JJavaError, PySparkException) as error:
        raise spark_error(error) from error


def sum_of(trace: Trace, change: Trace | None) -> Trace:
    """The trace and a change that was written, as one."""
    if change is None:
        return trace
    return replace(trace, runs=(*trace.runs, *change.readable_runs))


def spark_schema(schema: pa.Schema) -> StructType:
    """The Spark schema of stored columns."""
    return from_arrow_schema(schema, prefer_timestamp_ntz=True)


def _unchanged(catalyst: Catalyst, column: JavaObject, target: JavaObject) -> JavaObject:
    return column


def _decoded(catalyst: Catalyst, column: JavaObject, target: JavaObject) -> JavaObject:
    """A stored column in its own type: months become an interval, a text gets its collation."""
    if is_collated(target):
        return catalyst.cast(column, target)
    if simple_name(target) != "YearMonthIntervalType":
        return column
    interval = catalyst.expression("MakeYMInterval")(catalyst.literal("0"), column)
    return catalyst.cast(interval, target)


def _encoded(catalyst: Catalyst, column: JavaObject) -> JavaObject:
    if is_collated(column.dataType()):
        return catalyst.without_collation(column)
    if simple_name(column.dataType()) != "YearMonthIntervalType":
        return column
    months = catalyst.cast(column, catalyst.data_type("interval month"))
    return catalyst.cast(months, catalyst.data_type("int"))
