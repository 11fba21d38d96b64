"""Contents from nothing: new views, parts that a step rebuilds, tables with new columns."""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa
from pyspark.sql import functions as F

from rekindle.catalyst.types import stored, struct_of
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Stateful, Table, View
from rekindle.columns import column_name
from rekindle.kernels.difference import difference
from rekindle.runtime.epochs.history import Change, History, older_layout
from rekindle.runtime.epochs.rolling import keyed
from rekindle.spark.distributed import DistributedStep
from rekindle.spark.frames import Frames
from rekindle.spark.inline import InlineStep, prepared, write_table
from rekindle.spark.placing import Placing
from rekindle.spark.plans import Plans
from rekindle.spark.step import StepContext, StepResult, TooLargeError
from rekindle.spark.tasks import over_ranges
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, integers
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.partition import ALL_KEYS, KeyRange
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run, Segment
from rekindle.traces.store import Durability, Store
from rekindle.traces.trace import Trace

_WIDENED_ROWS = 200_000
"""So many rows of older changes get their new columns at a time."""


class Filling:
    """Fills nodes of one database."""

    def __init__(self, plans: Plans, frames: Frames, store: Store, placing: Placing) -> None:
        self._plans = plans
        self._frames = frames
        self._store = store
        self._placing = placing

    def fill(
        self,
        circuit: Circuit,
        fresh: frozenset[str],
        traces: Mapping[str, Trace],
        epoch: int,
    ) -> StepResult:
        """The contents of the nodes `fresh`, as runs, from what `traces` hold of the others."""
        demanded, seeds = _demand(circuit, fresh, traces)
        nothing = {
            node.id: Trace(self._plans.layout(node))
            for node in demanded.nodes.values()
            if isinstance(node, Stateful)
        }
        context = StepContext(demanded, nothing, self._store, epoch, frozenset(demanded.nodes))
        if self._placing.takes_step(sum(trace.live for trace in seeds.values())):
            tables = {key: self._rows(trace) for key, trace in seeds.items()}
            try:
                return InlineStep(self._plans, context).run(tables)
            except TooLargeError:
                pass
        return DistributedStep(self._plans, self._frames, context, self._placing).run(seeds)

    def contents(
        self, circuit: Circuit, keys: Iterable[str], filled: StepResult
    ) -> dict[str, Trace]:
        """The traces of nodes that were filled from nothing."""
        found = {}
        for key in keys:
            node = circuit.nodes[key]
            if isinstance(node, Stateful):
                run = filled.runs.get(key)
                found[key] = Trace(self._plans.layout(node), () if run is None else (run,))
        return found

    def difference(self, view: View, before: Trace, contents: Trace, context: StepContext) -> Run:
        """The change from what a view held to its new contents."""
        store = self._store

        def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
            yield difference(
                TraceReader.of_trace(before, store, key_range),
                TraceReader.of_trace(contents, store, key_range),
            )

        rows = before.rows + contents.rows
        if self._placing.takes_step(rows):
            renamed = replace(context, attempt=f"{context.attempt}-difference")
            return write_table(renamed, view.id, next(kernel(ALL_KEYS)))
        schema = contents.layout.schema
        tasks = over_ranges(kernel, schema, self._frames.partitions(rows))
        prefix = context.path(view.id, "difference")
        return self._frames.write_tasks([tasks], contents.layout, store, prefix).run

    def compacted(self, key: str, whole: pa.Table, context: StepContext) -> Trace:
        """The arranged contents of a node as one run."""
        renamed = replace(context, attempt=f"{context.attempt}-compacted")
        run = write_table(renamed, key, whole)
        return Trace(context.traces[key].layout, (run,) if run.rows else ())

    def widened(self, table: Table, narrow: Trace, context: StepContext) -> Trace:
        """What a trace of the table's first columns holds, with NULL in the others."""
        layout = self._plans.layout(table)
        width = len(narrow.layout.payload)
        named = replace(context, attempt=secrets.token_hex(4))
        if self._placing.takes_step(narrow.rows):
            held = self._rows(narrow).select([WEIGHT, *narrow.layout.payload.names])
            for field in list(layout.payload)[width:]:
                held = held.append_column(field, pa.nulls(len(held), field.type))
            run = write_table(named, table.id, prepared(self._plans, table, held))
        else:
            columns = [WEIGHT, *narrow.layout.payload.names]
            frame = self._frames.of_tasks(self._frames.scan(narrow, self._store, columns))
            for i, field in list(enumerate(struct_of(table.schema).fields))[width:]:
                frame = frame.withColumn(column_name(i), F.lit(None).cast(stored(field.dataType)))
            step = DistributedStep(self._plans, self._frames, named, self._placing)
            run = step.load(table, frame)
        return Trace(layout, (run,) if run.rows else ())

    def widened_history(
        self, table: Table, past: History, layout: TraceLayout, context: StepContext
    ) -> History:
        """The history of the table's first columns, which rows have `layout`, with NULL in others.

        The new identities are those of the distinct rows, whatever the epochs: their numbers go
        along as weights.
        """
        recent = tuple(
            Change(change.epoch, run)
            for change in past.recent
            for run in self.widened(table, Trace(layout, (change.run,)), context).runs
        )
        if past.older is None:
            return History(recent)
        wide = older_layout(self._plans.layout(table))
        numbers = itertools.count()
        attempt = replace(context, attempt=secrets.token_hex(4))
        segments: list[Segment] = []
        for rows in TraceReader.of_trace(past.older, self._store).scan_keys(_WIDENED_ROWS):
            segments += self._store.write_run(
                consolidate(self._widened_rows(table, rows, layout), wide),
                lambda: attempt.path(table.id, f"h{next(numbers):05}.arrow"),
                Durability.DEFERRED,
            ).segments
        return History(recent, Trace(wide, (Run(tuple(segments)),)))

    def _widened_rows(self, table: Table, rows: pa.Table, layout: TraceLayout) -> pa.Table:
        """Rows of older changes with the new columns, not yet arranged."""
        _, first, number = np.unique(
            np.stack([integers(rows.column(name)) for name in IDENTITY], axis=1),
            axis=0,
            return_index=True,
            return_inverse=True,
        )
        distinct = rows.take(pa.array(first)).select(layout.payload.names)
        counted = distinct.add_column(0, WEIGHT, pa.array(np.arange(1, len(first) + 1)))
        for field in list(self._plans.layout(table).payload)[len(layout.payload) :]:
            counted = counted.append_column(field, pa.nulls(len(counted), field.type))
        arranged = prepared(self._plans, table, counted)
        place = np.argsort(integers(arranged.column(WEIGHT)))[number.reshape(-1)]
        weights = rows.column(WEIGHT)
        wide = arranged.take(pa.array(place))
        wide = wide.set_column(wide.schema.get_field_index(WEIGHT), WEIGHT, weights)
        return keyed(wide, rows.column(KEY))

    def _rows(self, trace: Trace) -> pa.Table:
        return TraceReader.of_trace(trace, self._store).whole()


