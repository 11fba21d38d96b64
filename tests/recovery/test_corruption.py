"""Damaged files: reported by name, never read as data.

One file of each kind is damaged in one way. Whatever needs it, a read or a step, raises
`CorruptionError` with the file's name and changes nothing; whatever does not need it gives the
right rows.
"""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame

from rekindle.errors import CorruptionError
from rekindle.runtime.database import Database
from rekindle.runtime.reading import contents
from rekindle.traces.opened import OPEN_SEGMENTS
from tests.recovery.conftest import Opener
from tests.recovery.disk import image_of, restore
from tests.recovery.invariants import check_files, load
from tests.recovery.workload import SETUP, Bag, Edit, Timeline, transact

pytestmark = pytest.mark.usefixtures("tight")

EPOCH = SETUP + 7
"""After a checkpoint at epoch 10 there are records of 11 and 12."""
KINDS = ("table", "arrange", "group", "view")


def flip(position: float) -> Callable[[bytes], bytes]:
    """One bit of the byte at that part of the file."""

    def damage(data: bytes) -> bytes:
        place = min(len(data) - 1, int(position * len(data)))
        return data[:place] + bytes([data[place] ^ 0x10]) + data[place + 1 :]

    return damage


def first(length: int) -> Callable[[bytes], bytes]:
    """No more than the first bytes."""
    return lambda data: data[:length]


