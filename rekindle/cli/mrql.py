"""`rekindle mrql`: a script in MRQL from a file or a pipe, or a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rekindle.cli.failures import reported, show
from rekindle.cli.opening import Access, Trusting, Waiting, opened
from rekindle.errors import RekindleError, StatementError

if TYPE_CHECKING:
    from rekindle.runtime.database import Database

_PROMPT, _CONTINUED = "mrql> ", "....> "


def mrql(
    warehouse: Annotated[str, typer.Argument(help="Directory or URI of the database.")],
    file: Annotated[Path | None, typer.Argument(help="A script; '-' reads it from stdin.")] = None,
    trust: Trusting = False,
    wait: Waiting = 0,
) -> None:
    """Run MRQL over the tables and views of a database: a script, else an interactive prompt.

    Each result is printed in the notation of the language.
    """
    with reported():
        script = _script(file)
        with opened(warehouse, Access.WRITE, trust=trust, wait=wait) as db:
            if script is None:
                _loop(db)
            else:
                _print(db, script)


def _script(file: Path | None) -> str | None:
    if file is None and sys.stdin.isatty():
        return None
    if file is None or str(file) == "-":
        return sys.stdin.read()
    try:
        return file.read_text()
    except OSError as error:
        raise StatementError(
            f"the script '{file}' cannot be read", detail=error.strerror or str(error)
        ) from error


def _print(db: Database, script: str) -> None:
    """Print each result as soon as it is there; the first statement that fails ends the script."""
    from rekindle.frontends.mrql.rows import shown
    from rekindle.mrql_language.parse import pieces

    for piece in list(pieces(script)):
        # At its place in the script, which errors name.
        before = "\n" * (piece.line - 1) + " " * (piece.column - 1)
        for result in db.mrql(f"{before}{piece.text};"):
            typer.echo(shown(result))


def _loop(db: Database) -> None:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory

    session: PromptSession[str] = PromptSession(history=InMemoryHistory())
    typer.echo("MRQL: statements end with ';', an empty line or Ctrl-D leaves")
    lines: list[str] = []
    while True:
        try:
            line = session.prompt(_CONTINUED if lines else _PROMPT)
        except KeyboardInterrupt:
            lines.clear()
            continue
        except EOFError:
            return
        if not lines and line.strip() in ("", "quit;", "quit", "exit"):
            return
        lines.append(line)
        if not line.rstrip().endswith(";"):
            continue
        try:
            _print(db, "\n".join(lines))
        except RekindleError as error:
            show(error)
        lines.clear()
