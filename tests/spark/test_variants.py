"""Variants: in tables, views, changes and histories, followed on changes like any other type."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import VariantVal

import rekindle
from rekindle.errors import ConstraintError, DefinitionError, RowError, StatementError
from rekindle.runtime.database import Database
from tests.property.oracle import collected
from tests.spark.helpers import refused, rows, weighted

VIEWS = {
    "plain": "SELECT * FROM t",
    "taken": (
        "SELECT id, to_variant_object(named_struct('id', id, 'v', v)) AS o, v:a::int AS a, "
        "variant_get(v, '$.b[0]', 'string') AS b, "
        "schema_of_variant(v) AS s, v IS NULL AS missing FROM t "
        "WHERE is_variant_null(v:c) IS NOT true"
    ),
    "joined": "SELECT t.id, t.v, u.v AS w FROM t LEFT JOIN u ON t.v:a::int = u.k",
    "summed": "SELECT v:a::int AS a, count(*) AS n, sum(v:a::int) AS s FROM t GROUP BY v:a::int",
    "listed": "SELECT k, size(collect_list(v)) AS n, max_by(v, id) AS last FROM t GROUP BY k",
    "first": "SELECT id, v FROM t ORDER BY k, id LIMIT 3",
    "opened": "SELECT t.id, e.pos, e.key, e.value FROM t, LATERAL variant_explode(v) AS e",
    "listing": "SELECT id, x FROM t LATERAL VIEW explode(l) AS x",
    "constant": (
        "SELECT u.k, c.v FROM u JOIN VALUES (1, parse_json('1')), (2, NULL) AS c(k, v) ON u.k = c.k"
    ),
}


def _json(*texts: str | None) -> list[VariantVal | None]:
    return [None if text is None else VariantVal.parseJson(text) for text in texts]


def _agree(db: Database) -> None:
    for view in db.views:
        assert rows(db, view) == collected(db.recompute(view)), view


def _create(db: Database, views: Iterable[str]) -> None:
    db.sql("CREATE TABLE t (id INT, k INT, v VARIANT, l ARRAY<VARIANT>)")
    db.sql("CREATE TABLE u (k INT, v VARIANT)")
    for view in views:
        db.create_view(view, VIEWS[view])


def _change(db: Database) -> None:
    first, second, third = _json('{"a": 1, "b": ["x"]}', None, "[1, 2.5]")
    with db.transaction() as tx:
        tx.insert(
            "t",
            [(1, 1, first, [first, None]), (1, 1, first, [first, None]), (2, None, second, None)],
        )
        tx.insert("u", [(1, third), (None, None)])
    _agree(db)
    db.sql('INSERT INTO t SELECT 3, 1, parse_json(\'{"a": 1, "c": null}\'), array(NULL)')
    db.sql("INSERT INTO t VALUES (4, 2, parse_json('\"text\"'), NULL), (5, 2, NULL, array())")
    db.sql('INSERT INTO u VALUES (2, parse_json(\'{"a": {"b": 7}}\'))')
    _agree(db)
    with db.transaction() as tx:
        tx.delete("t", [(1, 1, first, [first, None])])
        tx.insert("u", [(5, third)])
        tx.delete("u", [(5, third)])
    db.sql("UPDATE t SET v = parse_json('{\"a\": 2}') WHERE v:a::int = 1")
    db.sql("DELETE FROM t WHERE v IS NULL")
    _agree(db)


def test_variants_follow_changes(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.place("inline")
        _create(db, VIEWS)
        _change(db)
        db.check("plain")
        for name in ("t", "plain", "opened"):
            assert weighted(db.changes(name)) == rows(db, name)
        kept = {view: rows(db, view) for view in VIEWS}
    with rekindle.connect(warehouse, spark=spark) as db:
        assert {view: rows(db, view) for view in VIEWS} == kept
        db.sql("INSERT INTO t VALUES (9, 1, parse_json('[null]'), array(parse_json('3')))")
        _agree(db)


def test_on_spark_too(db: Database) -> None:
    db.place("spark")
    _create(db, ("joined", "opened", "listed"))
    (value,) = _json('{"a": 1}')
    with db.transaction() as tx:
        tx.insert("t", [(1, 1, value, [None]), (2, 1, None, None)])
        tx.insert("u", [(1, None)])
    db.sql("UPDATE t SET v = parse_json('[2]') WHERE v:a::int = 1")
    _agree(db)


def test_equal_bytes_are_one_variant(db: Database) -> None:
    db.sql("CREATE TABLE t (v VARIANT)")
    short, long = _json('{"a":1}', '{ "a": 1.0 }')
    with db.transaction() as tx:
        tx.insert("t", [(short,), (short,), (long,)])
    with refused(db, ConstraintError, '{"a":2}'), db.transaction() as tx:
        tx.delete("t", [(VariantVal.parseJson('{"a":2}'),)])
    with db.transaction() as tx:
        tx.delete("t", [(short,)])
    assert sorted(db.sql("SELECT to_json(v) AS j FROM t").toPandas().j) == ['{"a":1}', '{"a":1}']


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT v, count(*) AS n FROM t GROUP BY v", "VARIANT"),
        ("SELECT DISTINCT v FROM t", "SET_OPERATION_ON_VARIANT_TYPE"),
        ("SELECT a.v FROM t a JOIN t b ON a.v = b.v", "does not support ordering"),
        ("SELECT max(v) AS m FROM t", "does not support ordering"),
    ],
)
def test_what_spark_does_not_compare_is_refused_in_its_words(
    db: Database, query: str, words: str
) -> None:
    db.sql("CREATE TABLE t (v VARIANT)")
    with refused(db, StatementError, words):
        db.create_view("w", query)


def test_what_cannot_be_stored_in_a_variant(db: Database) -> None:
    db.sql("CREATE TABLE t (v VARIANT)")
    with refused(db, RowError, "VariantVal.parseJson"), db.transaction() as tx:
        tx.insert("t", [("{}",)])
    with refused(db, DefinitionError, "primary key"):
        db.sql("CREATE TABLE p (v VARIANT, PRIMARY KEY (v))")
