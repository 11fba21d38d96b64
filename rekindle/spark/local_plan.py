"""A Spark plan on rows that are in the driver, without a Spark job.

A physical plan over one partition has no exchange: its RDD is a chain of functions on iterators.
The driver calls that chain itself, in its own thread and with a task context of its own, on a
partition that holds the rows. Aggregates, windows, generators and Python functions all run this
way, with Spark's own operators. Measured on 2 cores: a maximum by key 9 ms for 10 rows and 14 ms
for 1,000; a window with three functions 12 ms; a pandas function 60 ms; a job takes 100 ms or more.

The plan is made once, in a session of its own: whole-stage code generation costs more than it
saves on small inputs, and adaptive execution would put exchanges in between.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import pyarrow as pa
from pyspark.sql.types import StructField, StructType

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.arrow_input import ArrowInput
from rekindle.catalyst.jvm import Catalyst, JavaObject, simple_name
from rekindle.catalyst.types import data_type, payload_schema, stored
from rekindle.columns import column_name
from rekindle.spark.compiled_stages import Channel

_SETTINGS = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "1000000000",
    # Its sums of floating point numbers depend on where in a partition a frame is.
    "spark.sql.window.segmentTree.enabled": "false",
    # Two inputs of one partition each are exchanged where they may be larger; any may be here.
    "spark.sql.maxSinglePartitionBytes": f"{2**63 - 1}b",
}
_ATTEMPT, _MANAGER, _METRICS = 3, 6, 9
"""Which arguments of a task context differ from run to run."""


class LocalPlans:
    """Plans that run in the driver of one session."""

    def __init__(self, catalyst: Catalyst, channel: Channel) -> None:
        self.catalyst = catalyst
        self.channel = channel
        self._session = catalyst.session.cloneSession()
        for key, value in _SETTINGS.items():
            self._session.conf().set(key, value)
        self._any = catalyst.module("scala.reflect.ClassTag").Any()
        spark_context = catalyst.spark.sparkContext._jsc.sc()
        self._rdd = spark_context.parallelize(catalyst.seq(()), 1, self._any)
        # A quarter of the heap; operators that need more spill to disk, as in any task.
        heap = int(catalyst.jvm.java.lang.Runtime.getRuntime().maxMemory()) // 4
        self._memory = catalyst.class_("org.apache.spark.memory.UnifiedMemoryManager")(
            spark_context.conf(), heap, heap // 2, 1
        )
        self._attempts = itertools.count(2**40)
        self._contexts = catalyst.module("org.apache.spark.TaskContext")
        self._metrics = catalyst.module("org.apache.spark.executor.TaskMetrics")
        self._lazy = catalyst.module("scala.collection.immutable.LazyList")
        self._partition = catalyst.class_("org.apache.spark.rdd.ParallelCollectionPartition")
        self._manager = catalyst.class_("org.apache.spark.memory.TaskMemoryManager")
        self._constructor = (
            catalyst.class_("java.lang.Class")
            .forName("org.apache.spark.TaskContextImpl")
            .getConstructors()[0]
        )
        self._none = catalyst.none()
        self._arguments = self._template()

    def prepare(
        self,
        attributes: Sequence[JavaObject],
        build: Callable[[JavaObject], JavaObject],
        types: Sequence[str],
    ) -> LocalPlan:
        """The plan that `build` makes of a leaf with the given attributes, ready to run.

        It gives columns of `types`, in their stored form.
        """
        catalyst = self.catalyst
        leaf = catalyst.class_("org.apache.spark.sql.execution.LogicalRDD")(
            catalyst.seq(attributes),
            self._rdd,
            catalyst.module("org.apache.spark.sql.catalyst.plans.physical.SinglePartition"),
            catalyst.seq(()),
            False,
            catalyst.none(),
            self._session,
            catalyst.none(),
            catalyst.none(),
            False,
        )
        dataset = catalyst.module("org.apache.spark.sql.classic.Dataset").ofRows(
            self._session, build(leaf)
        )
        physical = dataset.queryExecution().executedPlan()
        source = ArrowInput.of(catalyst, attributes)
        fields = [
            StructField(column_name(i), stored(data_type(type_)), True)
            for i, type_ in enumerate(types)
        ]
        target = catalyst.session.parseDataType(StructType(fields).json())
        columns = Schema(tuple(Field(column_name(i), type_) for i, type_ in enumerate(types)))
        nothing = payload_schema(columns).empty_table()
        rdd = physical.execute()
        return LocalPlan(self, rdd, source, target, nothing, self._readers(rdd))

    def _readers(self, rdd: JavaObject) -> int:
        """How often an RDD reads its rows: twice where it puts two of its parts together."""
        (partition,) = rdd.partitions()
        return 2 if simple_name(partition) == "ZippedPartitionsPartition" else 1

    def run(
        self,
        table: pa.Table,
        rdd: JavaObject,
        source: ArrowInput,
        target: JavaObject,
        readers: int,
    ) -> pa.Table | None:
        """The rows that an RDD of one partition gives for those of the table; None for none."""
        manager = self._manager(self._memory, next(self._attempts))
        context = self._context(manager)
        self._contexts.setTaskContext(context)

        def through(*rows: JavaObject) -> JavaObject:
            values = (getattr(self._lazy, "from")(each) for each in rows)
            partitions = [self._partition(0, 0, each, self._any) for each in values]
            return rdd.iterator(self._together(partitions), context)

        try:
            return self.channel.exchange(table, source, through, target, readers)
        finally:
            context.markTaskCompleted(self._none)
            manager.cleanUpAllAllocatedMemory()
            self._contexts.unset()

    def _together(self, partitions: Sequence[JavaObject]) -> JavaObject:
        """The partition of an RDD that reads the given ones."""
        if len(partitions) == 1:
            return partitions[0]
        nothing = self.catalyst.seq(())
        zipped = self.catalyst.class_("org.apache.spark.rdd.ZippedPartitionsPartition")(
            0, nothing, nothing
        )
        getattr(zipped, "partitionValues_$eq")(self.catalyst.seq(partitions))
        return zipped

    def _context(self, manager: JavaObject) -> JavaObject:
        for position, value in (
            (_ATTEMPT, next(self._attempts)),
            (_MANAGER, manager),
            (_METRICS, self._metrics.empty()),
        ):
            self._arguments[position] = value
        return self._constructor.newInstance(self._arguments)

    def _template(self) -> JavaObject:
        """The constructor's arguments; every item set here saves a round trip in every step."""
        catalyst = self.catalyst
        gateway: JavaObject = catalyst.spark.sparkContext._gateway
        arguments = gateway.new_array(catalyst.jvm.java.lang.Object, 12)
        nothing = catalyst.module("scala.collection.immutable.Map").empty()
        for position, value in {
            0: 0,
            1: 0,
            2: 0,
            4: 0,
            5: 1,
            7: self._settings(),
            11: nothing,
        }.items():
            arguments[position] = value
        # A Scala BigDecimal cannot pass through py4j: it is copied from Spark's own default.
        cpus = catalyst.module("org.apache.spark.internal.config.package").CPUS_PER_TASK()
        cpus.defaultValue().toList().copyToArray(arguments, 10)
        return arguments

    def _settings(self) -> JavaObject:
        """The session's settings: expressions read them from the context of their task."""
        properties = self.catalyst.jvm.java.util.Properties()
        settings = self._session.conf().getAll()
        iterator = settings.iterator()
        while iterator.hasNext():
            pair = iterator.next()
            properties.setProperty(pair._1(), pair._2())
        return properties


class LocalPlan:
    """One plan, from Arrow rows to Arrow rows."""

    def __init__(
        self,
        plans: LocalPlans,
        rdd: JavaObject,
        source: ArrowInput,
        target: JavaObject,
        nothing: pa.Table,
        readers: int,
    ) -> None:
        self._plans = plans
        self._nothing = nothing
        self._rdd = rdd
        self._source = source
        self._target = target
        self._readers = readers

    def run(self, table: pa.Table) -> pa.Table:
        """The rows that the plan gives for the rows of `table`."""
        result = self._plans.run(table, self._rdd, self._source, self._target, self._readers)
        return self._nothing if result is None else result
