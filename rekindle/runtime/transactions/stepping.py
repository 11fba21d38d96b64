"""A step: from the changes of tables to the runs of every node, in the driver or on Spark.

Tables are checked before anything is written. Parts of the circuit that are cheaper to fill anew
than to lead the change to are left out of the step and rebuilt from the tables as it leaves them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame

from rekindle.circuit.circuit import Circuit
from rekindle.circuit.costs import ChangeSize, Refresh, parts
from rekindle.circuit.nodes import HalfJoin, Table, View
from rekindle.runtime.matrices.factored import Factors
from rekindle.runtime.statements.constraints import check_change, check_contents, check_load
from rekindle.runtime.views.filling import Filling, starts_from
from rekindle.spark.distributed import DistributedStep
from rekindle.spark.frames import Frames, collect
from rekindle.spark.inline import InlineStep, prepared, write_table
from rekindle.spark.placing import Placing
from rekindle.spark.plans import Plans
from rekindle.spark.step import NodeStep, StepContext, StepResult, TooLargeError
from rekindle.spark.tasks import Examination, over_ranges
from rekindle.traces.arrays import growth
from rekindle.traces.partition import KeyRange
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.threads import MANY_ROWS, aside
from rekindle.traces.trace import Trace

DECIDED_ROWS = 1_000
"""A change of fewer rows is followed without asking what else it could cost."""
WORN_SHARE = 4
"""A change is large if it has this part of a trace's rows."""
COMPACTED_ROWS = 4_000_000


@dataclass(frozen=True, slots=True)
class TableChange:
    """A change of one table: rows in memory, or a DataFrame; both with `_weight` and c0, c1..."""

    rows: pa.Table | None = None
    frame: DataFrame | None = None
    estimate: int = 0
    factors: Factors | None = None
    """The change once more, as products of vectors, if that is how it came."""


