"""`rekindle sql`: statements from an option, a file, a pipe or a prompt."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rekindle.cli.display import make_console
from rekindle.cli.failures import reported, show
from rekindle.cli.formats import Format
from rekindle.cli.opening import Access, Trusting, Waiting, opened
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
    form: Annotated[
        Format | None,
        typer.Option(
            "--format",
            help="How rows are written: by default as a table on a terminal and as CSV into a "
            "file or a pipe. With csv or json nothing but rows is written to stdout.",
        ),
    ] = None,
    trust: Trusting = False,
    wait: Waiting = 0,
) -> None:
    """Run SQL: a script with -e, -f or from a pipe, else an interactive prompt.

    The database is created if it does not exist.
    """
    access = Access.READ if read_only else Access.WRITE
    with reported():
        script = _script(statements, file)
        with opened(warehouse, access, trust=trust, wait=wait) as db:
            if script is None:
                from rekindle.cli.prompt import prompt

                prompt(db)
            else:
                _run_script(script, _runner(db, form))


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


def _runner(db: Database, form: Format | None) -> Runner:
    """What runs a script; what changes did is said on stderr where a format was asked for."""
    console = make_console()
    if form is None:
        return Runner(db, console, Format.TABLE if sys.stdout.isatty() else Format.CSV)
    apart = None if form is Format.TABLE else Console(stderr=True, highlight=False)
    return Runner(db, console, form, apart)


def _run_script(script: str, runner: Runner) -> None:
    """Run statements in order; the first that fails ends the script."""
    for statement, place in located(script):
        try:
            runner.run(statement)
        except RekindleError as error:
            show(error, str(place))
            raise typer.Exit(1) from None
