"""Statements, what they do, and what they leave alone when they fail."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import (
    ConstraintError,
    DefinitionError,
    RowError,
    StatementError,
    UnknownNameError,
)
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, refused, rows


@pytest.fixture
def shop(db: Database) -> Database:
    return _filled(db)


@pytest.fixture(scope="module")
def standing(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """The same for all that is refused, which changes nothing of it."""
    with rekindle.connect(str(tmp_path_factory.mktemp("standing")), spark=spark) as db:
        yield _filled(db)


def _filled(db: Database) -> Database:
    db.sql("CREATE TABLE orders (id BIGINT, cust BIGINT, total DOUBLE, PRIMARY KEY (id))")
    db.sql("CREATE TABLE log (what STRING NOT NULL, n INT)")
    db.sql("INSERT INTO orders VALUES (1, 7, 9.5), (2, 7, 1.0), (3, 8, 2.5)")
    db.sql("INSERT INTO log VALUES ('a', 1), ('a', 1), ('b', NULL)")
    db.sql(
        "CREATE MATERIALIZED VIEW spend AS "
        "SELECT cust, sum(total) AS t, count(*) AS n FROM orders GROUP BY cust"
    )
    return db


def test_each_statement_is_one_epoch(shop: Database) -> None:
    epoch = shop.epoch
    assert shop.sql("INSERT INTO orders VALUES (4, 8, 1.5)").collect()[0].epoch == epoch + 1
    assert rows(shop, "spend") == bag([(7, 10.5, 2), (8, 4.0, 2)])
    shop.sql("UPDATE orders SET total = total * 2, cust = 9 WHERE id IN (3, 4)")
    assert rows(shop, "spend") == bag([(7, 10.5, 2), (9, 8.0, 2)])
    shop.sql("DELETE FROM orders WHERE cust = 7")
    assert rows(shop, "spend") == bag([(9, 8.0, 2)])
    assert shop.epoch == epoch + 3


def test_insert_select_named_columns_and_by_name(shop: Database) -> None:
    shop.sql("INSERT INTO log (n, what) VALUES (5, 'c')")
    shop.sql("INSERT INTO log (what) VALUES ('d')")
    shop.sql("INSERT INTO log SELECT concat('o', id), CAST(cust AS INT) FROM orders WHERE id > 1")
    expected = [("a", 1), ("a", 1), ("b", None), ("c", 5), ("d", None), ("o2", 7), ("o3", 8)]
    assert rows(shop, "log") == bag(expected)


def test_names_with_backticks(db: Database) -> None:
    db.sql("CREATE TABLE `t``t` (id INT, `q``q` INT, `a.b` INT, PRIMARY KEY (id))")
    db.sql("CREATE TABLE u (`t``u` INT)")
    db.sql("INSERT INTO `t``t` VALUES (1, 1, 1), (2, 1, 1)")
    db.sql(
        "CREATE MATERIALIZED VIEW `v``` AS SELECT `q``q`, sum(`a.b`) AS s FROM `t``t` GROUP BY 1"
    )
    db.sql("UPDATE `t``t` SET `q``q` = 2 WHERE id = 1")
    db.sql(
        "MERGE INTO `t``t` USING u ON id = `t``u` "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET `a.b` = 5"
    )
    assert rows(db, "v`") == bag([(1, 5), (2, 5)])
    db.check("v`")
    db.datalog("p(x) :- `t``t`(x, y, _), y > 1.")
    assert rows(db, "p") == bag([(1,)])
    with refused(db, UnknownNameError, "unknown table or view 'w`w'"):
        db.sql("SELECT * FROM `w``w`")
    db.sql("DROP VIEW `v```")
    assert db.views == ["p"]


@pytest.mark.parametrize(
    "header",
    [
        "CREATE /* a view */ MATERIALIZED VIEW -- called\n v /* as */ AS",
        "-- first\ncreate materialized view v -- AS SELECT 1\n as",
        "CREATE MATERIALIZED VIEW v COMMENT 'it''s AS -- it was' AS",
        "CREATE MATERIALIZED VIEW v COMMENT \"so\" OPTIONS (policy = 'first_order') AS",
        "CREATE MATERIALIZED VIEW v OPTIONS (policy = 'first_order') COMMENT 'so' AS",
    ],
)
def test_comments_in_the_header_of_a_view(shop: Database, header: str) -> None:
    shop.sql(f"{header} SELECT /*+ BROADCAST(log) */ what, '--' AS dashes FROM log")
    assert rows(shop, "v") == bag([("a", "--"), ("a", "--"), ("b", "--")])


def test_delete_takes_all_duplicates_and_update_keeps_them(shop: Database) -> None:
    shop.sql("UPDATE log SET n = 2 WHERE what = 'a'")
    assert rows(shop, "log") == bag([("a", 2), ("a", 2), ("b", None)])
    shop.sql("DELETE FROM log WHERE what = 'a'")
    assert rows(shop, "log") == bag([("b", None)])
    shop.sql("DELETE FROM log")
    assert not rows(shop, "log")


def test_an_update_may_move_keys_around(shop: Database) -> None:
    shop.sql("UPDATE orders SET id = id + 1")
    assert rows(shop, "orders") == bag([(2, 7, 9.5), (3, 7, 1.0), (4, 8, 2.5)])


def test_merge_updates_inserts_and_deletes(shop: Database) -> None:
    shop.sql(
        "MERGE INTO orders t "
        "USING (SELECT * FROM VALUES (1L, 5.0D), (2L, -1.0D), (9L, 7.0D) s(id, v)) s "
        "ON t.id = s.id "
        "WHEN MATCHED AND s.v < 0 THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET total = s.v "
        "WHEN NOT MATCHED THEN INSERT (id, total) VALUES (s.id, s.v) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET cust = 0"
    )
    assert rows(shop, "orders") == bag([(1, 7, 5.0), (9, None, 7.0), (3, 0, 2.5)])
    assert rows(shop, "spend") == bag([(7, 5.0, 1), (None, 7.0, 1), (0, 2.5, 1)])


def test_merge_star_from_a_table(shop: Database) -> None:
    shop.sql("CREATE TABLE fresh (id BIGINT, cust BIGINT, total DOUBLE)")
    shop.sql("INSERT INTO fresh VALUES (3, 1, 1.0), (5, 2, 2.0)")
    shop.sql(
        "MERGE INTO orders USING fresh ON orders.id = fresh.id "
        "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
    )
    assert rows(shop, "orders") == bag([(1, 7, 9.5), (2, 7, 1.0), (3, 1, 1.0), (5, 2, 2.0)])


def test_merge_refuses_an_ambiguous_source(shop: Database) -> None:
    with refused(shop, ConstraintError, "orders", "several source rows"):
        shop.sql(
            "MERGE INTO orders t USING (SELECT * FROM VALUES (1L), (1L) s(id)) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET total = 0"
        )


@pytest.mark.parametrize("source", ["orders", "(SELECT * FROM orders)"])
def test_merge_from_the_table_itself(shop: Database, source: str) -> None:
    shop.sql(
        f"MERGE INTO orders USING {source} s ON orders.id = s.id + 1 "
        "WHEN MATCHED THEN UPDATE SET total = s.total "
        "WHEN NOT MATCHED THEN INSERT (id, cust) VALUES (s.id + 1, s.cust) "
        "WHEN NOT MATCHED BY SOURCE THEN UPDATE SET cust = (SELECT max(id) FROM orders)"
    )
    expected = [(1, 3, 9.5), (2, 7, 9.5), (3, 8, 1.0), (4, 8, None)]
    assert rows(shop, "orders") == bag(expected)


def test_merge_with_nothing_to_do(shop: Database) -> None:
    before = rows(shop, "orders")
    shop.sql(
        "MERGE INTO orders t USING (SELECT 77L AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE"
    )
    assert rows(shop, "orders") == before


def test_merge_counts_matches_whether_they_act_or_not(shop: Database) -> None:
    """As in Spark: two source rows match one row, of which only one acts."""
    with refused(shop, ConstraintError, "several source rows"):
        shop.sql(
            "MERGE INTO orders t USING (SELECT * FROM VALUES (1L, 1), (1L, 2) s(id, v)) s "
            "ON t.id = s.id WHEN MATCHED AND s.v = 2 THEN UPDATE SET cust = 99"
        )


def test_merge_that_deletes_all_matches_may_match_twice(shop: Database) -> None:
    shop.sql(
        "MERGE INTO orders t USING (SELECT * FROM VALUES (1L), (1L), (9L) s(id)) s "
        "ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id)"
    )
    assert rows(shop, "orders") == bag([(2, 7, 1.0), (3, 8, 2.5), (9, None, None)])


BAD = [
    ("INSERT INTO orders VALUES (2, 1, 1.0)", ConstraintError, ["orders", "id = 2"]),
    ("INSERT INTO orders VALUES (8, 1, 1.0), (8, 2, 1.0)", ConstraintError, ["id = 8"]),
    ("UPDATE orders SET id = 1", ConstraintError, ["duplicate primary key", "id = 1"]),
    ("INSERT INTO orders VALUES (1, 2)", RowError, ["2 values", "id, cust, total"]),
    ("INSERT INTO orders VALUES ('x', 1, 1.0)", RowError, ["'id'", "bigint", "string"]),
    ("INSERT INTO orders (id, nope) VALUES (1, 2)", UnknownNameError, ["nope", "cust"]),
    ("INSERT INTO orders VALUES (NULL, 1, 1.0)", RowError, ["'id'", "NOT NULL"]),
    ("INSERT INTO log VALUES (NULL, 1)", RowError, ["'what'", "NOT NULL"]),
    ("UPDATE log SET what = NULL", RowError, ["'what'", "NOT NULL"]),
    ("INSERT INTO ordres VALUES (1, 1, 1.0)", UnknownNameError, ["ordres", "'orders'"]),
    ("DELETE FROM orders WHERE idd = 1", StatementError, ["idd"]),
    ("UPDATE orders SET idd = 1", UnknownNameError, ["idd", "'id'"]),
    ("INSERT INTO spend VALUES (1, 1.0, 1)", ConstraintError, ["'spend' is a view"]),
    ("DELETE FROM spend", ConstraintError, ["'spend' is a view"]),
    ("SELECT * FROM nope", UnknownNameError, ["nope"]),
    (
        "SELECT * FROM default.orders",
        UnknownNameError,
        ["unknown table or view 'default.orders'", "write orders"],
    ),
    ("SELECT * FROM a.nope", UnknownNameError, ["unknown table or view 'a.nope'"]),
    ("SELEC 1", StatementError, ["parsed"]),
    ("DROP TABLE orders", ConstraintError, ["orders", "spend"]),
    ("DROP TABLE nope", UnknownNameError, ["nope"]),
    ("DROP TABLE spend", DefinitionError, ["'spend' is a view"]),
    ("DROP VIEW orders", DefinitionError, ["'orders' is a table"]),
    ("CREATE TABLE orders (a INT)", DefinitionError, ["orders", "exists"]),
    ("CREATE TABLE t (a INT, A INT)", DefinitionError, ["a"]),
    ("CREATE TABLE t (a INT, PRIMARY KEY (b))", DefinitionError, ["'b'"]),
    ("CREATE TABLE t (a INT DEFAULT 3)", DefinitionError, ["'a'", "DEFAULT"]),
    (
        "CREATE TABLE t (a INT, CHECK (a > 3))",
        DefinitionError,
        ["the constraint CHECK (a > 3) of 't' is not supported"],
    ),
    (
        "CREATE TABLE t (a INT, b INT, UNIQUE (a, b))",
        DefinitionError,
        ["the constraint UNIQUE (a, b) of 't' is not supported"],
    ),
    (
        "CREATE TABLE t (a BIGINT REFERENCES orders (id))",
        DefinitionError,
        ["the constraint FOREIGN KEY (a) REFERENCES orders (id) of 't' is not supported"],
    ),
    ("CREATE TABLE t (_weight INT)", DefinitionError, ["_weight"]),
    ("CREATE TABLE t (a MAP<VOID, INT>)", DefinitionError, ["'a'", "map<void,int>"]),
    ("CREATE MATERIALIZED VIEW spend AS SELECT 1", DefinitionError, ["spend", "exists"]),
    ("TRUNCATE TABLE orders PARTITION (id = 1)", StatementError, ["TRUNCATE"]),
    ("-- all of it\nANALYZE TABLE orders COMPUTE STATISTICS", StatementError, ["ANALYZE"]),
]


@pytest.mark.parametrize(("statement", "kind", "words"), BAD, ids=[case[0] for case in BAD])
def test_a_bad_statement_names_its_fault_and_applies_nothing(
    standing: Database, statement: str, kind: type, words: list[str]
) -> None:
    with refused(standing, kind, *words):
        standing.sql(statement)


@pytest.mark.parametrize("type_", ["TIME", "ARRAY<TIME(3)>"])
def test_a_time_column_needs_a_session_that_reads_it(
    shop: Database, spark: SparkSession, type_: str
) -> None:
    setting = "spark.sql.timeType.enabled"
    spark.conf.set(setting, "false")
    try:
        with refused(shop, DefinitionError, "'at'", f"{setting} is false", "spark.conf.set"):
            shop.sql(f"CREATE TABLE t (id INT, at {type_})")
        with refused(shop, DefinitionError, "'at'", f"{setting} is false"):
            shop.create_table("t", f"id INT, at {type_}")
        shop.sql("CREATE TABLE timeless (id INT, at TIMESTAMP)")
    finally:
        spark.conf.set(setting, "true")
    shop.sql(f"CREATE TABLE t (id INT, at {type_})")


def test_rows_that_do_not_fit_are_refused(shop: Database) -> None:
    cases = [
        ([(5, 1)], RowError, ["row 1", "2 values"]),
        ([(5, 1, 1.0), (6, "x", 1.0)], RowError, ["'cust'", "'x'", "row 2"]),
        ([(5, 1, 1.0), (2**70, 1, 1.0)], RowError, ["'id'"]),
        ([{"id": 5, "cust": 1, "totl": 1.0}], RowError, ["totl"]),
        ([(None, 1, 1.0)], RowError, ["'id'", "NOT NULL"]),
        ([(1, 1, 1.0)], ConstraintError, ["id = 1"]),
    ]
    for given, kind, words in cases:
        with refused(shop, kind, *words), shop.transaction() as tx:
            tx.insert("log", [("kept?", 1)])
            tx.insert("orders", given)
    with refused(shop, ConstraintError, "(99, 1, 1.0)", "no such row"), shop.transaction() as tx:
        tx.insert("log", [("kept?", 1)])
        tx.delete("orders", [(99, 1, 1.0)])
    with refused(shop, ConstraintError, "no such row"), shop.transaction() as tx:
        tx.delete("log", [("a", 1)] * 3)
    with refused(shop, DefinitionError, "'log' has no primary key"), shop.transaction() as tx:
        tx.upsert("log", [("a", 1)])


def test_an_error_in_the_block_forgets_the_transaction(shop: Database) -> None:
    before, epoch = rows(shop, "orders"), shop.epoch
    with pytest.raises(ZeroDivisionError), shop.transaction() as tx:
        tx.insert("orders", [(50, 1, 1.0)])
        raise ZeroDivisionError
    assert rows(shop, "orders") == before and shop.epoch == epoch
    with shop.transaction() as tx:
        tx.insert("orders", [(50, 1, 1.0)])
    assert rows(shop, "orders") == before + bag([(50, 1, 1.0)])


def test_a_transaction_sees_its_own_changes_in_upserts(shop: Database) -> None:
    with shop.transaction() as tx:
        tx.insert("orders", [(10, 1, 1.0)])
        tx.upsert("orders", [(10, 2, 2.0), (1, 0, 0.0)])
        tx.upsert("orders", [(10, 3, 3.0), (10, 4, 4.0)])
        tx.delete("orders", [(2, 7, 1.0)])
    assert rows(shop, "orders") == bag([(10, 4, 4.0), (1, 0, 0.0), (3, 8, 2.5)])


def test_a_statement_in_a_transaction_sees_what_came_before(shop: Database) -> None:
    """As in any SQL database: the second statement reads what the first has written."""
    with shop.transaction():
        shop.sql("INSERT INTO orders VALUES (10, 1, 1.0)")
        shop.sql("UPDATE orders SET cust = 5 WHERE id = 10")
    assert rows(shop, "orders")[(10, 5, 1.0)] == 1


def test_weights_can_be_given(shop: Database) -> None:
    with shop.transaction() as tx:
        tx.apply("log", [("a", 1, -1), ("z", 9, 3), ("y", 1, 0)])
    assert rows(shop, "log") == bag([("a", 1), ("b", None), *[("z", 9)] * 3])


def test_if_exists_and_or_replace(shop: Database) -> None:
    shop.sql("DROP TABLE IF EXISTS nope")
    shop.sql("CREATE TABLE IF NOT EXISTS orders (a INT)")
    shop.sql("CREATE OR REPLACE MATERIALIZED VIEW spend AS SELECT count(*) AS n FROM orders")
    assert rows(shop, "spend") == bag([(3,)])


def test_a_replacement_that_is_refused_keeps_the_old_view(shop: Database) -> None:
    with refused(shop, DefinitionError):
        shop.sql("CREATE OR REPLACE MATERIALIZED VIEW spend AS SELECT first(id) AS m FROM orders")


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_a_text_is_no_longer_than_its_column(
    warehouse: str, spark: SparkSession, placement: str
) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id INT, s VARCHAR(3))")
        db.sql("ALTER TABLE t ADD COLUMN u VARCHAR(1)")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.place(placement)
        db.sql("INSERT INTO t VALUES (1, 'äöü', NULL), (2, NULL, 'x')")
        with refused(db, RowError, "'s' of 't' is VARCHAR(3)", "'four'"):
            db.sql("INSERT INTO t VALUES (3, 'one', 'y'), (4, 'four', 'z')")
        with refused(db, RowError, "'u' of 't' is VARCHAR(1)"):
            db.sql("UPDATE t SET u = 'xy' WHERE id = 1")
        assert rows(db, "t") == bag([(1, "äöü", None), (2, None, "x")])
