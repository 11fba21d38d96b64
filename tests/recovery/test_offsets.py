"""The offset of a source is part of the epoch: its rows are there exactly as far as it says."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import ConflictError, DefinitionError
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.log import CommitLog
from rekindle.runtime.transactions import commits
from rekindle.runtime.upkeep.restore import restore as restore_backup
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from tests.recovery.conftest import Opener
from tests.recovery.disk import Disk, crash_images, image_of, restore


def made(db: Database) -> None:
    db.sql("CREATE TABLE t (batch INT, x INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT batch, count(*) AS n FROM t GROUP BY batch")


def bring(db: Database, batch: int, rows: int = 2) -> bool:
    """Insert the rows of a batch, as `foreachBatch` would."""
    with db.transaction() as tx:
        if not tx.once("clicks", batch):
            return False
        tx.insert("t", [(batch, i) for i in range(rows)])
    return True


def batches(db: Database) -> dict[int, int]:
    return {row["batch"]: row["n"] for row in db.table("v").collect()}


def test_a_batch_is_applied_once(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark) as db:
        made(db)
        assert bring(db, 0) and bring(db, 1)
        before = db.epoch
        assert not bring(db, 1) and not bring(db, 0)
        assert db.epoch == before
        assert db.offsets == {"clicks": "1"}
    with rekindle.connect(warehouse, spark) as db:
        assert not bring(db, 1)
        assert bring(db, 4), "numbers may be left out"
        assert batches(db) == {0: 2, 1: 2, 4: 2}


def test_a_repeated_batch_takes_the_whole_transaction_with_it(db: Database) -> None:
    made(db)
    bring(db, 3)
    with db.transaction() as tx:
        tx.insert("t", [(9, 9)])
        assert not tx.once("clicks", 3)
        tx.insert("t", [(9, 9)])
    assert tx.epoch is None
    assert batches(db) == {3: 2}


def test_a_batch_of_no_rows_is_an_epoch(db: Database) -> None:
    made(db)
    before = db.epoch
    assert bring(db, 0, rows=0)
    assert db.epoch == before + 1 and db.offsets == {"clicks": "0"}
    assert not bring(db, 0)


def test_a_failed_or_forgotten_batch_moves_nothing(db: Database) -> None:
    made(db)
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx.once("clicks", 0)
        tx.insert("t", [(0, 0)])
        raise ZeroDivisionError
    with pytest.raises(rekindle.errors.RekindleError), db.transaction() as tx:
        tx.once("clicks", 0)
        tx.delete("t", [(5, 5)])
    assert db.offsets == {}
    assert bring(db, 0)


def test_of_several_who_bring_a_batch_one_does(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    made(db)
    monkeypatch.setattr(commits, "GATHERING_SECONDS", 0.2)
    applied: list[int] = []
    refused: list[int] = []
    start = threading.Barrier(6)

    def work(batch: int) -> None:
        start.wait()
        try:
            if bring(db, batch):
                applied.append(batch)
        except ConflictError as error:
            assert "'clicks' was read on by another transaction" in str(error)
            refused.append(batch)

    for batch in range(3):
        threads = [threading.Thread(target=work, args=(batch,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        start.reset()
    assert applied == [0, 1, 2]
    assert batches(db) == {0: 2, 1: 2, 2: 2}


def test_sources_of_one_group_have_offsets_of_their_own(db: Database) -> None:
    made(db)
    with db.transaction() as tx:
        tx.advance("files", "a.json")
        tx.once("clicks", 0)
        assert tx.offset("files") == "a.json" and tx.offset("clicks") == "0"
        tx.insert("t", [(0, 0)])
    assert db.offsets == {"clicks": "0", "files": "a.json"}
    with (
        pytest.raises(DefinitionError, match="not read by numbered batches"),
        db.transaction() as tx,
    ):
        tx.once("files", 1)


@pytest.mark.parametrize("batch", [-1, True, "7", None, 1.5])
def test_what_is_no_number_of_a_batch(db: Database, batch: object) -> None:
    made(db)
    with (
        pytest.raises(DefinitionError, match="is not the number of a batch"),
        db.transaction() as tx,
    ):
        tx.once("clicks", batch)  # type: ignore[arg-type]
    with (
        pytest.raises(DefinitionError, match="is not the name of a source"),
        db.transaction() as tx,
    ):
        tx.once("", 0)


def test_rows_and_offset_are_there_together_after_any_crash(
    connect: Opener, tmp_path: Path
) -> None:
    root = tmp_path / "warehouse"
    with pytest.MonkeyPatch.context() as patch:
        disk = Disk(root)
        disk.install(patch)
        db = connect(root)
        made(db)
        bring(db, 0)
        before = image_of(root)
        disk.run(lambda: bring(db, 1))
        db.close()
    seen = set()
    for crash in crash_images(before, disk.journal, str(root)):
        restore(crash.image, tmp_path / "image")
        store = Store(str(tmp_path / "image"))
        state = CommitLog(store).load()
        reader = TraceReader.of_trace(state.traces[state.entry("t").node], store)
        brought = set(reader.whole().column("c0").to_pylist())
        assert str(max(brought)) == state.offsets["clicks"].text, crash.how
        seen.add(state.offsets["clicks"].text)
    assert seen == {"0", "1"}


def test_restored_to_an_earlier_epoch(warehouse: str, spark: SparkSession, tmp_path: Path) -> None:
    with rekindle.connect(warehouse, spark) as db:
        made(db)
        bring(db, 0)
        with db.transaction() as tx:
            tx.advance("files", "a.json")
        epoch = db.epoch
        bring(db, 1)
        db.backup(str(tmp_path / "backup"))
    target = str(tmp_path / "again")
    restore_backup(
        str(tmp_path / "backup"), target, epoch, connect=lambda p: rekindle.connect(p, spark)
    )
    with rekindle.connect(target, spark) as db:
        assert batches(db) == {0: 2}
        assert db.offsets == {"clicks": None, "files": "a.json"}
        with pytest.raises(DefinitionError, match="how far 'clicks' had been read is not known"):
            bring(db, 1)
        with db.transaction() as tx:
            tx.advance("clicks", "0")
        assert bring(db, 1)
        assert batches(db) == {0: 2, 1: 2}
