"""Real executors: they are killed while they work on steps.

A standalone cluster of two workers starts executors as processes of their own, which share only the
disk with the driver. Spark does lost tasks again, so most steps succeed; one that does not says why
and leaves the previous epoch as it was. Either way everything holds that must hold.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest

from tests.recovery.conftest import Opener
from tests.recovery.invariants import check_database, check_no_leak
from tests.recovery.standalone import Standalone
from tests.recovery.victim import Orders
from tests.recovery.victims import Diary, Victim
from tests.recovery.workload import SETUP, Timeline, perform

KILLS = 6
STEPS = 20


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    try:
        cluster = Standalone(tmp_path_factory.mktemp("standalone"))
    except (AssertionError, OSError) as error:
        pytest.skip(f"no standalone cluster starts here: {error}")
    yield cluster
    cluster.close()


@pytest.fixture
def driver(standalone: Standalone, tmp_path: Path) -> Iterator[Victim]:
    local = {"SPARK_LOCAL_IP": "127.0.0.1"}
    victim = Victim(tmp_path / "driver.log", standalone.url, local)
    victim.await_ready()
    yield victim
    victim.close()


@pytest.mark.torture
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("seed", range(10))
def test_executors_die_in_steps(
    standalone: Standalone,
    driver: Victim,
    database_at: Callable[[int], Path],
    timeline: Timeline,
    connect: Opener,
    tmp_path: Path,
    tally: Counter[str],
    seed: int,
) -> None:
    root, random_ = database_at(SETUP + 1), random.Random(seed)
    diary = Diary(tmp_path / "diary")
    until = SETUP + 1 + STEPS
    driver.give(Orders(str(root), timeline.seed, str(diary.path), until, placement="spark"))
    killed = 0
    for epoch in range(SETUP + 2, until + 1):
        driver.await_(partial(diary.has, "begin", epoch))
        if timeline.step_to(epoch).edits and killed < KILLS:
            time.sleep(random_.uniform(0.1, 2.0))
            here = standalone.executors
            if here and not diary.has("done", epoch):
                try:
                    random_.choice(here).kill()
                    killed += 1
                except psutil.NoSuchProcess:
                    continue
        if killed >= KILLS:
            break
        driver.await_(partial(diary.has, "done", epoch))
    last = diary.done(SETUP + 1) + 1
    driver.await_(lambda: diary.has("done", last) or diary.last == ["end"])
    driver.kill(group=True)
    assert killed, "no step was long enough to kill an executor in"
    possible = diary.possible(SETUP + 1)
    tally["executors killed"] += killed
    tally["steps that failed for it"] += len(diary.failures)
    print(f"{killed} executors killed; failed steps: {diary.failures or 'none'}")
    for line in diary.failures:
        assert "ExecutionError" in line, "every fault has a name"
    standalone.await_no_executors()
    with connect(root) as db:
        assert db.epoch in possible
        found = db.epoch
        check_no_leak(root, db._engine.state)
        check_database(db, timeline)
        perform(db, timeline.step_to(found + 1), "inline")
        check_database(db, timeline)
