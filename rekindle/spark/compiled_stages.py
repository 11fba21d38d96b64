"""Linear work compiled into the driver: Spark's expressions, without a Spark job.

Catalyst compiles a list of expressions to a projection, which is a JVM function from row to row.
Small changes are handed to the JVM as Arrow, mapped through the composed projections and handed
back as Arrow. Measured on 2 cores: 5 ms for up to 1,000 rows, 90 ms for 100,000 rows of 11
columns, where one DataFrame on local rows costs about 40 ms whatever its size.

A filter does not drop its rows inside the JVM: it sets their weight to zero, and everything after
it is evaluated only where the weight is not zero, so that an expression which fails on rows that a
filter excludes (`a / b` after `b <> 0`) is never run on them. The rows are dropped on return.

Stages of plain shapes are not worth the way to the JVM (`columnar.py`).
"""

from __future__ import annotations

import errno
import os
import struct
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql.types import LongType, StructField, StructType

from rekindle.catalyst.arrow_input import ArrowInput
from rekindle.catalyst.failures import spark_error
from rekindle.catalyst.jvm import Catalyst, JavaObject, simple_name
from rekindle.catalyst.types import data_type, stored
from rekindle.catalyst.variants import from_spark
from rekindle.errors import StorageError
from rekindle.spark.columnar import Columnar, columnar, through
from rekindle.spark.explode import collection_stage, explode, is_explodable
from rekindle.spark.narrowing import Narrowed
from rekindle.spark.stages import Generated, Output, Rowwise
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.faults import named

