"""Work on ranges of keys as Spark tasks that need no JVM for their rows.

A kernel gives tables for a range of the key-hash space; what is done to them next, if it needs
nothing but Arrow, is done in the same task (`Tasks.map`). Only what is Spark's alone becomes a
DataFrame, whose rows pass through the JVM (`frames.py`).

To bring the rows of a key together no shuffle is needed either: tasks write what they have as
sorted runs, and the tasks of a second job merge a range of keys from all of them, which binary
search finds. Of 6,000,000 rows of TPC-H's lineitem this takes half the time of Spark's shuffle and
the two conversions around it.

What a task gives back are reports: the runs that it wrote, how many rows its kernel gave, and the
files in which it left them if there are several readers (`passage.py`). Spark takes the result of
each task once, however often it was attempted, so nothing is counted or read twice.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from rekindle.spark.passage import Passage, Passed, Readers
from rekindle.traces.arrays import KEY, Int64s, integers
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

REPORTS = pa.schema(
    [
        ("run", pa.string()),
        ("keys", pa.list_(pa.int64())),
        ("part", pa.int32()),
        ("passed", pa.string()),
    ]
)
"""What a task that writes files gives: a run and some of its keys, or what passed of a part."""
SAMPLED = 1_000
"""One of so many keys says where the rows of a run are."""


@dataclass(frozen=True, slots=True)
class Tasks:
    """Tables of one schema: what each of so many tasks, given by its number, makes.

    Each table of the `source` is led through all `functions`.
    """

    source: Callable[[int], Iterator[pa.Table]]
    schema: pa.Schema
    count: int
    functions: tuple[Callable[[pa.Table], pa.Table], ...] = ()
    readers: Readers = Readers.ONE
    """Who wants the tables of the source."""

    def map(self, function: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> Tasks:
        """The tables through a function."""
        return replace(self, schema=schema, functions=(*self.functions, function))

    def select(self, positions: Sequence[int]) -> Tasks:
        """Some of the columns."""
        names = [self.schema.names[i] for i in positions]
        schema = pa.schema([self.schema.field(i) for i in positions])
        return self.map(lambda table: table.select(names), schema)

    def for_several(self) -> Tasks:
        """The same for several readers: the first leaves what it reads for the others."""
        return Tasks(self.tables, self.schema, self.count, readers=Readers.SEVERAL)

    def tables(self, number: int, passage: Passage | None = None) -> Iterator[pa.Table]:
        """What one task makes; the tables of its source go through a `passage`, if one is given."""
        tables = self.source(number)
        for table in tables if passage is None else passage.through(tables):
            if len(table):
                for function in self.functions:
                    table = function(table)
                yield table


@dataclass(frozen=True, slots=True)
class Reports:
    """What the tasks of a job gave back: runs, and what passed of each part that was read."""

    runs: tuple[Run, ...]
    sample: Int64s
    """Keys of the runs, of equally many rows each."""
    passed: tuple[Passed, ...]

    @classmethod
    def of(
        cls,
        rows: Iterable[tuple[str | None, Sequence[int] | None, int | None, str | None]],
        parts: int,
    ) -> Reports:
        """The reports that so many rows of `REPORTS` are."""
        runs, sample, passed = list[Run](), list[int](), [Passed()] * parts
        for run, keys, part, text in rows:
            if run is not None:
                runs.append(Run.from_json(json.loads(run)))
                sample += keys or ()
            if part is not None and text is not None:
                passed[part] += Passed.from_json(json.loads(text))
        return cls(tuple(runs), np.array(sample, dtype=np.int64), tuple(passed))


def over_ranges(kernel: PartitionKernel, schema: pa.Schema, partitions: int) -> Tasks:
    """A task for each range of the key-hash space."""
    return over(key_ranges(partitions), kernel, schema)


def over(ranges: Sequence[KeyRange], kernel: PartitionKernel, schema: pa.Schema) -> Tasks:
    """A task for each of some ranges of keys."""
    return Tasks(lambda number: kernel(ranges[number]), schema, len(ranges))


def sorting(parts: Sequence[Tasks], layout: TraceLayout, store: Store, prefix: str) -> Tasks:
    """Tasks that write the tables of others as sorted runs."""
    work = [(place, number) for place, part in enumerate(parts) for number in range(part.count)]

    def sort(number: int) -> Iterator[pa.Table]:
        place, task = work[number]
        passage = _passage(parts[place].readers, store, prefix)
        yield from sorted_runs(parts[place].tables(task, passage), layout, store, prefix)
        yield reported(passage.passed, place)

    return Tasks(sort, REPORTS, len(work))


def keeping(tasks: Tasks, store: Store, prefix: str) -> Tasks:
    """Tasks that leave what others make as files, in no order, for whoever reads it next."""

    def keep(number: int) -> Iterator[pa.Table]:
        yield kept(tasks.tables(number), store, prefix)

    return Tasks(keep, REPORTS, tasks.count)


def kept(tables: Iterable[pa.Table], store: Store, prefix: str) -> pa.Table:
    """The report on tables of which files were left."""
    passage = _passage(Readers.SEVERAL, store, prefix)
    for _ in passage.through(tables):
        pass
    return reported(passage.passed)


def _passage(readers: Readers, store: Store, prefix: str) -> Passage:
    return Passage(readers, store, numbered(f"{prefix}-passing"))


def sorted_runs(
    tables: Iterable[pa.Table], layout: TraceLayout, store: Store, prefix: str
) -> Iterator[pa.Table]:
    """The rows of a task as sorted runs of a bounded size, written and reported."""
    names = numbered(f"{prefix}-sorted")
    for chunk in sorted_chunks(tables, layout):
        keys = integers(chunk.column(KEY))[SAMPLED // 2 :: SAMPLED]
        yield _written(store.write_run(chunk, names, Durability.DEFERRED), keys.tolist())


def merging(
    runs: Sequence[Run],
    layout: TraceLayout,
    store: Store,
    prefix: str,
    ranges: Sequence[KeyRange],
    examine: Examination,
) -> Tasks:
    """Tasks that write the sum of runs as one run, a range of keys each, and report its pieces."""
    whole = Trace(layout, tuple(runs))

    def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
        names = numbered(prefix)
        for table in examine(TraceReader.of_trace(whole, store, key_range).scan_keys()):
            yield _written(store.write_run(table, names))
        store.release(path for run in runs for path in run.paths)

    return over(ranges, kernel, REPORTS)


def _written(run: Run, keys: Sequence[int] = ()) -> pa.Table:
    return pa.table([[json.dumps(run.to_json())], [keys], [None], [None]], schema=REPORTS)


def reported(passed: Passed, part: int = 0) -> pa.Table:
    """What passed of a part, as a report."""
    return pa.table([[None], [None], [part], [json.dumps(passed.to_json())]], schema=REPORTS)


def numbered(prefix: str) -> Callable[[], str]:
    """Names of files; a lost or slow task may run twice, and writes others then."""
    from pyspark import TaskContext

    context = TaskContext.get()
    attempt = "" if context is None else f"-a{context.taskAttemptId()}"
    numbers = itertools.count()
    return lambda: f"{prefix}{attempt}-{next(numbers):05}.arrow"
