"""SIGKILL at random instants of random transactions, again and again, on one database.

A victim process runs the workload; it is killed, or the whole group of its processes is, by the
clock, inside a step on Spark, or in front of a random file operation. This process then reopens the
database, checks everything, runs one more step, and hands the database to the next victim. In the
end it must be where a run without accidents would be (law 5).
"""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from rekindle.traces.store import Store
from tests.recovery.conftest import Opener
from tests.recovery.invariants import check_database, check_files, check_no_leak, load, traces
from tests.recovery.victim import Orders
from tests.recovery.victims import PATIENCE, Diary, Victim
from tests.recovery.workload import SETUP, Timeline, perform

HOW = ("spark", "clock", "operation")


@dataclass(slots=True)
class Ordeal:
    """The database, its victims, and what became of them."""

    root: Path
    scratch: Path
    timeline: Timeline
    connect: Opener
    reference: Callable[[int], Path]

    def run(self, kills: int, random_: random.Random) -> list[str]:
        """Kill so often; gives a line for each kill."""
        with self.connect(self.root) as db:
            epoch = db.epoch
        story = []
        following = self._start(0)
        try:
            for number in range(kills):
                victim = following
                how = HOW[number % len(HOW)]
                diary = Diary(self.scratch / f"diary-{number}")
                self._kill(victim, diary, epoch, how, random_)
                if number + 1 < kills:
                    following = self._start(number + 1)
                possible = diary.possible(epoch)
                assert not diary.failures
                found = self._verify(possible, victim)
                story.append(f"{how}: {' '.join(diary.last)}, reopened at {found} of {possible}")
                epoch = found + 1
        finally:
            following.close()
        self._compare(self.reference(epoch))
        return story

    def _compare(self, whole: Path) -> None:
        """All traces are those of a run without kills."""
        one, other = load(self.root), load(whole)
        assert traces(one, Store(str(self.root))) == traces(other, Store(str(whole)))

    def _start(self, number: int) -> Victim:
        return Victim(self.scratch / f"victim-{number}.log")

    def _kill(
        self, victim: Victim, diary: Diary, epoch: int, how: str, random_: random.Random
    ) -> None:
        last = random_.randrange(400) if how == "operation" else None
        retain = random_.choice([None, 9])
        victim.order(
            Orders(str(self.root), self.timeline.seed, str(diary.path), epoch + 99, last, retain)
        )
        if how == "operation":
            victim.process.wait(PATIENCE)
            victim.kill(group=random_.random() < 0.5)
            return
        if how == "spark":
            victim.await_(lambda: diary.begun("spark"))
            time.sleep(random_.uniform(0, 5.0))
        else:
            # The first step of a process is far slower than the others.
            warm = epoch + random_.randrange(5)
            victim.await_(lambda: diary.begun("") and diary.done(epoch) >= warm)
            time.sleep(random_.uniform(0, 0.7))
        victim.kill(group=random_.random() < 0.5)

    def _verify(self, possible: list[int], victim: Victim) -> int:
        """Reopen, check all there is, and run one more step; gives the epoch that was found.

        Where only the driver was killed, Spark's processes may be writing for some moments yet.
        The database is opened meanwhile; what they leave then is for another collection.
        """
        found = check_files(self.root, self.timeline, possible).epoch
        with self.connect(self.root) as db:
            assert db.epoch == found
            check_database(db, self.timeline)
            perform(db, self.timeline.step_to(found + 1), "inline")
            victim.bury()
            db.collect()
            check_no_leak(self.root, db._engine.state)
            check_files(self.root, self.timeline, [found + 1])
        return found


@pytest.fixture
def ordeal(
    database_at: Callable[[int], Path],
    templates: Callable[[int], Path],
    timeline: Timeline,
    connect: Opener,
    tmp_path: Path,
) -> Ordeal:
    return Ordeal(database_at(SETUP + 4), tmp_path, timeline, connect, templates)


@pytest.mark.usefixtures("tight")
def test_three_kills(ordeal: Ordeal) -> None:
    print(*ordeal.run(3, random.Random(3)), sep="\n")


@pytest.mark.torture
@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("seed", range(30))
def test_ten_kills(ordeal: Ordeal, seed: int, tally: Counter[str]) -> None:
    story = ordeal.run(10, random.Random(30 + seed))
    tally["SIGKILLs"] += len(story)
    print(*story, sep="\n")
