"""SIGKILL of a continuous query in MRQL: its rows, state, answers and their files, once each.

The query joins what a stream brings with a source that does not change and has a state for each
group. Each file that is dropped has some rows of its own, so that a file that is lost, or taken
twice, or in parts, is seen; the answers are compared with the rows that were there at their epoch.
"""

from __future__ import annotations

import random
import time
from collections import defaultdict
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database
from rekindle.runtime.reading.files_out import written_epochs
from tests.streams.mrql_victim import VIEW
from tests.streams.test_kills import PATIENCE, victim

ROWS = 4
"""The rows of a file."""
NAMES = ("even", "odd")
QUERY = """
    select (n, count(v), sum(v)) from (k, v) in stream(line, "{arriving}", ",", type((long,long))),
           (g, n) in source(line, "{fixed}", ",", type((long,string)))
     where v mod 2 = g
     group by n: n
"""


class Arriving:
    """The watched directory: each file is one number after the other, in lines `file,number`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        path.mkdir()

    def drop(self) -> None:
        """Put one more file there at once."""
        first = self.count * ROWS
        hidden = self.path / f".{self.count:06}"
        hidden.write_text("".join(f"{self.count},{first + i}\n" for i in range(ROWS)))
        hidden.rename(self.path / f"{self.count:06}.csv")
        self.count += 1


def run(spark: SparkSession, place: Path, kills: int, seed: int) -> None:
    """Kill a query so often on its way, let it come to its end, and count what is there."""
    chance = random.Random(seed)
    warehouse, answers, fixed = str(place / "w"), place / "answers", place / "fixed"
    arriving = Arriving(place / "arriving")
    fixed.mkdir()
    (fixed / "names.csv").write_text("".join(f"{i},{name}\n" for i, name in enumerate(NAMES)))
    query = QUERY.format(arriving=arriving.path, fixed=fixed)
    with rekindle.connect(warehouse, spark) as db:
        db.create_view(VIEW, rekindle.mrql(query), incremental="required")
    for number in range(kills):
        with victim(place / f"victim-{number}.log", "tests.streams.mrql_victim") as doomed:
            doomed.order(warehouse, str(answers))
            target, deadline = _answers(answers) + 3, time.monotonic() + PATIENCE
            while _answers(answers) < target:
                assert doomed.process.poll() is None, doomed.log.read_text()[-3000:]
                assert time.monotonic() < deadline, doomed.log.read_text()[-3000:]
                arriving.drop()
                time.sleep(0.2)
            time.sleep(chance.uniform(0, 0.6))
            doomed.kill()
    with rekindle.connect(warehouse, spark, wait=60) as db:
        streams = db.resume_streams()
        with db.write_files(VIEW, answers) as files:
            for stream in streams.values():
                stream.process_all_available()
            assert files.wait(timeout=PATIENCE)
        _require_each_file_once(db, arriving.count)
        db.check(VIEW)
        _require_each_answer_once(db, answers)
        assert len(written_epochs(answers)) > 2 * kills


def _answers(directory: Path) -> int:
    return len(written_epochs(directory)) if directory.exists() else 0


def _require_each_file_once(db: Database, files: int) -> None:
    assert sorted(row["_2"] for row in db.table("arriving").collect()) == list(range(files * ROWS))
    epochs = defaultdict(set)
    for row in db.changes("arriving").collect():
        assert row["_weight"] == 1
        epochs[row["_1"]].add(row["_epoch"])
    assert all(len(each) == 1 for each in epochs.values()), "a file is taken as a whole"


def _require_each_answer_once(db: Database, answers: Path) -> None:
    """After each epoch that changed the view there is one file, with the answer as it was then."""
    written = written_epochs(answers)
    changed = {row["_epoch"] for row in db.changes(VIEW).select("_epoch").distinct().collect()}
    first, *later = written
    assert later == sorted(epoch for epoch in changed if epoch > first)
    came = defaultdict(list)
    for row in db.changes("arriving").collect():
        came[row["_epoch"]].append(row["_2"])
    for epoch in written:
        held = [v for at, values in came.items() if at <= epoch for v in values]
        parts = [[v for v in held if v % 2 == i] for i in range(len(NAMES))]
        lines = [
            f'"{name}",{len(part)},{sum(part)}\n'
            for name, part in zip(NAMES, parts, strict=True)
            if part
        ]
        assert (answers / f"epoch-{epoch:08}.txt").read_text() == "".join(lines), epoch
    assert not list(answers.glob("*.begun"))


@pytest.mark.slow
def test_a_kill(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, kills=1, seed=3)


@pytest.mark.torture
def test_ten_kills(spark: SparkSession, tmp_path: Path) -> None:
    run(spark, tmp_path, kills=10, seed=10)
