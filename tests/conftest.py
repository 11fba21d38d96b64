"""What tests that need Spark share: one session for each process, started by the first of them.

A test that asks for that session, or is in a file that starts one of its own, has the mark `spark`;
a few of them, `SMOKE`, stand for all in `make quick`.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rekindle.runtime.database import Database

EXAMPLES = {"quick": 12, "rekindle": 60, "thorough": sys.maxsize}
"""The most random examples that a law is tried on, by the profile of Hypothesis: in `make quick`,
in `make test`, and in `make fuzz`, which tries as many as the law asks for."""

# A shared machine may take any time over an example. A change is judged by the same examples each
# time, so that what fails is its doing; new ones are looked for by `make fuzz`.
for _profile in EXAMPLES:
    settings.register_profile(_profile, deadline=None, derandomize=_profile != "thorough")
settings.load_profile("rekindle")


SMOKE = (
    "tests/property/test_negative_controls.py::test_the_scenario_passes",
    "tests/spark/test_check.py::test_a_planted_bug_is_caught",
    "tests/spark/test_higher_order.py::test_the_triggers_are_found_again",
    "tests/spark/test_primary_keys.py::test_keys_that_only_look_alike_are_two",
    "tests/spark/test_views.py::test_a_filter_guards_what_comes_after",
    "tests/spark/test_views.py::test_null_keys_group_together_and_join_nothing",
    "tests/spark/test_views.py::test_views_over_views_follow",
)
"""The tests with Spark of `make quick`: beginnings of their names."""

SESSIONS_OF_THEIR_OWN = (
    "tests/cli/test_prompt.py",
    "tests/cli/test_sql.py",
    "tests/recovery/test_two_writers.py",
    "tests/spark/test_session.py",
)
"""What starts Spark without asking for the session here."""

MEMORY = "/dev/shm"
ROOM = 4 * 2**30
"""Temporary directories are in memory where it has this much room: every commit syncs its files,
which took 2 to 6 ms each on a disk, fifty times a test, and nobody reads them after a crash."""

JVM = (
    # Many plans, each run a few times: compiling them well would not pay.
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    # Next to nothing outlives its test: a large nursery, and none of the collections of everything
    # that a heap would see on its way from small to large. What is left has to have room for all of
    # the nursery, or every collection is one of everything.
    "-Xms3g",
    "-Xmn800m",
    "-XX:MetaspaceSize=512m",
    # The usual room for one level of compiled code is full after some hundred tests, and swept
    # without end from then on.
    "-XX:ReservedCodeCacheSize=400m",
)

FOR_LARGE_DATA = {
    # Every stage of a query would be a job of its own, planned anew.
    "spark.sql.adaptive.enabled": ("false", "true"),
    # A class is generated and compiled for every stage, which few rows do not pay for.
    "spark.sql.codegen.wholeStage": ("false", "true"),
    # And for every list of expressions.
    "spark.sql.codegen.factoryMode": ("NO_CODEGEN", "FALLBACK"),
}
"""What Spark does by itself: its settings in tests, and in those that ask for `adaptive`."""


def pytest_configure() -> None:
    """Choose where temporary directories are, unless somebody has."""
    if os.path.isdir(MEMORY) and shutil.disk_usage(MEMORY).free >= ROOM:
        os.environ.setdefault("TMPDIR", MEMORY)
        tempfile.tempdir = None


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A small local session; tests that do not ask for it never start a JVM."""
    from rekindle.spark.session import local_session

    _remember_classes()
    session = local_session(
        **{
            "spark.master": "local[2]",
            "spark.app.name": "rekindle-tests",
            "spark.sql.shuffle.partitions": "2",
            "spark.default.parallelism": "2",
            "spark.driver.memory": "3g",
            "spark.driver.extraJavaOptions": " ".join(JVM),
            "spark.ui.enabled": "false",
            "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
            # Each broadcast, of which a job has several, takes a whole block and clears it.
            "spark.broadcast.blockSize": "64k",
            "spark.python.daemon.module": "tests.daemon",
            # Nobody looks at what has run: no plan is described at length, and few are kept.
            "spark.sql.ui.explainMode": "simple",
            "spark.sql.ui.retainedExecutions": "10",
            "spark.ui.retainedJobs": "10",
            "spark.ui.retainedStages": "10",
            "spark.ui.retainedTasks": "100",
            "spark.sql.timeType.enabled": "true",
            **{name: here for name, (here, _) in FOR_LARGE_DATA.items()},
        }
    )
    yield session
    session.stop()


def _remember_classes() -> None:
    """Let a name of the JVM be looked up once.

    `jvm.org` is a class of no package that is imported: each is asked for it, which opens all jars,
    whenever PySpark calls a static method.
    """
    from py4j.java_gateway import JVMView

    asked = JVMView.__getattr__
    known: dict[tuple[Any, str], Any] = {}

    def remembered(view: JVMView, name: str) -> Any:
        place = view._gateway_client, name
        if place not in known:
            known[place] = asked(view, name)
        return known[place]

    JVMView.__getattr__ = remembered


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what starts Spark, and what of it `make quick` runs."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()) or item.nodeid.startswith(
            SESSIONS_OF_THEIR_OWN
        ):
            item.add_marker("spark")
        if item.nodeid.startswith(SMOKE):
            item.add_marker("smoke")
        _limit_examples(item)


def pytest_runtest_makereport(call: pytest.CallInfo[None]) -> None:
    """Leave the connection to the JVM on which a test failed.

    A test that ran out of time while it waited left an answer there, which every later call of the
    session would take for its own: hundreds of tests failed after one.
    """
    if call.excinfo is None:
        return
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    connection = gateway and gateway._gateway_client.get_thread_connection()
    if connection and connection.socket:
        connection.socket.close()
        connection.socket = None


def _limit_examples(item: pytest.Item) -> None:
    law = getattr(item, "obj", None)
    wanted = getattr(law, "_hypothesis_internal_use_settings", None)
    # Hypothesis refuses to decorate a law twice: what it was given is replaced where it looks.
    if isinstance(wanted, settings):
        most = EXAMPLES.get(settings.get_current_profile_name(), sys.maxsize)
        limited = settings(wanted, max_examples=min(wanted.max_examples, most))
        law._hypothesis_internal_use_settings = limited  # type: ignore[union-attr]


@pytest.fixture
def adaptive(spark: SparkSession) -> Iterator[None]:
    """Spark compiles stages, and plans again after each of them, as in a user's session."""
    for name, (_, usual) in FOR_LARGE_DATA.items():
        spark.conf.set(name, usual)
    yield
    for name, (here, _) in FOR_LARGE_DATA.items():
        spark.conf.set(name, here)


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
