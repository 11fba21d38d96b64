"""A process that runs the steps of a workload until it is killed.

Started as `python -m tests.recovery.victim MASTER`, it first starts Spark, which takes longer than
all the rest, says `ready`, and waits for a line with its orders in JSON. From then on it keeps a
diary, with a line before and after each step, so that those who find it dead know how far it must
have come. A step that fails is done again.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import pytest

import rekindle
from rekindle.spark.session import local_session
from tests.recovery.disk import Disk, Interference, Operation
from tests.recovery.workload import Timeline, perform, tighten

SETTINGS = {
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@dataclass(frozen=True, slots=True)
class Orders:
    """What to run, and perhaps at which file operation to die."""

    warehouse: str
    seed: int
    diary: str
    until: int
    last_operation: int | None = None
    retain: int | None = None
    placement: str | None = None

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def main() -> None:
    tighten()
    master = sys.argv[1] if len(sys.argv) > 1 else "local[2]"
    spark = local_session(**{**SETTINGS, "spark.master": master})
    print("ready", flush=True)
    orders = Orders(**json.loads(sys.stdin.readline()))
    timeline = Timeline(orders.seed)
    diary = open(orders.diary, "a")  # noqa: SIM115 - open until death

    def note(line: str) -> None:
        diary.write(line + "\n")
        diary.flush()
        os.fsync(diary.fileno())

    db = rekindle.connect(orders.warehouse, spark, retain=orders.retain)
    disk = Disk(Path(orders.warehouse))
    if orders.last_operation is not None:
        disk.install(pytest.MonkeyPatch())
        disk.interfere = _die_at(orders.last_operation)
    while db.epoch < orders.until:
        step = timeline.step_to(db.epoch + 1)
        note(f"begin {step.epoch} {step.kind}")
        try:
            perform(db, step, orders.placement)
            assert db.epoch == step.epoch
            note(f"done {db.epoch}")
        except Exception as error:
            note(f"failed {step.epoch} {type(error).__name__} {' '.join(str(error).split())}")
    note("end")
    sys.stdin.readline()
    db.close()
    spark.stop()


def _die_at(last: int) -> Interference:
    def interfere(number: int, operation: Operation) -> None:
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return interfere


if __name__ == "__main__":
    main()
