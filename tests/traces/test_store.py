"""Files: what is written is what is read, or a `CorruptionError` that names the file."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from rekindle.errors import CorruptionError
from rekindle.traces import Durability, Run, Segment, Store, run_of
from rekindle.traces.opened import OPEN_SEGMENTS
from rekindle.traces.packed import rows_at
from rekindle.traces.store import cut_between_keys
from tests.traces.model import arranged, names

TABLE = arranged((row, 1) for row in range(40))


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(str(tmp_path))


@pytest.mark.parametrize("durability", list(Durability))
@pytest.mark.parametrize("streamed", [0, 2**22])
def test_round_trip(
    store: Store, durability: Durability, streamed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.traces.store._STREAMED_BYTES", streamed)
    segment = store.write("deep/er/a.arrow", TABLE, durability)
    store.flush([segment.path])
    assert (segment.low, segment.high, segment.rows) == (-(2**63), 2**63 - 1, 40)
    for _ in range(2):
        opened = store.open(segment)
        assert opened.table.equals(TABLE)
        assert opened.keys.tolist() == TABLE.column("_key").to_pylist()
        OPEN_SEGMENTS.clear()
    assert store.list() == ["deep/er/a.arrow"]
    assert store.list("nowhere") == []


@pytest.mark.parametrize("count", [1, 3])
def test_files_are_durable_with_their_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Once `flush` is over no bytes can be lost, nor the name of a file or of a directory."""
    store = Store(str(tmp_path))
    paths = [f"data/node{i}/a.arrow" for i in range(count)]
    for path in paths:
        store.write(path, TABLE, Durability.DEFERRED)
    synced: list[str] = []
    monkeypatch.setattr("rekindle.traces.store._sync", synced.append)
    monkeypatch.setattr("rekindle.traces.store._NAMED", set())
    store.flush(paths)
    wanted = {Path(store.root), Path(store.root, "data")}
    for path in paths:
        wanted |= {Path(store.root, path), Path(store.root, path).parent}
    assert {Path(place) for place in synced} == wanted


def test_works_on_other_filesystems_and_through_pickle() -> None:
    store = pickle.loads(pickle.dumps(Store("mock:///root")))
    segment = store.write("x/a.arrow", TABLE)
    OPEN_SEGMENTS.clear()
    assert store.open(segment).table.equals(TABLE)
    store.write_atomically("log/1", b"one")
    store.write_atomically("log/1", b"two")
    store.flush(["log/1"])
    assert store.list() == ["log/1", "x/a.arrow"]
    assert store.read_bytes("log/1") == b"two"
    store.delete(["log/1", "log/1"])
    assert not store.exists("log/1") and store.exists("x/a.arrow")
    with pytest.raises(CorruptionError, match=r"x/b\.arrow"):
        store.open(Segment("x/b.arrow", 1, 0, 0, 1, "", 1))


def test_a_flipped_byte_is_never_read(store: Store) -> None:
    segment = store.write("a.arrow", arranged([(1, 1), (2, 1)]))
    good = store.read_bytes("a.arrow")
    path = Path(store.locate("a.arrow"))
    for position in range(len(good)):
        bad = bytearray(good)
        bad[position] ^= 1 << (position % 8)
        path.write_bytes(bad)
        OPEN_SEGMENTS.clear()
        with pytest.raises(CorruptionError, match=r"a\.arrow.*checksum mismatch"):
            store.open(segment)
    path.write_bytes(good)
    store.open(segment)


def test_a_truncated_or_missing_file_is_named(store: Store) -> None:
    segment = store.write("a.arrow", TABLE)
    OPEN_SEGMENTS.clear()
    good = store.read_bytes("a.arrow")
    path = Path(store.locate("a.arrow"))
    for length in range(0, len(good), 97):
        path.write_bytes(good[:length])
        with pytest.raises(CorruptionError, match=r"a\.arrow' is truncated"):
            store.open(segment)
    path.write_bytes(good + b"!")
    with pytest.raises(CorruptionError, match=r"a\.arrow' is too long"):
        store.open(segment)
    path.unlink()
    with pytest.raises(CorruptionError, match=r"a\.arrow' is missing") as caught:
        store.open(segment)
    assert caught.value.hint


def test_what_was_written_is_not_opened_again_unless_it_is_large(store: Store) -> None:
    small = store.write("small.arrow", TABLE)
    large = store.write("large.arrow", arranged([(i, 1) for i in range(5_000)]))
    Path(store.locate("small.arrow")).unlink()
    Path(store.locate("large.arrow")).unlink()
    assert store.open(small).table.equals(TABLE)
    with pytest.raises(CorruptionError, match="missing"):
        store.open(large)


def test_a_retried_write_is_seen(store: Store) -> None:
    first = store.write("a.arrow", TABLE)
    store.open(first)
    second = store.write("a.arrow", TABLE.slice(0, 3))
    assert store.open(second).table.num_rows == 3
    with pytest.raises(CorruptionError):
        store.open(first)


def test_a_failed_write_leaves_no_final_name(store: Store) -> None:
    class Boom(Exception):
        pass

    def produce(write: object) -> None:
        raise Boom

    with pytest.raises(Boom):
        store._publish("a.arrow", produce, Durability.IMMEDIATE)
    assert not store.exists("a.arrow")
    assert store.list() == []


def test_runs_are_cut_between_keys(store: Store) -> None:
    run = store.write_run(TABLE, names(), maximum_rows=6)
    assert len(run.segments) == 8 and run.rows == 40
    assert pa.concat_tables([store.open(s).table for s in run.segments]).equals(TABLE)
    assert run_of([None, *reversed(run.segments)]) == run
    assert Run.from_json(run.to_json()) == run
    assert store.write_run(TABLE.slice(0, 0), names()) == Run(())
    with pytest.raises(ValueError, match="overlap"):
        Run((run.segments[1], run.segments[0]))


@pytest.mark.parametrize(
    ("keys", "limit", "cuts"),
    [
        ([], 3, [0, 0]),
        ([1, 2, 3], 3, [0, 3]),
        ([1, 2, 2, 2], 2, [0, 1, 4]),
        ([1, 1, 1, 2], 2, [0, 3, 4]),
        ([1, 1, 1, 1], 2, [0, 4]),
        ([1, 2, 3, 4, 5], 2, [0, 2, 4, 5]),
    ],
)
def test_cuts(keys: list[int], limit: int, cuts: list[int]) -> None:
    assert list(cut_between_keys(np.array(keys, dtype=np.int64), limit)) == cuts


def test_a_large_file_is_mapped_for_single_rows_and_for_all(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.traces.store.LARGE_BYTES", 1)
    segment = store.write("a.arrow", TABLE)
    OPEN_SEGMENTS.clear()
    found = store.open(segment)
    assert found.table.equals(found.in_order)
    assert found.table.column("c2").chunk(0).buffers()[1].address != (
        found.in_order.column("c2").chunk(0).buffers()[1].address
    )
    assert found.of_columns(["_key", "c2"]).in_order.column_names == ["_key", "c2"]


def test_many_rows_are_gathered_side_by_side() -> None:
    table = pa.table({"a": np.arange(50_000), "s": list(map(str, range(50_000)))})
    indices = np.random.default_rng(7).integers(0, 50_000, 30_001)
    assert rows_at(table, indices).equals(table.take(pa.array(indices)))