_ARROW = "org.apache.spark.sql.execution.arrow.ArrowConverters"
_NO_LIMIT = 2**62
SHARED = "/dev/shm"
ENOUGH_BYTES = 2**28
"""A directory in memory with less room than this is not used."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Channel:
    """Moves Arrow tables to the JVM and back through two files in memory.

    Where the memory for files is full, or so little that it soon will be (a container often has
    64 MB), they are ordinary temporary files.
    """

    def __init__(self, catalyst: Catalyst) -> None:
        self.catalyst = catalyst
        self._lock = threading.Lock()
        self._settle(SHARED if _has_room(SHARED) else None)
        self._arrow = catalyst.module(_ARROW)
        self._python = catalyst.module("org.apache.spark.api.python.PythonRDD")
        # Looking a class up is a round trip of its own; a step makes these calls many times.
        java = catalyst.jvm.java.io
        self._input, self._output = java.FileInputStream, java.FileOutputStream
        self._buffered, self._data = java.BufferedOutputStream, java.DataOutputStream

    def map(
        self, table: pa.Table, source: ArrowInput, function: JavaObject, target: JavaObject
    ) -> pa.Table:
        """Each row of `table` through a JVM function that gives rows of the schema `target`."""
        mapped = self.exchange(table, source, lambda rows: rows.map(function), target)
        assert mapped is not None, "a row for each row"
        return mapped

    def exchange(
        self,
        table: pa.Table,
        source: ArrowInput,
        through: Callable[..., JavaObject],
        target: JavaObject,
        readers: int = 1,
    ) -> pa.Table | None:
        """The rows, if any, of the JVM iterator that `through` makes of the table's.

        It is given so many iterators over them, each with rows of its own.
        """
        source.check(table)
        with self._lock:
            try:
                return self._exchange(table, source, through, target, readers)
            except StorageError as error:
                if self._ordinary or error.errno not in _FULL:
                    raise
            self._directory.cleanup()
            self._settle(None)
            return self._exchange(table, source, through, target, readers)

    def _settle(self, directory: str | None) -> None:
        """Use files in a directory; None is the ordinary one for temporary files."""
        self._ordinary = directory is None
        with named(directory or tempfile.gettempdir()):
            self._directory = tempfile.TemporaryDirectory(prefix="rekindle-", dir=directory)
        self._inward = os.path.join(self._directory.name, "in")
        self._outward = os.path.join(self._directory.name, "out")

    def _exchange(
        self,
        table: pa.Table,
        source: ArrowInput,
        through: Callable[..., JavaObject],
        target: JavaObject,
        readers: int,
    ) -> pa.Table | None:
        with (
            named(self._directory.name),
            pa.OSFile(self._inward, "wb") as file,
            pa.ipc.new_stream(file, table.schema) as out,
        ):
            # One batch: Spark's reader stops for good at the second empty batch in a row.
            out.write_table(table.combine_chunks())
        try:
            self._pass_through(source.schema, through, target, readers)
        except (Py4JJavaError, PySparkException) as error:
            raise spark_error(error) from error
        with named(self._directory.name):
            return self._read()

    def _pass_through(
        self,
        source: JavaObject,
        through: Callable[..., JavaObject],
        target: JavaObject,
        readers: int,
    ) -> None:
        with ExitStack() as opened:
            outward = self._data(self._buffered(self._output(self._outward)))
            opened.callback(outward.close)
            rows = []
            for _ in range(readers):
                inward = self._input(self._inward)
                opened.callback(inward.close)
                batches = self._arrow.getBatchesFromStream(inward.getChannel())
                rows.append(
                    self._arrow.fromBatchIterator(batches, source, "UTC", False, False, None)
                )
            produced = self._arrow.toBatchWithSchemaIterator(
                through(*rows), target, _NO_LIMIT, _NO_LIMIT, "UTC", False, False
            )
            self._python.writeIteratorToStream(produced, outward)

    def _read(self) -> pa.Table | None:
        with pa.OSFile(self._outward, "rb") as file:
            data = file.read_buffer()
        tables = []
        offset = 0
        while offset < data.size:
            (length,) = struct.unpack(">i", data.slice(offset, 4).to_pybytes())
            tables.append(pa.ipc.open_stream(data.slice(offset + 4, length)).read_all())
            offset += 4 + length
        return from_spark(pa.concat_tables(tables)) if tables else None

    def close(self) -> None:
        self._directory.cleanup()


def _has_room(directory: str) -> bool:
    try:
        room = os.statvfs(directory)
    except OSError:
        return False
    return os.access(directory, os.W_OK) and room.f_bavail * room.f_frsize >= ENOUGH_BYTES


class CompiledStages:
    """Lowered stages, ready to run on Arrow tables of `_weight` and columns."""

    def __init__(
        self,
        catalyst: Catalyst,
        channel: Channel,
        lowered: Narrowed,
        generate: Callable[[Generated], Callable[[pa.Table], pa.Table]],
    ) -> None:
        self._catalyst = catalyst
        self._channel = channel
        self._read = [0, *(i + 1 for i in lowered.read)]
        self._steps: list[Callable[[pa.Table], pa.Table]] = []
        self._waiting: list[tuple[Rowwise, Columnar | None]] = []
        for stage in lowered.stages:
            if isinstance(stage, Rowwise):
                self._add(stage)
                continue
            opened = is_explodable(stage.generator)
            if opened:
                self._add(collection_stage(stage))
            self._flush()
            self._steps.append(partial(explode, stage=stage) if opened else generate(stage))
        self._flush()

    def run(self, table: pa.Table) -> pa.Table | None:
        """The rows that the stages give, with their weights, not consolidated; None for none."""
        table = table.select(self._read)
        for step in self._steps:
            if not len(table):
                return None
            table = step(table)
        return table if len(table) else None

    def _add(self, stage: Rowwise) -> None:
        plain = columnar(stage)
        if self._waiting and (self._waiting[-1][1] is None) != (plain is None):
            self._flush()
        self._waiting.append((stage, plain))

    def _flush(self) -> None:
        """Stages of one kind that follow each other become one step."""
        stages = [stage for stage, _ in self._waiting]
        plain = [found for _, found in self._waiting if found is not None]
        self._waiting.clear()
        if plain:
            self._steps.append(self._columnar(plain, stages))
        elif stages:
            self._steps.append(self._projected(stages))

    def _columnar(
        self, plain: Sequence[Columnar], stages: Sequence[Rowwise]
    ) -> Callable[[pa.Table], pa.Table]:
        """Stages on columns; if they fail Spark is asked, and raises its own error."""

        def run(table: pa.Table) -> pa.Table:
            try:
                return through(plain, table)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                return self._projected(stages)(table)

        return run

    def _projected(self, stages: Sequence[Rowwise]) -> Callable[[pa.Table], pa.Table]:
        """Consecutive stages as one JVM function on tables."""
        function: JavaObject = None
        filtered = False
        source: ArrowInput | None = None
        for stage in stages:
            weight = self._catalyst.attribute(WEIGHT, "bigint")
            expressions = self._expressions(stage, weight, filtered=filtered)
            attributes = (weight, *stage.attributes)
            projection = self._catalyst.expression("UnsafeProjection").create(
                self._catalyst.seq(expressions), self._catalyst.seq(attributes)
            )
            if function is None:
                function = self._unsafe(attributes, projection)
                source = ArrowInput.of(self._catalyst, attributes)
            else:
                function = function.andThen(projection)
            filtered = filtered or stage.predicate is not None
        target = self._catalyst.session.parseDataType(_target(stages[-1].outputs).json())
        assert source is not None, "there is a stage"

        def run(table: pa.Table) -> pa.Table:
            table = self._channel.map(table, source, function, target)
            return table.filter(pc.not_equal(table.column(WEIGHT), 0)) if filtered else table

        return run

    def _unsafe(self, attributes: Sequence[JavaObject], projection: JavaObject) -> JavaObject:
        """The projection, on rows copied out of Arrow first if any column is nested.

        Generated code may read an element of an array before it asks whether it is NULL, which
        Spark's own arrays allow and those backed by Arrow do not.
        """
        nested = ("ArrayType", "MapType", "StructType", "VariantType")
        if not any(simple_name(attribute.dataType()) in nested for attribute in attributes):
            return projection
        columns = self._catalyst.seq(attributes)
        copy = self._catalyst.expression("UnsafeProjection").create(columns, columns)
        return copy.andThen(projection)

    def _expressions(
        self, stage: Rowwise, weight: JavaObject, *, filtered: bool
    ) -> list[JavaObject]:
        catalyst = self._catalyst
        if_ = catalyst.expression("If")
        zero = catalyst.literal("0L")
        live = catalyst.expression("Not")(catalyst.expression("EqualTo")(weight, zero))
        kept = weight
        if stage.predicate is not None:
            condition = stage.predicate
            if filtered:
                condition = catalyst.expression("And")(live, condition)
            kept = if_(condition, weight, zero)
        outputs = [output.expression for output in stage.outputs]
        if filtered:
            outputs = [
                e
                if simple_name(e) == "AttributeReference"
                else if_(live, e, catalyst.null(e.dataType()))
                for e in outputs
            ]
        return [kept, *outputs]


def _target(outputs: Sequence[Output]) -> StructType:
    fields = [StructField(o.name, stored(data_type(o.type)), True) for o in outputs]
    return StructType([StructField(WEIGHT, LongType(), True), *fields])
