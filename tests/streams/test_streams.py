"""Streams into tables: each micro-batch is one epoch, exactly once."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import (
    ConstraintError,
    CorruptionError,
    DefinitionError,
    RekindleError,
    StatementError,
    StreamError,
    UnknownNameError,
    UntrustedError,
)
from rekindle.runtime.database import Database
from rekindle.runtime.streaming.definition import Source, StreamDefinition
from rekindle.runtime.streaming.handle import Stream, StreamProgress
from tests.streams.drops import Drops

COLUMNS = "id bigint, v string"


def rows(db: Database, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table or view, in order."""
    return sorted((tuple(row) for row in db.table(name).collect()), key=repr)


@pytest.fixture
def drops(tmp_path: Path) -> Drops:
    return Drops(tmp_path / "drops")


def test_a_watched_directory_is_a_table_that_views_follow(
    db: Database, spark: SparkSession, drops: Drops
) -> None:
    db.sql("CREATE TABLE t (id BIGINT NOT NULL, v STRING)")
    db.sql("CREATE MATERIALIZED VIEW n AS SELECT v, count(*) AS n FROM t GROUP BY v")
    drops.drop([{"id": 1, "v": "a"}, {"id": 2, "v": "b"}])
    stream = db.stream("t", drops.stream(spark, COLUMNS))
    stream.process_all_available()
    assert rows(db, "n") == [("a", 1), ("b", 1)]
    before = db.epoch
    drops.drop([{"id": 3, "v": "a"}])
    drops.drop([{"id": 4, "v": "a"}])
    stream.process_all_available()
    assert rows(db, "n") == [("a", 3), ("b", 1)]
    assert db.epoch == before + 2, "a batch is an epoch"
    assert stream.status == "running"
    progress = stream.progress
    assert (progress.batches, progress.rows, progress.batch) == (3, 4, 2)
    assert progress.epoch == db.epoch and progress.rows_per_second is not None
    assert [(s.name, s.status, s.mode) for s in db.streams] == [("t", "running", "append")]
    assert db.verify().ok and not db.verify().foreign
    db.vacuum()
    stream.stop()
    assert stream.status == "stopped" and stream.exception is None
    assert stream.await_termination(1)
    assert db.streams[0].status == "stopped"
    db.check("n")

    drops.drop([{"id": None, "v": "b"}])
    stream = db.stream("t", drops.stream(spark, COLUMNS))
    with pytest.raises(StreamError, match="batch 3 of stream 't'") as caught:
        stream.process_all_available()
    assert "NOT NULL" in caught.value.detail
    assert stream.status == "failed" and stream.exception is not None
    assert len(rows(db, "t")) == 4

    db.sql("CREATE TABLE w (id BIGINT, v STRING)")
    stream = db.stream("w", drops.stream(spark, COLUMNS))
    stream.process_all_available()
    db.sql("ALTER TABLE w ADD COLUMN more INT")
    drops.drop([{"id": 5, "v": "b"}])
    with pytest.raises(StreamError, match="has got other columns"):
        stream.process_all_available()


def test_a_batch_that_spark_forgot_is_not_applied_again(
    warehouse: str, spark: SparkSession, drops: Drops
) -> None:
    notes = Path(warehouse) / "streams" / "t"

    def run(db: Database) -> StreamProgress:
        stream = db.stream("t", drops.stream(spark, COLUMNS), available_now=True)
        assert stream.await_termination(60)
        assert stream.status == "finished"
        return stream.progress

    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id BIGINT, v STRING)")
        for number in range(3):
            drops.drop([{"id": number, "v": "x"}])
        assert run(db).batches == 3
    (notes / "commits" / "2").unlink()
    (notes / "commits" / ".2.crc").unlink()
    drops.drop([{"id": 3, "v": "x"}])
    with rekindle.connect(warehouse, spark=spark) as db:
        progress = run(db)
        assert (progress.repeated, progress.batches) == (1, 1)
        assert rows(db, "t") == [(i, "x") for i in range(4)]

    # As if the plan of the last batch had not reached the disk: its number comes again with others.
    for name in ("commits/3", "commits/.3.crc", "offsets/3", "offsets/.3.crc"):
        (notes / name).unlink()
    for name in ("sources/0/3", "sources/0/.3.crc"):
        (notes / name).unlink()
    drops.drop([{"id": 4, "v": "x"}])
    with rekindle.connect(warehouse, spark=spark) as db:
        stream = db.stream("t", drops.stream(spark, COLUMNS, maxFilesPerTrigger="9"))
        with pytest.raises(StreamError, match="another batch 3 than the one that is there"):
            stream.process_all_available()
        assert rows(db, "t") == [(i, "x") for i in range(4)]


