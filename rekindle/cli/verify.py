"""`rekindle verify`: every byte that the log names, read and held against its checksum."""

from __future__ import annotations

import json as json_text
from typing import Annotated

import typer
from rich.console import Console

from rekindle.cli.bytes_bar import bytes_bar
from rekindle.cli.failures import reported


def verify(
    warehouse: Annotated[str, typer.Argument(help="Directory or URI of the database or backup.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Read every file of a database, present and history; exit code 1 when one is damaged."""
    with reported():
        from rekindle.runtime.upkeep.verify import verify as verified

        with bytes_bar("reading") as tell:
            found = verified(warehouse, tell)
        if json:
            typer.echo(json_text.dumps(found.to_json()))
        else:
            mark = "[green]✓[/] " if found.ok else "[red]✗[/] "
            console = Console(highlight=False)
            console.print(mark, end="")
            console.print(str(found), markup=False, soft_wrap=True)
        if not found.ok:
            raise typer.Exit(1)
