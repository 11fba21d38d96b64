"""What nodes give in a step on Spark: tasks, or frames where only Spark can compute it.

Outputs have the columns `_weight`, c0, c1... They are computed from the runs by which the inputs of
a node change, when somebody reads them: by kernels over one range of the key-hash space, fed from
the mapped files of the change and of the trace.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any, TypeAlias, assert_never

import pyarrow as pa
from pyspark.sql import DataFrame

from rekindle.circuit.nodes import GroupMap, Indexed, Moment, Node, Passing
from rekindle.circuit.operators.running import Cut, IntegralRead, Work
from rekindle.errors import RekindleError
from rekindle.spark.environment import StepEnvironment
from rekindle.spark.frames import Frames, sum_of
from rekindle.spark.group_maps import mapped_on_spark
from rekindle.spark.plans import Plans
from rekindle.spark.step import StepContext
from rekindle.spark.tasks import Tasks, over_ranges
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.heavy import Share, shares, threshold, without
from rekindle.traces.partition import KEY_LOW, KeyRange, key_ranges
from rekindle.traces.reader import TraceReader
from rekindle.traces.trace import Trace

CHANGE_ROWS = 200_000
MEASURED_ROWS = 1_000_000
"""Of fewer rows it does not matter who has most: measuring is a job of its own."""
MOST_SHARES = 4
"""A heavy key is divided into so many parts for each range of keys, at most."""
Rows: TypeAlias = Tasks | DataFrame
"""An output of `_weight` and columns: of kernels, or what only Spark can make."""


@dataclass(frozen=True, slots=True)
class Division:
    """What was divided of a join: how many heavy keys, in how many parts, and what is heavy."""

    keys: int
    parts: int
    threshold: int


class Outputs:
    """The outputs of the nodes of one step, from the changes that were written."""

    def __init__(
        self, plans: Plans, frames: Frames, context: StepContext, environment: StepEnvironment
    ) -> None:
        self._plans = plans
        self._frames = frames
        self._context = context
        self.environment = environment
        self.changes: dict[str, Trace] = {}
        """By what nodes that are arranged, or groups, changed."""
        self.in_driver: dict[str, DataFrame] = {}
        """The outputs of nodes whose rows came from the driver."""
        self.divisions: dict[str, Division] = {}
        """What was divided of the nodes whose rows were asked for."""
        self._shares: dict[str, list[Share]] = {}
        """The parts of nodes that were measured: whoever asks again does not measure again."""

    def of(
        self,
        node: Node,
        read: Sequence[int] | None = None,
        apart: tuple[int, ...] | None = None,
    ) -> Rows:
        """What a node changed by; only the columns at the positions `read`, if these are given.

        Of the pairs of a join that agree in the columns `apart` there is one for all of them.
        """
        if node.id in self.in_driver:
            return selected(self.in_driver[node.id], read)
        if isinstance(node, GroupMap):
            tasks = self.tasks(node)
            frame = mapped_on_spark(self._plans, self._frames, self._context, node, tasks)
            return selected(frame, read)
        if read is None:
            return self.tasks(node, apart)
        if isinstance(node, Passing):
            return self._tasks(node.work_on(read, self.environment, apart), node.id)
        return self._changed(node, read)

    def tasks(self, node: Node, apart: tuple[int, ...] | None = None) -> Tasks:
        """What tasks compute of a node: all that it gives, or the rows that a group map is of."""
        if isinstance(node, Passing):
            return self._tasks(node.work(self.environment, apart), node.id)
        return self._changed(node)

    def reaching(self, node: Node) -> int:
        """The rows that tasks go through for what a node gives."""
        if node.id in self.in_driver:
            return sys.maxsize
        if not isinstance(node, Passing):
            return self.changes[node.id].rows
        change = node.work(self.environment).change
        return self.changes[change].rows if change in self.changes else 0

    def is_empty(self, node: Passing) -> bool:
        """Is there nothing that the change of a join could be paired with?"""
        work = node.work(self.environment)
        return work.is_product and not all(self._integral(each).rows for each in work.reads)

    def _changed(self, node: Node, read: Sequence[int] | None = None) -> Tasks:
        if not isinstance(node, Indexed):
            raise RekindleError(f"a {node.kind} of a recursion is read outside of it")
        trace = self.changes[node.id]
        names = trace.layout.payload.names
        wanted = names if read is None else [names[i] for i in read]
        return self._frames.scan(trace, self._context.store, [WEIGHT, *wanted])

    def _tasks(self, work: Work, node: str) -> Tasks:
        """A kernel over ranges of keys, and over parts of the rows of heavy ones.

        A change and the integrals that are read with it are sorted by the same keys already, so
        nothing is shuffled. This holds when a view is first filled too: the integral is then this
        step's change.
        """
        store, kernel, cut, first = self._context.store, work.kernel, work.cut, work.first
        integrals = [self._integral(each) for each in work.reads]
        written = self.changes.get(work.change, Trace(self.environment.layout(work.change)))

        def over(key_range: KeyRange) -> Iterator[pa.Table]:
            if first is not None and key_range[0] == KEY_LOW:
                yield first
            readers = [TraceReader.of_trace(trace, store, key_range) for trace in integrals]
            for piece in _pieces(TraceReader.of_trace(written, store, key_range), cut):
                yield from kernel(piece, readers)

        rows = written.rows
        if work.is_product:
            rows += sum(trace.rows for trace in integrals) // 100
        partitions = self._frames.partitions(rows)
        divided = self._divided(work, written, integrals, partitions, node)
        if not divided:
            return over_ranges(over, work.schema, partitions)
        ranges, heavy = key_ranges(partitions), sorted({share.key for share in divided})

        def over_part(number: int) -> Iterator[pa.Table]:
            if number < partitions:
                for light in without(ranges[number], heavy):
                    yield from over(light)
                return
            share = divided[number - partitions]
            alone = (share.key, share.key + 1)
            change, *readers = (
                reader.share(share.number, share.of) if i == share.trace else reader
                for i, reader in enumerate(
                    TraceReader.of_trace(trace, store, alone) for trace in (written, *integrals)
                )
            )
            for piece in _pieces(change, cut):
                yield from kernel(piece, readers)

        return Tasks(over_part, work.schema, partitions + len(divided))

    def _divided(
        self, work: Work, written: Trace, integrals: Sequence[Trace], partitions: int, node: str
    ) -> list[Share]:
        """The parts of heavy keys, by which more pairs are made than by half of a task's rows.

        A product is linear in each side, so it may be given either in parts.
        """
        traces = (written, *integrals)
        rows = sum(trace.rows for trace in traces)
        if not work.is_product or rows < MEASURED_ROWS:
            return []
        if node in self._shares:
            return self._shares[node]
        limit = threshold(rows, partitions)
        found = self._frames.heavy(traces, self._context.store, isqrt(limit), partitions)
        divided = shares(found, limit, MOST_SHARES * partitions)
        if divided:
            keys = len({share.key for share in divided})
            self.divisions[node] = Division(keys, len(divided), limit)
        self._shares[node] = divided
        return divided

    def _integral(self, reading: IntegralRead) -> Trace:
        """What a kernel looks things up in."""
        changed = self.changes.get(reading.key)
        match reading.moment:
            case Moment.BEFORE:
                return self._context.traces[reading.key]
            case Moment.AFTER:
                return sum_of(self._context.traces[reading.key], changed)
            case Moment.DURING:
                nothing = Trace(self.environment.layout(reading.key))
                return nothing if changed is None else changed
        assert_never(reading.moment)


def _pieces(change: TraceReader, cut: Cut) -> Iterator[Any]:
    """What a kernel is given of a change, one after the other."""
    match cut:
        case Cut.ANYWHERE:
            yield from change.scan(CHANGE_ROWS)
        case Cut.BETWEEN_KEYS:
            yield from change.scan_keys(CHANGE_ROWS)
        case Cut.KEYS_ALONE:
            yield from change.keys(CHANGE_ROWS)
        case _:
            assert_never(cut)


def selected(rows: Rows, read: Sequence[int] | None) -> Rows:
    """The weight and the columns at some positions."""
    if read is None:
        return rows
    if isinstance(rows, Tasks):
        return rows.select([0, *(1 + i for i in read)])
    weight, *names = rows.columns
    return rows.select(weight, *(names[i] for i in read))