def test_a_lost_checkpoint_is_refused(db: Database, spark: SparkSession, drops: Drops) -> None:
    db.sql("CREATE TABLE t (id BIGINT, v STRING)")
    drops.drop([{"id": 1, "v": "x"}])
    db.stream("t", drops.stream(spark, COLUMNS), available_now=True).await_termination()
    shutil.rmtree(Path(db.path) / "streams")
    with pytest.raises(StreamError, match="checkpoint of stream 't' is lost") as caught:
        db.stream("t", drops.stream(spark, COLUMNS))
    assert "logOffset" in caught.value.hint
    assert rows(db, "t") == [(1, "x")]
    db.sql("DROP STREAM t")
    assert db.streams == [] and "t" not in db.offsets
    db.sql("TRUNCATE TABLE t")
    db.stream("t", drops.stream(spark, COLUMNS), available_now=True).await_termination()
    assert rows(db, "t") == [(1, "x")]


def test_streams_of_sql_are_rebuilt(warehouse: str, spark: SparkSession, drops: Drops) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id BIGINT, v STRING, PRIMARY KEY (id))")
        db.sql("CREATE TABLE u (id BIGINT, v STRING)")
        db.sql(
            f"""CREATE STREAM s INTO t MODE upsert FROM json SCHEMA 'id BIGINT, v STRING, op STRING'
                OPTIONS (path '{drops.path}', maxFilesPerTrigger '1')
                WITH (apply_as_deletes = 'op = ''D''', rejects = 'true')"""
        )
        drops.drop([{"id": 1, "v": "a", "op": "I"}, {"id": 2, "v": "b", "op": "I"}])
        other = Drops(drops.path.parent / "other")
        db.stream("u", other.stream(spark, COLUMNS), name="second")
        shown = db.sql("SHOW STREAMS").collect()
        assert [(r["name"], r["table"], r["status"], r["source"]) for r in shown] == [
            ("s", "t", "running", "json"),
            ("second", "u", "running", "a DataFrame"),
        ]
    with rekindle.connect(warehouse, spark=spark) as db:
        assert [each.status for each in db.streams] == ["stopped", "stopped"]
        with pytest.raises(DefinitionError, match="'second' was given as a DataFrame"):
            db.resume_streams()
        with pytest.raises(UnknownNameError, match="third"):
            db.resume_streams({"third": other.stream(spark, COLUMNS)})
        streams = db.resume_streams({"second": other.stream(spark, COLUMNS)})
        drops.drop([{"id": 1, "v": None, "op": "D"}, {"id": None, "v": "c", "op": "I"}])
        other.drop([{"id": 7, "v": "z"}])
        for stream in streams.values():
            stream.process_all_available()
        assert rows(db, "t") == [(2, "b")]
        assert rows(db, "u") == [(7, "z")]
        (aside,) = rows(db, "t_rejected")
        assert aside[:2] == ("s", 1) and "NOT NULL" in aside[2] and '"v": "c"' in aside[3]
        assert db.resume_streams() == {}
        db.sql("DROP STREAM IF EXISTS nobody")
        db.sql("DROP STREAM s")
        assert [each.name for each in db.streams] == ["second"]


def test_streams_run_beside_each_other(db: Database, spark: SparkSession, tmp_path: Path) -> None:
    """Two into one table and one into another, from several threads, and transactions meanwhile."""
    db.sql("CREATE TABLE t (id BIGINT, v STRING)")
    db.sql("CREATE TABLE u (id BIGINT, v STRING, PRIMARY KEY (id))")
    db.sql(
        "CREATE MATERIALIZED VIEW n AS "
        "SELECT t.v, count(*) AS n FROM t JOIN u USING (id) GROUP BY t.v"
    )
    into = {"first": "t", "second": "t", "third": "u"}
    watched = {name: Drops(tmp_path / name) for name in into}
    for place, drops in enumerate(watched.values()):
        for number in range(4):
            drops.drop([{"id": 100 * place + number * 2 + i, "v": "abc"[place]} for i in range(2)])
    failures: list[BaseException] = []

    def run(name: str) -> None:
        try:
            frame = watched[name].stream(spark, COLUMNS)
            db.stream(into[name], frame, name=name, available_now=True).await_termination()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(name,)) for name in into]
    for thread in threads:
        thread.start()
    for number in range(5):
        with db.transaction() as tx:
            tx.insert("t", [(1000 + number, "d")])
    for thread in threads:
        thread.join()
    assert not failures
    assert sorted(row.id for row in db.table("t").collect()) == [
        *range(8),
        *range(100, 108),
        *range(1000, 1005),
    ]
    assert sorted(row.id for row in db.table("u").collect()) == list(range(200, 208))
    assert {s.name: s.status for s in db.streams} == dict.fromkeys(into, "finished")
    db.check("n")


