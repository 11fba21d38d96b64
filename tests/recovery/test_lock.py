"""One writer, by a lock on its host that dies with it; any number of readers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import ClosedError, LockedError
from tests.recovery.conftest import Opener
from tests.recovery.invariants import check_no_leak, check_state
from tests.recovery.workload import PASSING, SETUP, Timeline, perform

EPOCH = SETUP + 1
REPOSITORY = Path(__file__).parents[2]

HOLD = """
import sys
from rekindle.runtime.writers.lease import Lease
from rekindle.traces.store import Store
lease = Lease(Store(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()
"""
WRITE = """
import sys
import rekindle
try:
    rekindle.connect(sys.argv[1])
except rekindle.errors.LockedError as error:
    print(error)
    sys.exit(3)
"""


@pytest.fixture
def holder(database_at: Callable[[int], Path]) -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Another process that has the lock of a database."""
    root = database_at(EPOCH)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(root)],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stdout is not None and process.stdout.readline() == "held\n"
        yield process, root
        process.kill()


def test_a_second_writer_is_told_who_the_first_is(
    database_at: Callable[[int], Path], connect: Opener
) -> None:
    root = database_at(EPOCH)
    db = connect(root)
    run = subprocess.run(
        [sys.executable, "-c", WRITE, str(root)], cwd=REPOSITORY, capture_output=True, text=True
    )
    assert run.returncode == 3, run.stderr
    assert f"held by process {os.getpid()} on " in run.stdout and "mode='read'" in run.stdout
    with pytest.raises(LockedError, match="being written to"):
        connect(root)
    db.close()
    connect(root)


def test_the_lock_ends_with_its_process(
    holder: tuple[subprocess.Popen[str], Path], connect: Opener, timeline: Timeline
) -> None:
    process, root = holder
    with pytest.raises(LockedError, match=f"held by process {process.pid} on"):
        connect(root)
    process.send_signal(signal.SIGKILL)
    process.wait()
    db = connect(root)
    assert db.epoch == EPOCH
    perform(db, timeline.step_to(EPOCH + 1), "inline")


def test_readers_need_no_lock_and_remove_nothing(
    holder: tuple[subprocess.Popen[str], Path], spark: SparkSession, timeline: Timeline
) -> None:
    _, root = holder
    node = next((root / "data").iterdir())
    under_way = node / "e0000000099-00000.arrow"
    under_way.write_bytes(b"of a step that the writer is in")
    with rekindle.connect(str(root), spark, mode="read") as reader:
        check_state(reader._engine.state, reader._engine.store, timeline)
        reader.check("spend")
        with pytest.raises(ClosedError, match="for reading"):
            reader.sql("INSERT INTO events VALUES (1, 'a', 0.5)")
        with pytest.raises(ClosedError, match="for reading"):
            reader.collect()
    assert under_way.exists()


@pytest.mark.usefixtures("tight")
def test_a_reader_follows_the_writer(
    database_at: Callable[[int], Path], connect: Opener, spark: SparkSession, timeline: Timeline
) -> None:
    """Over checkpoints, and over views that come and go."""
    root = database_at(EPOCH)
    db = connect(root)
    with rekindle.connect(str(root), spark, mode="read") as reader:
        for _ in range(9):
            perform(db, timeline.step_to(db.epoch + 1), "inline")
            assert reader.epoch == db.epoch
            assert sorted(reader.views) == sorted(db.views)
            assert (PASSING in reader.views) == timeline.at(db.epoch).passing
            check_state(reader._engine.state, reader._engine.store, timeline)
        rows = timeline.contents(db.epoch)["spend"]
        assert Counter(map(tuple, reader.table("spend").collect())) == rows


@pytest.mark.usefixtures("tight")
def test_a_checkpoint_under_a_reader_is_no_corruption(
    database_at: Callable[[int], Path], connect: Opener, spark: SparkSession, timeline: Timeline
) -> None:
    """The reader has listed the log when a checkpoint removes the records in that list."""
    root = database_at(EPOCH)
    db = connect(root)
    with rekindle.connect(str(root), spark, mode="read") as reader:
        perform(db, timeline.step_to(db.epoch + 1), "inline")
        log = reader._engine.log
        listing = log._files

        def slow_listing() -> list[str]:
            files = listing()
            log._files = listing  # type: ignore[method-assign]
            while db.epoch % 5:
                perform(db, timeline.step_to(db.epoch + 1), "inline")
            return files

        log._files = slow_listing  # type: ignore[method-assign]
        assert reader.epoch <= db.epoch
        check_state(reader._engine.state, reader._engine.store, timeline)


def test_a_closed_database_leaks_nothing(
    database_at: Callable[[int], Path], connect: Opener, timeline: Timeline
) -> None:
    root = database_at(EPOCH)
    with connect(root) as db:
        perform(db, timeline.step_to(EPOCH + 1), "inline")
    with connect(root) as db:
        check_no_leak(root, db._engine.state)
