"""Real executors: one of them is killed while it works on a step.

`local-cluster` starts executors as processes of their own, which share only the disk with the
driver. Spark does lost tasks again, so the step succeeds; should it not, it says why and leaves the
previous epoch as it was. Either way everything holds that must hold.
"""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import psutil
import pyspark
import pytest

from tests.recovery.conftest import Opener
from tests.recovery.invariants import check_database, check_no_leak
from tests.recovery.victim import Orders
from tests.recovery.victims import Diary, Victim
from tests.recovery.workload import SETUP, Timeline, perform

MASTER = "local-cluster[2,1,1024]"
STEPS = 4


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A Spark home whose workers leave their logs here and not in the installation."""
    installed = Path(os.environ.get("SPARK_HOME", Path(pyspark.__file__).parent))
    home = tmp_path / "spark"
    home.mkdir()
    for name in ("bin", "jars", "sbin", "python"):
        if (installed / name).exists():
            (home / name).symlink_to(installed / name)
    return home


@pytest.fixture
def cluster(home: Path, tmp_path: Path) -> Iterator[Victim]:
    victim = Victim(tmp_path / "cluster.log", MASTER, {"SPARK_HOME": str(home)})
    try:
        victim.await_ready()
    except AssertionError as error:
        victim.close()
        pytest.skip(f"{MASTER} does not start here: {error}")
    yield victim
    victim.close()


def executors(victim: Victim) -> list[psutil.Process]:
    """The executors' processes, oldest first."""
    found = []
    for process in psutil.Process(victim.process.pid).children(recursive=True):
        try:
            if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in process.cmdline():
                found.append(process)
        except psutil.NoSuchProcess:
            continue
    return sorted(found, key=lambda process: process.create_time())


@pytest.mark.torture
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("seed", range(2))
def test_an_executor_dies_in_a_step(
    cluster: Victim,
    database_at: Callable[[int], Path],
    timeline: Timeline,
    connect: Opener,
    tmp_path: Path,
    seed: int,
) -> None:
    root, random_ = database_at(SETUP + 1), random.Random(seed)
    diary = Diary(tmp_path / "diary")
    until = SETUP + 1 + STEPS
    orders = Orders(str(root), timeline.seed, str(diary.path), until, placement="spark")
    cluster.give(orders)
    killed = 0
    for epoch in range(SETUP + 2, until + 1):
        cluster.await_(partial(diary.has, "begin", epoch))
        if timeline.step_to(epoch).edits:
            time.sleep(random_.uniform(0.2, 4.0))
            if not diary.has("done", epoch) and executors(cluster):
                random_.choice(executors(cluster)).kill()
                killed += 1
        cluster.await_(partial(diary.has, "done", epoch))
    cluster.await_(lambda: diary.last == ["end"])
    cluster.kill(group=True)
    assert killed, "no step was long enough to kill an executor in"
    print(f"{killed} executors killed; failed steps: {diary.failures or 'none'}")
    with connect(root) as db:
        assert db.epoch == until
        check_no_leak(root, db._engine.state)
        check_database(db, timeline)
        perform(db, timeline.step_to(until + 1), "inline")
        check_database(db, timeline)
