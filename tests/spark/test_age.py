"""A database of many epochs: its history in few files, as of a number or of a time, in any place.

Limits are so low that a few epochs have recent changes, moved ones and merges of these.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import DefinitionError, HistoryError, StatementError
from rekindle.runtime.database import Database
from rekindle.runtime.epochs import rolling
from rekindle.runtime.epochs.changes import changed
from rekindle.runtime.reading import contents as contents_module
from rekindle.runtime.reading.contents import snapshot
from rekindle.traces import trace as trace_module
from rekindle.traces.partition import ALL_KEYS
from tests.property.oracle import Bag
from tests.spark.helpers import bag, rows, strays, weighted

VIEWS = {
    "sums": "SELECT a, sum(b) AS s, count(*) AS n FROM t GROUP BY a",
    "joined": "SELECT t.a, t.b, u.c FROM t JOIN u ON t.a = u.a",
}
NAMES = ("t", "u", *VIEWS)
TIGHT = [
    (rolling, "RECENT", 3),
    (rolling, "TIMES", 3),
    (trace_module, "LEVEL_ZERO_ROWS", 8),
    (trace_module, "MINIMUM_FUEL", 16),
    (trace_module, "_SMALLEST_PIECE", 8),
]


@pytest.fixture(autouse=True)
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name, value in TIGHT:
        monkeypatch.setattr(module, name, value)


class Past:
    """What everything held at each epoch."""

    def __init__(self, db: Database) -> None:
        db.sql("CREATE TABLE t (a INT, b INT)")
        db.sql("CREATE TABLE u (a INT, c STRING, PRIMARY KEY (a))")
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        self.first = db.epoch
        self.held: dict[int, dict[str, Bag]] = {}
        self._chance = random.Random(7)
        self._rows: list[tuple[int, int]] = []
        self.note(db)

    def note(self, db: Database) -> None:
        """Remember what there is now."""
        state = db._engine.state
        self.held[state.epoch] = {name: read(db, name) for name in NAMES}

    def step(self, db: Database, placement: str | None = None) -> None:
        chance = self._chance
        db.place(placement)
        with db.transaction() as tx:
            fresh = [(chance.randrange(4), chance.randrange(9)) for _ in range(3)]
            tx.insert("t", fresh)
            if len(self._rows) > 4:
                tx.delete("t", [self._rows.pop(chance.randrange(len(self._rows)))])
            tx.upsert("u", [(chance.randrange(4), f"c{chance.randrange(5)}")])
        db.place(None)
        self._rows += fresh
        self.note(db)

    def check(self, db: Database, through_spark: Collection[int] = ()) -> None:
        """Contents at epochs, changes since them, and that the ones are the sum of the others.

        All retained epochs are read from the files, and some through Spark too.
        """
        for epoch in self.held:
            if not db._engine.state.horizon <= epoch <= db.epoch:
                continue
            for name, now in self.held[db.epoch].items():
                held = self.held[epoch][name]
                changes = {row: now.get(row, 0) - held.get(row, 0) for row in {*now, *held}}
                expected = {row: weight for row, weight in changes.items() if weight}
                assert read(db, name, epoch) == held, (name, epoch)
                assert read_changes(db, name, epoch) == expected, (name, epoch)
                if epoch in through_spark:
                    assert rows(db, name, epoch) == held, (name, epoch)
                    assert weighted(db.changes(name, since=epoch)) == expected, (name, epoch)


def read(db: Database, name: str, epoch: int | None = None) -> Bag:
    """What a table or view held, from its files."""
    state = db._engine.state
    entry = state.entry(name)
    undone = None if epoch is None else state.undone(name, epoch)
    tables = snapshot(state.traces[entry.node], undone, db._engine.store, ALL_KEYS)
    return total(table for table in tables)


def read_changes(db: Database, name: str, since: int) -> Bag:
    """The sum of changes, from their files."""
    state = db._engine.state
    layout = state.traces[state.entry(name).node].layout
    return total(rows for rows, _ in changed(state.changes(name, since), layout, db._engine.store))


def total(tables: Iterable[pa.Table]) -> Bag:
    found: Bag = Counter()
    for table in tables:
        columns = [table.column(n).to_pylist() for n in table.column_names if n[0] == "c"]
        for *row, weight in zip(*columns, table.column("_weight").to_pylist(), strict=True):
            found[tuple(row)] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


def is_moved(db: Database, name: str) -> bool:
    state = db._engine.state
    return state.history[state.entry(name).node].older is not None


def test_every_epoch_is_there_after_moves_and_reopening(
    warehouse: str, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    with rekindle.connect(warehouse, spark) as db:
        past = Past(db)
        for number in range(12):
            past.step(db, "spark" if number % 5 == 4 else "inline")
        assert all(is_moved(db, name) for name in NAMES)
        past.check(db, [past.first + 2])
        assert not strays(db)
        with monkeypatch.context() as patch:
            patch.setattr(contents_module, "INLINE_ROWS", 0)
            past.check(db, [past.first + 7])
    with rekindle.connect(warehouse, spark, mode="read") as db:
        past.check(db)
        source = spark.read.format("rekindle").option("epoch", past.first + 3)
        found = source.load(f"{warehouse}/sums").collect()
        assert bag([tuple(row) for row in found]) == past.held[past.first + 3]["sums"]
    assert rekindle.verify(warehouse).ok


def test_a_backup_has_the_history(warehouse: str, spark: SparkSession, tmp_path: Path) -> None:
    with rekindle.connect(warehouse, spark) as db:
        past = Past(db)
        for _ in range(9):
            past.step(db)
        db.backup(str(tmp_path / "backup"))
        epoch = db.epoch
    for wanted in (None, past.first + 5):
        target = str(tmp_path / f"restored-{wanted}")
        rekindle.restore(
            str(tmp_path / "backup"), target, wanted, connect=lambda p: rekindle.connect(p, spark)
        )
        with rekindle.connect(target, spark) as db:
            assert db.epoch == (wanted or epoch)
            past.check(db)
            assert db.commits().count() == db.epoch
            db.sql("INSERT INTO t VALUES (1, 1)")
            db.check("sums")


def test_a_new_column_reaches_moved_changes(db: Database) -> None:
    past = Past(db)
    for _ in range(8):
        past.step(db)
    assert is_moved(db, "t")
    db.sql("ALTER TABLE t ADD COLUMN (x STRING)")
    for epoch, held in past.held.items():
        wide = {(*row, None): count for row, count in held["t"].items()}
        assert read(db, "t", epoch) == wide
        assert read(db, "sums", epoch) == held["sums"]
    assert weighted(db.changes("t")) == rows(db, "t")
    db.sql("INSERT INTO t VALUES (1, 2, 'x')")
    db.sql("DELETE FROM t WHERE x IS NULL AND a = 1")
    assert weighted(db.changes("t")) == rows(db, "t")
    db.check("sums")


def test_retention_is_remembered(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark) as db:
        past = Past(db)
        for _ in range(7):
            past.step(db)
        assert db.retention is None
        db.sql("ALTER DATABASE SET (retain = 5)")
        past.note(db)
        assert db.retention == 5
        for _ in range(7):
            past.step(db)
    with rekindle.connect(warehouse, spark) as db:
        assert db.retention == 5
        past.step(db)
        kept = range(db.epoch - 5, db.epoch + 1)
        past.check(db, [kept[0]])
        with pytest.raises(HistoryError, match="no longer retained"):
            db.table("t", kept[0] - 1)
        listed = [row["_epoch"] for row in db.commits().collect()]
        assert sorted(listed) == list(kept)
        db.sql("ALTER DATABASE SET (retain = 'all')")
        assert db.retention is None
        past.note(db)
    with rekindle.connect(warehouse, spark, retain=2) as db:
        assert db.retention == 2
        past.step(db)
        past.step(db)
        with pytest.raises(HistoryError, match="no longer retained"):
            db.changes("t", db.epoch - 3)
        past.check(db)


def test_files_stay_few(warehouse: str, spark: SparkSession, monkeypatch: Any) -> None:
    monkeypatch.setattr("rekindle.runtime.epochs.garbage.GRACE_SECONDS", 0.0)
    monkeypatch.setattr("rekindle.runtime.epochs.garbage.GRACE_EPOCHS", 0)
    counts = []
    with rekindle.connect(warehouse, spark) as db:
        db.sql("CREATE TABLE t (a INT, b INT)")
        db.create_view("v", "SELECT a, sum(b) AS s FROM t GROUP BY a")
        for number in range(60):
            with db.transaction() as tx:
                tx.insert("t", [(number % 3, number)])
            counts.append(len(list(Path(warehouse).rglob("*.arrow"))))
        assert max(counts[40:]) <= 1.3 * max(counts[20:40])
        assert weighted(db.changes("v")) == rows(db, "v")
        waiting = counts[-1] - len(db._engine.state.paths)
        assert [row["files_removed"] for row in db.sql("VACUUM").collect()] == [waiting]
        found = {str(path.relative_to(warehouse)) for path in Path(warehouse).rglob("*.arrow")}
        assert found == db._engine.state.paths
        assert [row["files_removed"] for row in db.sql("VACUUM").collect()] == [0]


def test_contents_as_of_a_time(warehouse: str, spark: SparkSession) -> None:
    zone = spark.conf.get("spark.sql.session.timeZone")
    try:
        spark.conf.set("spark.sql.session.timeZone", "America/New_York")
        with rekindle.connect(warehouse, spark) as db:
            past = Past(db)
            for _ in range(7):
                past.step(db)
            query = "unix_micros(_commit_timestamp) AS t"
            commits = db.commits().selectExpr("_epoch", query).collect()
            assert [row["_epoch"] for row in commits] == list(range(1, db.epoch + 1))
            instants = {row["_epoch"]: row["t"] for row in commits}
            for epoch in (past.first, past.first + 2, db.epoch):
                instant = _utc(instants[epoch])
                local = instant.astimezone(dt.timezone(_offset(spark, instants[epoch])))
                for named in (
                    instant,
                    local.replace(tzinfo=None),
                    local.replace(tzinfo=None).isoformat(" "),
                    instant.isoformat(),
                ):
                    assert _at(db, named) == past.held[epoch]["sums"], (epoch, named)
                earlier = instant - dt.timedelta(microseconds=1)
                if epoch > past.first:
                    assert _at(db, earlier) == past.held[epoch - 1]["sums"]
            later = _utc(instants[db.epoch]) + dt.timedelta(days=1)
            assert _at(db, later) == past.held[db.epoch]["sums"]
            with pytest.raises(HistoryError, match="did not exist at epoch 1"):
                db.table("sums", timestamp=_utc(instants[1]))
            with pytest.raises(HistoryError, match="nothing had been committed at 2001"):
                db.table("sums", timestamp="2001-01-01")
            with pytest.raises(HistoryError, match="an epoch or as of a time"):
                db.table("sums", 3, timestamp="2001-01-01")
            for wrong in ("soon", 7, True):
                with pytest.raises(HistoryError, match="is not a time"):
                    db.table("sums", timestamp=wrong)  # type: ignore[arg-type]
            assert db.commits(db.epoch - 2).count() == 2
            with pytest.raises(HistoryError, match="not been committed"):
                db.commits(db.epoch + 1)
            db.retain(2)
            with pytest.raises(HistoryError, match="no longer retained"):
                db.table("sums", timestamp=_utc(instants[past.first]))
    finally:
        spark.conf.set("spark.sql.session.timeZone", str(zone))


def _utc(instant: int) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=instant)


def _offset(spark: SparkSession, instant: int) -> dt.timedelta:
    shown = spark.sql(f"SELECT CAST(timestamp_micros({instant}) AS STRING) AS s").collect()[0].s
    naive = dt.datetime.fromisoformat(shown).replace(tzinfo=dt.UTC)
    return dt.timedelta(seconds=round((naive - _utc(instant)).total_seconds()))


def _at(db: Database, named: Any) -> Bag:
    return bag([tuple(row) for row in db.table("sums", timestamp=named).collect()])


@pytest.mark.parametrize("wrong", [0, -1, True, "some", 1.5])
def test_retention_that_is_none(db: Database, wrong: Any, warehouse: str) -> None:
    with pytest.raises(DefinitionError, match="retain must be at least 1 epoch"):
        db.retain(wrong)
    with pytest.raises(DefinitionError, match="retain must be at least 1 epoch"):
        rekindle.connect(f"{warehouse}-2", retain=wrong)


@pytest.mark.parametrize("settings", ["", "retain", "retain = x", "keep = 3", "retain = 1, b = 2"])
def test_settings_that_cannot_be_read(db: Database, settings: str) -> None:
    with pytest.raises(StatementError, match="cannot be read"):
        db.sql(f"ALTER DATABASE SET ({settings})")
