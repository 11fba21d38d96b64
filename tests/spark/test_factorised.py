"""Joins kept factorised: the same rows at every step, and the join nowhere in the state."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import (
    ConstraintError,
    DefinitionError,
    HistoryError,
    UnknownNameError,
    UnsupportedError,
)
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, refused, rows

QUERIES = {
    "chain": """
        SELECT r.g, r.x + 1 AS more, s.c, t.y, 'k' AS k
        FROM r JOIN s ON r.a = s.a JOIN t ON s.c = t.c WHERE t.y <> 3 OR t.y IS NULL
    """,
    "star": "SELECT r.a, r.g, s.c, u.a AS b FROM r JOIN s ON r.a = s.a JOIN r u ON u.a = s.a",
    "product": "SELECT r.g, t.y FROM r CROSS JOIN t",
    "natural": "SELECT g FROM r NATURAL JOIN s",
    "itself": "SELECT r.g, u.g AS h FROM r JOIN r u ON r.a = u.a",
}
OPTIONS = "OPTIONS (representation = 'factorised')"


@pytest.fixture
def db(warehouse: str, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(warehouse, spark=spark) as database:
        database.sql("CREATE TABLE r (a INT, g STRING, x INT)")
        database.sql("CREATE TABLE s (a INT, c DECIMAL(6,2))")
        database.sql("CREATE TABLE t (c DECIMAL(6,2), y INT)")
        yield database


def create(db: Database, *names: str) -> None:
    for name in names:
        db.sql(f"CREATE MATERIALIZED VIEW {name} {OPTIONS} AS {QUERIES[name]}")


def enumerated(db: Database, name: str, size: int = 7) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for batch in db.factorised(name).batches(size):
        assert 0 < batch.num_rows <= size
        found.update(zip(*(column.to_pylist() for column in batch.columns), strict=True))
    return found


def checked(db: Database, name: str) -> None:
    """The expansion, the count and the enumeration are those of the query."""
    expected = bag(map(tuple, db.recompute(name).collect()))
    assert rows(db, name) == expected
    assert enumerated(db, name) == expected
    assert db.factorised(name).count() == expected.total()


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_every_step_gives_what_spark_gives(db: Database, placement: str) -> None:
    db.place(placement)
    names = list(QUERIES) if placement == "inline" else ["chain"]
    create(db, *names)
    statements = [
        "INSERT INTO r VALUES (1, 'u', 2), (1, 'v', NULL), (2, 'u', 5), (NULL, 'w', 1), "
        "(2, NULL, 5), (2, NULL, 5)",
        "INSERT INTO s VALUES (1, 1.5), (1, 2), (2, 2), (2, NULL), (NULL, 1.5), (2, 2)",
        "INSERT INTO t VALUES (1.5, 2), (2, 5), (2, NULL), (2, 3), (NULL, 1)",
        "UPDATE r SET x = 7 WHERE a = 2",
        "DELETE FROM s WHERE c = 2 AND a = 2",
        "DELETE FROM r",
    ]
    for statement in statements if placement == "inline" else statements[:3]:
        db.sql(statement)
        for name in names:
            checked(db, name)
    if placement == "inline":
        with db.transaction() as tx:
            tx.insert("r", [(1, "n", 1), (3, "n", 3)])
            tx.insert("s", [(3, Decimal("7.25"))])
            tx.delete("t", [(Decimal("1.5"), 2)])
            tx.insert("t", [(Decimal("7.25"), 2)] * 2)
        with db.transaction() as tx:
            tx.insert("r", [(1, "n", 1)])
            tx.delete("r", [(1, "n", 1)])
        for name in names:
            checked(db, name)
            db.check(name)
        assert enumerated(db, "chain")["n", 4, Decimal("7.25"), 2, "k"] == 2


def test_a_view_is_one_thing_to_its_user(db: Database, warehouse: str, spark: SparkSession) -> None:
    db.sql("INSERT INTO r VALUES (1, 'u', 2)")
    db.sql("INSERT INTO s VALUES (1, 1), (1, 1)")
    create(db, "chain", "star", "itself")
    assert db.views == ["chain", "star", "itself"]
    shown = {row["name"] for row in db.sql("SHOW TABLES").collect()}
    assert shown == {"r", "s", "t", "chain", "star", "itself"}
    with pytest.raises(UnknownNameError) as unknown:
        db.table("nothing")
    assert "·" not in str(unknown.value)
    assert bag(map(tuple, db.sql("SELECT count(*) FROM star").collect())) == bag([(2,)])
    epoch = db.epoch
    db.close()
    with rekindle.connect(warehouse, spark=spark) as again:
        again.sql("INSERT INTO t VALUES (1, 4)")
        checked(again, "chain")
        checked(again, "star")
        checked(again, "itself")
        assert rows(again, "chain").total() == 2
        assert rows(again, "chain", epoch).total() == 0
        with pytest.raises(HistoryError, match="view 'chain' did not exist"):
            again.table("chain", epoch=1)
        with pytest.raises(ConstraintError, match="read by chain, itself, star"):
            again.drop_table("r")
        again.drop_view("chain")
        again.drop_view("star")
        again.drop_view("itself")
        assert again.views == []
        assert len(again._engine.circuit.nodes) == 3
        again.drop_table("r")


def test_a_join_of_many_to_many_is_not_kept(db: Database) -> None:
    """A million tuples of one key, and a step that touches one row of each collection."""
    create(db, "star")
    with db.transaction() as tx:
        tx.insert("r", [(1, f"g{i}", i) for i in range(100)])
        tx.insert("s", [(1, i) for i in range(100)])
    view = db.factorised("star")
    assert view.count() == 1_000_000
    assert view.size() == 202
    explained = db.explain("star")
    assert max(node.facts.rows_stored or 0 for node in explained.nodes) <= 100
    assert "1,000,000 tuples" in str(explained)
    first = next(view.batches(1000))
    assert first.num_rows == 1000
    db.sql("DELETE FROM s WHERE c >= 50")
    assert view.count() == 500_000
    last = db.last_step
    assert last is not None
    assert sum(step.rows_out for step in last.nodes.values()) < 1_000
    assert view.tree() == "a\n├─ r(g) by a\n├─ s(c) by a\n└─ r#2() by a"


def test_a_table_may_get_columns(db: Database) -> None:
    create(db, "star")
    db.sql("INSERT INTO r VALUES (1, 'u', 2)")
    db.sql("ALTER TABLE r ADD COLUMN z INT")
    db.sql("INSERT INTO s VALUES (1, 1)")
    db.sql("INSERT INTO r VALUES (1, 'w', 3, 9)")
    checked(db, "star")


def test_what_cannot_be_factorised_is_refused(db: Database) -> None:
    create(db, "star")
    words = "cannot be kept factorised"
    for query, reason in {
        "SELECT count(*) AS n FROM r JOIN s ON r.a = s.a": "an aggregate",
        "SELECT r.g, s.c FROM r LEFT JOIN s ON r.a = s.a": "outer join",
        "SELECT r.g, s.c FROM r JOIN s ON r.a < s.a": "'r' and 's' together",
        "SELECT a FROM r": "not a join",
    }.items():
        with pytest.raises(UnsupportedError, match=f"(?s){words}.*{reason}"):
            db.create_view("v", query, representation="factorised")
    with pytest.raises(UnknownNameError, match=r"'folded'\n.*factorised, listing"):
        db.create_view("v", "SELECT a FROM r", representation="folded")
    with refused(db, UnsupportedError, "reads 'star', which is kept factorised"):
        db.create_view("v", "SELECT count(*) AS n FROM star")
    with pytest.raises(UnsupportedError, match="reads 'star', which is kept factorised"):
        db.datalog("v(a) :- star(a, _, _, _).")
    with pytest.raises(UnsupportedError, match="changes of 'star' are not kept"):
        db.changes("star")
    with pytest.raises(UnsupportedError, match="cannot be replaced"):
        db.replace_view("star", "SELECT a FROM r")
    with pytest.raises(DefinitionError, match="is not kept factorised"):
        db.factorised("r")
    with pytest.raises(DefinitionError, match="a part of the view 'star'"):
        db.drop_view("star·0")
