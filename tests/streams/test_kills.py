"""SIGKILL at random instants of a stream, again and again: every batch is there once.

Rows are numbered by their source, so that a row which is lost or there twice is seen. The changes
of a view go out all the while, by another stream, and each of them has to arrive once too.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database
from rekindle.runtime.streaming.marks import read_mark
from tests.streams.drops import Drops
from tests.streams.victim import ROWS, changes_out, source

PATIENCE = 120.0
CHANGE = ("_epoch", "_weight", "g", "n")


@dataclass(slots=True)
class Victim:
    """A process that is started to be killed."""

    process: subprocess.Popen[str]
    log: Path

    def order(self, *words: str) -> None:
        """Let it begin."""
        assert self.process.stdout is not None and self.process.stdin is not None
        for line in self.process.stdout:
            if line.strip() == "ready":
                break
        self.process.stdin.write("\t".join(words) + "\n")
        self.process.stdin.flush()

    def kill(self) -> None:
        """Kill it, and the JVM that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@contextmanager
def victim(log: Path, module: str = "tests.streams.victim") -> Iterator[Victim]:
    """A victim, which is killed in any case."""
    with log.open("w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        found = Victim(process, log)
        try:
            yield found
        finally:
            found.kill()
            assert process.stdin is not None and process.stdout is not None
            process.stdin.close()
            process.stdout.close()


def planned(warehouse: Path) -> int:
    """The last batch that Spark has planned; -1 before the first."""
    notes = warehouse / "streams" / "t" / "offsets"
    names = [path.name for path in notes.glob("*")] if notes.exists() else []
    return max((int(name) for name in names if name.isdigit()), default=-1)


def run(spark: SparkSession, place: Path, kind: str, kills: int, batches: int, seed: int) -> None:
    """Kill a stream so often on its way, let it end, and count what is there."""
    chance = random.Random(seed)
    warehouse, drops, out = place / "warehouse", Drops(place / "drops"), place / "out"
    with rekindle.connect(str(warehouse), spark=spark) as db:
        db.sql("CREATE TABLE t (value BIGINT)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT value % 7 AS g, count(*) AS n FROM t GROUP BY 1"
        )
    if kind == "files":
        for number in range(batches):
            drops.drop({"value": number * ROWS + i} for i in range(ROWS))
    each = max(1, batches // (kills + 1))
    for number in range(kills):
        with victim(place / f"victim-{number}.log") as doomed:
            doomed.order(str(warehouse), str(drops.path), kind, str(out))
            target, deadline = planned(warehouse) + each, time.monotonic() + PATIENCE
            while planned(warehouse) < target:
                assert doomed.process.poll() is None, doomed.log.read_text()[-3000:]
                assert time.monotonic() < deadline, doomed.log.read_text()[-3000:]
                time.sleep(0.02)
            time.sleep(chance.uniform(0, 0.6))
            doomed.kill()
    with rekindle.connect(str(warehouse), spark=spark, wait=60) as db:
        stream = db.stream("t", source(spark, kind, str(drops.path)))
        if kind == "files":
            stream.process_all_available()
        else:
            deadline = time.monotonic() + PATIENCE
            while (stream.progress.batch or 0) < batches - 1 and stream.status == "running":
                assert time.monotonic() < deadline
                time.sleep(0.05)
        stream.stop()
        assert stream.exception is None and stream.progress.repeated <= 1
        last = read_mark("t", db.offsets["t"])
        assert last is not None
        # Killed between its note of a file and its plan, Spark puts two files into one batch.
        rows = batches * ROWS if kind == "files" else (last.batch + 1) * ROWS
        assert rows >= batches * ROWS
        found = sorted(row.value for row in db.table("t").collect())
        assert found == list(range(rows)), "each row once"
        at = [row["count"] for row in db.changes("t").groupBy("_epoch").count().collect()]
        assert len(at) == last.batch + 1 and not any(n % ROWS for n in at), "each batch an epoch"
        db.check("v")
        _require_each_change_once(db, out)


def _require_each_change_once(db: Database, out: Path) -> None:
    """Let the stream out come to its end; it has the contents at some epoch and each change since.

    The view counts, so that an epoch takes back what the one before it gave: no two epochs' changes
    are the same, and one that is missing or there twice is seen.
    """
    query = changes_out(db.spark, db.path, str(out), availableNow=True)
    query.awaitTermination(PATIENCE)
    assert query.exception() is None and not query.isActive
    delivered = _bag(db.spark.read.parquet(f"{out}/rows").toArrow())
    first = min(epoch for epoch, *_ in delivered)
    contents = _weighted(db.arrow("v", epoch=first), first)
    assert delivered == contents + _bag(db.changes_arrow("v", since=first))


def _bag(table: pa.Table) -> Counter[tuple[int, ...]]:
    """How often each change is there: its epoch, its weight and the row."""
    return Counter(zip(*(table.column(n).to_pylist() for n in CHANGE), strict=True))


def _weighted(contents: pa.Table, epoch: int) -> Counter[tuple[int, ...]]:
    return Counter((epoch, 1, row["g"], row["n"]) for row in contents.to_pylist())


def test_two_kills(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, "files", kills=2, batches=9, seed=5)


@pytest.mark.torture
@pytest.mark.parametrize("kind", ["files", "rate"])
def test_fifteen_kills_in_sixty_batches(spark: SparkSession, tmp_path: Path, kind: str) -> None:
    run(spark, tmp_path, kind, kills=15, batches=60, seed=15)
