"""A psql transcript: each statement with the table or the error that followed it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from tests.external.compare import Difference, Row

_SAID = re.compile(r"(NOTICE|DETAIL|HINT|WARNING|ERROR|CONTEXT|LINE \d+|QUERY): ?|\s+\^\s*$")
_HIDDEN = "__ivm_"


@dataclass(frozen=True, slots=True)
class Step:
    """A statement at a line, what it printed as a table, and its error."""

    line: int
    sql: str
    header: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    error: str = ""


def read_steps(text: str) -> Iterator[Step]:
    """The steps of a transcript.

    >>> [step.rows for step in read_steps("SELECT 1 AS a;\\n a \\n---\\n 1\\n(1 row)\\n")]
    [(('1',),)]
    """
    lines = text.splitlines()
    at = 0
    while at < len(lines):
        if not lines[at].strip() or lines[at].startswith(("--", "\\")) or _SAID.match(lines[at]):
            at += 1
            continue
        begin, statement = at, ""
        while at < len(lines):
            statement += lines[at] + "\n"
            at += 1
            if _complete(statement):
                break
        error = ""
        while at < len(lines) and _SAID.match(lines[at]):
            error = error or (lines[at][7:].strip() if lines[at].startswith("ERROR:") else "")
            at += 1
        header: tuple[str, ...] = ()
        rows = []
        if at + 1 < len(lines) and re.fullmatch(r"-[-+]*", lines[at + 1]):
            header = _cells(lines[at])
            at += 2
            while at < len(lines) and not re.fullmatch(r"\(\d+ rows?\)", lines[at]):
                rows.append(_cells(lines[at]))
                at += 1
            at += 1
        elif at + 1 < len(lines) and re.fullmatch(r"\(\d+ rows?\)", lines[at + 1]):
            at += 2
        yield Step(begin + 1, _without_comments(statement), header, tuple(rows), error)


def _complete(statement: str) -> bool:
    plain = _without_comments(statement)
    return plain.endswith(";") and plain.count("$$") % 2 == 0 and plain.count("'") % 2 == 0


def _without_comments(statement: str) -> str:
    return re.sub(r"--[^\n]*", "", statement).strip()


def _cells(line: str) -> tuple[str, ...]:
    return tuple(cell.strip() for cell in line.split("|"))


def require_printed(actual: Sequence[Row], step: Step) -> None:
    """Raise `Difference` unless the rows are the printed ones, but for pg_ivm's own columns."""
    shown = [i for i, name in enumerate(step.header) if not name.startswith(_HIDDEN)]
    left = list(actual)
    for row in step.rows:
        printed = [row[i] for i in shown]
        found = next((ours for ours in left if _same(ours, printed)), None)
        if found is None:
            raise Difference(f"line {step.line}: {printed} is not among {actual}")
        left.remove(found)
    if left:
        raise Difference(f"line {step.line}: {len(left)} row(s) too many, such as {left[0]}")


def _same(ours: Row, printed: Sequence[str]) -> bool:
    return len(ours) == len(printed) and all(map(_same_value, ours, printed))


def _same_value(ours: object, printed: str) -> bool:
    if ours is None:
        return printed == ""
    if isinstance(ours, bool):
        return printed == ("t" if ours else "f")
    if isinstance(ours, int | float | Decimal):
        try:
            return abs(Decimal(str(ours)) - Decimal(printed)) <= Decimal("1e-9")
        except InvalidOperation:
            return False
    return str(ours) == printed
