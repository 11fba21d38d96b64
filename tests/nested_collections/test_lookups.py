"""Reading rows of nested tables and views by what their columns hold: only what is asked for.

The law: with a condition one reads what a filter leaves of all rows. And it is lazy: of a part only
the rows that are asked for are read, counted here where they leave the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.catalyst.types import payload_schema
from rekindle.kernels.arrange import arrange
from rekindle.kernels.xxhash import row_hashes
from rekindle.runtime.database import Database
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader
from rekindle.traces.run_view import cut
from rekindle.traces.spread import SPREAD_BITS, spans, spread
from rekindle.traces.values import Weight

FOLLOWERS = 40
BANDS = 300
VIEWS = {
    "bands": """for b in band
                yield (name: b.name, fans: for f in fan where f.band = b.name
                       yield (who: f.who, tags: for t in tag where t.who = f.who yield t.tag))""",
}
COLLECTED = "SELECT band, collect_list(who) AS fans FROM fan GROUP BY band"


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("lookups") / "db"), spark) as db:
        db.sql("CREATE TABLE band (name STRING)")
        db.sql("CREATE TABLE fan (band STRING, who INT)")
        db.sql("CREATE TABLE tag (who INT, tag STRING)")
        with db.transaction() as tx:
            names = [*(f"b{i}" for i in range(BANDS)), "b7", None]
            tx.insert("band", [(name,) for name in names])
            tx.insert("fan", [(f"b{i % BANDS}", i) for i in range(BANDS * 2)])
            tx.insert("fan", [("b0", i) for i in range(FOLLOWERS)] + [("b0", None), (None, 4)])
            tx.insert("tag", [(i % 50, f"t{i}") for i in range(100)])
        db.create_view("bands", rekindle.comprehension(VIEWS["bands"]))
        db.create_view("collected", COLLECTED)
        yield db


@contextmanager
def rows_read(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows leave traces while something is read; reading a whole one is an error."""
    counts: list[int] = []
    spanning = TraceReader.spanning

    def counted(self: TraceReader, low: Any, high: Any) -> Any:
        found = spanning(self, low, high)
        counts.append(len(found))
        return found

    def refused(self: TraceReader, *_: Any, **__: Any) -> Any:
        raise AssertionError("a whole trace is read")

    with monkeypatch.context() as patched:
        patched.setattr(TraceReader, "spanning", counted)
        patched.setattr(TraceReader, "scan", refused)
        patched.setattr(TraceReader, "chosen", refused)
        yield counts


def bag(rows: list[Any]) -> list[str]:
    return sorted(map(str, rows))


def as_read(frame: DataFrame) -> list[str]:
    return bag([row.asDict(recursive=True) for row in frame.collect()])


