"""Four processes of four threads write to one database in turns, and are killed now and then."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from tests.concurrency.process import of_json
from tests.concurrency.serial import Observed, Outcome, anomalies
from tests.concurrency.workload import VIEWS, build, registers

REPOSITORY = Path(__file__).parents[2]
SECONDS = float(os.environ.get("REKINDLE_TORTURE_SECONDS", "3600"))
PROCESSES = 4


@dataclass(slots=True)
class Crowd:
    """The processes, some of which are killed, and the diaries that they leave."""

    warehouse: str
    scratch: Path
    running: list[subprocess.Popen[str]] = field(default_factory=list)
    diaries: list[Path] = field(default_factory=list)

    def start(self) -> None:
        number = len(self.diaries)
        self.diaries.append(self.scratch / f"diary-{number}")
        arguments = [self.warehouse, str(self.diaries[-1]), str(number)]
        with open(self.scratch / f"log-{number}", "w") as log:
            self.running.append(
                subprocess.Popen(
                    [sys.executable, "-m", "tests.concurrency.process", *arguments],
                    cwd=REPOSITORY,
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=log,
                    text=True,
                    start_new_session=True,
                )
            )

    def kill_one(self, random_: random.Random) -> None:
        victim = self.running.pop(random_.randrange(len(self.running)))
        with victim:
            os.killpg(victim.pid, signal.SIGKILL)

    def end(self) -> None:
        for process in self.running:
            assert process.stdin is not None
            process.stdin.close()
        for process in self.running:
            assert process.wait(600) == 0

    def observed(self) -> list[Observed]:
        """What everybody was told; what they only intended is unknown."""
        found: dict[tuple[int, float], Observed] = {}
        for place in self.diaries:
            for line in place.read_text().splitlines() if place.exists() else ():
                try:
                    each = of_json(json.loads(line))
                except ValueError:
                    continue  # The last line of a process that was killed.
                assert "failure" not in each.reads, each.appends
                found[each.id, each.begun] = each
        return list(found.values())


def check_added(added: Counter[int], observed: Sequence[Observed]) -> None:
    """Rows without a key are there as often as was acknowledged, and at most as intended."""
    intended = Counter(-each.id for each in observed if each.id < 0)
    told = Counter(
        -each.id for each in observed if each.id < 0 and each.outcome is Outcome.COMMITTED
    )
    for id_, times in intended.items():
        assert told[id_] <= added[id_] <= times, id_
    assert not added.keys() - intended.keys()


@pytest.mark.torture
def test_processes_that_are_killed(warehouse: str, spark: SparkSession, tmp_path: Path) -> None:
    with rekindle.connect(warehouse, spark) as db:
        build(db)
    crowd, random_, kills = Crowd(warehouse, tmp_path), random.Random(4), 0
    for _ in range(PROCESSES):
        crowd.start()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        time.sleep(min(random_.uniform(20, 60), max(0.0, until - time.monotonic())))
        crowd.kill_one(random_)
        kills += 1
        crowd.start()
    crowd.end()
    observed = crowd.observed()
    with rekindle.connect(warehouse, spark, wait=60) as db:
        registered = [each for each in observed if each.id > 0]
        assert anomalies(registered, registers(db.table("registers"))) == []
        rows = db.table("log").where("k = 'none'").collect()
        check_added(Counter(row.id for row in rows), observed)
        for view in VIEWS:
            db.check(view)
        assert db.verify().ok
        counted = Counter(each.outcome.value for each in observed)
        print(f"{kills} kills, {db.epoch} epochs, transactions: {dict(counted)}")
