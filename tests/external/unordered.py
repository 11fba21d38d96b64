"""What Spark leaves open: the order of a list, which row is the first, rows at a bare limit.

Two results that differ only so are neither right nor wrong. A window has an order of its own, so
its functions are never excused.
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


def _sorted(rows: Sequence[Row]) -> list[Row]:
    return [tuple(map(_in_order, row)) for row in rows]


def _in_order(value: Any) -> Any:
    if isinstance(value, list):
        return sorted(map(_in_order, value), key=repr)
    return sorted(value) if isinstance(value, str) else value