def test_a_condition_reads_the_rows_that_it_asks_for(
    db: Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    everything = db.table("bands").cache()
    for condition, most in (
        ("name = 'b7'", 2 + 2 + 4),
        ("'b0' = name AND size(fans) > 0", 1 + FOLLOWERS + 3 + 2 * (FOLLOWERS + 3)),
        ("name IN ('b1', 'b2', NULL)", 2 + 4 + 8),
        ("name <=> 'b3' AND name = 'b4'", 1 + 2 + 4),
        ("name = concat('b', '5')", 1 + 2 + 4),
        ("name = 'nobody'", 0),
    ):
        expected = as_read(everything.where(condition))
        with rows_read(monkeypatch) as counts:
            assert as_read(db.table("bands").where(condition)) == expected, condition
        assert len(counts) == 3 and sum(counts) <= most, condition
        with rows_read(monkeypatch) as counts:
            query = f"SELECT r.* FROM bands AS r WHERE {condition.replace('name', 'r.name')}"
            assert as_read(db.sql(query)) == expected
        assert len(counts) == 3 and sum(counts) <= most, condition
    with rows_read(monkeypatch) as counts:
        found = db.arrow("bands", where={"name": ["b1", "b7"]})
        assert bag(found.to_pylist()) == as_read(everything.where("name IN ('b1', 'b7')"))
        assert sum(counts) <= 3 + 4 + 8
    source = spark.read.format("rekindle").load(f"{db.path}/bands").where("name = 'b7'")
    assert as_read(source) == as_read(everything.where("name = 'b7'"))


def test_conditions_that_cannot_be_looked_up_read_all_rows(db: Database) -> None:
    everything = db.table("bands").cache()
    for condition in (
        "name = 'b1' OR name = 'b2'",
        "name IS NULL",
        "name > 'b8'",
        "size(fans) = 2",
        "name = concat('b', fans[0].who)",
        "exists(fans, f -> f.who = 3)",
    ):
        assert as_read(db.table("bands").where(condition)) == as_read(everything.where(condition))
    rows = db.table("bands")
    assert as_read(rows.where(rows.name == "b7")) == as_read(everything.where("name = 'b7'"))
    joined = "SELECT a.name FROM bands a JOIN bands b ON a.name = b.name WHERE a.name = 'b7'"
    assert len(db.sql(joined).collect()) == 4
    with pytest.raises(Exception, match="nope"):
        db.table("bands").where("nope = 1")


def test_collected_groups_are_looked_up(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    with rows_read(monkeypatch) as counts:
        (row,) = db.table("collected").where(F.col("band") == "b9").collect()
    assert sorted(row.fans) == [9, BANDS + 9] and sum(counts) == 3


def test_rows_follow_changes_and_views_over_them_are_whole(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.create_view("one", db.table("bands").where("name = 'b7'").selectExpr("name", "size(fans) n"))
    before = db.epoch
    held = db.table("bands").where("name = 'b11'")
    late = db.table("bands")
    with db.transaction() as tx:
        tx.insert("fan", [("b7", 7), ("b7", None), ("b11", 1)])
        tx.delete("band", [("b7",)])
        tx.delete("tag", [(7, "t7")])
        # Rows of an open transaction are those that it sees.
        assert [len(r.fans) for r in db.table("bands").where("name = 'b7'").collect()] == [4]
    for name in ("bands", "one", "collected"):
        db.check(name)
    assert [row.n for row in db.table("one").collect()] == [4]
    with rows_read(monkeypatch):
        (row,) = db.table("bands").where("name = 'b7'").collect()
        assert bag([fan.who for fan in row.fans]) == bag([7, BANDS + 7, 7, None])
        assert bag([t for fan in row.fans for t in fan.tags]) == ["t57", "t57"]
    assert [len(row.fans) for row in held.collect()] == [2]
    assert [len(row.fans) for row in late.where("name = 'b11'").collect()] == [2]
    assert [
        len(r.fans) for r in db.table("bands", epoch=before).where("name = 'b7'").collect()
    ] == [
        2,
        2,
    ]
    with db.transaction() as tx:
        tx.delete("fan", [("b7", 7), ("b7", None), ("b11", 1)])
        tx.insert("band", [("b7",)])
        tx.insert("tag", [(7, "t7")])


def test_a_reopened_database_looks_up_and_an_early_one_chooses(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "db")
    text = "for b in band yield (name: b.name, all: for c in band where c.name = b.name yield c.k)"

    def kinds() -> list[str]:
        return [str(row.asDict()) for row in db.table("v").where("name = 'b'").collect()]

    with rekindle.connect(path, spark) as db:
        db.sql("CREATE TABLE band (name STRING, k INT)")
        db.sql("INSERT INTO band VALUES ('a', 1), ('b', 2), ('b', 3)")
        with monkeypatch.context() as early:
            early.setattr("rekindle.runtime.views.definitions.index_of", lambda *_: ())
            db.create_view("v", rekindle.comprehension(text))
        assert kinds() == ["{'name': 'b', 'all': [2, 3]}"] * 2
    with rekindle.connect(path, spark) as db:
        assert kinds() == ["{'name': 'b', 'all': [2, 3]}"] * 2
        db.sql("DELETE FROM band WHERE k = 3")
        db.check("v")
        db.sql("DROP VIEW v")
        db.create_view("v", rekindle.comprehension(text))
    with rekindle.connect(path, spark) as db:
        db.sql("INSERT INTO band VALUES ('b', 4)")
        db.check("v")
        with rows_read(monkeypatch) as counts:
            assert kinds() == ["{'name': 'b', 'all': [2, 4]}"] * 2
        assert counts == [1, 2]  # Both rows of the top are one, that is there twice.
    (row,) = rekindle.read(path).arrow("v", where={"name": "a"}).to_pylist()
    assert row == {"name": "a", "all": [1]}


def test_nested_tables_are_looked_up_by_their_keys(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql(
        "CREATE TABLE shop (town STRING, id BIGINT, code CHAR(4), "
        "orders ARRAY<STRUCT<okey: BIGINT, parts: ARRAY<STRUCT<part: STRING>>>>, "
        "PRIMARY KEY (town, id))"
    )
    with db.transaction() as tx:
        tx.insert(
            "shop",
            [("a", i, f"c{i}", [(i, [("nut",), ("bolt",)]), None]) for i in range(20)]
            + [("b", 1, "c1", None), ("b", 2, "c2", [])],
        )
        tx.nested("shop", ("a", 3), "orders").insert([(99, [("cog",)])])
    everything = db.table("shop").cache()
    for condition in ("town = 'a' AND id = 3", "id IN (1, 2) AND town = 'b'"):
        with rows_read(monkeypatch) as counts:
            found = as_read(db.table("shop").where(condition))
        assert found == as_read(everything.where(condition)) and found and not counts
    # A column of the key alone does not find it, and CHAR compares with blanks.
    for condition in ("id = 3", "code = 'c3' AND town = 'a'"):
        found = as_read(db.table("shop").where(condition))
        assert found == as_read(everything.where(condition)) and found
    db.sql("DROP TABLE shop")


def test_two_columns_may_lead_to_one_dictionary(db: Database) -> None:
    db.create_view(
        "both",
        rekindle.comprehension(
            "for a in bands, b in bands where a.name = 'b1' and b.name = 'b2' "
            "yield (name: a.name, one: a.fans, other: b.fans)"
        ),
    )
    (whole,) = db.arrow("both").to_pylist()
    (found,) = db.arrow("both", where={"name": "b1"}).to_pylist()
    assert bag(found["one"]) == bag(whole["one"]) and len(found["one"]) == 2
    assert bag(found["other"]) == bag(whole["other"]) and len(found["other"]) == 2
    db.sql("DROP VIEW both")


def test_labels_are_hashed_as_spark_does(spark: SparkSession) -> None:
    from rekindle.calculus.schema import Field, Schema

    type_ = "STRUCT<i: INT NOT NULL, a: STRING, b: STRUCT<x: BIGINT, y: DECIMAL(20, 2)>>"
    schema = Schema((Field("_label", type_), Field("v", "INT")))
    arrow = payload_schema(schema)
    labels = [
        {"i": 0, "a": "x", "b": {"x": 1, "y": None}},
        {"i": 0, "a": None, "b": None},
        {"i": 0, "a": "", "b": {"x": None, "y": None}},
        None,
    ]
    column = pa.array(labels, arrow.types[0])
    (ours,) = row_hashes([column], [42], len(labels))
    parts = "isnull(l), isnull(l.i), l.i, isnull(l.a), l.a, isnull(l.b), isnull(l.b.x), l.b.x, "
    parts += "isnull(l.b.y), l.b.y"
    frame = spark.createDataFrame(pa.table({"l": column})).selectExpr(f"xxhash64({parts}) h")
    assert ours.to_pylist() == [row.h for row in frame.collect()]
    assert len(set(ours.to_pylist())) == len(labels)


def test_a_heavy_value_is_found_together_and_cut_apart() -> None:
    """Random rows, nearly all of one value: a span has them, pieces and ranges divide them."""
    draw = np.random.default_rng(7)
    rows = 5_000
    index = np.where(draw.random(rows) < 0.9, 77, draw.integers(0, 50, rows)).astype(np.int64)
    hashes = draw.integers(-(2**63), 2**63 - 1, 80)[index]
    identity = draw.integers(-(2**63), 2**63 - 1, rows)
    keys = spread(hashes, identity)
    layout = TraceLayout((Weight(),), pa.schema([("c0", pa.int64())]))
    columns = {KEY: keys, IDENTITY[0]: identity, IDENTITY[1]: identity, "c0": index}
    table = pa.table({**columns, WEIGHT: np.ones(rows, dtype=np.int64)})
    halves = (table[:3000], table[3000:])
    runs = [arrange(half.select(layout.schema.names), layout) for half in halves]
    reader = TraceReader.of_tables(layout, runs)
    for value in (77, 3, 49):
        found = reader.spanning(*spans(np.unique(hashes[index == value])))
        assert len(found) == (index == value).sum()
        assert set(found.column("c0").to_pylist()) <= {value}
    low, high = spans(np.unique(hashes))
    assert len(low) < 80 and len(reader.spanning(low, high)) == rows
    bound, pieces = -(2**63), []
    while bound < 2**63:
        after = cut(reader._views, bound, 2**63, 500)
        piece = TraceReader.of_tables(layout, runs, (bound, after))
        pieces.append(len(piece.spanning(low, high)))
        bound = after
    assert sum(pieces) == rows and max(pieces) < 1_200
    heavy = keys[index == 77]
    assert len(np.unique(heavy)) > 0.9 * len(heavy) and np.ptp(heavy) < 2**SPREAD_BITS
