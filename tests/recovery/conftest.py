"""Databases to start from, and connections that are closed after a test."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database
from tests.recovery.progress import TALLY, Progress
from tests.recovery.workload import SETUP, Timeline, build, perform, tighten

SEED = 11


class Opener(Protocol):
    """Opens a database as a writer."""

    def __call__(self, path: Path, retain: int | None = None) -> Database: ...


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints, sweeps and merges come early."""
    tighten(monkeypatch.setattr)


@pytest.fixture(scope="session")
def timeline() -> Timeline:
    return Timeline(SEED)


@pytest.fixture(scope="session")
def templates(
    spark: SparkSession, timeline: Timeline, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[int], Path]:
    """Databases that were brought to an epoch without any accident; not to be opened."""
    root = tmp_path_factory.mktemp("templates")
    made: dict[int, Path] = {}

    def template(epoch: int) -> Path:
        if epoch not in made:
            path = root / str(epoch)
            if epoch > SETUP:
                # Not of the nearest one there is: opening a database removes files of its past, and
                # what a template holds must not depend on those that were asked for before.
                shutil.copytree(template(SETUP), path)
            with pytest.MonkeyPatch.context() as patch:
                tighten(patch.setattr)
                with rekindle.connect(str(path), spark) as db:
                    if epoch <= SETUP:
                        build(db)
                    while db.epoch < epoch:
                        perform(db, timeline.step_to(db.epoch + 1), "inline")
            made[epoch] = path
        return made[epoch]

    return template


@pytest.fixture
def database_at(templates: Callable[[int], Path], tmp_path: Path) -> Callable[[int], Path]:
    """A fresh copy of the database at an epoch."""

    def copy(epoch: int) -> Path:
        path = tmp_path / f"at-{epoch}"
        shutil.copytree(templates(epoch), path)
        return path

    return copy


@pytest.fixture
def connect(spark: SparkSession) -> Iterator[Opener]:
    """Opens databases, and closes them after the test."""
    opened: list[Database] = []

    def opener(path: Path, retain: int | None = None) -> Database:
        opened.append(rekindle.connect(str(path), spark, retain=retain))
        return opened[-1]

    yield opener
    for db in opened:
        db.close()


# ---- campaigns that go on from where they stopped ------------------------------------------------


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[Counter[str]]:
    """What a test counts, for the totals of the campaign."""
    counted: Counter[str] = Counter()
    yield counted
    request.node.user_properties.append((TALLY, dict(counted)))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what an earlier run of the campaign has done."""
    progress = Progress.wanted()
    if progress is None:
        return
    done = [item for item in items if item.nodeid in progress.done]
    config.hook.pytest_deselected(items=done)
    items[:] = [item for item in items if item not in done]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note a test that has passed, when all of it is over."""
    progress = Progress.wanted()
    if progress is None or not hasattr(report, "when"):
        return
    if report.when == "call" and report.passed:
        _PASSED[report.nodeid] = report.duration
    if report.when == "teardown" and report.passed and report.nodeid in _PASSED:
        counted: dict[str, Any] = dict(report.user_properties)
        progress.add(report.nodeid, _PASSED.pop(report.nodeid), counted.get(TALLY, {}))


_PASSED: dict[str, float] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what the campaign has done in all its runs."""
    progress = Progress.wanted()
    if progress is not None:
        terminalreporter.section("torture so far")
        for line in progress.summary():
            terminalreporter.write_line(line)