def reached_partial(
    circuit: Circuit, views: Iterable[str], traces: Mapping[str, Trace]
) -> frozenset[str]:
    """The nodes under some views whose traces are not whole, above what is there as a whole."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = list(views)
    while waiting:
        key = waiting.pop()
        if key in seen:
            continue
        seen.add(key)
        trace = traces.get(key)
        if trace is not None and trace.partial:
            found.add(key)
        node = circuit.nodes[key]
        if trace is None or not isinstance(node, Table | View):
            waiting += node.inputs
    return frozenset(found)


def starts_from(
    circuit: Circuit, fresh: frozenset[str], traces: Mapping[str, Trace]
) -> frozenset[str]:
    """The nodes from whose contents others are filled."""
    return frozenset(_demand(circuit, fresh, traces)[1])


def _demand(
    circuit: Circuit, fresh: frozenset[str], traces: Mapping[str, Trace]
) -> tuple[Circuit, dict[str, Trace]]:
    """What filling some nodes has to visit, and the contents that it starts from."""
    wanted: set[str] = set()
    seeds: dict[str, Trace] = {}
    waiting = list(fresh)
    while waiting:
        key = waiting.pop()
        if key in wanted:
            continue
        wanted.add(key)
        if key not in fresh and key in traces:
            seeds[key] = traces[key]
        else:
            waiting += circuit.nodes[key].inputs
    return Circuit({key: node for key, node in circuit.nodes.items() if key in wanted}), seeds