def test_streams_into_several_tables_are_one_epoch(
    warehouse: str, spark: SparkSession, tmp_path: Path
) -> None:
    """What their sources have at the same time is there together, also after a crash."""
    orders, lines, gone = (Drops(tmp_path / name) for name in ("orders", "lines", "gone"))
    schema = "id bigint, v string, at bigint"

    def frames(order: str = schema) -> dict[str, Any]:
        return {
            "orders": orders.stream(spark, order),
            "lines": (lines.stream(spark, COLUMNS), gone.stream(spark, COLUMNS)),
        }

    def start(db: Database, **how: Any) -> Stream:
        given = frames()
        added, removed = given["lines"]
        upserts = {"mode": "upsert", "sequence_by": "at", "rejects": True}
        return db.stream_together(
            "shop",
            {
                "orders": {"frame": given["orders"], **upserts},
                "lines": {"frame": added, "mode": "changes", "deletes": removed},
            },
            **how,
        )

    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE orders (id BIGINT, v STRING NOT NULL, PRIMARY KEY (id))")
        db.sql("CREATE TABLE lines (id BIGINT, v STRING)")
        db.create_view(
            "n", "SELECT o.v, count(*) AS n FROM orders o JOIN lines USING (id) GROUP BY 1"
        )
        orders.drop([{"id": 1, "v": "a", "at": 2}, {"id": 2, "v": None, "at": 1}])
        lines.drop([{"id": 1, "v": "x"}, {"id": 1, "v": "y"}])
        gone.drop([])
        before = db.epoch
        stream = start(db, available_now=True)
        assert stream.await_termination(120)
        progress = stream.progress
        assert (progress.batches, progress.rows, progress.rejected) == (1, 4, 1)
        assert rows(db, "n") == [("a", 2)]
        for name in ("orders", "lines", "orders_rejected"):
            (epoch,) = {row._epoch for row in db.changes(name).collect()}
            assert epoch == progress.epoch is not None and epoch > before
        (info,) = db.streams
        assert (info.name, info.table, info.mode) == ("shop", "orders, lines", "upsert, changes")
    notes = Path(warehouse) / "streams" / "shop" / "commits"
    for name in ("0", ".0.crc"):
        (notes / name).unlink()
    orders.drop([{"id": 1, "v": "b", "at": 3}, {"id": 1, "v": "late", "at": 1}])
    gone.drop([{"id": 1, "v": "x"}])
    with rekindle.connect(warehouse, spark=spark) as db:
        with pytest.raises(DefinitionError, match="several tables"):
            db.resume_streams({"shop": orders.stream(spark, schema)})
        stream = db.resume_streams({"shop": frames()})["shop"]
        assert stream.await_termination(120)
        progress = stream.progress
        assert (progress.repeated, progress.batches, progress.late) == (1, 1, 1)
        assert db.running_stream("shop") is stream
        assert rows(db, "n") == [("b", 1)]
        db.check("n")
        for wrong, words in [
            ({"orders": orders.stream(spark, schema)}, "goes into 'orders' and 'lines'"),
            ({"orders": {"frame": None, "moed": "append"}}, "option of the rows"),
            ({"orders": orders.stream(spark, schema), "Orders": None}, "given twice"),
            ({}, "is given none"),
        ]:
            with pytest.raises(RekindleError, match=words):
                db.stream_together("shop", wrong)
        # Neither table has rows of a batch that one of them cannot take.
        db.drop_stream("shop")
        db.sql("TRUNCATE TABLE lines")
        gone.drop([{"id": 77, "v": "never there"}])
        stream = start(db)
        with pytest.raises(StreamError, match="could not be applied to 'orders, lines'"):
            stream.process_all_available()
        assert stream.progress.epoch is not None and len(rows(db, "lines")) == 1
        db.check("n")


