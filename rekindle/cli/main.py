"""The command `rekindle`: one line for each subcommand, which live in their own modules."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from typing import Annotated

import typer

import rekindle
from rekindle.cli.backup import backup, restore
from rekindle.cli.bench import bench
from rekindle.cli.check import check
from rekindle.cli.demo.command import demo
from rekindle.cli.explain import explain
from rekindle.cli.failures import INTERRUPTED, READER_GONE
from rekindle.cli.mrql import mrql
from rekindle.cli.scratch import clean_up_when_terminated, remove_scratch
from rekindle.cli.sql import sql
from rekindle.cli.upgrade import upgrade
from rekindle.cli.vacuum import vacuum
from rekindle.cli.verify import verify

app = typer.Typer(
    name="rekindle",
    help="Spark views that are always fresh, at a cost that follows the change.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(demo)
app.command()(sql)
app.command()(mrql)
app.command()(explain)
app.command()(check)
app.command()(verify)
app.command()(backup)
app.command()(restore)
app.command()(upgrade)
app.command()(vacuum)
app.command()(bench)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rekindle {rekindle.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_print_version, is_eager=True, help="Say the version."),
    ] = False,
) -> None:
    """Options before the subcommand."""


def main() -> None:
    """The entry point of the installed command."""
    clean_up_when_terminated()
    try:
        app()
    except SystemExit as ending:
        if ending.code in (INTERRUPTED, READER_GONE):
            leave(int(ending.code))
        raise


def leave(code: int) -> None:
    """End at once: calls to the JVM that were cut short would be complained of on the way out.

    The database is closed by then, and the JVM ends when this process does.
    """
    sys.stderr.flush()
    with suppress(OSError):
        sys.stdout.flush()
    remove_scratch()
    os._exit(code)
