"""The `ORDER BY ... LIMIT` at the end of a query, for comparing what ties leave open.

Rows that tie at the limit may be chosen freely, by Spark and by us. To compare, the query is run
without its limit; what must agree are the sort keys of the first rows, and every row must be one of
the query's. Where the keys are not columns of the result the limit is left alone, and the result is
compared as it is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_LIMIT = re.compile(r"\bLIMIT\s+(\d+)(?:\s+OFFSET\s+(\d+))?\s*;?\s*$", re.IGNORECASE)
_ORDER = re.compile(r"\bORDER\s+BY\b", re.IGNORECASE)
_DIRECTION = re.compile(r"\s+(ASC|DESC|NULLS\s+FIRST|NULLS\s+LAST)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class TopRows:
    """A query that asks for its first rows: the query without that, the sort keys, the limit."""

    unlimited: str
    keys: tuple[str, ...]
    limit: int
    offset: int = 0

    def positions(self, columns: list[str]) -> list[int] | None:
        """Where the keys are in the result; None when one of them is no column of it."""
        names = [column.lower() for column in columns]
        found = []
        for key in self.keys:
            if key.isdigit() and 1 <= int(key) <= len(names):
                found.append(int(key) - 1)
            elif (name := key.strip("`").lower().rsplit(".", 1)[-1]) in names:
                found.append(names.index(name))
            else:
                return None
        return found


def top_rows(query: str) -> TopRows | None:
    """The parts of a query that ends with a limit; None when it has none.

    >>> found = top_rows("SELECT a, b FROM t ORDER BY b DESC NULLS LAST, 1 LIMIT 3")
    >>> found.unlimited, found.keys, found.limit
    ('SELECT a, b FROM t ORDER BY b DESC NULLS LAST, 1', ('b', '1'), 3)
    >>> top_rows("SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 3)")
    """
    limit = _LIMIT.search(query)
    if limit is None:
        return None
    unlimited = query[: limit.start()].rstrip()
    depth = _depths(unlimited)
    orders = [match for match in _ORDER.finditer(unlimited) if depth[match.start()] == 0]
    keys = _split(unlimited[orders[-1].end() :]) if orders else ()
    return TopRows(unlimited, keys, int(limit[1]), int(limit[2] or 0))


def _depths(text: str) -> list[int]:
    """How many parentheses are open at each character."""
    depths, depth = [], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        depths.append(depth)
    return depths


def _split(text: str) -> tuple[str, ...]:
    """The items of a list, without their directions."""
    depths = _depths(text)
    commas = [i for i, character in enumerate(text) if character == "," and depths[i] == 0]
    bounds = zip([-1, *commas], [*commas, len(text)], strict=True)
    return tuple(_DIRECTION.sub("", text[a + 1 : b]).strip() for a, b in bounds)
