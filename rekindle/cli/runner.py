"""Running statements for a script or a prompt, and saying what each of them did."""

from __future__ import annotations

import re
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.console import Console

from rekindle.cli.display import show_frame
from rekindle.cli.failures import understood
from rekindle.cli.formats import Format, csv_lines, json_lines

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rekindle.runtime.database import Database

_COMMENT = re.compile(r"\s*(?:--[^\n]*(?:\n|$)|/\*.*?\*/)", re.DOTALL)
_COMMANDS = {"INSERT", "DELETE", "UPDATE", "MERGE", "CREATE", "DROP"}
_CHANGES = {"INSERT", "DELETE", "UPDATE", "MERGE"}


@dataclass(frozen=True, slots=True)
class Place:
    """Where a statement of a script stands, counted from 1."""

    number: int
    line: int

    def __str__(self) -> str:
        return f"statement {self.number}, line {self.line}"


def located(script: str) -> list[tuple[str, Place]]:
    """The statements of a script and where they begin, comments not counted.

    >>> [(text, str(place)) for text, place in located("select 1;\\n-- two\\nselect 2;")]
    [('select 1', 'statement 1, line 1'), ('-- two\\nselect 2', 'statement 2, line 3')]
    """
    from rekindle.runtime.statements.syntax import split_script

    found = []
    position = 0
    for number, statement in enumerate(split_script(script), 1):
        start = script.index(statement, position)
        position = start + len(statement)
        begin = start + _leading_comments(statement)
        found.append((statement, Place(number, script.count("\n", 0, begin) + 1)))
    return found


def first_word(statement: str) -> str:
    """The keyword that a statement begins with, in capitals.

    >>> first_word("/* all */ -- of it\\n select 1")
    'SELECT'
    """
    body = statement[_leading_comments(statement) :]
    found = re.match(r"\s*\(*\s*([A-Za-z]+)", body)
    return found[1].upper() if found else ""


def _leading_comments(statement: str) -> int:
    end = 0
    while found := _COMMENT.match(statement, end):
        end = found.end()
    return end + len(statement[end:]) - len(statement[end:].lstrip())


class Runner:
    """Runs statements against one database and prints what they give."""

    def __init__(
        self,
        db: Database,
        console: Console,
        form: Format = Format.TABLE,
        reports: Console | None = None,
    ) -> None:
        self.db = db
        self.console = console
        self.timing = False
        self._form = form
        self._reports = console if reports is None else reports
        self._results = 0

    def run(self, statement: str) -> None:
        """Run one statement; a change says its epoch, the rows it changed and its time."""
        word = first_word(statement)
        before = self.db.epoch
        started = time.perf_counter()
        with understood():
            frame = self.db.sql(statement)
            milliseconds = (time.perf_counter() - started) * 1000
            if word not in _COMMANDS:
                self._show(frame)
                if self.timing:
                    self._say(f"{(time.perf_counter() - started) * 1000:,.0f} ms")
                return
        epoch = self.db.epoch
        if epoch == before:
            self._say(f"{word}: nothing to do, still epoch {epoch}, {milliseconds:,.0f} ms")
        elif word in _CHANGES:
            rows = rows_changed(self.db, before)
            counted = "1 row" if rows == 1 else f"{rows:,} rows"
            self._say(f"{word}: epoch {epoch}, {counted} changed, {milliseconds:,.0f} ms")
        else:
            self._say(f"{word}: epoch {epoch}, {milliseconds:,.0f} ms")

    def _show(self, frame: DataFrame) -> None:
        """Print the rows of a query; in CSV a blank line stands between those of two."""
        match self._form:
            case Format.TABLE:
                show_frame(frame, self.console)
                return
            case Format.CSV:
                lines = csv_lines(frame)
                if self._results:
                    print()
            case Format.JSON:
                lines = json_lines(frame)
        for line in lines:
            print(line)
        sys.stdout.flush()
        self._results += 1

    def _say(self, text: str) -> None:
        self._reports.print(text, style="green")


def rows_changed(db: Database, since: int) -> int:
    """Rows by which tables changed after an epoch; an update counts the old row and the new."""
    state = db._engine.state
    return sum(state.changes(name, since).rows for name in db.tables)