@dataclass(frozen=True, slots=True)
class Stepping:
    """One step of one database."""

    plans: Plans
    frames: Frames
    placing: Placing
    filling: Filling
    context: StepContext
    feeds: Collection[str]
    """The tables that feed views: they take rows in and keep none."""
    refresh: Refresh | None
    """What a user asked for, instead of what costs least."""
    steps: Mapping[str, tuple[int, NodeStep]]
    """What nodes did when they last ran, and at which epoch."""

    def inline(self, changes: Mapping[Table, TableChange]) -> StepResult | None:
        """The step in the driver; None when it outgrows it."""
        context = self.context
        seeds: dict[str, pa.Table] = {}
        compacted: dict[str, pa.Table] = {}
        for node, change in changes.items():
            assert change.rows is not None
            arranged = prepared(self.plans, node, change.rows)
            if len(arranged):
                seeds[node.id] = arranged

        def check() -> None:
            for node in changes:
                if node.id in seeds and node.id not in self.feeds:
                    arranged, trace = seeds[node.id], context.traces[node.id]
                    after = TraceReader.of_trace(trace, context.store, extra=[arranged])
                    if is_worn(trace, arranged):
                        compacted[node.id] = after.whole()
                        check_contents(node, arranged, compacted[node.id])
                    else:
                        check_change(node, arranged, after)

        many = sum(map(len, seeds.values())) >= MANY_ROWS
        with aside(check, together=many) as checked:
            rebuilt = self._to_rebuild(
                {key: ChangeSize(len(rows), growth(rows)) for key, rows in seeds.items()}
            )
            step = InlineStep(self.plans, context.without(rebuilt))
            try:
                result = step.run(seeds, checked)
            except TooLargeError:
                return None
        for key, arranged in seeds.items():
            if key not in self.feeds:
                result.runs[key] = write_table(context, key, arranged)
        for key, whole in compacted.items():
            result.contents[key] = self.filling.compacted(key, whole, context)
        self._rebuild(rebuilt, result)
        return result

    def on_spark(self, changes: Mapping[Table, TableChange]) -> StepResult:
        """The step as Spark jobs."""
        context = self.context
        step = DistributedStep(self.plans, self.frames, context, self.placing)
        runs: dict[str, Run] = {}
        for node, change in changes.items():
            if change.rows is None or change.frame is not None:
                assert change.frame is not None
                first = not context.traces[node.id].rows
                examine: Examination = partial(check_load, node) if first else iter
                run = step.load(node, change.frame, examine)
            else:
                first = False
                run = write_table(context, node.id, prepared(self.plans, node, change.rows))
            if run.rows:
                if not first and node.id not in self.feeds:
                    self._check(node, run)
                runs[node.id] = run
        seeds = {key: Trace(context.traces[key].layout, (run,)) for key, run in runs.items()}
        rebuilt = self._to_rebuild(
            {key: ChangeSize(trace.rows, trace.live) for key, trace in seeds.items()}
        )
        step = DistributedStep(self.plans, self.frames, context.without(rebuilt), self.placing)
        result = step.run(seeds)
        result.runs.update({key: run for key, run in runs.items() if key not in self.feeds})
        passed = (runs[key].paths for key in self.feeds if key in runs)
        context.store.delete(path for paths in passed for path in paths)
        self._rebuild(rebuilt, result)
        return result

    def _check(self, node: Table, run: Run) -> None:
        """Check what was written of a table's change, in Spark tasks."""
        trace, store = self.context.traces[node.id], self.context.store
        change = Trace(trace.layout, (run,))
        after = replace(trace, runs=(*trace.runs, run))

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            reader = TraceReader.of_trace(after, store, key_range)
            for table in TraceReader.of_trace(change, store, key_range).scan():
                check_change(node, table, reader)
            yield from ()

        schema = pa.schema([("nothing", pa.string())])
        tasks = over_ranges(kernel, schema, self.frames.partitions(run.rows))
        collect(self.frames.of_tasks(tasks))

    # ---- rebuilding ------------------------------------------------------------------------

    def _to_rebuild(self, sizes: Mapping[str, ChangeSize]) -> dict[str, str]:
        """The nodes that are cheaper to fill anew than to lead the changes to, with the reason."""
        if self.refresh is Refresh.INCREMENTAL:
            return {}
        if self.refresh is None and sum(size.rows for size in sizes.values()) < DECIDED_ROWS:
            return {}
        circuit = self.context.circuit
        stored = {key: trace.live for key, trace in self.context.traces.items()}
        fed = set(self.feeds)  # What they feed cannot be filled anew from them.
        for key, node in circuit.nodes.items():
            if fed.intersection(node.inputs):
                fed.add(key)
        steps = {key: step for key, (_, step) in self.steps.items()}
        return {
            key: part.reason
            for part in parts(circuit, sizes, stored, fan_outs(circuit, steps))
            if (self.refresh or part.refresh) is Refresh.FULL and not fed & part.nodes
            if self._can_be_filled(part.nodes)
            for key in part.nodes
        }

    def _can_be_filled(self, nodes: frozenset[str]) -> bool:
        """Is what some nodes are filled from there as a whole?"""
        traces = self.context.traces
        if not any(trace.partial for trace in traces.values()):
            return True
        begun = starts_from(self.context.circuit, nodes, traces)
        return not any(traces[key].partial for key in begun)

    def _rebuild(self, reasons: Mapping[str, str], result: StepResult) -> None:
        """Fill nodes anew, from the sources as the step leaves them."""
        if not reasons:
            return
        context, circuit = self.context, self.context.circuit
        traces = dict(context.traces)
        for key in result.runs:
            trace = traces[key]
            grown = replace(trace, runs=(*trace.runs, result.runs[key]))
            traces[key] = result.contents.get(key, grown)
        filled = self.filling.fill(circuit, frozenset(reasons), traces, context.epoch)
        result.contents |= self.filling.contents(circuit, reasons, filled)
        for key, contents in result.contents.items():
            node = circuit.nodes[key]
            if isinstance(node, View):
                change = self.filling.difference(node, context.traces[key], contents, context)
                if change.rows:
                    result.runs[key] = change
        result.passing |= filled.passing
        for key, step in filled.nodes.items():
            if key in reasons:
                result.nodes[key] = replace(step, rebuilt=reasons[key])


def fan_outs(circuit: Circuit, steps: Mapping[str, NodeStep]) -> dict[str, float]:
    """The rows that joins gave for each row that came to them when they last ran.

    Of a join that gave none nothing is known: its other side may have been empty, as one of the
    halves of every join finds it when a view is filled.
    """
    return {
        key: step.rows_out / step.rows_in
        for key, step in steps.items()
        if step.rows_in and step.rows_out and isinstance(circuit.nodes.get(key), HalfJoin)
    }


def is_worn(trace: Trace, change: pa.Table) -> bool:
    """Does a large change leave a trace with many more rows than its collection has?

    Then it is added up at once, if the driver can, and not bit by bit.
    """
    rows, live = trace.rows + len(change), trace.live + growth(change)
    return WORN_SHARE * len(change) >= rows and 2 * live < rows <= COMPACTED_ROWS
