"""A collection as a dict, the simplest implementation there is, and rows to fill it with."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from rekindle.traces import KeyRange, Run, Store, Trace, advance, consolidate, weighted_layout
from rekindle.traces import trace as trace_module
from rekindle.traces.arrays import WEIGHT

PAYLOAD = pa.schema(
    [
        ("c0", pa.string()),
        ("c1", pa.list_(pa.struct([("a", pa.int32()), ("b", pa.string())]))),
        ("c2", pa.int64()),
    ]
)
LAYOUT = weighted_layout(PAYLOAD)

# Several rows share a key, two of them the first half of the identity, and keys have both signs.
KEYS = [-(2**63), 2**63 - 1, 0, -1, 5 * 2**59, -3 * 2**60, 7, 2**62]


def key_of(row: int) -> int:
    return KEYS[row % len(KEYS)]


def identity_of(row: int) -> tuple[int, int, int]:
    return key_of(row), (row // 3) * 1_000_003 - 5_000_000, -row


def payload_of(row: int) -> tuple[Any, ...]:
    nested = [{"a": row, "b": None}, None][: row % 3] if row % 5 else None
    return (None if row % 4 == 0 else f"row {row}", nested, row)


def table_of(rows: Iterable[tuple[int, int]]) -> pa.Table:
    """An unsorted change from (row, weight) pairs."""
    pairs = list(rows)
    identities = [identity_of(row) for row, _ in pairs]
    columns = [pa.array([i[part] for i in identities], pa.int64()) for part in range(3)]
    columns.append(pa.array([weight for _, weight in pairs], pa.int64()))
    payloads = [payload_of(row) for row, _ in pairs]
    columns += [
        pa.array([payload[i] for payload in payloads], field.type)
        for i, field in enumerate(PAYLOAD)
    ]
    return pa.Table.from_arrays(columns, schema=LAYOUT.schema)


def arranged(rows: Iterable[tuple[int, int]]) -> pa.Table:
    return consolidate(table_of(rows), LAYOUT)


def summed(rows: Iterable[tuple[int, int]]) -> dict[int, int]:
    total: Counter[int] = Counter()
    for row, weight in rows:
        total[row] += weight
    return {row: weight for row, weight in total.items() if weight}


def as_dict(table: pa.Table) -> dict[int, int]:
    """The collection of an arranged table; fails when it is not arranged or a payload is wrong."""
    rows = table.column("c2").to_pylist()
    identities = tuples(table.select(["_key", "_id0", "_id1"]))
    assert identities == sorted(set(identities))
    assert identities == [identity_of(row) for row in rows]
    assert tuples(table.select(PAYLOAD.names)) == [payload_of(row) for row in rows]
    weights = table.column(WEIGHT).to_pylist()
    assert 0 not in weights
    return dict(zip(rows, weights, strict=True))


def tuples(table: pa.Table) -> list[tuple[Any, ...]]:
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def within(change: pa.Table, key_range: KeyRange) -> pa.Table:
    """The rows of a change that belong to a partition."""
    low, high = key_range
    mask = [low <= key < high for key in change.column("_key").to_pylist()]
    return change.filter(pa.array(mask, pa.bool_()))


def sorted_keys(rows: Iterable[int]) -> np.ndarray:
    return np.unique(np.array([key_of(row) for row in rows], dtype=np.int64))


batches = st.lists(st.tuples(st.integers(0, 40), st.integers(-2, 2)), max_size=25)
streams = st.lists(batches, max_size=14)


@contextmanager
def small_levels(rows: int = 2) -> Iterator[None]:
    """Levels and merge pieces so small that a test of a few rows goes through many merges."""
    with (
        patch.object(trace_module, "LEVEL_ZERO_ROWS", rows),
        patch.object(trace_module, "MINIMUM_FUEL", 2 * trace_module.FAN_IN * rows),
        patch.object(trace_module, "_SMALLEST_PIECE", rows),
        patch.object(trace_module, "_LARGEST_PIECE", 4 * rows),
    ):
        yield


def names(prefix: str = "t") -> Callable[[], str]:
    counter = itertools.count()
    return lambda: f"{prefix}/{next(counter)}.arrow"


class Stepper:
    """A trace in a directory that deletes what is dropped, as a runtime would after its commit."""

    def __init__(self, directory: Path | str, layout: Any = LAYOUT) -> None:
        self.store = Store(str(directory))
        self.trace = Trace(layout)
        self.name = names()

    def step(self, change: pa.Table, fuel: int) -> None:
        run = self.store.write_run(change, self.name, maximum_rows=7)
        self.add(run, fuel)

    def add(self, run: Run, fuel: int) -> None:
        after, added, dropped = advance(self.trace, run, fuel, self.store, self.name)
        kept = {segment.path for segment in after.segments}
        assert set(added) <= kept and not kept & set(dropped)
        self.store.delete(dropped)
        assert set(self.store.list("t")) == kept
        self.trace = Trace.from_json(after.to_json())
        assert self.trace == after
