"""Sorted chunks add up to what one sort of everything gives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from rekindle.traces.arrays import integers
from rekindle.traces.chunks import sorted_chunks
from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.values import Weight

LAYOUT = TraceLayout((Weight(),), pa.schema([("c0", pa.int64())]))


def _batches(rows: int, keys: int) -> list[pa.RecordBatch]:
    random = np.random.default_rng(rows)
    names = LAYOUT.schema.names
    batches = []
    for _ in range(7):
        value = random.integers(0, keys, rows)
        columns = {
            "_key": value,
            "_id0": value * 3,
            "_id1": value * 7,
            "_weight": random.integers(-1, 2, rows),
            "c0": value,
        }
        batches.append(pa.record_batch([pa.array(columns[name]) for name in names], names=names))
    return batches


@pytest.mark.parametrize("keys", [1, 5, 400])
@pytest.mark.parametrize("chunk_bytes", [1, 10_000, 10**9])
def test_chunks_add_up_to_one_sort(chunk_bytes: int, keys: int) -> None:
    given = [pa.Table.from_batches([batch]) for batch in _batches(300, keys)]
    expected = consolidate(pa.concat_tables(given), LAYOUT)
    chunks = list(sorted_chunks(given, LAYOUT, chunk_bytes))
    assert (len(chunks) == 1) == (chunk_bytes == 10**9)
    found = TraceReader.of_tables(LAYOUT, chunks)
    assert found.whole().combine_chunks().equals(expected.combine_chunks())
    tables = list(found.scan_keys(7))
    assert pa.concat_tables(tables).combine_chunks().equals(expected.combine_chunks())
    seen = [set(integers(table.column("_key")).tolist()) for table in tables]
    assert sum(map(len, seen)) == len(set().union(*seen)), "a key stands in two tables"


def test_nothing_gives_nothing() -> None:
    assert list(sorted_chunks([], LAYOUT)) == []
