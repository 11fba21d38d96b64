"""A step is stopped at each of its file operations; the next process finds a whole epoch.

The step runs once, watched. Then every prefix of its operations is what a crash leaves, and the
database on each such disk must be at the previous epoch or, from the rename of the commit record
on, at the new one: with all its files whole and every row as the model has it.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from rekindle.runtime.epochs import log as log_module
from rekindle.runtime.epochs.state import State
from rekindle.traces import store as store_module
from rekindle.traces.store import Store
from tests.recovery.conftest import Opener
from tests.recovery.disk import Crash, Disk, Operation, crash_images, image_of, restore
from tests.recovery.invariants import check_clean_log, check_files, check_no_leak, traces
from tests.recovery.workload import PERIOD, SETUP, Timeline, perform, transact

pytestmark = pytest.mark.usefixtures("tight")

STEPS = {"small": SETUP + 2, "create": SETUP + 3, "drop": SETUP + 8, "checkpoint": SETUP + 10}
ALL_STEPS = range(SETUP + 1, SETUP + 1 + 2 * PERIOD)


class Crashed:
    """A step that was watched, and the disks that its crashes leave."""

    def __init__(self, root: Path, epoch: int, timeline: Timeline, connect: Opener) -> None:
        self.epoch = epoch
        self.root = root
        self.timeline = timeline
        with pytest.MonkeyPatch.context() as patch:
            disk = Disk(root)
            disk.install(patch)
            db = connect(root)
            self.before = image_of(root)
            engine = db._engine
            self.traces = {epoch - 1: traces(engine.state, engine.store)}
            disk.run(lambda: perform(db, timeline.step_to(epoch), "inline"))
            self.traces[epoch] = traces(engine.state, engine.store)
            db.close()
        self.journal = disk.journal
        record = f"{epoch:016}.record"
        named = [i for i, o in enumerate(self.journal) if o.file.endswith(record)]
        self.commit = named[0] + 1
        """From so many operations on the step is done."""
        later = self.journal[self.commit :]
        self.durable = self.commit + [o.kind for o in later].index("sync") + 1

    def crashes(self, how: str) -> list[Crash]:
        found = crash_images(self.before, self.journal, str(self.root))
        return [crash for crash in found if crash.how.startswith(how)]

    def epochs(self, crash: Crash) -> list[int]:
        """Where a database may be after a crash."""
        if crash.done < self.commit:
            return [self.epoch - 1]
        if crash.how == "power lost" and crash.done < self.durable:
            return [self.epoch - 1, self.epoch]
        return [self.epoch]

    def describe(self, crash: Crash) -> str:
        after: Operation | None = self.journal[crash.done - 1] if crash.done else None
        what = "the beginning" if after is None else f"{after.kind} of {after.file}"
        return f"{crash.how} after operation {crash.done} of {len(self.journal)}, {what}"


@pytest.fixture
def crashed(
    database_at: Callable[[int], Path], timeline: Timeline, connect: Opener
) -> Callable[[int], Crashed]:
    return lambda epoch: Crashed(database_at(epoch - 1), epoch, timeline, connect)


def check_crashes(step: Crashed, how: str, scratch: Path) -> None:
    crashes = step.crashes(how)
    assert step.epochs(crashes[0]) == [step.epoch - 1] and step.epochs(crashes[-1]) == [step.epoch]
    for crash in crashes:
        restore(crash.image, scratch)
        try:
            state = check_files(scratch, step.timeline, step.epochs(crash))
            assert traces(state, Store(str(scratch))) == step.traces[state.epoch]
        except Exception as error:
            raise AssertionError(step.describe(crash)) from error


@pytest.mark.parametrize("epoch", STEPS.values(), ids=STEPS)
def test_a_crashed_step_leaves_a_whole_epoch(
    crashed: Callable[[int], Crashed], epoch: int, tmp_path: Path
) -> None:
    step = crashed(epoch)
    check_crashes(step, "killed", tmp_path / "image")
    check_crashes(step, "power lost", tmp_path / "image")


@pytest.mark.torture
@pytest.mark.parametrize("epoch", ALL_STEPS)
def test_any_step_may_crash(crashed: Callable[[int], Crashed], epoch: int, tmp_path: Path) -> None:
    step = crashed(epoch)
    check_crashes(step, "killed", tmp_path / "image")
    check_crashes(step, "power lost", tmp_path / "image")


def test_a_directory_may_be_left_by_a_dead_step(
    templates: Callable[[int], Path],
    crashed: Callable[[int], Crashed],
    timeline: Timeline,
    connect: Opener,
    tmp_path: Path,
) -> None:
    """It was made, and its maker died before the name was durable: the next one cannot tell."""
    epoch = STEPS["create"]
    first = crashed(epoch)
    made = [Path(o.path).relative_to(first.root) for o in first.journal if o.kind == "mkdir"]
    assert made
    root = shutil.copytree(templates(epoch - 1), tmp_path / "left")
    for directory in made:
        (root / directory).mkdir(parents=True)
    step = Crashed(root, epoch, timeline, connect)
    assert not [o for o in step.journal if o.kind == "mkdir"]
    check_crashes(step, "power lost", tmp_path / "image")


def test_the_first_open_may_crash(
    connect: Opener, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root = tmp_path / "new"
    disk = Disk(root)
    disk.install(monkeypatch)
    disk.run(lambda: connect(root).close())
    for crash in crash_images({}, disk.journal, str(root)):
        image = restore(crash.image, tmp_path / "image")
        with connect(image) as db:
            assert db.epoch == 0
            check_no_leak(image, db._engine.state)
            check_clean_log(image)


@pytest.mark.parametrize("epoch", list(STEPS.values())[1:], ids=list(STEPS)[1:])
def test_a_crashed_database_opens_clean_and_goes_on(
    crashed: Callable[[int], Crashed],
    epoch: int,
    tmp_path: Path,
    connect: Opener,
    timeline: Timeline,
) -> None:
    """Collection removes every leftover, and names that a dead step used are used again."""
    step = crashed(epoch)
    for crash in _telling(step):
        image = restore(crash.image, tmp_path / "image")
        db = connect(image)
        try:
            assert [db.epoch] == step.epochs(crash)
            check_no_leak(image, db._engine.state)
            check_clean_log(image)
            perform(db, timeline.step_to(db.epoch + 1), "inline")
            check_files(image, timeline, [db.epoch])
        except Exception as error:
            raise AssertionError(step.describe(crash)) from error
        finally:
            db.close()


def _telling(step: Crashed) -> list[Crash]:
    """A few crashes with the most different leftovers."""
    crashes = step.crashes("killed")
    torn = [crash for crash in crashes if crash.how == "killed while writing"]
    last = [crash for crash in crashes if crash.done < step.commit][-1]
    first = next(crash for crash in crashes if crash.done >= step.commit)
    return [torn[0], last, *(() if first is crashes[-1] else (first,)), crashes[-1]]


def test_leftovers_of_a_dead_step_are_not_taken_for_those_of_the_next(
    crashed: Callable[[int], Crashed], tmp_path: Path, connect: Opener, timeline: Timeline
) -> None:
    """All files of a step are in place but its record; then the epoch is used by another step."""
    step = crashed(STEPS["small"])
    crash = [crash for crash in step.crashes("killed") if crash.done < step.commit][-1]
    image = restore(crash.image, tmp_path / "image")
    left = set(crash.image) - set(step.before)
    assert any(name.endswith(".tmp") for name in left)
    assert any(name.endswith(".arrow") for name in left)
    db = connect(image)
    check_no_leak(image, db._engine.state)
    other = timeline.step_to(step.epoch + 3)
    transact(db, [edit for edit in other.edits if edit.call == "insert"])
    assert db.epoch == step.epoch
    for view in db.views:
        db.check(view)
    transact(db, [replace(e, call="delete") for e in other.edits if e.call == "insert"])
    assert db.epoch == step.epoch + 1
    model = timeline.at(step.epoch - 1).contents()
    for name, rows in model.items():
        assert Counter(tuple(row) for row in db.table(name).collect()) == rows


# ---- that these tests would notice -----------------------------------------------------------


def test_data_that_is_not_synced_is_noticed(
    crashed: Callable[[int], Crashed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Store, "flush", lambda self, paths: None)
    step = crashed(STEPS["small"])
    check_crashes(step, "killed", tmp_path / "image")
    with pytest.raises(AssertionError, match="power lost"):
        check_crashes(step, "power lost", tmp_path / "image")


def test_a_record_that_is_not_renamed_into_place_is_noticed(
    crashed: Callable[[int], Crashed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write_in_place(self: Store, path: str, data: bytes) -> None:
        with vars(store_module)["open"](self.locate(path), "wb", buffering=0) as file:
            store_module._write_all(file.fileno(), data)
        self.sync(path.rpartition("/")[0])

    monkeypatch.setattr(Store, "create", write_in_place)
    step = crashed(STEPS["small"])
    with pytest.raises(AssertionError, match="killed"):
        check_crashes(step, "killed", tmp_path / "image")


def test_a_record_that_forgets_a_trace_is_noticed(
    crashed: Callable[[int], Crashed], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    complete = log_module._record

    def forgetful(before: State, after: State) -> dict[str, Any]:
        record = complete(before, after)
        record["traces"].popitem()
        return record

    monkeypatch.setattr(log_module, "_record", forgetful)
    with pytest.raises(AssertionError, match="killed"):
        check_crashes(crashed(STEPS["small"]), "killed", tmp_path / "image")
