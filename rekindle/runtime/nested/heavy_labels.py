"""Which labels of a dictionary are heavy: more of its elements than half of a task's are theirs.

A step on Spark keeps the elements of a light label together and divides those of a heavy one
(`traces/heavy.py`). The threshold follows from the size of the dictionary and the number of tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rekindle.columns import column_name
from rekindle.nested.levels import LABEL
from rekindle.runtime.nested.stored_parts import Part
from rekindle.traces.heavy import threshold
from rekindle.traces.partition import ALL_KEYS
from rekindle.traces.reader import TraceReader
from rekindle.traces.spread import WITHIN
from rekindle.traces.store import Store

SHOWN = 3


def heavy_labels(
    part: Part, store: Store, partitions: Callable[[int], int], shown: Callable[[Any], str]
) -> str:
    """What is heavy among the labels of a dictionary, and from how many elements on."""
    rows = part.trace.rows
    tasks = partitions(rows)
    least = threshold(rows, tasks)
    said = f"labels of more than {least:,} elements are heavy ({tasks} tasks of {rows:,} rows)"
    if part.arranged.by != (0,) or part.schema.names[0] != LABEL:
        return f"{said}; its elements are kept with the dictionary they come from"
    found = _found(part, store, least) if rows > least else []
    if not found:
        return f"{said}: none"
    listed = ", ".join(f"{shown(label)} ({count:,})" for label, count in found[:SHOWN])
    more = f" and {len(found) - SHOWN:,} more" if len(found) > SHOWN else ""
    return f"{said}: {listed}{more}"


def _found(part: Part, store: Store, least: int) -> list[tuple[Any, int]]:
    """The labels of more elements, and how many they have, those with most first."""
    reader = TraceReader.of_trace(part.trace, store, ALL_KEYS)
    within = WITHIN if part.arranged.is_spread else np.int64(0)
    low = reader.repeated(least, within)
    sizes = reader.between_keys(low, low | within)
    found = []
    for i in np.argsort(-sizes, kind="stable"):
        if sizes[i] > least:
            span = (int(low[i]), int(low[i] | within) + 1)
            first = next(TraceReader.of_trace(part.trace, store, span).scan(1))
            found.append((first.column(column_name(0)).slice(0, 1).to_pylist()[0], int(sizes[i])))
    return found
