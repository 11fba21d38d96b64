"""What tests that need Spark share: one session for each process, started by the first of them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rekindle.runtime.database import Database


# A shared machine may take any time over an example.
settings.register_profile("rekindle", deadline=None)
settings.load_profile("rekindle")


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A small local session; tests that do not ask for it never start a JVM."""
    from rekindle.spark.session import local_session

    session = local_session(
        **{
            "spark.master": "local[2]",
            "spark.app.name": "rekindle-tests",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.driver.memory": "2g",
            # Many plans, each run a few times: compiling them well would not pay.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
            "spark.ui.enabled": "false",
            "spark.sql.timeType.enabled": "true",
        }
    )
    yield session
    session.stop()


@pytest.fixture
def warehouse(tmp_path: Path) -> str:
    """Where a test's database lives."""
    return str(tmp_path / "warehouse")


@pytest.fixture
def db(warehouse: str, spark: SparkSession) -> Iterator[Database]:
    """An empty database, closed at the end of the test."""
    import rekindle

    with rekindle.connect(warehouse, spark=spark) as database:
        yield database


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hand what was covered to the process that reports, if tests run in several."""
    given = getattr(session.config, "workeroutput", None)
    if given is not None:
        from tests.property import coverage

        given["covered"] = {title: dict(counts) for title, counts in coverage.SEEN.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of tests has covered; one that crashed gives nothing."""
    from tests.property import coverage

    for title, counts in getattr(node, "workeroutput", {}).get("covered", {}).items():
        coverage.SEEN[title].update(counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the property campaigns covered."""
    from tests.property import coverage

    covered = coverage.lines()
    if covered:
        terminalreporter.section("covered by random databases")
        for line in covered:
            terminalreporter.write_line(line)
