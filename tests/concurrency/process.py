"""A process that opens a database, writes with four threads, closes it, and begins again.

Started as `python -m tests.concurrency.process WAREHOUSE DIARY NUMBER`. It keeps a diary on disk: a
line before each commit and one after it, so that those who find it dead know what it may have done.
It ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from typing import Any

import rekindle
from rekindle.errors import FencedError, LockedError
from rekindle.spark.session import local_session
from tests.concurrency.serial import Observed, Outcome
from tests.concurrency.workload import Client, Diary, together
from tests.recovery.victim import SETTINGS
from tests.recovery.workload import tighten

IDS = 1_000_000
"""Transactions of each process have numbers of their own."""
THREADS = 4
EACH = 3
"""Transactions of a thread before the process lets the others write."""


def main(warehouse: str, place: str, number: int) -> None:
    tighten()
    spark = local_session(**{**SETTINGS, "spark.master": "local[1]"})
    guard = threading.Lock()
    file = open(place, "a")  # noqa: SIM115 - open until death

    def write(observed: Observed) -> None:
        with guard:
            file.write(json.dumps(to_json(observed)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    diary = Diary(first=number * IDS + 1, on_intent=write, on_outcome=write)
    random_ = random.Random(number)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    print("ready", flush=True)
    while not ended.is_set():
        try:
            with rekindle.connect(warehouse, spark, mode="read") as reader:
                Client(reader, diary, random_).read()
            with rekindle.connect(warehouse, spark, wait=120) as db:
                clients = [
                    Client(db, diary, random.Random(random_.random())) for _ in range(THREADS)
                ]
                together([partial(client.run, EACH) for client in clients])
        except (LockedError, FencedError):
            time.sleep(0.1)
        for error in diary.failures:
            write(
                Observed(0, 0, 0, Outcome.ABORTED, None, {"failure": ()}, frozenset([repr(error)]))
            )
        diary.failures.clear()
    print("done", flush=True)


def to_json(observed: Observed) -> dict[str, Any]:
    return {
        "id": observed.id,
        "begun": observed.begun,
        "ended": observed.ended,
        "outcome": observed.outcome.value,
        "epoch": observed.epoch,
        "reads": {str(key): list(value) for key, value in observed.reads.items()},
        "appends": sorted(map(str, observed.appends)),
    }


def of_json(data: dict[str, Any]) -> Observed:
    reads = {key: tuple(value) for key, value in data["reads"].items()}
    return replace(
        Observed(data["id"], data["begun"], data["ended"], Outcome(data["outcome"])),
        epoch=data["epoch"],
        reads=reads,
        appends=frozenset(data["appends"]),
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
