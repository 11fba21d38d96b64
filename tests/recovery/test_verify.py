"""Every byte is looked at: what is damaged, missing or too much is found by name, without Spark."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import rekindle
from rekindle.errors import DefinitionError
from rekindle.runtime.upkeep.verify import Damage, segments_of, verify
from tests.recovery.conftest import Opener
from tests.recovery.invariants import load
from tests.recovery.test_corruption import DAMAGES
from tests.recovery.workload import SETUP, Timeline, perform

pytestmark = pytest.mark.usefixtures("tight")

EPOCH = SETUP + 7
FOUND = {
    "deleted": Damage.MISSING,
    "emptied": Damage.TRUNCATED,
    "truncated": Damage.TRUNCATED,
    "without its last byte": Damage.TRUNCATED,
    "too long": Damage.TOO_LONG,
}


@pytest.fixture
def root(database_at: Callable[[int], Path]) -> Path:
    return database_at(EPOCH)


def damage(file: Path, how: str) -> None:
    change = DAMAGES[how]
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))


def test_a_whole_database(root: Path) -> None:
    found = verify(str(root))
    state = load(root)
    sizes = [file.stat().st_size for file in (root / "log").iterdir()]
    sizes += [segment.size for segment in segments_of(state).values()]
    assert found.ok and found.epoch == EPOCH
    assert (found.files, found.bytes) == (len(sizes), sum(sizes))
    assert not found.damaged and not found.foreign
    assert "all as committed" in str(found)


@pytest.mark.parametrize("how", DAMAGES)
def test_a_damaged_file_of_the_state(root: Path, how: str) -> None:
    """Every file, that of the history alone too, is found when it is damaged in any way."""
    state = load(root)
    kept = {s.path for trace in state.traces.values() for s in trace.segments}
    old = sorted(set(segments_of(state)) - kept)
    assert old, "some files are of the history alone"
    for path in (min(kept), max(kept), old[0], old[-1]):
        whole = (root / path).read_bytes()
        damage(root / path, how)
        found = verify(str(root))
        assert not found.ok
        assert [each.path for each in found.damaged] == [path]
        assert found.damaged[0].damage == FOUND.get(how, Damage.CHANGED)
        assert path in str(found) and found.damaged[0].needed_by
        (root / path).write_bytes(whole)
    assert verify(str(root)).ok


def test_the_tables_and_views_that_need_a_file(root: Path) -> None:
    state = load(root)
    node = state.entries["tags"].node
    path = state.traces[node].segments[0].path
    (root / path).unlink()
    (damaged,) = verify(str(root)).damaged
    assert "tags" in damaged.needed_by


@pytest.mark.parametrize("kind", ["record", "checkpoint"])
@pytest.mark.parametrize("how", ["emptied", "truncated", "flipped in the body", "zeroed"])
def test_a_damaged_log(root: Path, kind: str, how: str) -> None:
    file = max((root / "log").glob(f"*.{kind}"))
    damage(file, how)
    found = verify(str(root))
    assert not found.ok
    assert f"log/{file.name}" in [each.path for each in found.damaged]


def test_a_record_that_is_missing(root: Path) -> None:
    min((root / "log").glob("*.record")).unlink()
    found = verify(str(root))
    assert not found.ok and found.epoch is None
    assert "lacks the record of epoch 11" in str(found)


def test_what_nobody_names(root: Path) -> None:
    waiting = root / "data/tags/e0000000003-abcd-00000.arrow"
    waiting.parent.mkdir()
    waiting.write_bytes(b"replaced long ago")
    (root / "log/0000000000000099.record.1-2.tmp").write_bytes(b"of a writer that died")
    (root / "data/notes.txt").write_text("who put this here?")
    found = verify(str(root))
    assert found.ok
    assert "data/notes.txt" in found.foreign and len(found.foreign) == 1
    assert str(waiting.relative_to(root)) in found.waiting
    assert "log/0000000000000099.record.1-2.tmp" in found.waiting


def test_no_database(tmp_path: Path) -> None:
    with pytest.raises(DefinitionError, match="there is no database"):
        verify(str(tmp_path))


def test_a_writer_that_goes_on(
    root: Path, timeline: Timeline, connect: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is removed meanwhile, as nothing needs it any more, is not missing."""
    with connect(root, 4) as db:
        steps = iter(range(EPOCH + 1, EPOCH + 9))

        def meanwhile(done: int, total: int) -> None:
            step = next(steps, None)
            if step is not None:
                perform(db, timeline.step_to(step), "inline")

        assert verify(str(root), meanwhile).ok
        assert db.epoch == EPOCH + 8
        assert db.verify().ok


def test_the_command(root: Path) -> None:
    """It needs neither Java nor Spark, prints JSON, and fails when something is damaged."""

    def run() -> tuple[int, dict[str, object]]:
        code = "from rekindle.cli.main import main; main()"
        done = subprocess.run(
            [sys.executable, "-c", code, "verify", str(root), "--json"],
            env={"PYTHONPATH": str(Path(rekindle.__file__).parents[1]), "PATH": "/nowhere"},
            capture_output=True,
            text=True,
        )
        return done.returncode, json.loads(done.stdout)

    status, said = run()
    assert (status, said["ok"], said["epoch"]) == (0, True, EPOCH)
    damage(root / next(iter(segments_of(load(root)))), "flipped in the body")
    status, said = run()
    assert (status, said["ok"]) == (1, False)
