"""`rekindle sql`: statements from an option, a file, a pipe or a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rekindle.cli.display import make_console
from rekindle.cli.failures import reported, show
from rekindle.cli.opening import Access, opened
from rekindle.cli.runner import Runner, located
from rekindle.errors import RekindleError, StatementError

if TYPE_CHECKING:
    from rekindle.runtime.database import Database


def sql(
    warehouse: Annotated[str, typer.Argument(help="Directory or URI of the database.")],
    statements: Annotated[
        str | None, typer.Option("-e", "--execute", help="Statements, with ';' between them.")
    ] = None,
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="A script; '-' reads it from stdin.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Open for reading, beside any writer.")
    ] = False,
) -> None:
    """Run SQL: a script with -e, -f or from a pipe, else an interactive prompt.

    The database is created if it does not exist.
    """
    access = Access.READ if read_only else Access.WRITE
    with reported():
        script = _script(statements, file)
        with opened(warehouse, access) as db:
            if script is None:
                from rekindle.cli.prompt import prompt

                prompt(db)
            else:
                _run_script(db, script, make_console())


def _script(statements: str | None, file: Path | None) -> str | None:
    """The text to run; None asks for a prompt."""
    if statements is not None and file is not None:
        raise StatementError("both -e and -f were given", hint="give one of them")
    if statements is not None:
        return statements
    if file is not None and str(file) != "-":
        try:
            return file.read_text()
        except OSError as error:
            raise StatementError(
                f"the script '{file}' cannot be read", detail=error.strerror or str(error)
            ) from error
    if file is None and sys.stdin.isatty():
        return None
    return sys.stdin.read()


def _run_script(db: Database, script: str, console: Console) -> None:
    """Run statements in order; the first that fails ends the script."""
    runner = Runner(db, console)
    for statement, place in located(script):
        try:
            runner.run(statement)
        except RekindleError as error:
            show(error, str(place))
            raise typer.Exit(1) from None
