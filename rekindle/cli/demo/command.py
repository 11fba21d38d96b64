"""`rekindle demo`: load a shop, run a day of transactions, compare with Spark, check everything."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from rekindle.cli.failures import reported
from rekindle.cli.scratch import scratch_directory
from rekindle.errors import DefinitionError


def demo(
    warehouse: Annotated[
        Path | None,
        typer.Option("--warehouse", help="Keep the database here; by default it is temporary."),
    ] = None,
    rows: Annotated[int, typer.Option("--rows", min=1000, help="Sales to load.")] = 3_000_000,
    steps: Annotated[int, typer.Option("--steps", min=1, help="Transactions to run.")] = 12,
    svg: Annotated[
        Path, typer.Option("--svg", help="Where to write the picture of the circuit.")
    ] = Path("rekindle-demo.svg"),
) -> None:
    """See views kept fresh: a few million rows, a stream of transactions, a few minutes."""
    with reported(), _place(warehouse) as (directory, scratch):
        from rekindle.cli.demo.tour import Tour
        from rekindle.cli.opening import Access, opened

        with opened(str(directory), Access.WRITE) as db:
            Tour(db, scratch, rows, steps, Console(highlight=False)).run(svg)
        if warehouse is not None:
            typer.echo(f"the database is in {warehouse}: try  rekindle sql {warehouse}")


@contextmanager
def _place(warehouse: Path | None) -> Iterator[tuple[Path, Path]]:
    """Directories for the database and for Spark's own copies; what is temporary is removed."""
    if warehouse is not None and warehouse.exists() and any(warehouse.iterdir()):
        raise DefinitionError(
            f"'{warehouse}' is not empty", hint="give the demo a directory of its own"
        )
    with scratch_directory("rekindle-demo-") as scratch:
        yield warehouse or scratch / "warehouse", scratch / "parquet"
