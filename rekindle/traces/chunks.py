"""Sorting more rows than fit into memory: arranged chunks, each of a bounded size.

A chunk is sorted and added up in memory and becomes a run; the sum of the runs is the whole, and
reading a trace of them is the merge.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from rekindle.traces.consolidate import consolidate
from rekindle.traces.layout import TraceLayout

CHUNK_BYTES = 2**28


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
