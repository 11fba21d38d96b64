"""The law of traces: after every step, every way of reading gives the sum of the changes."""

from __future__ import annotations

import tempfile
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.traces import Run, Segment, Store, Trace, TraceReader, fuel_for, key_ranges
from rekindle.traces import reader as reader_module
from rekindle.traces import trace as trace_module
from rekindle.traces.arrays import identity_columns
from tests.traces.model import (
    LAYOUT,
    Stepper,
    arranged,
    as_dict,
    key_of,
    names,
    payload_of,
    small_levels,
    sorted_keys,
    streams,
    summed,
)

requests = st.lists(st.integers(0, 45), max_size=12)


def check_reader(reader: TraceReader, model: dict[int, int], rows: list[int]) -> None:
    low, high = reader.key_range
    model = {row: weight for row, weight in model.items() if low <= key_of(row) < high}
    for size in (3, 1000):
        tables = list(reader.scan(size))
        assert as_dict(pa.concat_tables([LAYOUT.empty(), *tables])) == model
        stored = [key for keys in reader.keys(size) for key in keys.tolist()]
        assert stored == sorted({key_of(row) for row in model})
        for most, apart in ((0, 0), (reader_module.MOST, 0), (0, reader_module.SET_APART)):
            with patch.multiple(reader_module, MOST=most, SET_APART=apart):
                check_contents(list(reader.contents(size)), model)
    narrow = reader.of_columns(["c2"]).whole()
    assert narrow.column_names == [*LAYOUT.schema.names[:-3], "c2"]
    weights_of = zip(*(narrow.column(n).to_pylist() for n in ("c2", "_weight")), strict=True)
    assert dict(weights_of) == model
    keys = sorted_keys(rows)
    assert reader.weights(keys).tolist() == [
        sum(weight for row, weight in model.items() if key_of(row) == key) for key in keys.tolist()
    ]
    table, probe = reader.probe(keys)
    wanted = set(keys.tolist())
    assert as_dict(table) == {r: w for r, w in model.items() if key_of(r) in wanted}
    assert keys[probe].tolist() == table.column("_key").to_pylist()
    request = arranged((row, 1) for row in set(rows))
    found = reader.lookup(identity_columns(request))
    weights = found.table.column("_weight").to_pylist()
    for row, position in zip(request.column("c2").to_pylist(), found.row.tolist(), strict=True):
        assert (weights[position] if position >= 0 else None) == model.get(row)
        if position >= 0:
            assert found.table.column("c2")[position].as_py() == row


def check_contents(tables: list[pa.Table], model: dict[int, int]) -> None:
    """Every row once, however few of them meet others."""
    rows = [row for table in tables for row in table.to_pylist()]
    assert {row["c2"]: row["_weight"] for row in rows} == model and len(rows) == len(model)
    for row in rows:
        assert (row["c0"], row["c1"], row["c2"]) == payload_of(row["c2"])


@settings(max_examples=60, deadline=None)
@given(streams, requests, st.integers(0, 12), st.sampled_from([1, 2, 8]))
def test_every_reading_is_the_sum(
    stream: list, rows: list[int], fuel: int, partitions: int
) -> None:
    with tempfile.TemporaryDirectory() as directory, small_levels():
        stepper = Stepper(directory)
        everything: list[tuple[int, int]] = []
        for batch in stream:
            change = arranged(batch)
            before = TraceReader.of_trace(stepper.trace, stepper.store, extra=[change])
            everything += batch
            check_reader(before, summed(everything), rows)
            stepper.step(change, fuel)
            for key_range in key_ranges(partitions):
                reader = TraceReader.of_trace(stepper.trace, stepper.store, key_range)
                check_reader(reader, summed(everything), rows)
        in_memory = TraceReader.of_tables(LAYOUT, [arranged(batch) for batch in stream])
        check_reader(in_memory, summed(everything), rows)


