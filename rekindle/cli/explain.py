"""`rekindle explain`: how a view is kept fresh."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from rekindle.cli.failures import reported
from rekindle.cli.opening import Access, Trusting, opened
from rekindle.errors import RekindleError


def explain(
    warehouse: Annotated[str, typer.Argument(help="Directory or URI of the database.")],
    view: Annotated[str, typer.Argument(help="The view.")],
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    svg: Annotated[
        Path | None, typer.Option("--svg", help="Write a picture of the circuit to this file.")
    ] = None,
    trust: Trusting = False,
) -> None:
    """Show the circuit that keeps a view: nodes, linearity, strategy, state."""
    with reported(), opened(warehouse, Access.READ, trust=trust) as db:
        explanation = db.explain(view)
        if svg is not None:
            write_text(svg, explanation.svg())
        typer.echo(explanation.json() if json else str(explanation))
        if svg is not None:
            typer.echo(f"picture written to {svg}", err=True)


def write_text(path: Path, text: str) -> None:
    """Write a file that the user asked for."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    except OSError as error:
        raise RekindleError(
            f"the file '{path}' cannot be written", detail=error.strerror or str(error)
        ) from error
