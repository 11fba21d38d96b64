"""Law 5: a run interrupted anywhere and reopened equals one that was not interrupted.

Both runs do the same steps. One of them dies in front of random file operations, from which moment
nothing it does reaches the disk, and is reopened from what is there; a step that was lost is done
again. In the end all traces are equal, and so is every retained change at every epoch.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from rekindle.runtime.epochs.state import State
from rekindle.traces.opened import OPEN_SEGMENTS
from rekindle.traces.store import Store
from tests.recovery.conftest import Opener
from tests.recovery.disk import Disk, Interference, Operation
from tests.recovery.invariants import changes, check_database, check_no_leak, load, traces
from tests.recovery.workload import PERIOD, SETUP, Bag, Timeline, build, perform

pytestmark = pytest.mark.usefixtures("tight")


class Death(BaseException):
    """The process is no more."""


def dying_at(last: int) -> Interference:
    """From that operation on nothing is done any more."""

    def interfere(number: int, operation: Operation) -> None:
        if number >= last:
            raise Death

    return interfere


def run_interrupted(
    root: Path, until: int, timeline: Timeline, connect: Opener, random_: random.Random
) -> int:
    """All steps, with deaths in between; gives their number."""
    deaths = 0
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(root)
        disk.install(patch)
        db = connect(root)
        while db.epoch < until:
            step = timeline.step_to(db.epoch + 1)
            interfere = dying_at(random_.randrange(90)) if random_.random() < 0.7 else None
            try:
                disk.run(partial(perform, db, step, "inline"), interfere)
            except Death:
                deaths += 1
                db.close()
                OPEN_SEGMENTS.clear()
                db = connect(root, random_.choice([None, None, 4]))
        db.close()
    return deaths


def history(state: State, root: Path) -> dict[tuple[str, int], Bag]:
    """The change of every table and view at every epoch."""
    store = Store(str(root))
    return {
        (name, epoch): change
        for name, entry in state.entries.items()
        for epoch, change in changes(state, entry, store).items()
    }


def check_law(
    whole: Path, broken: Path, timeline: Timeline, connect: Opener, random_: random.Random
) -> None:
    final = load(whole).epoch
    assert run_interrupted(broken, final, timeline, connect, random_) > 0
    state = load(broken)
    retained = {
        key: change for key, change in history(load(whole), whole).items() if key[1] > state.horizon
    }
    assert history(state, broken) == retained
    assert traces(state, Store(str(broken))) == traces(load(whole), Store(str(whole)))
    with connect(broken) as db:
        check_no_leak(broken, db._engine.state)
        check_database(db, timeline)


def test_an_interrupted_run_equals_a_whole_one(
    templates: Callable[[int], Path],
    database_at: Callable[[int], Path],
    timeline: Timeline,
    connect: Opener,
) -> None:
    whole = templates(SETUP + 8)
    check_law(whole, database_at(SETUP), timeline, connect, random.Random(5))


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(20))
def test_interrupted_runs_equal_whole_ones(seed: int, tmp_path: Path, connect: Opener) -> None:
    timeline = Timeline(seed)
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    with connect(whole) as db:
        build(db)
        shutil.copytree(whole, broken)
        while db.epoch < SETUP + 3 * PERIOD:
            perform(db, timeline.step_to(db.epoch + 1), "inline")
    check_law(whole, broken, timeline, connect, random.Random(seed))
