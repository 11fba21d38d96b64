"""The Spark session that a database works in."""

from __future__ import annotations

import os
import shutil
import sys

from pyspark.sql import SparkSession

from rekindle.errors import PrerequisiteError

DEFAULTS = {
    "spark.master": "local[*]",
    "spark.app.name": "rekindle",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "4g",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.timeType.enabled": "true",
    "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 2)),
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    # Where a part of a plan with a subquery turns out to be empty, Spark 4.3 now and then describes
    # the plan to its listeners without an end, and the query fails with a stack overflow.
    "spark.sql.adaptive.optimizer.excludedRules": (
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"
    ),
}


def local_session(**settings: str) -> SparkSession:
    """The active session, or a new local one; a missing Java is said in plain words."""
    active = SparkSession.getActiveSession()
    if active is not None and not settings:
        return active
    require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    builder = SparkSession.builder
    for key, value in {**DEFAULTS, **settings}.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def require_java() -> None:
    """Raise `PrerequisiteError` unless a Java can be started."""
    home = os.environ.get("JAVA_HOME")
    found = os.path.exists(os.path.join(home, "bin", "java")) if home else shutil.which("java")
    if not found:
        raise PrerequisiteError(
            "Java was not found, and Spark needs it",
            detail=f"JAVA_HOME is {home!r}, and no 'java' is on the PATH",
            hint="install Java 17 or later: 'apt-get install openjdk-17-jre-headless' on Debian "
            "and Ubuntu, 'dnf install java-17-openjdk-headless' on Fedora, "
            "'brew install openjdk@17' on macOS",
        )
