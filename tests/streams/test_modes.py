"""What a row of a stream does to its table, by the mode, and that batches may be cut anywhere."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import DefinitionError, RekindleError, RowError, StreamError
from rekindle.runtime.database import Database
from rekindle.runtime.streaming.handle import Stream
from tests.streams.drops import Drops

Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modes")


@pytest.fixture(scope="module")
def db(place: Path, spark: SparkSession) -> Iterator[Database]:
    """One database for all tests here, each with tables of its own."""
    with rekindle.connect(str(place / "warehouse"), spark=spark) as database:
        yield database


def rows(db: Database, name: str) -> list[tuple[Any, ...]]:
    """The rows of a table or view, in order."""
    return sorted((tuple(row) for row in db.table(name).collect()), key=repr)


def brought(
    db: Database,
    place: Path,
    table: str,
    schema: str,
    batches: list[Rows],
    followed_by: str | None = None,
    **how: Any,
) -> Stream:
    """A stream that has taken batches and has ended; a view that follows is checked after each."""
    drops = Drops(place / f"{table}-drops")
    if followed_by is None:
        for batch in batches:
            drops.drop(batch)
        stream = db.stream(table, drops.stream(db.spark, schema), available_now=True, **how)
        stream.await_termination()
        return stream
    stream = db.stream(table, drops.stream(db.spark, schema), **how)
    for batch in batches:
        drops.drop(batch)
        stream.process_all_available()
        db.check(followed_by)
    stream.stop()
    return stream


def cut(rows: Rows, pieces: int, chance: random.Random) -> list[Rows]:
    """The rows in as many batches, in their order."""
    places = sorted(chance.randint(0, len(rows)) for _ in range(pieces - 1))
    return [rows[a:b] for a, b in zip([0, *places], [*places, len(rows)], strict=True)]


def test_weights_and_operations_equal_transactions(db: Database, place: Path) -> None:
    chance = random.Random(7)
    for name in ("a", "b", "c"):
        db.sql(f"CREATE TABLE {name} (id BIGINT, v BIGINT)")
    db.sql("CREATE TABLE k (id BIGINT, v BIGINT, PRIMARY KEY (id))")
    db.sql("CREATE TABLE plain (id BIGINT, v BIGINT)")
    for name in ("a", "k"):
        db.sql(
            f"CREATE MATERIALIZED VIEW {name}_sums AS "
            f"SELECT id % 3 AS g, sum(v) AS s, count(*) AS n FROM {name} GROUP BY id % 3"
        )
    there: list[tuple[int, int]] = []
    changes: Rows = []
    for _ in range(40):
        if there and chance.random() < 0.4:
            id_, v = there.pop(chance.randrange(len(there)))
            changes.append({"id": id_, "v": v, "w": -1, "op": "delete"})
        else:
            row = (chance.randrange(5), chance.randrange(3))
            there.append(row)
            changes.append({"id": row[0], "v": row[1], "w": 1, "op": "insert"})
    with db.transaction() as tx:
        tx.insert("plain", there)
    batches = cut(changes, 4, chance)
    schema = "id bigint, v bigint, w int, op string"
    how = {"mode": "changes", "weight": "w", "except_columns": ["op"]}
    brought(db, place, "a", schema, batches, "a_sums", **how)
    brought(db, place, "b", schema, batches, mode="changes", operation="op", except_columns=["w"])
    expected = rows(db, "plain")
    assert rows(db, "a") == expected and rows(db, "b") == expected

    added, gone = Drops(place / "c-added"), Drops(place / "c-gone")
    for batch in batches:
        added.drop([{"id": r["id"], "v": r["v"]} for r in batch if r["w"] > 0])
        gone.drop([{"id": r["id"], "v": r["v"]} for r in batch if r["w"] < 0])
    columns = "id bigint, v bigint"
    stream = db.stream(
        "c",
        added.stream(db.spark, columns),
        "changes",
        deletes=gone.stream(db.spark, columns),
        available_now=True,
    )
    stream.await_termination()
    assert rows(db, "c") == expected

    state: dict[int, int] = {}
    changes = []
    for _ in range(60):
        id_, v = chance.randrange(6), chance.randrange(100)
        if id_ not in state:
            changes.append({"id": id_, "v": v, "op": chance.choice(["c", "r", "INSERT"])})
            state[id_] = v
        elif chance.random() < 0.5:
            changes.append({"id": id_, "v": v, "op": chance.choice(["u", "update"])})
            state[id_] = v
        else:
            changes.append({"id": id_, "v": None, "op": chance.choice(["d", "Delete"])})
            del state[id_]
    brought(
        db,
        place,
        "k",
        "id bigint, v bigint, op string",
        cut(changes, 5, chance),
        "k_sums",
        mode="changes",
        operation="op",
    )
    assert rows(db, "k") == sorted(state.items())


def test_images_of_updates(db: Database, place: Path) -> None:
    db.sql("CREATE TABLE images (id BIGINT, v BIGINT)")
    schema = "id bigint, v bigint, _change_type string"
    batches: list[Rows] = [
        [{"id": 1, "v": 1, "_change_type": "insert"}],
        [
            {"id": 1, "v": 2, "_change_type": "update_postimage"},
            {"id": 1, "v": 1, "_change_type": "update_preimage"},
        ],
    ]
    how = {"mode": "changes", "operation": "_change_type"}
    brought(db, place, "images", schema, batches, **how)
    assert rows(db, "images") == [(1, 2)]
    with pytest.raises(StreamError, match="batch 2 of stream 'images'") as caught:
        batch = [{"id": 1, "v": 3, "_change_type": "update"}]
        drops = Drops(place / "images-drops", 2)
        drops.drop(batch)
        db.stream("images", drops.stream(db.spark, schema), **how).process_all_available()
    assert "update_preimage" in caught.value.detail
    assert rows(db, "images") == [(1, 2)]


@pytest.mark.parametrize("inside", [True, False])
def test_the_greatest_sequence_wins_across_batches(db: Database, place: Path, inside: bool) -> None:
    """The sequence is a column of the table or not; late rows do not bring back the dead."""
    chance = random.Random(11 + inside)
    table = "ordered" if inside else "ordered_beside"
    column = ", at BIGINT" if inside else ""
    db.sql(f"CREATE TABLE {table} (id BIGINT, v STRING{column}, PRIMARY KEY (id))")
    db.sql(f"CREATE MATERIALIZED VIEW {table}_n AS SELECT v, count(*) AS n FROM {table} GROUP BY v")
    events = [
        {"id": chance.randrange(6), "v": chance.choice("abc"), "at": at, "op": chance.choice("UUD")}
        for at in range(60)
    ]
    expected: dict[int, dict[str, Any]] = {event["id"]: event for event in events}
    alive = [e for e in expected.values() if e["op"] == "U"]
    assert alive and len(alive) < len(expected), "some end deleted and some do not"
    chance.shuffle(events)
    stream = brought(
        db,
        place,
        table,
        "id bigint, v string, at bigint, op string",
        cut(events, 6, chance),
        f"{table}_n",
        mode="upsert",
        keys=["id"],
        sequence_by="at",
        apply_as_deletes="op = 'D'",
    )
    names = ("id", "v", "at") if inside else ("id", "v")
    assert rows(db, table) == sorted((tuple(e[n] for n in names) for e in alive), key=repr)
    assert stream.progress.late > 0
    notes = db.table(f"{table}_sequences").where("deleted").count()
    assert notes == len(expected) - len(alive)
    assert db.table(f"{table}_sequences").count() == (notes if inside else len(expected))


def test_rejects_are_put_aside_in_the_same_epoch(db: Database, place: Path) -> None:
    db.sql("CREATE TABLE strict (id INT NOT NULL, v VARCHAR(3) NOT NULL, PRIMARY KEY (id))")
    schema = "id bigint, v string"
    batches: list[Rows] = [
        [
            {"id": 1, "v": "a"},
            {"id": 1, "v": "b"},
            {"id": 2**40, "v": "c"},
            {"id": 2, "v": None},
            {"id": 3, "v": "long one"},
            {"id": 4, "v": "d"},
        ],
        [{"id": 4, "v": "e"}, {"id": 5, "v": "f"}],
    ]
    stream = brought(db, place, "strict", schema, batches, rejects=True)
    assert rows(db, "strict") == [(1, "a"), (4, "d"), (5, "f")]
    aside = [(r["batch"], r["reason"]) for r in db.table("strict_rejected").collect()]
    said = " | ".join(reason for _, reason in sorted(aside))
    for words in ("primary key id = 1", "cannot take 1099511627776", "NOT NULL", "so long a text"):
        assert words in said
    assert stream.progress.rejected == len(aside) == 5
    together = db.changes("strict_rejected").select("_epoch").distinct().collect()
    applied = db.changes("strict").select("_epoch").distinct().collect()
    assert sorted(together) == sorted(applied)

    db.sql("CREATE TABLE loose (id BIGINT, v STRING)")
    changes: list[Rows] = [
        [{"id": 1, "v": "a", "w": 1}, {"id": 2, "v": "b", "w": -1}, {"id": 3, "v": "c", "w": None}],
        [{"id": 1, "v": "a", "w": -1}, {"id": 1, "v": "a", "w": 2}, {"id": 9, "v": "z", "w": -1}],
    ]
    how = {"mode": "changes", "weight": "w", "rejects": True}
    brought(db, place, "loose", f"{schema}, w int", changes, **how)
    assert rows(db, "loose") == [(1, "a"), (1, "a")]
    aside = [(r["batch"], r["reason"]) for r in db.table("loose_rejected").collect()]
    assert sorted(aside) == [
        (0, "it has no weight"),
        (0, "there is no such row to delete"),
        (1, "there is no such row to delete"),
    ]

    db.sql("CREATE TABLE acted (id BIGINT, v STRING, PRIMARY KEY (id))")
    acts: list[Rows] = [
        [{"id": 1, "v": "a", "op": "c"}, {"id": 2, "v": "b", "op": "d"}],
        [{"id": 1, "v": "b", "op": "c"}, {"id": 1, "v": "c", "op": "grow"}],
    ]
    how = {"mode": "changes", "operation": "op", "rejects": True}
    brought(db, place, "acted", f"{schema}, op string", acts, **how)
    assert rows(db, "acted") == [(1, "a")]
    assert db.table("acted_rejected").count() == 3


def test_what_does_not_go_together_is_refused_before_anything_runs(
    db: Database, place: Path, spark: SparkSession
) -> None:
    db.sql("CREATE TABLE f (id BIGINT, v INT)")
    db.sql("CREATE MATERIALIZED VIEW fv AS SELECT id FROM f")
    drops = Drops(place / "f-drops")
    frame = drops.stream(spark, "id bigint, v int")
    texts = drops.stream(spark, "id bigint, v string")
    epoch = db.epoch
    refused: list[tuple[type[RekindleError], str, dict[str, Any]]] = [
        (DefinitionError, "streaming DataFrame", {"frame": spark.range(1)}),
        (RowError, "cannot take string", {"frame": texts}),
        (RowError, "table's columns", {"frame": frame.withColumnRenamed("v", "w")}),
        (DefinitionError, "no primary key", {"mode": "upsert"}),
        (DefinitionError, "need one of", {"mode": "changes"}),
        (DefinitionError, "sequence_by=", {"sequence_by": "v"}),
        (DefinitionError, "is no table", {"table": "fv"}),
        (DefinitionError, "name of a stream", {"name": "../x"}),
        (DefinitionError, "keys=", {"keys": ["v"]}),
        (DefinitionError, "apply_as_deletes", {"apply_as_deletes": "v = 1"}),
        (RekindleError, "mode of a stream", {"mode": "replace"}),
    ]
    for kind, words, how in refused:
        given = {"table": "f", "frame": frame, **how}
        with pytest.raises(kind) as caught:
            db.stream(given.pop("table"), given.pop("frame"), **given)
        assert words in caught.value.message, words
    assert db.epoch == epoch and "f" not in [each.table for each in db.streams]


def test_a_key_is_the_same_with_its_blanks_as_without(db: Database, place: Path) -> None:
    """Of a CHAR(n) column: deletions find their row, and late rows do not win."""
    db.sql("CREATE TABLE padded (k CHAR(3), v INT, PRIMARY KEY (k))")
    db.sql("INSERT INTO padded VALUES ('a', 1)")
    rows_of = [("a", 0, 1, "D"), ("b", 20, 5, "U"), ("b  ", 15, 3, "U"), ("z", 1, 1, "U")]
    batch = [dict(zip(("k", "v", "at", "op"), each, strict=True)) for each in rows_of]
    brought(
        db,
        place,
        "padded",
        "k string, v int, at bigint, op string",
        [batch, [{"k": "z ", "v": 2, "at": 2, "op": "U"}]],
        mode="upsert",
        keys=["k"],
        sequence_by="at",
        apply_as_deletes="op = 'D'",
    )
    assert rows(db, "padded") == [("b  ", 20), ("z  ", 2)]
