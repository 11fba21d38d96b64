"""The work of every operator gives the same in the driver and over ranges of keys, without Spark.

What Spark adds is to run the ranges in tasks. Changes have rows that come, and rows that leave what
is stored; the driver has tables in memory, the ranges are read from files.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow as pa
import pytest

from rekindle.aggregates.accumulators import Accumulator
from rekindle.aggregates.counts import CountRows
from rekindle.calculus.bodies import Measures
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Aggregate, Distance, Reach, SlidingFrame, TopRows
from rekindle.calculus.text import parse
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import (
    DistinctRows,
    Group,
    GroupMap,
    HalfJoin,
    Indexing,
    Moment,
    Node,
    Passing,
    Side,
    Table,
)
from rekindle.circuit.stages import Branch, LinearForm
from rekindle.kernels.arrange import arrange
from rekindle.spark.frames import Frames
from rekindle.spark.inline import InlineStep
from rekindle.spark.outputs import Outputs
from rekindle.spark.plans import Plans
from rekindle.spark.step import StepContext
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT
from rekindle.traces.heavy import Heavy, heavy_keys
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace

ROWS = Schema.of(k="bigint", x="bigint")
A, B = (Table(name, ROWS, (0,), "1") for name in "ab")
WHOLE = Table("d", ROWS, (), "1")
FORM = LinearForm((Branch(A.id, ROWS),), ROWS)
COUNTED = parse(
    "aggregate by k = $0:bigint compute n = count():bigint\n  source a (k: bigint, x: bigint)"
)
assert isinstance(COUNTED, Aggregate)
PAIRS = ROWS + ROWS


class Session:
    """As much of `Plans` and `Frames` as plain columns need."""

    def layout(self, node: Indexing) -> TraceLayout:
        return node.laid_out(cast(Any, self))

    def payload(self, schema: Schema) -> pa.Schema:
        return pa.schema([(f"c{i}", pa.int64()) for i in range(len(schema))])

    def accumulators(self, group: Group) -> tuple[Accumulator, ...]:
        return (CountRows(),)

    def buffer_names(self, group: Group) -> list[str]:
        return ["b0_0"]

    def under_settings_of(self, node: Node) -> AbstractContextManager[None]:
        return nullcontext()

    def partitions(self, rows: int) -> int:
        return 4

    def heavy(
        self, traces: Sequence[Trace], store: Store, least: int, partitions: int
    ) -> list[Heavy]:
        return heavy_keys([TraceReader.of_trace(trace, store) for trace in traces], least)


def mixed(*columns: Any) -> Any:
    """A hash that spreads over all 64 bits."""
    found = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        found = (found ^ column.astype(np.uint64)) * np.uint64(0x9E3779B97F4A7C15)
        found ^= found >> np.uint64(29)
    return (found * np.uint64(0xBF58476D1CE4E5B9)).view(np.int64)


def rows(random: np.random.Generator, node: Table | Group, size: int) -> pa.Table:
    """Random rows with key and identity: of a table, of which B is in an order, or of groups."""
    k, x = random.integers(0, 12, size), random.integers(0, 6, size)
    if isinstance(node, Group):
        marks = [mixed(k), mixed(k), mixed(k + 99)]
    else:
        marks = [
            mixed(k) if node.key else mixed(k, x),
            x if node is B else mixed(k, x),
            mixed(x, k),
        ]
    columns = [*marks, random.integers(1, 3, size), k, x]
    return pa.table(list(map(pa.array, columns)), names=[KEY, *IDENTITY, WEIGHT, "c0", "c1"])


class Step:
    """Both placements of one step over the same random state."""

    def __init__(self, path: Path, seed: int, nodes: list[Node]) -> None:
        random, session = np.random.default_rng(seed), Session()
        plans, frames = cast(Plans, session), cast(Frames, session)
        circuit = Circuit({node.id: node for node in (A, B, WHOLE, *nodes)})
        store, names = Store(str(path)), itertools.count()
        traces: dict[str, Trace] = {}
        changes: dict[str, pa.Table] = {}

        def written(table: pa.Table, layout: TraceLayout) -> Trace:
            run = store.write_run(table, lambda: f"t/{next(names)}.arrow", maximum_rows=9)
            return Trace(layout, (run,) if run.rows else ())

        for node in circuit.nodes.values():
            if not isinstance(node, Table | Group):
                continue
            layout = plans.layout(node)
            before, change = rows(random, node, 60), rows(random, node, 15)
            gone = before.slice(0, 20)  # What leaves was there.
            gone = gone.set_column(3, WEIGHT, pa.array(-gone.column(WEIGHT).to_numpy()))
            change = pa.concat_tables([change, gone])
            if isinstance(node, Table):
                before, change = arrange(before, layout), arrange(change, layout)
            else:
                context = StepContext(circuit, {}, store, 1)
                summing = node.summing(InlineStep(plans, context)._environment)
                assert summing is not None
                before, change = summing(before), summing(change)
            traces[node.id] = written(before, layout)
            changes[node.id] = change
        context = StepContext(circuit, traces, store, 1)
        self.inline = InlineStep(plans, context)
        self.inline._changes.update(changes)
        self.outputs = Outputs(plans, frames, context, self.inline._environment)
        for key, table in changes.items():
            self.outputs.changes[key] = written(table, traces[key].layout)

    def in_driver(self, node: Passing) -> pa.Table | None:
        return self.inline._done(node.work(self.inline._environment))

    def over_ranges(self, node: Passing, columns: tuple[int, ...] | None = None) -> list[pa.Table]:
        environment = self.inline._environment
        work = node.work(environment)
        if columns is not None:
            work = node.work_on(columns, environment)
        tasks = self.outputs._tasks(work, node.id)
        divided = self.outputs.divisions.get(node.id)
        assert tasks.count == 4 + (0 if divided is None else divided.parts)
        return [table for number in range(tasks.count) for table in tasks.tables(number)]


def bag(tables: list[pa.Table], first: str = WEIGHT) -> Counter[tuple[Any, ...]]:
    """Rows with their weights, or how often they are there under a moment."""
    found: Counter[tuple[Any, ...]] = Counter()
    for table in tables:
        for row in table.to_pylist():
            assert next(iter(row)) == first
            weight, *values = row.values()
            if first == WEIGHT:
                found[tuple(values)] += weight
            else:
                found[np.sign(weight), *values] += 1
    return Counter({row: weight for row, weight in found.items() if weight})


JOINS: list[Passing] = [
    HalfJoin(A.id, B.id, moment, side, PAIRS, 2)
    for moment in (Moment.BEFORE, Moment.AFTER, Moment.DURING)
    for side in Side
]
OTHERS: list[Passing] = [
    DistinctRows(WHOLE.id, ROWS),
    Group(FORM, COUNTED.keys, COUNTED.measures, COUNTED.schema),
]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("node", JOINS + OTHERS, ids=lambda node: f"{node.kind} {node.id[-4:]}")
def test_work_is_the_same_wherever_it_is_done(node: Passing, seed: int, tmp_path: Path) -> None:
    step = Step(tmp_path, seed, [node])
    whole = step.in_driver(node)
    assert whole is not None and len(whole)
    parts = step.over_ranges(node)
    assert bag(parts) == bag([whole])
    assert sum(map(bool, map(len, parts))) > 1
    assert whole.column_names == [WEIGHT, *(f"c{i}" for i in range(whole.num_columns - 1))]


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("node", JOINS + OTHERS, ids=lambda node: f"{node.kind} {node.id[-4:]}")
def test_heavy_keys_are_divided_between_tasks(
    node: Passing, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pairs of heavy keys are made in several tasks, those of others in one, none twice."""
    monkeypatch.setattr("rekindle.spark.outputs.MEASURED_ROWS", 1)
    monkeypatch.setattr("rekindle.traces.heavy.LIGHT", 5)
    step = Step(tmp_path, seed, [node])
    whole = step.in_driver(node)
    assert whole is not None and len(whole)
    assert bag(step.over_ranges(node)) == bag([whole])
    divided = step.outputs.divisions.get(node.id)
    if not isinstance(node, HalfJoin):
        assert divided is None  # What is not linear in its rows sees all of a key.
        return
    assert divided is not None and divided.keys > 1 and divided.parts > divided.keys
    tasks = step.outputs._tasks(node.work(step.inline._environment), node.id)
    for number in range(4, tasks.count):
        (keys,) = {row["c0"] for table in tasks.tables(number) for row in table.to_pylist()} or {0}
        assert all(
            row["c0"] != keys
            for other in range(4)
            for table in tasks.tables(other)
            for row in table.to_pylist()
        )


@pytest.mark.parametrize("node", JOINS + OTHERS, ids=lambda node: f"{node.kind} {node.id[-4:]}")
def test_some_columns_are_those_of_all(node: Passing, tmp_path: Path) -> None:
    step = Step(tmp_path, 7, [node])
    whole = step.in_driver(node)
    assert whole is not None
    assert bag(step.over_ranges(node, (1,))) == bag([whole.select([WEIGHT, "c1"])])


@pytest.mark.parametrize(
    "reach",
    [None, TopRows(1, 2), SlidingFrame(1, 1, 1, Distance.ROWS)],
    ids=["all", "first", "near"],
)
def test_touched_groups_are_the_same(reach: Reach | None, tmp_path: Path) -> None:
    node = GroupMap(B.id, (0,), Measures(ROWS, COUNTED.measures), reach)
    step = Step(tmp_path, 3, [node])
    whole = step.in_driver(node)
    assert whole is not None and len(whole)
    assert bag(step.over_ranges(node), "_moment") == bag([whole], "_moment")
