"""Work on ranges of keys as Spark tasks that need no JVM for their rows.

A kernel gives tables for a range of the key-hash space; what is done to them next, if it needs
nothing but Arrow, is done in the same task (`Tasks.map`). Only what is Spark's alone becomes a
DataFrame, whose rows pass through the JVM (`frames.py`).

To bring the rows of a key together no shuffle is needed either: tasks write what they have as
sorted runs, and the tasks of a second job merge a range of keys from all of them, which binary
search finds. Of 6,000,000 rows of TPC-H's lineitem this takes half the time of Spark's shuffle and
the two conversions around it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from rekindle.traces.chunks import sorted_chunks
from rekindle.traces.layout import TraceLayout
from rekindle.traces.partition import KeyRange, key_ranges
from rekindle.traces.reader import TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.store import Durability, Store
from rekindle.traces.trace import Trace

PartitionKernel = Callable[[KeyRange], Iterator[pa.Table]]
"""What a task gives for a range of the key-hash space."""
Examination = Callable[[Iterator[pa.Table]], Iterator[pa.Table]]
"""Passes on the arranged tables of a run in their order; raises if one must not be written."""

RUNS = pa.schema([("run", pa.string())])
"""What a task that writes runs gives."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tables of one schema: what each of so many tasks, given by its number, makes."""

    task: Callable[[int], Iterator[pa.Table]]
    schema: pa.Schema
    count: int

    def map(self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> Tasks:
        """The tables through a function."""
        task = self.task

        def mapped(number: int) -> Iterator[pa.Table]:
            for table in task(number):
                if len(table):
                    yield function(table)

        return Tasks(mapped, schema, self.count)

    def select(self, positions: Sequence[int]) -> Tasks:
        """Some of the columns."""
        names = [self.schema.names[i] for i in positions]
        schema = pa.schema([self.schema.field(i) for i in positions])
        return self.map(lambda table: table.select(names), schema)


def over_ranges(kernel: PartitionKernel, schema: pa.Schema, partitions: int) -> Tasks:
    """A task for each range of the key-hash space."""
    ranges = key_ranges(partitions)
    return Tasks(lambda number: kernel(ranges[number]), schema, partitions)


def sorting(parts: Sequence[Tasks], layout: TraceLayout, store: Store, prefix: str) -> Tasks:
    """Tasks that write the tables of others as sorted runs and give the runs as text."""
    work = [(part.task, number) for part in parts for number in range(part.count)]

    def sort(number: int) -> Iterator[pa.Table]:
        task, part = work[number]
        return sorted_runs(task(part), layout, store, prefix)

    return Tasks(sort, RUNS, len(work))


def sorted_runs(
    tables: Iterable[pa.Table], layout: TraceLayout, store: Store, prefix: str
) -> Iterator[pa.Table]:
    """The rows of a task as sorted runs of a bounded size, written and given as text."""
    names = numbered(f"{prefix}-sorted")
    for chunk in sorted_chunks(tables, layout):
        yield _as_text(store.write_run(chunk, names, Durability.DEFERRED))


def merging(
    runs: Sequence[Run],
    layout: TraceLayout,
    store: Store,
    prefix: str,
    partitions: int,
    examine: Examination,
) -> Tasks:
    """Tasks that write the sum of runs as one run, and give its pieces as text."""
    whole = Trace(layout, tuple(runs))

    def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
        names = numbered(prefix)
        for table in examine(TraceReader.of_trace(whole, store, key_range).scan_keys()):
            yield _as_text(store.write_run(table, names))
        store.release(path for run in runs for path in run.paths)

    return over_ranges(kernel, RUNS, partitions)


def runs_of(texts: Iterable[str]) -> list[Run]:
    """The runs that tasks gave."""
    return [Run.from_json(json.loads(text)) for text in texts]


def _as_text(run: Run) -> pa.Table:
    return pa.table([[json.dumps(run.to_json())]], schema=RUNS)


def numbered(prefix: str) -> Callable[[], str]:
    """Names of files; a lost or slow task may run twice, and writes others then."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = "" if context is None else f"-a{context.taskAttemptId()}"
    numbers = itertools.count()
    return lambda: f"{prefix}{attempt}-{next(numbers):05}.arrow"
