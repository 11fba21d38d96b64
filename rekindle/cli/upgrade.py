"""`rekindle upgrade`: stale views are filled anew, and every plan is stored in today's form."""

from __future__ import annotations

import warnings
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rekindle.cli.failures import reported
from rekindle.cli.opening import Access, Trusting, Waiting, opened
from rekindle.errors import StaleViewWarning


def upgrade(
    warehouse: Annotated[str, typer.Argument(help="Directory or URI of the database.")],
    trust: Trusting = False,
    wait: Waiting = 0,
) -> None:
    """Fill stale views anew and store every plan in this version's form; exit code 1 unless all."""
    console, bars = Console(highlight=False), Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
    with reported(), warnings.catch_warnings():
        warnings.simplefilter("ignore", StaleViewWarning)
        with (
            opened(warehouse, Access.WRITE, trust=trust, wait=wait) as db,
            Progress(
                *columns,
                TimeElapsedColumn(),
                console=bars,
                transient=True,
                disable=not bars.is_terminal,
            ) as bar,
        ):
            task = bar.add_task("filling", total=None)

            def tell(name: str, done: int, total: int) -> None:
                bar.update(task, description=f"filling {name}", completed=done, total=total)

            filled = db.upgrade(tell)
            stale = db.stale
            views = len(db.views)
        fresh = f"{views - len(stale)} of {views} views are followed"
        console.print(f"[green]✓[/] {fresh}, {len(filled)} of them filled anew")
        for name, reason in stale.items():
            console.print("[red]✗[/] ", end="")
            console.print(f"{name} is stale: {reason}", markup=False, soft_wrap=True)
        if stale:
            raise typer.Exit(1)
