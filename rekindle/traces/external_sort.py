"""Sorting a bulk load: arranged tables from batches in any order, in bounded memory.

Consolidation sorts a chunk in memory. When there is more than one chunk, each waits on the local
disk as a run, and reading their sum is the merge: the reader of a trace does it already.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import SCAN_ROWS, TraceReader
from rekindle.traces.segment import Run
from rekindle.traces.store import Durability, Store
from rekindle.traces.trace import Trace

CHUNK_BYTES = 2**28


def sorted_tables(
    batches: Iterable[pa.RecordBatch], layout: TraceLayout, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Any]:
    """The sum of the batches as arranged tables, ascending, no key in two of them."""
    tables = (pa.Table.from_batches([batch]) for batch in batches)
    chunks = sorted_chunks(tables, layout, chunk_bytes)
    first, second = next(chunks, None), next(chunks, None)
    if first is None:
        return
    if second is None:
        yield first
        return
    with tempfile.TemporaryDirectory(prefix="rekindle-sort-") as directory:
        store = Store(directory)
        runs = [_spill(store, 0, first), _spill(store, 1, second)]
        # Only the chunk at hand may be in memory.
        del first, second
        runs += [_spill(store, i, chunk) for i, chunk in enumerate(chunks, 2)]
        yield from TraceReader.of_trace(Trace(layout, tuple(runs)), store).scan(SCAN_ROWS)


def sorted_chunks(
    tables: Iterable[Any], layout: TraceLayout, chunk_bytes: int = CHUNK_BYTES
) -> Iterator[Any]:
    """Arranged tables that fit into memory, whose sum is that of the given ones, in any order."""
    waiting: list[Any] = []
    size = 0

    def arranged() -> Any:
        return consolidate(layout.conform(pa.concat_tables(waiting)), layout)

    for table in tables:
        waiting.append(table)
        size += table.nbytes
        if size >= chunk_bytes:
            yield arranged()
            waiting, size = [], 0
    if waiting:
        yield arranged()


def _spill(store: Store, number: int, chunk: Any) -> Run:
    names = (f"{number}-{part}.arrow" for part in range(len(chunk) + 1))
    return store.write_run(chunk, lambda: next(names), Durability.DEFERRED)
