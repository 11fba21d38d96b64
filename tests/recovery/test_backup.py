"""Copies of a database: consistent while it is written to, whole or not there, and of any epoch."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import CorruptionError, DefinitionError, HistoryError, StorageError
from rekindle.runtime.database import Database
from rekindle.runtime.upkeep.backup import MARK, backup
from rekindle.runtime.upkeep.restore import restore
from rekindle.runtime.upkeep.verify import segments_of, verify
from tests.recovery.conftest import Opener
from tests.recovery.disk import Disk, Operation, image_of, input_output_error
from tests.recovery.disk import restore as put_back
from tests.recovery.invariants import check_database, check_files, load
from tests.recovery.workload import PASSING, SETUP, Timeline, perform

pytestmark = pytest.mark.usefixtures("tight")

EPOCH = SETUP + 6
"""The passing view was created at SETUP + 3; the next step is a transaction, with new files."""


@pytest.fixture
def root(database_at: Callable[[int], Path]) -> Path:
    return database_at(EPOCH)


@pytest.fixture
def opening(spark: SparkSession) -> Callable[[str], Database]:
    return lambda path: rekindle.connect(path, spark)


def test_a_backup_is_a_database(
    root: Path, tmp_path: Path, timeline: Timeline, connect: Opener
) -> None:
    copy, again = tmp_path / "copy", tmp_path / "again"
    made = backup(str(root), str(copy))
    assert (made.epoch, made.copied) == (EPOCH, len(segments_of(load(root))))
    check_files(copy, timeline, [EPOCH])
    assert verify(str(copy)).ok
    restore(str(copy), str(again))
    assert not (again / MARK).exists()
    with connect(again) as db:
        check_database(db, timeline)
        perform(db, timeline.step_to(EPOCH + 1), "inline")
        check_database(db, timeline)


def test_the_next_backup_copies_what_is_new(
    root: Path, tmp_path: Path, timeline: Timeline, connect: Opener
) -> None:
    copy = tmp_path / "copy"
    with connect(root, 4) as db:
        db.backup(str(copy))
        assert db.backup(str(copy)).copied == 0
        before = set(segments_of(load(copy)))
        perform(db, timeline.step_to(EPOCH + 1), "inline")
        made = db.backup(str(copy))
    needed = segments_of(load(root))
    assert 0 < made.copied == len(set(needed) - before) < len(needed)
    assert made.removed == len(before - set(needed)) > 0
    check_files(copy, timeline, [EPOCH + 1])
    data = {name for name in image_of(copy) if name.startswith("data/")}
    assert data == set(needed), "nothing else is kept"


def test_an_interrupted_backup_leaves_the_earlier_one(
    root: Path, tmp_path: Path, timeline: Timeline, connect: Opener
) -> None:
    """At every operation: the earlier epoch or the new one; the next backup is whole."""
    copy = tmp_path / "copy"
    backup(str(root), str(copy))
    earlier = image_of(copy)
    with connect(root) as db:
        perform(db, timeline.step_to(EPOCH + 1), "inline")
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(copy)
        disk.install(patch)
        disk.run(lambda: backup(str(root), str(copy)))
        found = set()
        for number in range(len(disk.journal)):
            put_back(earlier, copy)

            def interfere(current: int, operation: Operation, number: int = number) -> None:
                if current == number:
                    raise input_output_error(operation)

            possible = [EPOCH + 1]
            try:
                disk.run(lambda: backup(str(root), str(copy)), interfere)
            except StorageError:
                possible.append(EPOCH)
            found.add(check_files(copy, timeline, possible).epoch)
            assert backup(str(root), str(copy)).epoch == EPOCH + 1
            check_files(copy, timeline, [EPOCH + 1])
            assert verify(str(copy)).ok
        assert found == {EPOCH, EPOCH + 1}


def test_a_copy_that_the_writer_overtakes(
    root: Path, tmp_path: Path, timeline: Timeline, connect: Opener
) -> None:
    """With so little grace files vanish under the copy, which goes on from a newer state."""
    copy = tmp_path / "copy"
    steps = list(range(EPOCH + 1, EPOCH + 13))
    with connect(root, 2) as db:

        def meanwhile(done: int, total: int) -> None:
            if steps:
                perform(db, timeline.step_to(steps.pop(0)), "inline")
                db.collect()

        made = backup(str(root), str(copy), meanwhile)
        assert made.epoch > EPOCH
    check_files(copy, timeline, [made.epoch])
    assert verify(str(copy)).ok


def test_damage_is_not_copied(root: Path, tmp_path: Path, timeline: Timeline) -> None:
    copy = tmp_path / "copy"
    path = max(segments_of(load(root)))
    whole = (root / path).read_bytes()
    (root / path).write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    with pytest.raises(CorruptionError, match="is damaged and was not copied"):
        backup(str(root), str(copy))
    assert not (copy / path).exists()
    (root / path).unlink()
    with pytest.raises(CorruptionError, match="is missing"):
        backup(str(root), str(copy))
    with pytest.raises(DefinitionError, match="there is no backup"):
        restore(str(copy), str(tmp_path / "new"))
    (root / path).write_bytes(whole)
    assert backup(str(root), str(copy)).copied < len(segments_of(load(root)))
    check_files(copy, timeline, [EPOCH])


def test_places_that_are_not_taken(root: Path, database_at: Callable[[int], Path]) -> None:
    other = database_at(SETUP + 1)
    before = image_of(other)
    for action in (backup, restore):
        with pytest.raises(DefinitionError, match="is not empty"):
            action(str(root), str(other))
        with pytest.raises(DefinitionError, match="is not empty"):
            action(str(root), str(root))
    assert image_of(other) == before
    copy = root.parent / "copy"
    backup(str(root), str(copy))
    with pytest.raises(DefinitionError, match="is a backup of another database"):
        backup(str(other), str(copy))
    shutil.rmtree(root)
    other.rename(root)
    with pytest.raises(DefinitionError, match="which is newer"):
        backup(str(root), str(copy))
    with pytest.raises(DefinitionError, match="there is no"):
        backup(str(root / "nowhere"), str(copy))
    with pytest.raises(DefinitionError, match="there is no backup"):
        restore(str(root / "nowhere"), str(root.parent / "new"))


# ---- earlier epochs ------------------------------------------------------------------------------


@pytest.mark.parametrize("epoch", [SETUP + 3, SETUP + 5])
def test_an_earlier_epoch(
    root: Path,
    tmp_path: Path,
    timeline: Timeline,
    connect: Opener,
    opening: Callable[[str], Database],
    epoch: int,
) -> None:
    """Tables, views and history are what they were, and all goes on from there."""
    backup(str(root), str(tmp_path / "copy"))
    made = restore(str(tmp_path / "copy"), str(tmp_path / "new"), epoch, connect=opening)
    assert (made.epoch, made.left_out) == (epoch, ())
    new = tmp_path / "new"
    state = check_files(new, timeline, [epoch])
    marks = {int(path.split("/e")[1][:10]) for path in segments_of(state)}
    assert max(marks) <= epoch, "an attempt at a later epoch may clear files of its name"
    assert {name.split("/")[0] for name in image_of(new)} == {"data", "log"}
    with connect(new) as db:
        check_database(db, timeline)
        for later in (epoch + 1, epoch + 2):
            perform(db, timeline.step_to(later), "inline")
        check_database(db, timeline)


def test_what_was_made_later_is_left_out(
    root: Path, tmp_path: Path, timeline: Timeline, opening: Callable[[str], Database]
) -> None:
    epoch = SETUP + 2
    made = restore(str(root), str(tmp_path / "new"), epoch, connect=opening)
    assert made.left_out == (PASSING,) and PASSING in str(made)
    check_files(tmp_path / "new", timeline, [epoch])


@pytest.mark.parametrize("epoch", [-1, EPOCH + 1, SETUP + 2])
def test_an_epoch_that_is_not_retained(
    root: Path, tmp_path: Path, timeline: Timeline, connect: Opener, epoch: int
) -> None:
    with connect(root, 2) as db:
        perform(db, timeline.step_to(EPOCH + 1), "inline")
        perform(db, timeline.step_to(EPOCH + 2), "inline")
    wanted = epoch if epoch != EPOCH + 1 else EPOCH + 9
    with pytest.raises(HistoryError, match=f"epoch {wanted} cannot be restored"):
        restore(str(root), str(tmp_path / "new"), wanted)
    assert not (tmp_path / "new").exists()
