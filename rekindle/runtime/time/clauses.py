"""The clauses of CREATE TABLE that Spark does not know: LATENESS of a column, RETAIN of a table.

They are blanked out of the text, so that what Spark's parser says of the rest is in its place.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from rekindle.errors import StatementError
from rekindle.names import QUOTED, unquoted
from rekindle.runtime.statements.syntax import without_comments

_LENGTH = r"INTERVAL\s+(?:'[^']*'\s+[A-Z]+(?:\s+TO\s+[A-Z]+)?|(?:[+-]?\d+(?:\.\d+)?\s+[A-Z]+\s*)+)"
_CREATE = re.compile(r"\s*CREATE\s+TABLE\b", re.IGNORECASE)
_LATENESS = re.compile(rf"\bLATENESS\s+(?P<length>{_LENGTH})", re.IGNORECASE)
_RETAIN = re.compile(rf"\bRETAIN\s+(?P<length>{_LENGTH})", re.IGNORECASE)
_COLUMN = re.compile(rf"\s*(?P<name>{QUOTED}|[A-Za-z_]\w*)\s")
_QUOTES = re.compile(r"'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.)*\"|`(?:[^`]|``)*`", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TimedClauses:
    """`column LATENESS length` and `RETAIN length`, as they were written."""

    column: str
    lateness: str
    retain: str | None


def read_timed(statement: str) -> tuple[str, TimedClauses | None]:
    """A CREATE TABLE without these clauses, and what they say; any other statement as it is."""
    body = without_comments(statement)
    if _CREATE.match(body) is None:
        return statement, None
    lateness, retain = _outside(_LATENESS, body), _outside(_RETAIN, body)
    if len(lateness) > 1 or len(retain) > 1:
        raise StatementError(
            "one column of a table has a LATENESS, and a table has one RETAIN",
            detail=f"given: {', '.join(each[0].strip() for each in [*lateness, *retain])}",
        )
    retain = [each for each in retain if not _depth(body, each.start())]
    if not lateness:
        if retain:
            raise StatementError(
                f"{retain[0][0].strip()} is said of a table without a LATENESS",
                hint="say which column is the time: ts TIMESTAMP LATENESS INTERVAL 5 MINUTES",
            )
        return statement, None
    for each in [*lateness, *retain]:
        blank = re.sub(r"[^\n]", " ", each[0])
        statement = statement[: each.start()] + blank + statement[each.end() :]
    column = _COLUMN.match(body, _beginning(body, lateness[0].start()))
    if column is None:
        raise StatementError("LATENESS stands after no column", detail=lateness[0][0])
    said = TimedClauses(
        unquoted(column["name"]),
        lateness[0]["length"].strip(),
        retain[0]["length"].strip() if retain else None,
    )
    return statement, said


def _outside(pattern: re.Pattern[str], body: str) -> list[re.Match[str]]:
    """Where a pattern occurs, other than inside quotes."""
    quotes = [found.span() for found in _QUOTES.finditer(body)]
    return [
        found
        for found in pattern.finditer(body)
        if not any(start <= found.start() < end for start, end in quotes)
    ]


def _depth(body: str, place: int) -> int:
    """How many parentheses are open at a place."""
    before = _QUOTES.sub("", body[:place])
    return before.count("(") - before.count(")")


def _beginning(body: str, place: int) -> int:
    """Where the definition of the column begins that a place is in."""
    masked = _QUOTES.sub(lambda found: "·" * len(found[0]), body)
    depth = 0
    for i in range(place - 1, -1, -1):
        if masked[i] in ")>":
            depth += 1
        elif masked[i] in "(<" and depth:
            depth -= 1
        elif masked[i] == "(" or (masked[i] == "," and not depth):
            return i + 1
    return 0
