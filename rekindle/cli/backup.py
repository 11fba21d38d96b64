"""`rekindle backup` and `rekindle restore`: copies of a database, and databases of copies."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rekindle.cli.bytes_bar import bytes_bar
from rekindle.cli.failures import reported
from rekindle.cli.opening import Trusting, started_spark

if TYPE_CHECKING:
    from rekindle.runtime.database import Database
    from rekindle.runtime.upkeep.backup import Backup


def backup(
    warehouse: Annotated[str, typer.Argument(help="Directory or URI of the database.")],
    target: Annotated[str, typer.Argument(help="Where the backup is, or shall be.")],
) -> None:
    """Copy the last epoch; again to the same place, only what is new. Writing may go on."""
    with reported():
        from rekindle.runtime.upkeep.backup import backup as backed_up

        with bytes_bar("copying") as tell:
            made = backed_up(warehouse, target, tell)
        _say(made)


def restore(
    backup: Annotated[str, typer.Argument(help="Directory or URI of a backup.")],
    target: Annotated[
        str, typer.Argument(help="Where the database shall be; nothing may be there.")
    ],
    epoch: Annotated[
        int | None, typer.Option("--epoch", help="An earlier epoch, of the retained history.")
    ] = None,
    trust: Trusting = False,
) -> None:
    """Make a database of a backup: as it was then, or at an earlier epoch."""
    with reported():
        from rekindle.runtime.upkeep.restore import restore as restored

        if epoch is None:
            with bytes_bar("copying") as tell:
                made = restored(backup, target, progress=tell)
        else:
            made = restored(backup, target, epoch, connect=partial(_connected, trust=trust))
        _say(made)


def _connected(path: str, *, trust: bool) -> Database:
    """A connection for writing, in a session that starts without chatter."""
    spark = started_spark()
    import rekindle

    return rekindle.connect(path, spark, trust=trust)


def _say(made: Backup) -> None:
    console = Console(highlight=False)
    console.print("[green]✓[/] ", end="")
    console.print(str(made), markup=False, soft_wrap=True)
