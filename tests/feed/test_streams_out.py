"""Contents and changes handed out: as Arrow, to subscribers, by the data source and as a stream.

The law: what was there first, plus the changes after it, is what is there now, however the epochs
are parted.
"""

from __future__ import annotations

import datetime as dt
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import rekindle
from rekindle.errors import ClosedError, SubscriptionError
from rekindle.runtime.database import Database
from rekindle.runtime.reading.subscriptions import Batch
from rekindle.traces.reader import TraceReader

NAMES = ("orders", "spend", "customers")


@pytest.fixture(scope="module")
def shop(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("shop") / "w"), spark=spark) as db:
        db.sql("CREATE TABLE orders (id BIGINT, cust STRING, total DECIMAL(9,2), PRIMARY KEY (id))")
        db.create_view("spend", "SELECT cust, sum(total) AS t FROM orders GROUP BY cust")
        db.create_table(
            "customers", "id BIGINT, orders ARRAY<STRUCT<okey: INT, part: STRING>>", ["id"]
        )
        db.sql("INSERT INTO orders VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, NULL, 1.0)")
        db.sql("INSERT INTO customers VALUES (1, array(named_struct('okey', 1, 'part', 'x')))")
        db.sql("UPDATE orders SET total = 9 WHERE id = 2")
        db.sql("DELETE FROM orders WHERE id = 1")
        with db.transaction() as tx:
            tx.nested("customers", 1, "orders").insert([(2, "y")])
        yield db


def _bag(table: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.to_pylist())


def _rows(frame: DataFrame) -> Counter[str]:
    return Counter(repr(row.asDict(True)) for row in frame.collect())


def _jobs(db: Database) -> int:
    context: Any = db.spark.sparkContext
    return int(context._jsc.sc().dagScheduler().nextJobId())


def _summed(tables: list[pa.Table]) -> Counter[str]:
    found: Counter[str] = Counter()
    for table in tables:
        for row in table.to_pylist():
            row.pop("_epoch")
            weight = row.pop("_weight")
            found[repr(row)] += weight
    return Counter({row: weight for row, weight in found.items() if weight})


@pytest.mark.parametrize("name", NAMES)
def test_arrow_is_what_spark_reads_and_starts_no_job(shop: Database, name: str) -> None:
    before = _jobs(shop)
    contents, changes = shop.arrow(name), shop.changes_arrow(name)
    assert _jobs(shop) == before
    assert _bag(contents) == _rows(shop.table(name))
    assert _bag(changes) == _rows(shop.changes(name))
    assert _summed([changes]) == _bag(contents)


@pytest.mark.parametrize("name", NAMES)
def test_contents_and_later_changes_are_the_contents_now(shop: Database, name: str) -> None:
    created = shop._engine.state.entry(name).created
    for epoch in range(created, shop.epoch + 1):
        first = shop.arrow(name, epoch=epoch)
        later = shop.changes_arrow(name, since=epoch)
        there = _summed([_weighted(first), later])
        assert there == _bag(shop.arrow(name))


def _weighted(table: pa.Table) -> pa.Table:
    ones = pa.array([1] * len(table), pa.int64())
    return table.append_column("_epoch", ones).append_column("_weight", ones)


def test_a_process_without_java_reads(shop: Database) -> None:
    code = (
        "import rekindle, sys; r = rekindle.read(sys.argv[1]); print(r.epoch, r.tables, r.views, "
        "[r.arrow(n).num_rows for n in ('orders', 'spend', 'customers')], "
        "r.changes_arrow('customers').num_rows, r.arrow('orders', where={'id': 2}).to_pylist())"
    )
    environment = {**os.environ, "JAVA_HOME": "/nonexistent", "PATH": "/nonexistent"}
    done = subprocess.run(
        [sys.executable, "-c", code, shop.path], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"{shop.epoch} ['orders', 'customers'] ['spend'] [2, 2, 1] 3")
    assert "'cust': 'b'" in done.stdout


