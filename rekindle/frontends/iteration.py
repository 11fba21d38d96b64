"""Iteration from scratch: the reference against which views that are defined by it are checked.

Every query is evaluated again and again, from the first rows on, until nothing changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from rekindle.calculus.terms import Bound
from rekindle.errors import iteration_limit

LIMIT = 10_000
"""How many iterations a recursion may take unless its user says otherwise."""

Rows = Mapping[str, pa.Table]
"""What relations hold, by name."""


@dataclass(frozen=True, slots=True)
class After:
    """What relations hold after a step, and whether another may follow."""

    rows: Rows
    goes_on: bool = True


def fixed_point(
    first: Rows, limit: int, step: Callable[[Rows], After], bound: Bound = Bound.ERROR
) -> Rows:
    """What relations hold when a step of all of them gives what they held before, or is the last.

    >>> def grown(rows):
    ...     return After({"r": pa.table({"n": [*range(min(len(rows["r"]) + 1, 3))]})})
    >>> nothing = {"r": pa.table({"n": pa.array([], pa.int64())})}
    >>> fixed_point(nothing, 9, grown)["r"].num_rows
    3
    >>> fixed_point(nothing, 2, grown, Bound.RESULT)["r"].num_rows
    2
    """
    values = first
    for _ in range(limit + (bound is Bound.ERROR)):
        after = step(values)
        if all(_same(values[name], table) for name, table in after.rows.items()):
            return values
        values = after.rows
        if not after.goes_on:
            return values
    if bound is Bound.RESULT:
        return values
    raise iteration_limit(tuple(first), limit)


def _same(one: pa.Table, other: pa.Table) -> bool:
    return len(one) == len(other) and _bag(one) == _bag(other)


def _bag(table: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.to_pylist())
