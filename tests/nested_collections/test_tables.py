"""A nested table is what a Python model of it is after every step, and so are views over it."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import ConstraintError, DefinitionError, RowError, UnknownNameError
from rekindle.runtime.database import Database
from rekindle.runtime.nested.positions import GAP, kept, loaded, placed
from tests.nested_collections.nested_models import (
    COLUMNS,
    FLAT,
    NESTED,
    SQL,
    check,
    contents,
    plain,
)

VIEWS = ("nested", "flat", "counted")


@pytest.fixture(scope="module")
def shared(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("tables") / "db"), spark=spark) as db:
        db.create_table("customers", COLUMNS, ["id"])
        db.create_view("nested", rekindle.comprehension(NESTED))
        db.create_view("flat", rekindle.comprehension(FLAT))
        db.sql(f"CREATE MATERIALIZED VIEW counted AS {SQL}")
        yield db


# ---- positions ---------------------------------------------------------------------------------


@given(st.lists(st.integers(0, 4)), st.lists(st.integers(0, 4)))
def test_what_stays_keeps_its_order(old: list[int], new: list[int]) -> None:
    same = kept(old, new)
    pairs = sorted(same.items())
    assert [place for _, place in pairs] == sorted({place for _, place in pairs})
    at = [int(each) for each in loaded(np.arange(len(old)))]
    positions = placed([at[same[i]] if i in same else None for i in range(len(new))])
    assert positions == sorted(set(positions))
    assert len(positions) == len(new)


def test_without_room_all_get_new_positions() -> None:
    assert placed([1, None, 2]) == [GAP, 2 * GAP, 3 * GAP]


# ---- random steps ------------------------------------------------------------------------------

TEXTS = st.sampled_from(["a", "b", None])
SMALL = st.integers(0, 3)


def arrays(element: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | st.lists(st.none() | element, max_size=3)


NOTES = arrays(st.tuples(TEXTS))
LINES = st.tuples(TEXTS, SMALL, NOTES)
ORDERS = st.tuples(SMALL, TEXTS, arrays(LINES))
ROWS = st.tuples(TEXTS, st.none() | st.lists(TEXTS, max_size=2), arrays(ORDERS))
KEYS = st.integers(1, 3)
STEPS = st.one_of(
    st.tuples(st.just("upsert"), KEYS, ROWS),
    st.tuples(st.just("upsert"), KEYS, ROWS),
    st.tuples(st.just("delete"), KEYS),
    st.tuples(st.just("rename"), KEYS, TEXTS),
    st.tuples(st.just("order"), KEYS, ORDERS),
    st.tuples(st.just("unorder"), KEYS, SMALL),
    st.tuples(st.just("line"), KEYS, SMALL, LINES),
    st.tuples(st.just("shuffle"), KEYS, st.randoms(use_true_random=False)),
    st.tuples(st.just("reorder"), KEYS, SMALL, SMALL),
)


def step(db: Database, model: dict[int, Any], kind: str, key: int, *given: Any) -> None:
    """Do the same to the database and to the model."""
    row = model.get(key)
    orders = None if row is None else row[3]
    with db.transaction() as tx:
        match kind, given:
            case "upsert", (values,):
                tx.upsert("customers", [(key, *values)])
                model[key] = (key, *values)
            case "delete", _ if row is not None:
                tx.delete("customers", [row])
                del model[key]
            case "rename", (name,) if row is not None:
                tx.sql("UPDATE customers SET name = :n WHERE id = :k", {"n": name, "k": key})
                model[key] = (key, name, *row[2:])
            case "order", (order,) if row is not None:
                tx.nested("customers", key, "orders").insert([order])
                model[key] = (*row[:3], [*(orders or []), order])
            case "unorder", (okey,) if row is not None:
                tx.nested("customers", key, "orders").delete_where({"okey": okey})
                left = [o for o in orders or [] if o is None or o[0] != okey]
                model[key] = (*row[:3], None if orders is None else left)
            case "line", (okey, line):
                found = [i for i, o in enumerate(orders or []) if o is not None and o[0] == okey]
                if len(found) == 1:
                    tx.nested("customers", key, "orders", {"okey": okey}, "lines").insert([line])
                    orders = copy.deepcopy(orders)
                    old = orders[found[0]]
                    orders[found[0]] = (*old[:2], [*(old[2] or []), line])
                    model[key] = (*row[:3], orders)
            case "shuffle", (random,) if orders:
                orders = list(orders)
                random.shuffle(orders)
                tx.delete("customers", [row])
                tx.insert("customers", [(*row[:3], orders)])
                model[key] = (*row[:3], orders)
            case "reorder", (old, new) if row is not None:
                where = f"okey >= {old}"
                tx.nested("customers", key, "orders").update(where, {"okey": f"okey + {new}"})
                changed = [
                    (o[0] + new, *o[1:]) if o is not None and o[0] >= old else o
                    for o in orders or []
                ]
                model[key] = (*row[:3], None if orders is None else changed)


@pytest.mark.timeout(1200)
@given(st.lists(STEPS, min_size=3, max_size=5))
@settings(max_examples=6, suppress_health_check=list(HealthCheck))
def test_a_table_is_what_the_model_is(shared: Database, steps: list[Any]) -> None:
    db = shared
    db.sql("TRUNCATE TABLE customers")
    start = db.epoch
    model: dict[int, Any] = {}
    seen = {start: []}
    for each in steps:
        step(db, model, *each)
        check(db, model, *VIEWS)
        seen[db.epoch] = [model[key] for key in sorted(model)]
    feed = [plain(row) for row in db.changes("customers", since=start).collect()]
    for epoch, rows in seen.items():
        total: Counter[str] = Counter()
        for at, weight, *values in feed:
            if at <= epoch:
                total[repr(tuple(values))] += weight
        assert +total == Counter(map(repr, rows)) and min(total.values(), default=0) >= 0
        past = db.table("customers", epoch=epoch).collect()
        assert sorted((plain(row) for row in past), key=lambda row: row[0]) == rows
    assert all(abs(weight) == 1 for _, weight, *_ in feed)


# ---- one by one --------------------------------------------------------------------------------


def test_elements_of_which_the_last_alone_has_any_are_changed_together(db: Database) -> None:
    db.create_table("t", "k INT, l ARRAY<STRUCT<a: INT, m: ARRAY<STRUCT<b: INT>>>>", ["k"])
    db.create_view("v", rekindle.comprehension("for t in t yield (k: t.k, n: count(t.l))"))
    with db.transaction() as tx:
        tx.insert("t", [(1, [(1, None), (2, []), (3, [(7,)])])])
    with db.transaction() as tx:
        assert tx.nested("t", 1, "l").update(None, {"a": "a * 10"}) == 3
    assert [plain(row) for row in db.table("t").collect()] == [
        (1, [(10, None), (20, []), (30, [(7,)])])
    ]
    db.check("v")


def test_only_what_differs_moves(db: Database) -> None:
    db.create_table("t", "k INT, n INT, l ARRAY<STRUCT<a: INT, m: ARRAY<STRUCT<b: INT>>>>", ["k"])
    listed = [(i, [(i,), (i + 1,)]) for i in range(50)]
    with db.transaction() as tx:
        tx.insert("t", [(1, 0, listed)])

    def moved() -> dict[str, int]:
        parts = {path: f"t·{path}" for path in db.shredded("t")}
        return {path: db.changes(name, db.epoch - 1).count() for path, name in parts.items()}

    db.sql("UPDATE t SET n = 1")
    assert moved() == {"": 2, "l": 0, "l.m": 0}
    listed.insert(20, (99, [(9,)]))
    del listed[30]
    listed[40] = (listed[40][0], [(7,), *listed[40][1]])
    with db.transaction() as tx:
        tx.upsert("t", [(1, 1, listed)])
    assert moved() == {"": 0, "l": 2, "l.m": 4}
    assert contents(db, "t") == [(1, 1, listed)]
    db.sql("MERGE INTO t USING (SELECT 1 AS k) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = 5")
    assert moved() == {"": 2, "l": 0, "l.m": 0}
    changed = db.changes("t", db.epoch - 1).collect()
    assert sorted(plain(row)[1:] for row in changed) == [(-1, 1, 1, listed), (1, 1, 5, listed)]


def test_what_is_kept_shredded(db: Database) -> None:
    shredded = "ARRAY<STRUCT<a: INT>>"
    db.sql(f"CREATE TABLE keyed (k INT, l {shredded}, PRIMARY KEY (k))")
    db.sql(f"CREATE TABLE said (k INT, l {shredded}, PRIMARY KEY (k)) OPTIONS (shredding = 'none')")
    db.sql(f"CREATE TABLE keyless (k INT, l {shredded})")
    db.sql(f"CREATE TABLE floating (k DOUBLE, l {shredded}, PRIMARY KEY (k))")
    db.sql("CREATE TABLE scalars (k INT, l ARRAY<INT>, m MAP<INT, INT>, PRIMARY KEY (k))")
    db.sql("CREATE TABLE strict (k INT, l ARRAY<STRUCT<a: INT NOT NULL>>, PRIMARY KEY (k))")
    db.sql("CREATE TABLE padded (k INT, l ARRAY<STRUCT<a: CHAR(3)>>, PRIMARY KEY (k))")
    db.sql("CREATE TABLE clashing (k INT, l ARRAY<STRUCT<_label: INT>>, PRIMARY KEY (k))")
    found = {name: list(db.shredded(name)) for name in db.tables}
    assert found.pop("keyed") == ["", "l"]
    assert set(map(tuple, found.values())) == {("",)}
    assert "OPTIONS (shredding = 'none')" in db.definition("said")
    assert "keyed·" not in db.tables
    with pytest.raises(UnknownNameError, match="unknown shredding 'some'"):
        db.create_table("wrong", "k INT", ["k"], shredding="some")
    with pytest.raises(DefinitionError, match="unknown option 'shreding'"):
        db.sql("CREATE TABLE wrong (k INT) OPTIONS (shreding = 'none')")
    with pytest.raises(DefinitionError, match="is a part of the table 'keyed'"):
        db.drop_table("keyed·")
    with (
        pytest.raises(DefinitionError, match="is a part of the table 'keyed'"),
        db.transaction() as tx,
    ):
        tx.insert("keyed·l", [(None, 1, 2)])
    shown = str(db.explain("keyed"))
    assert "table keyed" in shown and "kept shredded" in shown


def test_types_of_elements_come_back(db: Database) -> None:
    types = (
        "b BOOLEAN, d DECIMAL(10, 2), f DOUBLE, s STRING, y BINARY, t DATE, i TIMESTAMP, "
        "m MAP<STRING, INT>, r STRUCT<x: ARRAY<STRUCT<z: INT>>>, a ARRAY<ARRAY<INT>>"
    )
    fields = types.replace(" ", ": ", 1)
    for name in ("d", "f", "s", "y", "t", "i", "m", "r", "a"):
        fields = fields.replace(f", {name} ", f", {name}: ")
    db.sql(f"CREATE TABLE t (k STRING, l ARRAY<STRUCT<{fields}>>, PRIMARY KEY (k))")
    element = (
        "named_struct('b', true, 'd', 1.50, 'f', CAST('NaN' AS DOUBLE), 's', 'x', 'y', X'01', "
        "'t', DATE'2024-01-02', 'i', TIMESTAMP'2024-01-02 03:04:05', 'm', map('a', 1), "
        "'r', named_struct('x', array(named_struct('z', 1), NULL)), 'a', array(array(1), NULL))"
    )
    nulls = ", ".join(f"'{name}', NULL" for name in "bdfsytimra")
    db.sql(f"INSERT INTO t SELECT 'k', array(NULL, {element}, named_struct({nulls}))")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT k, l FROM t")
    query = f"SELECT 'k' AS k, array(NULL, {element}, named_struct({nulls})) AS l"
    assert repr(db.table("t").collect()) == repr(db.spark.sql(query).collect())
    assert db.table("t").schema["l"].dataType.simpleString() == (
        db.spark.sql(f"SELECT CAST(NULL AS ARRAY<STRUCT<{fields}>>) AS l")
        .schema["l"]
        .dataType.simpleString()
    )
    db.check("v")
    db.sql("UPDATE t SET l = array_compact(l)")
    db.check("v")
    db.sql("DELETE FROM t WHERE k = 'k'")
    assert not db.table("t").collect() and not db.table("t·l").collect()


def test_a_transaction_reads_what_it_has_done_and_can_be_undone(shared: Database) -> None:
    db = shared
    db.sql("TRUNCATE TABLE customers")
    row: Any = (1, "a", None, [(1, "x", [("p", 5, None)])])
    with db.transaction() as tx:
        tx.insert("customers", [row])
        tx.nested("customers", 1, "orders").insert([(2, "y", None)])
        assert [plain(r) for r in db.table("flat").collect()] == [(1, "p", 5)]
        tx.delete("customers", [(*row[:3], [*row[3], (2, "y", None)])])
        assert db.table("customers").count() == 0
        tx.insert("customers", [row])
        tx.sql("INSERT INTO customers SELECT id + 1, name, tags, orders FROM customers")
    check(db, {1: row, 2: (2, *row[1:])}, *VIEWS)
    with pytest.raises(ZeroDivisionError), db.transaction() as tx:
        tx.sql("DELETE FROM customers")
        raise ZeroDivisionError
    for work, said in [
        (lambda tx: tx.insert("customers", [row]), "duplicate primary key in 'customers': id = 1"),
        (lambda tx: tx.delete("customers", [(*row[:3], [])]), "there is no such row"),
        (lambda tx: tx.delete("customers", [(5, *row[1:])]), "cannot delete .5, 'a'"),
        (lambda tx: tx.delete("customers", [row, row]), "there is no such row"),
    ]:
        with pytest.raises(ConstraintError, match=said), db.transaction() as tx:
            work(tx)
    with pytest.raises(RowError, match="column 'id' of 'customers' is NOT NULL"):
        db.sql("INSERT INTO customers VALUES (NULL, NULL, NULL, NULL)")
    with db.transaction() as tx:  # Deletions and insertions commute.
        tx.delete("customers", [(9, *row[1:])])
        tx.insert("customers", [(9, *row[1:])])
        tx.insert("customers", [(1, "b", None, [*row[3], (7, None, None)])])
        tx.delete("customers", [row])
    after = {1: (1, "b", None, [*row[3], (7, None, None)]), 2: (2, *row[1:])}
    check(db, after, *VIEWS)
    with db.transaction() as tx:
        changes = [(*after[1], -1), (1, "c", None, [(7, None, None)], 1)]
        tx.apply("customers", changes)
    check(db, {1: (1, "c", None, [(7, None, None)]), 2: after[2]}, *VIEWS)


def test_a_nested_table_is_there_again(warehouse: str, spark: SparkSession) -> None:
    row = (1, "a", None, [(1, "x", [("p", 5, [("n",)]), None]), None])
    with rekindle.connect(warehouse, spark=spark) as db:
        db.create_table("customers", COLUMNS, ["id"])
        db.create_view("nested", rekindle.comprehension(NESTED))
        frame = spark.createDataFrame([row], db.table("customers").schema)
        with db.transaction() as tx:
            tx.insert("customers", frame)
    with rekindle.connect(warehouse, spark=spark) as db:
        check(db, {1: row}, "nested")
        with db.transaction() as tx:
            tx.nested("customers", 1, "orders").insert([(2, None, [])])
        orders = [*row[3], (2, None, [])]
        check(db, {1: (*row[:3], orders)}, "nested")
        db.add_columns("customers", "more ARRAY<STRUCT<x: INT>>, last INT")
        check(db, {1: (*row[:3], orders, None, None)}, "nested")
        with db.transaction() as tx:
            tx.nested("customers", 1, "more").insert([(5,)])
            tx.nested("customers", 1, "orders").delete([(2, None, [])])
        check(db, {1: (*row, [(5,)], None)}, "nested")
        assert db.verify().ok
        with pytest.raises(ConstraintError, match="it is read by nested"):
            db.drop_table("customers")
    with rekindle.connect(warehouse, spark=spark) as db:
        check(db, {1: (*row, [(5,)], None)}, "nested")
        assert len(db.changes("customers").collect()) == 5
        db.drop_view("nested")
        db.drop_table("customers")
        assert not db._engine.state.entries and not db._engine.state.traces