def test_a_table_outlives_the_streams_into_it(db: Database) -> None:
    """A stream without its table could not go on, or would in the middle of another's rows."""
    for table in ("t", "u"):
        db.create_table(table, "id BIGINT, v STRING")
    both = StreamDefinition("t", beside=(StreamDefinition("u"),))
    db._engine.define_streams({"both": both}, {})
    for table in ("T", "u"):
        with pytest.raises(ConstraintError, match="a stream goes into it: both"):
            db.sql(f"DROP TABLE {table}")
    db.drop_stream("both")
    for table in ("t", "u"):
        db.drop_table(table)
    assert not db.tables


def test_a_stream_that_cannot_start_is_not_stored(
    db: Database, spark: SparkSession, drops: Drops
) -> None:
    db.sql("CREATE TABLE t (id BIGINT, v STRING)")
    frame = drops.stream(spark, COLUMNS)
    with pytest.raises(DefinitionError, match="cannot be triggered every '5 parsecs'"):
        db.stream("t", frame, interval="5 parsecs")
    with pytest.raises(DefinitionError, match="not both"):
        db.stream("t", frame, interval="5 seconds", available_now=True)
    counts = frame.groupBy("v").count().selectExpr("count AS id", "v")
    with pytest.raises(StreamError, match="output mode"):
        db.stream("t", counts)
    assert db.streams == [] and db.resume_streams() == {}
    with pytest.raises(UnknownNameError, match="'t'"):
        db.running_stream("t")
    db.sql(
        f"CREATE STREAM s INTO t FROM json SCHEMA '{COLUMNS}' OPTIONS (path '{drops.path}') "
        "WITH (interval = '100 milliseconds')"
    )
    drops.drop([{"id": 1, "v": "a"}])
    stream = db.running_stream("s")
    stream.process_all_available()
    assert rows(db, "t") == [(1, "a")]
    stream.stop()
    with pytest.raises(StreamError, match="output mode"):
        db.stream("t", counts, name="s")
    (info,) = db.streams
    assert info.source == "json", "it is what it was before"


def test_a_restored_database_says_where_its_streams_stood(
    db: Database, spark: SparkSession, drops: Drops, tmp_path: Path
) -> None:
    db.sql("CREATE TABLE t (id BIGINT, v STRING)")
    drops.drop([{"id": 1, "v": "x"}])
    db.stream("t", drops.stream(spark, COLUMNS), available_now=True).await_termination()
    first = db.epoch
    drops.drop([{"id": 2, "v": "x"}])
    db.stream("t", drops.stream(spark, COLUMNS), available_now=True).await_termination()
    db.backup(str(tmp_path / "backup"))
    rekindle.restore(str(tmp_path / "backup"), str(tmp_path / "last"))
    with rekindle.connect(str(tmp_path / "last"), spark=spark) as restored:
        assert [each.name for each in restored.streams] == ["t"]
        with pytest.raises(StreamError, match="is lost"):
            restored.resume_streams({"t": drops.stream(spark, COLUMNS)})
    rekindle.restore(str(tmp_path / "backup"), str(tmp_path / "earlier"), epoch=first)
    with rekindle.connect(str(tmp_path / "earlier"), spark=spark) as restored:
        assert rows(restored, "t") == [(1, "x")]
        with pytest.raises(StreamError, match="is not known"):
            restored.resume_streams({"t": drops.stream(spark, COLUMNS)})
        restored.drop_stream("t")
        assert restored.offsets == {}


