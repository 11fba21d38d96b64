"""The interactive prompt: SQL up to a semicolon, and a few commands that begin with a backslash."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, completion_is_selected
from prompt_toolkit.formatted_text import HTML
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import Lexer
from rich.console import Console
from rich.markup import escape

import rekindle
from rekindle.cli.display import make_console
from rekindle.cli.failures import show, understood
from rekindle.cli.runner import Runner, located
from rekindle.cli.words import KEYWORDS
from rekindle.errors import RekindleError, StatementError
from rekindle.names import quoted

if TYPE_CHECKING:
    from rekindle.runtime.database import Database

_CLOSED = re.compile(
    r"""--[^\n]*|/\*.*?\*/|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL
)
"""Comments and quoted text, whose semicolons end nothing."""
_OPEN = re.compile(r"""['"`]|/\*""")
HISTORY = Path.home() / ".rekindle_history"
HELP = """\
[bold]SQL[/] ends with a semicolon and may take several lines:
  CREATE TABLE t (id BIGINT, x DOUBLE, PRIMARY KEY (id));
  CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n, sum(x) AS s FROM t;
  INSERT INTO t VALUES (1, 2.5);   also DELETE, UPDATE, MERGE INTO, DROP, any query
[bold]Commands[/]
  \\d [NAME]       tables and views, or the columns of one
  \\explain VIEW   the circuit that keeps a view
  \\check [VIEW]   compare a view, or all of them, with its recomputation
  \\timing         switch the times of queries on or off
  \\q              leave (or Ctrl-D); Ctrl-C cancels a line or a running query"""


def prompt(db: Database) -> None:
    """Read and run statements until the user leaves."""
    console = make_console()
    console.print(
        f"[bold]Rekindle {rekindle.__version__}[/], {escape(db.path)} at epoch {db.epoch}. "
        "Type [bold]help[/] for help, [bold]\\q[/] to leave."
    )
    Prompt(db, console, _history()).loop()


class Prompt:
    """One interactive session; input and output of the terminal can be given, for tests."""

    def __init__(self, db: Database, console: Console, history: History, **terminal: Any) -> None:
        self._db = db
        self._console = console
        self._runner = Runner(db, console)
        self._session: PromptSession[str] = PromptSession(
            history=history,
            lexer=_sql_lexer(),
            completer=SqlCompleter(db),
            complete_while_typing=False,
            auto_suggest=AutoSuggestFromHistory(),
            multiline=True,
            key_bindings=_keys(),
            prompt_continuation=lambda width, *_: "." * (width - 1) + " ",
            **terminal,
        )

    def loop(self) -> None:
        while True:
            try:
                text = self._session.prompt(HTML("<ansicyan><b>rekindle&gt; </b></ansicyan>"))
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not self.answer(text):
                return

    def answer(self, text: str) -> bool:
        """Do what a line asks; False when it asks to leave."""
        line = text.strip().rstrip(";").strip()
        if line.lower() in ("\\q", "quit", "exit"):
            return False
        try:
            if line.lower() in ("help", "\\?", "\\h"):
                self._console.print(HELP)
            elif line.startswith("\\"):
                with understood():
                    self._command(*line.split())
            else:
                for statement, _ in located(text):
                    self._runner.run(statement)
        except RekindleError as error:
            show(error)
        except KeyboardInterrupt:
            self._db.spark.sparkContext.cancelAllJobs()
            self._console.print("cancelled", style="yellow")
        return True

    def _command(self, name: str, *arguments: str) -> None:
        match name, arguments:
            case "\\d", ():
                self._runner.run("SHOW TABLES")
            case "\\d", (relation,):
                self._runner.run(f"DESCRIBE {quoted(relation)}")
            case "\\explain", (view,):
                self._console.print(str(self._db.explain(view)), markup=False, soft_wrap=True)
            case "\\check", views:
                for view in views or self._db.views:
                    started = time.perf_counter()
                    report = self._db.check(view)
                    took = f"({time.perf_counter() - started:.1f} s)"
                    self._console.print(f"[green]✓[/] {report} [dim]{took}[/]")
            case "\\timing", ():
                self._runner.timing = not self._runner.timing
                self._console.print(f"timing is {'on' if self._runner.timing else 'off'}")
            case _:
                raise StatementError(
                    f"unknown command '{' '.join([name, *arguments])}'",
                    detail="commands: \\d [NAME], \\explain VIEW, \\check [VIEW], \\timing, \\q",
                    hint="type help",
                )


class SqlCompleter(Completer):
    """Completes names of tables, views and columns, keywords, and commands."""

    def __init__(self, db: Database) -> None:
        self._db = db

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        if document.text.startswith("\\") and " " not in document.text:
            words = ["\\d", "\\explain", "\\check", "\\timing", "\\q"]
            typed = document.text
        else:
            typed = document.get_word_before_cursor()
            words = [*sorted([*self._db.tables, *self._db.views]), *KEYWORDS]
        if not typed:
            return
        for word in words:
            if word.lower().startswith(typed.lower()):
                shown = word.lower() if word in KEYWORDS and typed.islower() else word
                yield Completion(shown, start_position=-len(typed))


def is_complete(text: str) -> bool:
    """Does Enter end the input: a statement with its semicolon, a command, or nothing?

    >>> is_complete("select ';'"), is_complete("select 1;"), is_complete("\\\\d"), is_complete("")
    (False, True, True, True)
    """
    line = text.strip()
    if not line or line.startswith("\\") or line.lower() in ("help", "quit", "exit"):
        return True
    rest = _CLOSED.sub(" ", line).rstrip()
    return rest.endswith(";") and not _OPEN.search(rest)


def _keys() -> KeyBindings:
    keys = KeyBindings()

    @Condition
    def complete() -> bool:
        from prompt_toolkit.application import get_app

        return is_complete(get_app().current_buffer.text)

    @keys.add("enter", filter=complete & ~completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.validate_and_handle()

    return keys


def _sql_lexer() -> Lexer | None:
    """Highlighting, when Pygments is installed."""
    try:
        from prompt_toolkit.lexers import PygmentsLexer
        from pygments.lexers.sql import SqlLexer
    except ImportError:
        return None
    return PygmentsLexer(SqlLexer)


def _history() -> History:
    """The history of earlier sessions, unless the file cannot be written."""
    try:
        HISTORY.touch(mode=0o600, exist_ok=True)
    except OSError:
        return InMemoryHistory()
    return FileHistory(str(HISTORY)) if os.access(HISTORY, os.W_OK) else InMemoryHistory()
