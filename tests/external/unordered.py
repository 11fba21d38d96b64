"""What Spark leaves open: the order of a list, which row is the first, rows at a bare limit.

Two results that differ only so are neither right nor wrong. A window has an order of its own, and
is excused only where that leaves rows level: Spark then gives another result if the rows of the
tables come in another order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from tests.external.compare import Row, differing

_LISTS = re.compile(r"\b(collect_list|collect_set|array_agg|listagg|string_agg)\s*\(", re.I)
_CHOICES = re.compile(
    r"\b(first|first_value|last|last_value|any_value|histogram_numeric|min_by|max_by|mode)\s*\(",
    re.I,
)


def left_open(query: str, actual: Sequence[Row], expected: Sequence[Row]) -> bool:
    """Whether the two differ only in what the query leaves open.

    >>> left_open("SELECT collect_list(x) FROM t", [([2, 1],)], [([1, 2],)])
    True
    >>> left_open("SELECT collect_list(x) FROM t", [([2, 1],)], [([1, 3],)])
    False
    >>> left_open("SELECT first(x) OVER (ORDER BY x) FROM t", [(1,)], [(2,)])
    False
    """
    if re.search(r"\bOVER\b", query, re.I):
        return False
    if re.search(r"\bLIMIT\b", query, re.I) and not re.search(r"\bORDER\s+BY\b", query, re.I):
        return len(actual) == len(expected)
    if _LISTS.search(query):
        return differing(_sorted(actual), _sorted(expected)) == ([], [])
    return bool(_CHOICES.search(query)) and len(actual) == len(expected)


def varies(actual: Sequence[Row], one: Sequence[Row], other: Sequence[Row]) -> bool:
    """Whether Spark's two results differ, and the actual one only in columns in which they do.

    >>> varies([(1, 8), (2, 9)], [(1, 9), (2, 8)], [(1, 8), (2, 9)])
    True
    >>> varies([(1, 8), (3, 9)], [(1, 9), (2, 8)], [(1, 8), (2, 9)])
    False
    """
    width = len(one[0]) if one else 0
    settled: list[int] = []
    for i in range(width):
        if _differ(one, other, [*settled, i]):
            continue
        settled.append(i)
    return len(settled) < width and not _differ(actual, one, settled)


def _differ(one: Sequence[Row], other: Sequence[Row], columns: Sequence[int]) -> bool:
    parts = [[tuple(row[i] for i in columns) for row in rows] for rows in (one, other)]
    return differing(*parts) != ([], [])


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return [tuple(map(_in_order, row)) for row in rows]


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(_in_order, value), key=repr)
    return sorted(value) if isinstance(value, str) else value
