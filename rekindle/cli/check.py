"""`rekindle check`: views against their recomputation."""

from __future__ import annotations

import time
from typing import Annotated

import typer
from rich.console import Console

from rekindle.cli.failures import reported, show, understood
from rekindle.cli.opening import Access, Trusting, opened
from rekindle.errors import CheckError, UntrustedError


def check(
    warehouse: Annotated[str, typer.Argument(help="Directory or URI of the database.")],
    views: Annotated[
        list[str] | None, typer.Argument(help="The views; all of them by default.")
    ] = None,
    trust: Trusting = False,
) -> None:
    """Recompute views with Spark and compare; exit code 1 unless all are equal."""
    with reported(), opened(warehouse, Access.READ, trust=trust) as db:
        console = Console(highlight=False)
        names = views or db.views
        different = 0
        for name in names:
            started = time.perf_counter()
            try:
                with understood():
                    report = db.check(name)
            except (CheckError, UntrustedError) as error:
                different += 1
                show(error)
                continue
            seconds = time.perf_counter() - started
            console.print(f"[green]✓[/] {report} [dim]({seconds:.1f} s)[/]", soft_wrap=True)
        if not names:
            console.print("the database has no views", style="dim")
        if different:
            raise typer.Exit(1)
