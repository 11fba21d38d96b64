"""A small real database with one of everything that is stored, to make hostile ones of."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import xxhash
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.algebra.groups import INTEGERS
from rekindle.runtime import trust
from rekindle.runtime.epochs import rolling
from rekindle.runtime.epochs.log import CommitLog
from rekindle.traces.store import Store

Record = dict[str, Any]


class Pairs:
    """A ring that only its user knows."""

    zero = (0, 0)

    def add(self, left: tuple[int, int], right: tuple[int, int]) -> tuple[int, int]:
        return left[0] + right[0], left[1] + right[1]

    def negate(self, value: tuple[int, int]) -> tuple[int, int]:
        return -value[0], -value[1]


def build(path: Path, spark: SparkSession) -> None:
    """Make the database, with recent and older changes, and forget that this process did."""
    with patch.object(rolling, "RECENT", 1), rekindle.connect(str(path), spark) as db:
        db.sql("CREATE TABLE t (k INT, x INT, s VARCHAR(8))")
        db.sql("CREATE TABLE n (k INT, name STRING, PRIMARY KEY (k))")
        with db.transaction() as tx:
            tx.once("names", 0)
            tx.insert("n", [(1, "one"), (2, "two")])
        db.sql("INSERT INTO t VALUES (1, 5, 'a'), (1, 6, 'b'), (2, 7, NULL), (3, 8, 'c')")
        db.sql(
            "CREATE MATERIALIZED VIEW joined AS SELECT name, sum(x) AS total, day(date'2020-01-03')"
            " + count(*) AS c FROM t JOIN n ON t.k = n.k WHERE upper(s) LIKE 'A%' OR x > 5"
            " GROUP BY name"
        )
        db.sql(
            "CREATE MATERIALIZED VIEW ranked AS SELECT k, x, row_number() OVER "
            "(PARTITION BY k ORDER BY x DESC, s) AS r FROM t"
        )
        frame = db.table("t").filter("x > 5").select("k", (F.col("x") * 2).alias("y"))
        db.create_view("frame", frame)
        plus = F.udf(lambda x: x + 1, "int")
        db.create_view("python", db.table("t").select("k", plus("x").alias("p")))
        db.create_view("above", db.table("python").filter("p > 6"))
        pairs = rekindle.ring_sum(Pairs(), lambda x: (x, 1), "int", lambda v: v[0])
        total = rekindle.ring_sum(INTEGERS, lambda x: x, "bigint")
        sums = (pairs("x").alias("a"), total("x").alias("b"))
        db.create_view("ring", db.table("t").groupBy("k").agg(*sums))
        db.datalog("reach(x, y) :- t(x, y, _). reach(x, z) :- reach(x, y), t(y, z, _).")
        db.create_view(
            "wide", "SELECT t.k, x, name FROM t JOIN n ON t.k = n.k", representation="factorised"
        )
        db.create_model("line", "SELECT x, k FROM t", features=["k"], label="x")
        db.sql("INSERT INTO t VALUES (2, 9, 'd')")
        db.sql("DELETE FROM t WHERE x = 5")
    store = Store(str(path))
    log = CommitLog(store)
    log.checkpoint(log.load())
    forget()


def forget() -> None:
    """As if another process had made everything."""
    trust._MADE.clear()


def checkpoint_of(root: Path) -> Path:
    (found,) = (root / "log").glob("*.checkpoint")
    return found


def record_of(root: Path) -> Record:
    body = checkpoint_of(root).read_bytes().partition(b"\n")[2]
    found: Record = json.loads(body)
    return found


def write_record(root: Path, record: Any) -> None:
    """Write a checkpoint whose checksum is right, whatever it says."""
    write_body(root, json.dumps(record, separators=(",", ":")).encode())


def write_body(root: Path, body: bytes) -> None:
    checksum = xxhash.xxh3_64_hexdigest(body).encode()
    checkpoint_of(root).write_bytes(checksum + b"\n" + body)


def edited(edit: Callable[[Record], None]) -> Callable[[Path], None]:
    """A mutation of the record of a database."""

    def mutate(root: Path) -> None:
        record = record_of(root)
        edit(record)
        write_record(root, record)

    return mutate


def entry_of(record: Record, name: str) -> Record:
    found: Record = next(e for e in record["entries"] if e["name"] == name)
    return found


def segments_of(record: Record, name: str) -> list[Record]:
    """The files that hold the contents of a table or view."""
    trace = record["traces"][entry_of(record, name)["node"]]
    return [segment for run in trace["runs"] for segment in run]