def test_a_stored_definition_is_data(warehouse: str, spark: SparkSession, drops: Drops) -> None:
    """Whoever writes one gets neither a class loaded, nor a function called, nor a file."""
    hostile = {
        "loads": StreamDefinition("t", source=Source("org.evil.Provider", {"path": "x"})),
        "kafka": StreamDefinition("t", source=Source("kafka", {"kafka.sasl.jaas.config": "x"})),
        "deletes": StreamDefinition(
            "t", source=Source("text", {"path": str(drops.path), "cleanSource": "delete"})
        ),
        "leaves": StreamDefinition(
            "t",
            "changes",
            source=Source("json", {"path": str(drops.path)}, COLUMNS),
            deletes=Source("json", {"path": str(drops.path), "cleanSource": "delete"}, COLUMNS),
        ),
        "writes": StreamDefinition(
            "t", checkpoint="/tmp/elsewhere", source=Source("rate", {}, None)
        ),
        "calls": StreamDefinition(
            "t",
            "upsert",
            apply_as_deletes="reflect('java.lang.System', 'exit', 1) = ''",
            source=Source("json", {"path": str(drops.path)}, COLUMNS),
        ),
    }
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id BIGINT, v STRING, PRIMARY KEY (id))")
        for name, definition in hostile.items():
            db._engine.define_streams({name: definition}, {})
            with pytest.raises(UntrustedError):
                db.resume_streams()
            assert not db._streams.running
        with pytest.raises(UntrustedError, match="reflect"):
            db.resume_streams({"calls": drops.stream(spark, COLUMNS)})

        later = StreamDefinition.from_json({"table": "t", "mode": "append", "colour": "red"})
        db._engine.define_streams({"later": later}, {})
    with rekindle.connect(warehouse, spark=spark) as db:
        assert [each.name for each in db.streams] == ["later"]
        with pytest.raises(DefinitionError, match="newer version") as caught:
            db.resume_streams({"later": drops.stream(spark, COLUMNS)})
        assert "colour" in caught.value.detail
        assert db._engine.state.streams["later"].to_json()["colour"] == "red"
    with rekindle.connect(warehouse, spark=spark) as db:
        with pytest.raises(DefinitionError, match="stored for all to read"):
            db.sql("CREATE STREAM k INTO t FROM kafka OPTIONS (kafka.sasl.jaas.config 'p')")
        key = "s3a://AKIA7:wJalr@bucket/drops"
        for act in (
            lambda: db.sql(f"CREATE STREAM k INTO t FROM json OPTIONS (path '{key}')"),
            lambda: db.stream("t", drops.stream(spark, COLUMNS), checkpoint=key),
        ):
            with pytest.raises(DefinitionError, match="stored for all to read") as caught:
                act()
            assert "wJalr" not in str(caught.value)
        with pytest.raises(StatementError, match="cannot be read"):
            db.sql("CREATE STREAM k FROM kafka")
        with pytest.raises(DefinitionError, match="unknown setting 'rejected'"):
            db.sql("CREATE STREAM k INTO t FROM rate WITH (rejected = 'true')")


@pytest.mark.parametrize("name", ["../../mine", "..", "a/b", "", "/tmp/mine", "a\0"])
def test_the_name_of_a_stream_leads_nowhere(warehouse: str, spark: SparkSession, name: str) -> None:
    """The directory of its notes is removed with it: one that is stored names nothing else."""
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id BIGINT, v STRING, PRIMARY KEY (id))")
        db._engine.define_streams({name: StreamDefinition("t")}, {})
        with pytest.raises(DefinitionError, match="not the name of a stream"):
            db.drop_stream(name)
    with pytest.raises(CorruptionError) as caught:
        rekindle.connect(warehouse, spark=spark, mode="read")
    assert "not the name of a stream" in caught.value.detail


@pytest.mark.parametrize("link", ["streams", "streams/s", "streams/s/offsets"])
def test_notes_behind_a_link_are_not_touched(
    warehouse: str, spark: SparkSession, drops: Drops, tmp_path: Path, link: str
) -> None:
    mine = tmp_path / "mine"
    (mine / "s").mkdir(parents=True)
    (mine / "s" / "kept").write_text("kept")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id BIGINT, v STRING, PRIMARY KEY (id))")
        source = Source("json", {"path": str(drops.path)}, COLUMNS)
        db._engine.define_streams({"s": StreamDefinition("t", source=source)}, {})
    place = Path(warehouse) / link
    place.parent.mkdir(parents=True, exist_ok=True)
    place.symlink_to(mine)
    with rekindle.connect(warehouse, spark=spark) as db:
        for act in (
            lambda: db.drop_stream("s"),
            lambda: db.resume_streams(),
            lambda: db.stream("t", drops.stream(spark, COLUMNS), name="s"),
        ):
            with pytest.raises(CorruptionError, match="symbolic link"):
                act()
        assert [each.name for each in db.streams] == ["s"] and not db._streams.running
    assert sorted(p.name for p in mine.rglob("*")) == ["kept", "s"]


def test_notes_that_are_no_text_are_refused(
    warehouse: str, spark: SparkSession, drops: Drops
) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id BIGINT, v STRING, PRIMARY KEY (id))")
        drops.drop([{"id": 1, "v": "a"}])
        handle = db.stream("t", drops.stream(spark, COLUMNS), available_now=True)
        handle.await_termination(60)
        metadata = Path(warehouse) / "streams" / "t" / "metadata"
        metadata.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(StreamError, match="cannot be read"):
            db.stream("t", drops.stream(spark, COLUMNS))
