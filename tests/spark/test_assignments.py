"""UPDATE, DELETE, MERGE and INSERT write what they say, to the column and field that they name."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import Row, SparkSession

import rekindle
from rekindle.errors import (
    EvaluationError,
    RekindleError,
    RowError,
    StatementError,
    UnknownNameError,
)
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, rows

P = Row("x", "y")
S = Row("a", "p")


@pytest.fixture(scope="module")
def nested(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    """A database whose columns and fields share names; every test begins by `filled`."""
    with rekindle.connect(str(tmp_path_factory.mktemp("nested")), spark=spark) as db:
        shape = "s STRUCT<a: INT, p: STRUCT<x: INT, y: STRING>>"
        db.sql(f"CREATE TABLE t (id BIGINT, a INT, {shape}, t INT, PRIMARY KEY (id))")
        db.sql(f"CREATE TABLE u (id BIGINT, a INT, {shape}, t INT)")
        db.sql(
            "CREATE MATERIALIZED VIEW v AS SELECT s.a AS a, s.p.x AS x, sum(id) AS n "
            "FROM t GROUP BY 1, 2"
        )
        yield db


@pytest.fixture
def filled(nested: Database) -> Database:
    return _fill(nested)


@pytest.fixture(scope="module")
def standing(nested: Database) -> Database:
    """The same for statements that change nothing."""
    return _fill(nested)


def _fill(nested: Database) -> Database:
    with nested.transaction():
        nested.sql("TRUNCATE TABLE t")
        nested.sql("TRUNCATE TABLE u")
        nested.sql(
            "INSERT INTO t VALUES (1, 10, NULL, 1), (2, 20, named_struct('a', 2, 'p', NULL), 2), "
            "(3, 30, named_struct('a', 3, 'p', named_struct('x', 3, 'y', 'c')), 3)"
        )
    return nested


def _after(db: Database, statement: str) -> dict[int, Any]:
    """The rows of `t` by id once the statement has run, with views checked."""
    db.sql(statement)
    db.check("v")
    return {row.id: row for row in db.table("t").collect()}


def test_a_field_of_a_struct(filled: Database) -> None:
    """A NULL struct becomes one whose other fields are NULL, as Spark writes it."""
    found = _after(filled, "UPDATE t SET s.a = 5")
    assert [found[i].a for i in (1, 2, 3)] == [10, 20, 30]
    assert [found[i].s for i in (1, 2, 3)] == [S(5, None), S(5, None), S(5, P(3, "c"))]


def test_a_field_at_depth_and_several_at_once(filled: Database) -> None:
    found = _after(filled, "UPDATE t SET s.p.x = a + t.s.a, s.a = -1, t.t = t + 1 WHERE id > 1")
    assert found[1] == Row(id=1, a=10, s=None, t=1)
    assert found[2].s == S(-1, P(22, None)) and found[3].s == S(-1, P(33, "c"))
    assert (found[2].t, found[3].t) == (3, 4)


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE t SET t.a = 9 WHERE t.id = 1",
        "UPDATE t AS x SET x.a = 9 WHERE x.id = 1",
        "UPDATE T SET T.A = 9 WHERE T.ID = 1",
        "UPDATE t AS a SET a.a = 9 WHERE a.id = 1",
        "WITH one AS (SELECT 1 AS k) UPDATE t SET a = 9 WHERE id IN (SELECT k FROM one)",
        "UPDATE t SET a = (SELECT 9 FROM u RIGHT JOIN (SELECT 1) ON true) WHERE id = 1",
        "UPDATE t SET a = 9 WHERE EXISTS (SELECT 1 FROM t AS o WHERE o.id = id AND o.id = 1) "
        "AND id = 1",
        "MERGE INTO t USING (SELECT 1 AS id) q ON t.id = q.id WHEN MATCHED THEN UPDATE SET t.a = 9",
        "MERGE INTO t AS a USING (SELECT 1 AS id) q ON a.id = q.id "
        "WHEN MATCHED THEN UPDATE SET a.a = 9",
        "WITH q AS (SELECT 1 AS id) MERGE INTO t USING q ON t.id = q.id "
        "WHEN MATCHED THEN UPDATE SET a = 9",
    ],
)
def test_the_ways_to_name_a_column(filled: Database, statement: str) -> None:
    found = _after(filled, statement)
    assert [found[i].a for i in (1, 2, 3)] == [9, 20, 30]
    assert (found[1].s, found[1].t) == (None, 1)


def test_fields_in_every_clause_of_a_merge(filled: Database) -> None:
    filled.sql("INSERT INTO u VALUES (2, 7, named_struct('a', 1, 'p', NULL), 0), (4, 8, NULL, 0)")
    found = _after(
        filled,
        "MERGE INTO t USING u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET s.p.y = concat('m', u.a), t.s.a = u.s.a "
        "WHEN NOT MATCHED THEN INSERT * "
        "WHEN NOT MATCHED BY SOURCE AND t.id = 1 THEN UPDATE SET s.p.x = -1, a = DEFAULT "
        "WHEN NOT MATCHED BY SOURCE THEN DELETE",
    )
    assert sorted(found) == [1, 2, 4]
    assert (found[1].a, found[1].s) == (None, S(None, P(-1, None)))
    assert (found[2].a, found[2].s) == (20, S(1, P(None, "m7")))
    assert found[4] == Row(id=4, a=8, s=None, t=0)


def test_structs_are_assigned_by_the_names_of_their_fields(filled: Database) -> None:
    found = _after(
        filled, "UPDATE t SET s.p = named_struct('y', '1', 'x', 2), t = DEFAULT WHERE id = 3"
    )
    assert found[3] == Row(id=3, a=30, s=S(3, P(2, "1")), t=None)
    filled.sql(
        "INSERT INTO u BY NAME SELECT named_struct('p', named_struct('y', 'b', 'x', 2), 'a', 1) "
        "AS s, 5 AS ID"
    )
    assert rows(filled, "u") == bag([(5, None, (1, (2, "b")), None)])


def test_a_dataframe_gives_structs_by_the_names_of_their_fields(filled: Database) -> None:
    frame = filled.spark.sql(
        "SELECT 1 AS t, 5L AS id, named_struct('p', named_struct('y', 'b', 'x', 2), 'a', 1) AS s, "
        "7 AS a"
    )
    with filled.transaction() as tx:
        tx.insert("u", frame)
    assert rows(filled, "u") == bag([(5, 7, (1, (2, "b")), 1)])


REFUSED = [
    ("UPDATE t SET nosuch.a = 7", UnknownNameError, ["unknown column 'nosuch.a' of 't'"]),
    ("UPDATE t SET u.a = 7", UnknownNameError, ["'u.a'"]),
    ("UPDATE t SET t.nosuch = 7", StatementError, ["Can't extract a value from", '"t"']),
    ("UPDATE t AS x SET x.nosuch = 7", UnknownNameError, ["'nosuch'"]),
    ("UPDATE t SET s.nosuch = 7", StatementError, ["No such struct field", "nosuch"]),
    ("UPDATE t AS x SET t.a = 7", StatementError, ["Can't extract a value"]),
    ("UPDATE t SET a = 1, a = 2", StatementError, ["Multiple assignments for 'a'"]),
    ("UPDATE t SET a = 1, t.A = 2", StatementError, ["Multiple assignments for 'a'"]),
    ("UPDATE t SET s.a = 1, s = NULL", StatementError, ["Conflicting assignments for 's'"]),
    ("UPDATE t SET s.p.x = 1, s.p = NULL", StatementError, ["Conflicting assignments for 's.p'"]),
    ("UPDATE t SET a = 'x'", RowError, ["STRING", "INT"]),
    ("UPDATE t SET s.a = 'x'", RowError, ["`s`.`a`", "STRING", "INT"]),
    ("UPDATE t SET a = 3000000000L", EvaluationError, ["overflow"]),
    ("UPDATE t SET s.a = id + 3000000000L", EvaluationError, ["overflow"]),
    ("UPDATE t SET id = NULL", RowError, ["'id'", "NOT NULL"]),
    ("UPDATE t SET a = 1 + DEFAULT", StatementError, ["DEFAULT"]),
    ("UPDATE t SET a = sum(a)", StatementError, ["aggregate functions"]),
    ("UPDATE t SET a = 1 WHERE rand() > 2", StatementError, ["deterministic"]),
    ("UPDATE t SET a = 1 WHERE id", StatementError, ["BOOLEAN"]),
    ("DELETE FROM t WHERE id", StatementError, ["BOOLEAN"]),
    ("WITH t AS (SELECT 1 AS a) UPDATE t SET a = 2", StatementError, ["WITH clause"]),
    ("WITH t AS (SELECT 1 AS a) DELETE FROM t", StatementError, ["WITH clause"]),
    ("UPDATE db.t SET a = 1", StatementError, ["'db.t'", "write t"]),
    ("DELETE FROM db.t", StatementError, ["'db.t'"]),
    ("TRUNCATE TABLE db.t", StatementError, ["'db.t'"]),
    ("TRUNCATE TABLE v", RekindleError, ["'v' is a view"]),
    ("INSERT INTO t (id, a, A) VALUES (7, 1, 2)", RowError, ["names a column twice"]),
    ("INSERT INTO u BY NAME SELECT 1 AS a, 2 AS A", RowError, ["names a column twice"]),
    ("INSERT INTO u BY NAME SELECT 1 AS a, 2 AS b", UnknownNameError, ["'b'"]),
    ("INSERT INTO u PARTITION (a = 1) SELECT 5, 6, 7", StatementError, ["PARTITION (a)"]),
    ("INSERT OVERWRITE u PARTITION (a) SELECT 5, 6, 7", StatementError, ["PARTITION (a)"]),
    ("INSERT INTO u WITH (x = 1) SELECT * FROM t", StatementError, ["WITH (x)", "'u'"]),
    ("INSERT WITH SCHEMA EVOLUTION INTO u TABLE t", StatementError, ["SCHEMA EVOLUTION"]),
    ("INSERT INTO u REPLACE USING (a) TABLE t", StatementError, ["REPLACE USING"]),
    ("INSERT INTO u AS w REPLACE ON w.a = 1 TABLE t", StatementError, ["REPLACE ON"]),
    ("INSERT OVERWRITE DIRECTORY '/tmp/no' USING parquet SELECT 1", StatementError, ["INSERT"]),
    ("INSERT INTO u (a) VALUES (1 + DEFAULT)", StatementError, ["DEFAULT"]),
    ("INSERT INTO u (a) SELECT DEFAULT AS x", StatementError, ["DEFAULT"]),
    ("INSERT INTO nosuch.u TABLE t", StatementError, ["'nosuch.u'"]),
    (
        "MERGE WITH SCHEMA EVOLUTION INTO t USING u ON t.id = u.id WHEN MATCHED THEN DELETE",
        StatementError,
        ["SCHEMA EVOLUTION"],
    ),
    (
        "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET u.a = 1",
        UnknownNameError,
        ["'u.a'"],
    ),
    (
        "MERGE INTO t USING (SELECT 1 AS id) u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET s.a = 1, s = NULL",
        StatementError,
        ["Conflicting assignments"],
    ),
    (
        "MERGE INTO t USING (SELECT 9 AS id) u ON t.id = u.id "
        "WHEN NOT MATCHED THEN INSERT (id, s.a) VALUES (9, 1)",
        StatementError,
        ["nested fields"],
    ),
    (
        "MERGE INTO t USING (SELECT 9 AS id) u ON t.id = u.id "
        "WHEN NOT MATCHED THEN INSERT (id, id) VALUES (9, 1)",
        StatementError,
        ["Multiple assignments"],
    ),
    (
        "MERGE INTO t USING (SELECT 1 AS id, 2 AS a) u ON t.id = u.id "
        "WHEN MATCHED THEN UPDATE SET *",
        StatementError,
        ["cannot be resolved"],
    ),
    ("CREATE TABLE z (a INT) LOCATION '/tmp/z'", RekindleError, ["'z'", "LOCATION"]),
    ("CREATE TABLE z (a INT) TBLPROPERTIES ('a' = 'b')", RekindleError, ["TBLPROPERTIES"]),
    ("CREATE TABLE z (a INT) OPTIONS (a 'b')", RekindleError, ["OPTIONS"]),
    ("CREATE TABLE z (a STRING) DEFAULT COLLATION UNICODE", RekindleError, ["COLLATION"]),
    ("CREATE TABLE z (a INT) USING parquet", RekindleError, ["USING"]),
    ("CREATE TABLE z (a INT) CLUSTER BY (a)", RekindleError, ["CLUSTER BY"]),
    ("CREATE TABLE z (a INT) STORED AS parquet", RekindleError, ["STORED AS"]),
    ("CREATE TABLE db.z (a INT)", StatementError, ["'db.z'"]),
    ("DESCRIBE EXTENDED t", StatementError, ["DESCRIBE EXTENDED"]),
    ("SHOW TABLES IN db", StatementError, ["no schema"]),
    ("SELECT 1; SELECT 2", StatementError, ["one statement", "SELECT 2"]),
]


@pytest.mark.parametrize(("statement", "kind", "words"), REFUSED, ids=[r[0] for r in REFUSED])
def test_what_spark_refuses_or_what_has_no_meaning_is_refused(
    standing: Database, statement: str, kind: type[RekindleError], words: list[str]
) -> None:
    """Nothing changes without an epoch, so the epoch is looked at and not every row."""
    epoch, tables = standing.epoch, standing.tables
    with pytest.raises(kind) as caught:
        standing.sql(statement)
    assert [word for word in words if word not in str(caught.value)] == []
    assert (standing.epoch, standing.tables) == (epoch, tables)


def test_several_inserts_of_one_query_are_one_epoch(filled: Database) -> None:
    epoch = filled.epoch
    filled.sql("FROM t INSERT INTO u SELECT * WHERE id = 1 INSERT INTO t (id) SELECT id + 10")
    assert filled.epoch == epoch + 1
    assert rows(filled, "u") == bag([(1, 10, None, 1)])
    assert sorted(row.id for row in filled.table("t").collect()) == [1, 2, 3, 11, 12, 13]


def test_replacing_rows(filled: Database) -> None:
    filled.sql("WITH q AS (SELECT 5L AS k) INSERT INTO u (id, a) SELECT k, 1 FROM q")
    filled.sql("INSERT OVERWRITE u (a, id) VALUES (2, DEFAULT), (3, 4)")
    assert rows(filled, "u") == bag([(None, 2, None, None), (4, 3, None, None)])
    filled.sql("INSERT INTO u REPLACE WHERE a = 2 SELECT id, DEFAULT, s, t FROM u LIMIT 9")
    expected = [(4, 3, None, None), (None, None, None, None), (4, None, None, None)]
    assert rows(filled, "u") == bag(expected)
    filled.sql("INSERT OVERWRITE t SELECT id + 1, a, s, t FROM t")
    assert sorted(row.id for row in filled.table("t").collect()) == [2, 3, 4]
    filled.check("v")


def test_keys_beside_a_variant(db: Database) -> None:
    db.sql("CREATE TABLE w (id INT, x VARIANT, n INT, PRIMARY KEY (id))")
    db.sql("INSERT INTO w SELECT id, parse_json(concat('[', id, ']')), 0 FROM range(1, 4)")
    db.sql("UPDATE w SET n = 5 WHERE id = 2")
    db.sql("UPDATE w SET x = parse_json('{\"k\": 1}') WHERE id = 3")
    db.sql("DELETE FROM w WHERE id = 1")
    found = {(r.id, str(r.x), r.n) for r in db.table("w").collect()}
    assert found == {(2, "[2]", 5), (3, '{"k":1}', 0)}
