"""A process that keeps a continuous query in MRQL and writes its answers, until it is killed.

Started as `python -m tests.streams.mrql_victim`, it starts Spark, says `ready`, and waits for a
line with the database and the directory of the answers.
"""

from __future__ import annotations

import sys
import time

import rekindle
from rekindle.spark.session import local_session
from tests.streams.victim import SETTINGS

VIEW = "totals"


def main() -> None:
    spark = local_session(**SETTINGS)
    print("ready", flush=True)
    warehouse, answers = sys.stdin.readline().rstrip("\n").split("\t")
    db = rekindle.connect(warehouse, spark, wait=60)
    files = db.write_files(VIEW, answers)
    streams = db.resume_streams().values()
    while all(stream.status == "running" for stream in streams) and not files.is_closed:
        time.sleep(0.05)
    print([stream.exception for stream in streams], files.epoch, file=sys.stderr, flush=True)
    # What is still alive would hide that the other has failed.
    sys.exit(1)


if __name__ == "__main__":
    main()
