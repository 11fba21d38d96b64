"""Opening a database for a command."""

from __future__ import annotations

import enum
import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from rekindle.cli.quiet import quiet_start
from rekindle.errors import DefinitionError
from rekindle.runtime.places import is_local, placed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rekindle.runtime.database import Database


class Access(enum.Enum):
    """What a command means to do with a database."""

    READ = "read"
    WRITE = "write"


Trusting = Annotated[
    bool,
    typer.Option("--trust", help="Run the functions that are stored in the database."),
]
"""Whether the user knows who wrote the directory."""
Waiting = Annotated[
    float,
    typer.Option("--wait", min=0, help="Wait so many seconds for another writer to end."),
]


@contextmanager
def opened(
    warehouse: str, access: Access, *, trust: bool = False, wait: float = 0
) -> Iterator[Database]:
    """The database at a path; it is closed when the block ends."""
    if access is Access.READ:
        require(warehouse)
    spark = started_spark()
    import rekindle

    db = rekindle.connect(warehouse, spark, mode=access.value, trust=trust, wait=wait)
    try:
        yield db
    finally:
        db.close()


def started_spark() -> SparkSession:
    """The session, which may take some seconds to start; only errors are logged, by us."""
    from pyspark import SparkContext

    from rekindle.spark.session import local_session, require_java

    require_java()
    if SparkContext._active_spark_context is not None:
        return local_session()
    # A call to the JVM that Ctrl-C cuts short is logged by py4j with its whole stack, and so is
    # the one that Spark's own handler of the signal makes in the middle of it.
    logging.getLogger().addHandler(logging.NullHandler())
    interrupt = signal.getsignal(signal.SIGINT)
    with quiet_start() as true_stderr, os.fdopen(os.dup(true_stderr), "w") as stderr:
        console = Console(file=stderr)
        if console.is_terminal:
            with console.status("starting Spark", spinner="dots"):
                session = local_session()
        else:
            session = local_session()
    session.sparkContext.setLogLevel("OFF")
    signal.signal(signal.SIGINT, interrupt)
    return session


def require(warehouse: str) -> None:
    """Say that there is nothing before Spark takes its time to start."""
    place = placed(warehouse)
    if is_local(place) and not os.path.isdir(os.path.join(place, "log")):
        raise DefinitionError(
            f"there is no database at '{warehouse}'",
            detail=f"looked in {place}",
            hint=f"create one with: rekindle sql {warehouse} -e 'CREATE TABLE ...'",
        )