def test_a_key_is_looked_up_and_nothing_is_scanned(
    shop: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def scanned(*_: object) -> None:
        raise AssertionError("all rows were read")

    monkeypatch.setattr(TraceReader, "scan", scanned)
    monkeypatch.setattr(TraceReader, "chosen", scanned)
    assert shop.arrow("orders", where={"id": [2, 77]}).column("cust").to_pylist() == ["b"]
    assert len(shop.arrow("customers", where={"id": 1}).to_pylist()[0]["orders"]) == 2
    monkeypatch.undo()
    assert shop.arrow("spend", where={"cust": "b"}).num_rows == 1


def test_subscribers_are_told_each_epoch_once(shop: Database) -> None:
    told: list[Batch] = []

    def failing(batch: Batch) -> None:
        raise ValueError("no")

    everything = shop.subscribe("spend", told.append, since=0)
    broken = shop.subscribe("spend", failing)
    with shop.subscribe("spend") as changes:
        shop.sql("INSERT INTO orders VALUES (5, 'b', 1)")
        before = _jobs(shop)
        batch = changes.next(30)
        assert batch is not None and batch.epoch == shop.epoch and batch.timestamp is not None
        assert _jobs(shop) == before
    assert everything.wait(timeout=30)
    assert [b.epoch for b in told] == sorted({b.epoch for b in told})
    assert _summed([b.table for b in told]) == _bag(shop.arrow("spend"))
    with pytest.raises(SubscriptionError, match="failed at epoch"):
        broken.wait(timeout=30)
    with pytest.raises(ClosedError, match="go to the callback"):
        everything.next(0)
    everything.close()
    shop.sql("INSERT INTO orders VALUES (6, 'c', 1)")
    assert told[-1].epoch < shop.epoch


def test_a_callback_may_close_its_subscription_and_cannot_wait_for_it(shop: Database) -> None:
    told: list[int] = []

    def close(batch: Batch) -> None:
        told.append(batch.epoch)
        closing.close()

    def wait(_: Batch) -> None:
        waiting.wait()

    closing, waiting = shop.subscribe("orders", close), shop.subscribe("orders", wait)
    for number in (71, 72):
        shop.sql(f"INSERT INTO orders VALUES ({number}, 'e', 1)")
    with pytest.raises(SubscriptionError, match="would wait for itself"):
        waiting.wait(timeout=30)
    assert not closing.wait(timeout=30) and closing.is_closed
    closing.close()
    assert told == [shop.epoch - 1] and closing.error is None


def test_the_data_source_reads_changes(shop: Database, spark: SparkSession) -> None:
    path = f"{shop.path}/orders"
    read = spark.read.format("rekindle").option("ReadChangeFeed", "true")
    feed = read.load(path)
    assert feed.columns == ["_epoch", "_weight", "id", "cust", "total", "_commit_timestamp"]
    assert _rows(feed.drop("_commit_timestamp")) == _rows(shop.changes("orders"))
    update = shop.changes_arrow("orders").to_pandas().query("id == 2")["_epoch"].max()
    cdc = spark.read.format("rekindle").option("changeFormat", "cdc")
    rows = cdc.option("startingVersion", update).option("endingVersion", update).load(path)
    kinds = {(row._change_type, int(row.total)) for row in rows.collect()}
    assert kinds == {("update_preimage", 2), ("update_postimage", 9)}
    assert spark.read.format("rekindle").load(path).where("id = 2").count() == 1


@pytest.mark.parametrize("kind", ["batch", "stream"])
def test_a_feed_begins_and_ends_where_it_is_said(
    shop: Database, spark: SparkSession, kind: str
) -> None:
    """Both ends are inclusive, by the number of an epoch and by the time of its commit."""
    path = f"{shop.path}/orders"
    epochs = sorted(set(shop.changes_arrow("orders").column("_epoch").to_pylist()))
    times = {row._epoch: row._commit_timestamp for row in shop.commits().collect()}

    def read(**options: Any) -> list[int]:
        if kind == "batch":
            reader = spark.read.format("rekindle").options(readChangeFeed="true", **options)
            return sorted({row._epoch for row in reader.load(path).collect()})
        reader = spark.readStream.format("rekindle").options(**options)
        writer = reader.load(path).writeStream.format("memory").queryName("feed")
        query = writer.trigger(availableNow=True).start()
        try:
            query.awaitTermination(120)
        except StreamingQueryException as error:
            raise AssertionError(str(error)) from error
        batches = [each for each in query.recentProgress if each["numInputRows"]]
        found = sorted({row._epoch for row in spark.table("feed").collect()})
        if "maxEpochsPerTrigger" in options:
            assert len(batches) == len(found) > 1
        return found

    middle = epochs[len(epochs) // 2]
    since = [epoch for epoch in epochs if epoch >= middle]
    until = [epoch for epoch in epochs if epoch <= middle]
    at = times[middle].astimezone(dt.UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    assert since != epochs != until
    assert read(startingEpoch=middle) == read(startingTimestamp=at) == since
    assert read(startingVersion=1, endingVersion=middle) == until
    assert read(startingEpoch=1, endingTimestamp=at) == until
    assert read(startingEpoch="latest") == []
    assert read(startingVersion=middle, endingEpoch=middle) == [middle]
    if kind == "stream":
        assert read(startingEpoch=1, maxEpochsPerTrigger=1) == epochs
    for wrong, words in [
        ({"startingEpok": 1}, "unknown option 'startingepok'"),
        ({"startingEpoch": 1, "startingVersion": 1}, "say the same"),
        ({"startingEpoch": "first"}, "which is no number"),
        ({"startingEpoch": 10**6}, "1000000"),
        ({"startingVersion": 9, "endingEpoch": 8}, "begin at epoch 9 and end at 8"),
        ({"changeFormat": "delta"}, "changeFormat is 'delta'"),
    ]:
        with pytest.raises((AssertionError, PySparkException), match=words):
            read(**wrong)


def test_a_stream_goes_on_from_its_checkpoint(
    shop: Database, spark: SparkSession, tmp_path: Path
) -> None:
    def run() -> None:
        stream = spark.readStream.format("rekindle").load(f"{shop.path}/spend")
        query = (
            stream.drop("_commit_timestamp")
            .writeStream.format("parquet")
            .option("path", str(tmp_path / "out"))
            .option("checkpointLocation", str(tmp_path / "checkpoint"))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination(120)
        if query.exception() is not None:
            raise AssertionError(str(query.exception()))

    run()
    shop.sql("INSERT INTO orders VALUES (7, 'd', 4)")
    shop.sql("DELETE FROM orders WHERE id = 7")
    run()
    out = spark.read.parquet(str(tmp_path / "out")).toArrow()
    assert _summed([out]) == _bag(shop.arrow("spend"))
    assert len(out.column("_epoch").unique()) == 3