DAMAGES: dict[str, Callable[[bytes], bytes] | None] = {
    "deleted": None,
    "emptied": lambda data: b"",
    "truncated": lambda data: data[: len(data) * 2 // 3],
    "without its last byte": lambda data: data[:-1],
    "too long": lambda data: data + b"\0" * 8,
    "zeroed": lambda data: bytes(len(data)),
    "flipped in the magic": flip(0.0),
    "flipped in the schema": flip(0.1),
    "flipped in the body": flip(0.6),
    "flipped in the footer": flip(0.97),
    "flipped at the end": flip(1.0),
}


@pytest.fixture
def root(database_at: Callable[[int], Path]) -> Path:
    return database_at(EPOCH)


def victim_of(root: Path, kind: str) -> str:
    """The largest file of the traces of a kind of node."""
    traces = load(root).traces
    found = [s for key, t in traces.items() if key.startswith(kind) for s in t.segments]
    return max(found, key=lambda segment: segment.size).path


def owner_of(root: Path, name: str) -> str | None:
    """The table or view whose contents are in the file."""
    entries = load(root).entries.values()
    return next((entry.name for entry in entries if f"/{entry.node}/" in name), None)


def inflict(root: Path, name: str, damage: Callable[[bytes], bytes] | None) -> None:
    path = root / name
    if damage is None:
        path.unlink()
    else:
        good = path.read_bytes()
        bad = damage(good)
        assert bad != good
        path.write_bytes(bad)
    OPEN_SEGMENTS.clear()


def read_everything(db: Database, timeline: Timeline, name: str) -> list[str]:
    """What of the contents and changes is refused because of the file `name`; the rest is right."""
    refused = []
    for entry, rows in timeline.contents(EPOCH).items():
        try:
            assert Counter(map(tuple, db.table(entry).collect())) == rows
            assert summed(db.changes(entry)) == rows
        except CorruptionError as error:
            assert name in str(error)
            refused.append(entry)
    return refused


def summed(changes: DataFrame) -> Bag:
    total: Bag = Counter()
    for row in changes.collect():
        fields = row.asDict()
        weight = fields.pop("_weight")
        del fields["_epoch"]
        total[tuple(fields.values())] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def change_every_key(db: Database, timeline: Timeline) -> None:
    model = timeline.at(EPOCH)
    edits = [
        Edit("delete", "orders", tuple(model.orders.values())),
        Edit("delete", "events", tuple(model.events.elements())),
    ]
    transact(db, edits)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", DAMAGES)
def test_damaged_data_is_reported_by_name(
    root: Path, connect: Opener, timeline: Timeline, kind: str, what: str
) -> None:
    name = victim_of(root, kind)
    owner = owner_of(root, name)
    inflict(root, name, DAMAGES[what])
    db = connect(root)
    if owner is not None:
        with pytest.raises(CorruptionError, match=name):
            db.table(owner)
    if kind != "view":
        with pytest.raises(CorruptionError, match=name):
            change_every_key(db, timeline)
        assert db.epoch == EPOCH


@pytest.mark.torture
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("what", DAMAGES)
def test_damage_does_not_spread(
    root: Path, connect: Opener, timeline: Timeline, kind: str, what: str
) -> None:
    """What does not need the file is read as if nothing had happened."""
    name = victim_of(root, kind)
    owner = owner_of(root, name)
    inflict(root, name, DAMAGES[what])
    assert read_everything(connect(root), timeline, name) == ([] if owner is None else [owner])


@pytest.mark.parametrize(
    "kind", ["table", "arrange", pytest.param("group", marks=pytest.mark.torture)]
)
def test_damage_found_by_a_spark_task_is_reported_by_name(
    root: Path, connect: Opener, timeline: Timeline, kind: str
) -> None:
    name = victim_of(root, kind)
    inflict(root, name, DAMAGES["flipped in the body"])
    db = connect(root)
    db.place("spark")
    with pytest.raises(CorruptionError, match=name):
        change_every_key(db, timeline)
    assert db.epoch == EPOCH


def test_a_damaged_view_is_not_read_by_spark_tasks(
    root: Path, connect: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows are read when Spark wants them, so the error is Spark's; it quotes ours."""
    monkeypatch.setattr(contents, "INLINE_ROWS", 0)
    name = victim_of(root, "view")
    owner = owner_of(root, name)
    assert owner is not None
    inflict(root, name, DAMAGES["flipped in the body"])
    with pytest.raises(PySparkException, match=f"CorruptionError: file '{name}'"):
        connect(root).table(owner).collect()


def log_files(root: Path) -> list[str]:
    return sorted(f"log/{path.name}" for path in (root / "log").iterdir())


def test_a_damaged_log_is_reported_by_name(root: Path, timeline: Timeline) -> None:
    good = image_of(root)
    names = log_files(root)
    assert [name[-10:] for name in names] == ["checkpoint", "011.record", "012.record"]
    random_ = random.Random(1)
    for name in names:
        size = len(good[name])
        places = [*range(24), *(random_.randrange(size) for _ in range(60)), size - 1]
        damages = [flip(place / size) for place in places]
        damages += [damage for what, damage in DAMAGES.items() if damage and "flip" not in what]
        damages += [first(n) for n in (1, 16, 17, 18, size // 2)]
        for damage in damages:
            inflict(root, name, damage)
            with pytest.raises(CorruptionError, match=name):
                load(root)
            restore(good, root)
    check_files(root, timeline, [EPOCH])


def test_a_log_file_may_not_be_missing(root: Path, timeline: Timeline) -> None:
    good = image_of(root)
    checkpoint, middle, last = log_files(root)
    inflict(root, checkpoint, None)
    with pytest.raises(CorruptionError, match="no checkpoint"):
        load(root)
    restore(good, root)
    inflict(root, middle, None)
    with pytest.raises(CorruptionError, match="lacks the record of epoch 11"):
        load(root)
    restore(good, root)
    inflict(root, last, None)
    with pytest.raises(CorruptionError, match=f"epoch {EPOCH} had been committed"):
        load(root)
    inflict(root, middle, None)
    with pytest.raises(CorruptionError, match=f"epochs {EPOCH - 1} to {EPOCH} had been"):
        load(root)
    # A database of an older version has recorded no head, and neither has one that gave it up.
    shutil.rmtree(root / "lease")
    check_files(root, timeline, [EPOCH - 2])


def test_a_failed_open_releases_the_lock(root: Path, connect: Opener) -> None:
    good = image_of(root)
    inflict(root, log_files(root)[0], flip(0.5))
    with pytest.raises(CorruptionError, match="checkpoint"):
        connect(root)
    restore(good, root)
    assert connect(root).epoch == EPOCH


def test_a_lost_log_is_not_taken_for_a_new_database(
    database_at: Callable[[int], Path], connect: Opener
) -> None:
    """Right after a checkpoint it is the whole log."""
    root = database_at(SETUP + 5)
    good = image_of(root)
    [only] = log_files(root)
    inflict(root, only, None)
    with pytest.raises(CorruptionError, match="log"):
        connect(root)
    kept = image_of(root)
    assert all(kept.get(name) == data for name, data in good.items() if name.startswith("data/"))
