"""`rekindle vacuum`: files that no retained epoch needs are removed."""

from __future__ import annotations

import json as json_text
from typing import Annotated

import typer
from rich.console import Console

from rekindle.cli.failures import reported
from rekindle.cli.opening import Access, Trusting, Waiting, opened, require


def vacuum(
    warehouse: Annotated[str, typer.Argument(help="Directory or URI of the database.")],
    retain: Annotated[
        str | None,
        typer.Option("--retain", help="From now on keep so many epochs of history, or 'all'."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    wait: Waiting = 0,
    trust: Trusting = False,
) -> None:
    """Remove files that no retained epoch needs."""
    with reported():
        require(warehouse)
        with opened(warehouse, Access.WRITE, trust=trust, wait=wait) as db:
            if retain is not None:
                db.retain(int(retain) if retain.isdigit() else retain)
            # Opening for writing has removed some already.
            removed = [*db.removed, *db.vacuum()]
            kept = "all" if db.retention is None else db.retention
            epoch = db.epoch
        if json:
            typer.echo(json_text.dumps({"removed": removed, "epoch": epoch, "retain": kept}))
            return
        history = "all epochs" if kept == "all" else f"the last {kept:,} epochs"
        Console(highlight=False).print(
            f"[green]✓[/] {len(removed):,} files removed; history of {history} is kept",
            soft_wrap=True,
        )
