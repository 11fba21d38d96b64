"""Epochs: snapshots, change feeds, retention, readers and writers, and the files behind them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import ClosedError, DefinitionError, HistoryError, LockedError
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, rows, weighted


def fill(db: Database) -> list[int]:
    """A table and a view through four epochs; gives the epochs."""
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.create_view("v", "SELECT a, sum(b) AS s FROM t GROUP BY a")
    epochs = [db.epoch]
    for given in ([(1, 1), (2, 2)], [(1, 3)], [(3, 3), (3, 3)]):
        with db.transaction() as tx:
            tx.insert("t", given)
        epochs.append(db.epoch)
    with db.transaction() as tx:
        tx.delete("t", [(1, 1), (3, 3)])
    epochs.append(db.epoch)
    return epochs


def test_snapshots_of_every_epoch(db: Database) -> None:
    epochs = fill(db)
    tables = [[], [(1, 1), (2, 2)], [(1, 1), (1, 3), (2, 2)]]
    tables += [[(1, 1), (1, 3), (2, 2), (3, 3), (3, 3)], [(1, 3), (2, 2), (3, 3)]]
    views = [[], [(1, 1), (2, 2)], [(1, 4), (2, 2)], [(1, 4), (2, 2), (3, 6)]]
    views += [[(1, 3), (2, 2), (3, 3)]]
    for epoch, table, view in zip(epochs, tables, views, strict=True):
        assert rows(db, "t", epoch) == bag(table)
        assert rows(db, "v", epoch) == bag(view)


def test_changes_since_an_epoch(db: Database) -> None:
    epochs = fill(db)
    assert weighted(db.changes("v", since=epochs[0])) == rows(db, "v")
    last = weighted(db.changes("v", since=epochs[-2]))
    assert last == {(1, 4): -1, (1, 3): 1, (3, 6): -1, (3, 3): 1}
    assert not weighted(db.changes("v", since=epochs[-1]))
    found = {row["_epoch"] for row in db.changes("t").collect()}
    assert found == set(epochs[1:])
    for since in epochs:
        assert weighted(db.changes("v", since=since)) == {
            row: count
            for row, count in _minus(rows(db, "v"), rows(db, "v", since)).items()
            if count
        }


def _minus(one: dict[object, int], other: dict[object, int]) -> dict[object, int]:
    return {row: one.get(row, 0) - other.get(row, 0) for row in {*one, *other}}


def test_epochs_out_of_range_are_refused(db: Database) -> None:
    fill(db)
    with pytest.raises(HistoryError, match="not been committed"):
        db.changes("v", since=db.epoch + 1)
    with pytest.raises(HistoryError, match="not been committed"):
        db.table("v", epoch=db.epoch + 1)
    with pytest.raises(HistoryError, match="did not exist"):
        db.table("v", epoch=1)


@pytest.mark.parametrize("epoch", ["x", "1", 1.5, True])
def test_an_epoch_is_a_whole_number(db: Database, epoch: Any) -> None:
    fill(db)
    for read in (db.table, db.changes):
        with pytest.raises(HistoryError, match=f"{epoch!r} is not an epoch"):
            read("v", epoch)
    with pytest.raises(HistoryError, match="None is not an epoch"):
        db.changes("v", since=None)  # type: ignore[arg-type]


def test_a_table_has_no_contents_before_its_creation(
    db: Database, warehouse: str, spark: SparkSession
) -> None:
    db.sql("CREATE TABLE first (a INT)")
    db.sql("INSERT INTO first VALUES (1)")
    db.sql("CREATE TABLE late (a INT)")
    created = db.epoch
    db.sql("INSERT INTO late VALUES (1)")
    with rekindle.connect(warehouse, spark=spark, mode="read") as reader:
        for each in (db, reader):
            assert not rows(each, "late", created)
            with pytest.raises(HistoryError, match=f"created at epoch {created}") as caught:
                each.table("late", epoch=created - 1)
            assert caught.value.message == f"table 'late' did not exist at epoch {created - 1}"
            assert rows(each, "first", created - 1) == bag([(1,)])


def test_retention_forgets_old_changes(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark, retain=2) as db:
        epochs = fill(db)
        with pytest.raises(HistoryError, match="no longer retained"):
            db.changes("v", since=epochs[1])
        with pytest.raises(HistoryError, match="no longer retained"):
            db.changes("v")
        with pytest.raises(HistoryError):
            db.table("v", epoch=epochs[1])
        assert rows(db, "v", epochs[-3]) == bag([(1, 4), (2, 2)])
        assert rows(db, "v") == bag([(1, 3), (2, 2), (3, 3)])
        db.check("v")
    with rekindle.connect(warehouse, spark=spark) as db:
        with pytest.raises(HistoryError):
            db.changes("v")
        assert rows(db, "v") == bag([(1, 3), (2, 2), (3, 3)])


def test_dropping_a_view_frees_its_files(db: Database, warehouse: str) -> None:
    fill(db)
    data = Path(warehouse) / "data"
    db.collect()
    table_only = {p.parent.name for p in data.rglob("*.arrow")}
    db.create_view("w", "SELECT x.a, y.b FROM t x JOIN t y ON x.a = y.b")
    assert {p.parent.name for p in data.rglob("*.arrow")} > table_only
    db.drop_view("w")
    db.collect()
    assert {p.parent.name for p in data.rglob("*.arrow")} == table_only
    db.drop_view("v")
    db.drop_table("t")
    db.collect()
    assert not list(data.rglob("*.arrow"))


def test_a_name_can_be_used_again(db: Database) -> None:
    fill(db)
    db.drop_view("v")
    db.drop_table("t")
    db.sql("CREATE TABLE t (s STRING)")
    assert not rows(db, "t") and not weighted(db.changes("t"))
    db.sql("INSERT INTO t VALUES ('x')")
    assert rows(db, "t") == bag([("x",)])


def test_one_writer_and_any_number_of_readers(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        fill(db)
        with pytest.raises(LockedError, match="another connection"):
            rekindle.connect(warehouse, spark=spark)
        with rekindle.connect(warehouse, spark=spark, mode="read") as reader:
            assert reader.epoch == db.epoch
            assert rows(reader, "v") == rows(db, "v")
            db.sql("INSERT INTO t VALUES (9, 9)")
            assert reader.epoch == db.epoch
            assert rows(reader, "v") == rows(db, "v")
            db.create_view("w", "SELECT DISTINCT a FROM t")
            assert rows(reader, "w") == rows(db, "w")
            with pytest.raises(ClosedError, match="reading"):
                reader.sql("INSERT INTO t VALUES (1, 1)")
            reader.check("v")
            reader.check("w")
    with rekindle.connect(warehouse, spark=spark) as db:
        assert rows(db, "v")[(9, 9)] == 1
    with pytest.raises(ClosedError, match="closed"):
        db.table("v")


def test_reading_where_there_is_no_database(warehouse: str, spark: SparkSession) -> None:
    with pytest.raises(DefinitionError, match="no database"):
        rekindle.connect(warehouse, spark=spark, mode="read")


def test_many_epochs_reopen_to_the_same(warehouse: str, spark: SparkSession) -> None:
    """Far enough for checkpoints of the log and merges of runs."""
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (a INT, b INT)")
        db.create_view("v", "SELECT a, sum(b) AS s, count(*) AS n FROM t GROUP BY a")
        for i in range(70):
            with db.transaction() as tx:
                tx.insert("t", [(i % 5, i), (i % 3, 1)])
                if i:
                    tx.delete("t", [((i - 1) % 5, i - 1)])
        epoch, view = db.epoch, rows(db, "v")
        db.check("v")
        assert weighted(db.changes("v")) == view
    with rekindle.connect(warehouse, spark=spark) as db:
        assert db.epoch == epoch
        assert rows(db, "v") == view
        assert weighted(db.changes("v")) == view
        db.sql("INSERT INTO t VALUES (0, 1)")
        db.check("v")
