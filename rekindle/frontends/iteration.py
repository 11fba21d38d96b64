"""Iteration from scratch: the reference against which views that are defined by it are checked.

Every query is evaluated again and again, from the first rows on, until nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping

import pyarrow as pa

from rekindle.errors import iteration_limit

LIMIT = 10_000
"""How many iterations a recursion may take unless its user says otherwise."""

Rows = Mapping[str, pa.Table]
"""What relations hold, by name."""


def fixed_point(first: Rows, limit: int, step: Callable[[Rows], Rows]) -> Rows:
    """What relations hold when a step of all of them gives what they held before.

    >>> grown = lambda rows: {"r": pa.table({"n": [*range(min(len(rows["r"]) + 1, 3))]})}
    >>> fixed_point({"r": pa.table({"n": pa.array([], pa.int64())})}, 9, grown)["r"].num_rows
    3
    """
    values = first
    for _ in range(limit + 1):
        after = step(values)
        if all(_same(values[name], table) for name, table in after.items()):
            return values
        values = after
    raise iteration_limit(tuple(first), limit)


def _same(one: pa.Table, other: pa.Table) -> bool:
    return len(one) == len(other) and _bag(one) == _bag(other)


def _bag(table: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.to_pylist())
