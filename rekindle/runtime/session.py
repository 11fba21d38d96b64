"""The session that a database is given, made fit for it.

A database looks into plans and runs kernels beside them, so it needs a session whose JVM is in
reach: one of Spark Connect has only a client here. Spark's Python workers need this package, and
Arrow. Spark starts them as `python3` unless somebody chose otherwise, which is another Python where
a script is run by the interpreter of an environment that is not activated. On a machine of its own,
where nobody chose, the workers get the interpreter that runs this.
"""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.streaming.readwriter import DataStreamReader

from rekindle.errors import DefinitionError, PrerequisiteError
from rekindle.runtime.reading.feed_options import CHANGE_FEED
from rekindle.runtime.reading.source import RekindleSource
from rekindle.spark.session import local_session

_CHOICES = ("spark.pyspark.python", "spark.pyspark.driver.python")
_UNCHOSEN = "python3"


def session_for(given: SparkSession | None) -> SparkSession:
    """The session to work in: the one that a user gave, else the active or a new local one."""
    session = local_session() if given is None else given
    _settle_workers(session)
    _settle_streams()
    session.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    return session


def require_classic(given: object) -> None:
    """Raise unless what was given as a session, or the active one, has its JVM in reach."""
    session: Any = SparkSession.getActiveSession() if given is None else given
    if session is None:
        return
    if type(session).__module__.startswith("pyspark.sql.connect."):
        raise PrerequisiteError(
            "a session of Spark Connect cannot keep views fresh",
            detail="Rekindle works on Catalyst's plans, which stay at the server",
            hint="open the database where Spark itself runs, with a classic session: "
            'rekindle.connect(path, spark=SparkSession.builder.master("local[*]").getOrCreate()) '
            "in a process without SPARK_REMOTE, or connect(path) for one of its own; from Spark "
            'Connect, read it with spark.read.format("rekindle").load("warehouse/view")',
        )
    if not isinstance(session, SparkSession):
        raise DefinitionError(
            f"spark must be a SparkSession, not a value of the type {type(session).__name__}",
            hint="leave it out for a session of its own",
        )
    if session.sparkContext._jsc is None:
        raise PrerequisiteError(
            "the Spark session was stopped",
            hint="make another with SparkSession.builder.getOrCreate(), or leave out spark=",
        )


def _settle_workers(session: SparkSession) -> None:
    """Let workers on this machine run the Python of the driver, unless somebody chose another."""
    context: Any = session.sparkContext
    conf = context.getConf()
    chosen = "PYSPARK_PYTHON" in os.environ or any(conf.contains(name) for name in _CHOICES)
    if chosen or context.pythonExec != _UNCHOSEN or not context.master.startswith("local"):
        return
    if _is_this_python(_UNCHOSEN):
        return
    context.pythonExec = sys.executable
    # Spark looks for data sources with the Python that the JVM was started with, and finds none.
    session.dataSource.register(RekindleSource)


def _settle_streams() -> None:
    """Let a stream of this process be one of changes without saying so.

    Spark asks a data source for its columns in the same words for a batch and for a stream, and
    those of changes are others. So the reader of a stream says it: `format("rekindle")` of one sets
    the option, which a user may still set otherwise.
    """
    plain = DataStreamReader.format
    if getattr(plain, "_of_rekindle", False):
        return

    def format(self: DataStreamReader, source: str) -> DataStreamReader:
        found = plain(self, source)
        return found.option(CHANGE_FEED, "true") if source.lower() == "rekindle" else found

    format.__doc__ = plain.__doc__
    format._of_rekindle = True  # type: ignore[attr-defined]
    DataStreamReader.format = format  # type: ignore[method-assign]


def _is_this_python(command: str) -> bool:
    """Would a command start the environment that runs this?"""
    found = shutil.which(command)
    if found is None:
        return False
    here, there = os.path.dirname(sys.executable), os.path.dirname(os.path.abspath(found))
    return os.path.samefile(here, there)