def numbers(rows: int, seed: int) -> pa.Table:
    rng = np.random.default_rng(seed)
    keys = np.unique(rng.integers(-(2**63), 2**63 - 1, rows))
    columns = [keys, keys, keys, np.ones(len(keys), np.int64)]
    return pa.table(columns, schema=PLAIN.schema)


PLAIN = trace_module.TraceLayout(LAYOUT.values, pa.schema([]))


@pytest.mark.parametrize("distribution", ["steady", "bursts", "tiny"])
def test_the_number_of_runs_stays_logarithmic(distribution: str) -> None:
    """With `fuel_for` every level has fewer than 2 * FAN_IN runs."""
    rng = np.random.default_rng(7)
    with small_levels(rows=8):
        stepper = Stepper("mock:///" + distribution, PLAIN)
        total = 0
        for step in range(400):
            match distribution:
                case "steady":
                    rows = 20
                case "bursts":
                    rows = int(rng.choice([1, 10, 200], p=[0.6, 0.35, 0.05]))
                case _:
                    rows = 1
            fuel = fuel_for(rows)
            stepper.add(stepper.store.write_run(numbers(rows, step), stepper.name), fuel)
            total += rows
            runs = stepper.trace.readable_runs
            per_level = np.bincount([trace_module.level(run.rows) for run in runs])
            assert per_level.max() < 2 * trace_module.FAN_IN
            assert len(runs) <= 2 * trace_module.FAN_IN * (trace_module.level(total) + 1)
            assert sum(run.rows for run in runs) == total


def test_work_of_a_step_is_bounded_by_its_fuel() -> None:
    """Big merges are spread over steps: none reads more than its fuel and the credit so far."""
    with small_levels(rows=8):
        stepper = Stepper("mock:///bounded", PLAIN)
        for seed in range(4):
            stepper.add(stepper.store.write_run(numbers(5000, seed), stepper.name), 0)
        (merge,) = stepper.trace.merges
        steps = 0
        while stepper.trace.merges:
            before = stepper.trace.merges[0]
            stepper.add(Run(()), 100)
            if stepper.trace.merges:
                after = stepper.trace.merges[0]
                assert after.done - before.done <= 100 + before.credit + 10
            steps += 1
        assert steps >= merge.rows // 110
        (run,) = stepper.trace.runs
        assert run.rows == 20_000


def test_large_merges_leave_few_files() -> None:
    segment = Segment("a", 100_000_000, 0, 0, 0, "", 100_000_000)
    assert trace_module.Merge((Run((segment,)),) * 4).piece == 2**18
    assert trace_module.Merge((Run(()),)).piece == 2**14


def test_what_is_changed_all_the_time_is_kept_once() -> None:
    with tempfile.TemporaryDirectory() as directory:
        stepper = Stepper(directory, PLAIN)
        stepper.step(numbers(300, 0), fuel_for(300))
        stepper.step(numbers(150, 1), fuel_for(150))
        assert [run.rows for run in stepper.trace.runs] == [450]
        stepper.step(numbers(150, 2), fuel_for(150))
        assert [run.rows for run in stepper.trace.runs] == [450, 150]


def test_cancelled_runs_vanish() -> None:
    with small_levels():
        stepper = Stepper("mock:///cancelled")
        for sign in (1, -1, 1, -1):
            stepper.step(arranged((row, sign) for row in range(40)), 10_000)
        assert stepper.trace == Trace(LAYOUT)
        assert stepper.store.list() == []


def test_an_interrupted_merge_resumes_from_its_json() -> None:
    """A retried step writes the same files from the same trace."""
    with small_levels():
        store = Store("mock:///resumed")
        name = names("first")
        trace = Trace(LAYOUT)
        for _ in range(4):
            run = store.write_run(arranged((row, 1) for row in range(40)), name)
            trace = trace_module.advance(trace, run, 0, store, name).trace
        once = trace_module.advance(trace, None, 50, store, names("retry"))
        again = trace_module.advance(
            Trace.from_json(trace.to_json()), None, 50, store, names("retry")
        )
        assert once == again and once.trace.merges and once.added
