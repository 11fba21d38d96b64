"""Two processes that both want to write, round after round, and are killed or put to sleep.

In each round both open the database, wait for one another, commit and close. In every tenth one of
them is killed, in every tenth one sleeps for longer than the term of its lease and wakes up again.
Whatever was acknowledged to one of them is there, once, and nothing is there that none began.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import select
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.epochs.log import CommitLog
from rekindle.traces.opened import OPEN_SEGMENTS
from rekindle.traces.store import Store
from tests.recovery.invariants import bag
from tests.recovery.rival import COMMITS, TERM
from tests.recovery.s3_server import S3Server
from tests.recovery.writers import Writer

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 300.0
ROUNDS = int(os.environ.get("REKINDLE_ROUNDS", "300"))


class Rival:
    """One of the processes; with its Java, if it has one, it is a group."""

    def __init__(self, kind: str, uri: str, directory: Path) -> None:
        name = secrets.token_hex(4)
        self.diary = directory / f"{name}.diary"
        self._errors = open(directory / f"{name}.log", "wb")  # noqa: SIM115 - closed at the end
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.recovery.rival", kind, uri, str(self.diary)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            start_new_session=True,
        )
        self._ready = False

    def begin(self) -> None:
        if not self._ready:
            self._await(b"ready\n")
            self._ready = True
        assert self.process.stdin is not None
        self.process.stdin.write(b"go\n")
        self.process.stdin.flush()

    def end(self) -> None:
        self._await(b"over\n")

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, number)

    def close(self) -> None:
        self.signal(signal.SIGKILL)
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout, self._errors):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()

    def lines(self, what: str) -> list[str]:
        text = self.diary.read_text() if self.diary.exists() else ""
        words = [line.split() for line in text.splitlines()]
        return [line[1] for line in words if line[0] == what]

    def _await(self, said: bytes) -> None:
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        heard = self.process.stdout.readline() if ready else b"nothing"
        assert heard == said, f"it said {heard!r}, see {self._errors.name}"


class Contest:
    """Rounds of two rivals, with another one kept ready for who is killed."""

    def __init__(self, kind: str, uri: str, directory: Path, seed: int) -> None:
        self._new: Callable[[], Rival] = lambda: Rival(kind, uri, directory)
        self.random = random.Random(seed)
        self.rivals = [self._new(), self._new()]
        self.gone: list[Rival] = []
        self.spare: Rival | None = None
        self.rounds = self.kills = self.sleeps = 0

    def round(self, number: int, longest: float) -> None:
        """Both try; one may be killed or put to sleep up to so many seconds later."""
        self.rounds += 1
        for rival in self.rivals:
            rival.begin()
        victim = self.random.randrange(2)
        if number % 10 == 9:
            time.sleep(self.random.random() * longest)
            self.rivals[victim].close()
            self.gone.append(self.rivals[victim])
            self.kills += 1
            self.rivals[1 - victim].end()
            self.rivals[victim] = self.spare or self._new()
            self.spare = self._new()
            return
        if number % 10 == 4:
            time.sleep(self.random.random() * longest)
            self.rivals[victim].signal(signal.SIGSTOP)
            time.sleep(1.5 * TERM)
            self.rivals[victim].signal(signal.SIGCONT)
            self.sleeps += 1
        for rival in self.rivals:
            rival.end()

    @property
    def all(self) -> list[Rival]:
        return [*self.gone, *self.rivals]

    def said(self, what: str) -> Counter[str]:
        return Counter(line for rival in self.all for line in rival.lines(what))

    def account(self) -> str:
        refused = dict(self.said("refused"))
        return f"{self.rounds} rounds, {self.kills} kills, {self.sleeps} sleeps, refused {refused}"

    def close(self) -> None:
        for rival in [*self.rivals, *([self.spare] if self.spare else [])]:
            rival.close()


@pytest.fixture(params=["local", "s3"])
def uri(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "local":
        yield str(tmp_path / "warehouse")
        return
    server = S3Server.start()
    yield server.uri("warehouse")
    server.stop()


def records(uri: str) -> Counter[str]:
    """Whose each record of the log is."""
    store = Store(uri)
    found: Counter[str] = Counter()
    for path in store.list("log"):
        if path.endswith(".record"):
            record = json.loads(store.read_bytes(path).partition(b"\n")[2])
            found[f"{record['epoch']}-{record['writer']}"] += 1
    return found


def contend(uri: str, directory: Path, rounds: Sequence[int], longest: float) -> Contest:
    Writer.open(uri).close()
    contest = Contest("log", uri, directory, seed=len(rounds))
    try:
        for number in rounds:
            contest.round(number, longest)
        done, found = contest.said("done"), records(uri)
        assert not done - found, "acknowledged, and not there"
        assert max(done.values()) == 1 and max(found.values()) == 1
        assert sum(done.values()) >= COMMITS * (2 * len(rounds) - contest.kills)
        epoch = CommitLog(Store(uri)).load().epoch
        assert epoch == len(found), "one record for each epoch"
    finally:
        contest.close()
    print(f"{contest.account()}, epoch {epoch}")
    return contest


def test_two_writers_contend(uri: str, tmp_path: Path) -> None:
    contest = contend(uri, tmp_path, rounds=[0, 4, 1, 9, 2], longest=0.3)
    assert contest.kills == 1 and contest.sleeps == 1


@pytest.mark.torture
@pytest.mark.timeout(7200)
def test_two_writers_contend_for_long(uri: str, tmp_path: Path) -> None:
    contend(uri, tmp_path, rounds=range(ROUNDS), longest=0.5)


@pytest.mark.torture
@pytest.mark.timeout(14400)
def test_every_acknowledged_row_is_there(uri: str, spark: SparkSession, tmp_path: Path) -> None:
    with rekindle.connect(uri, spark) as db:
        db.sql("CREATE TABLE names (name STRING)")
        db.sql("CREATE MATERIALIZED VIEW initials AS "
               "SELECT substr(name, 1, 1) AS c, count(*) AS n FROM names GROUP BY 1")  # fmt: skip
    contest = Contest("rows", uri, tmp_path, seed=ROUNDS)
    try:
        for number in range(ROUNDS):
            contest.round(number, longest=2.0)
            done, begun = contest.said("done"), contest.said("begin")
            OPEN_SEGMENTS.clear()
            store = Store(uri)
            state = CommitLog(store).load()
            found = bag(state.traces[state.entry("names").node], store, 1)
            rows = Counter({name: weight for (name,), weight in found.items()})
            assert not done - rows, f"acknowledged, and not there, in round {number}"
            assert not rows - begun, f"there twice, or never begun, in round {number}"
    finally:
        contest.close()
    with rekindle.connect(uri, spark, wait=60) as db:
        db.check("initials")
    acknowledged = sum(done.values())
    print(f"{contest.account()}, {len(rows)} rows, {acknowledged} acknowledged")
