# ruff: noqa: E501
"""A hunt through odd shapes of queries: each is followed, or refused by an error of ours."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database

SOURCES = {
    "table": "t",
    "values": "(VALUES (1, 2, 'x'), (2, NULL, 'y')) AS t(a, v, s)",
    "subquery": "(SELECT a, max(v) AS v, min(s) AS s FROM t GROUP BY a) AS t",
    "lateral": "(SELECT t.a, x.w AS v, s FROM t, LATERAL (SELECT w FROM u WHERE u.a = t.a) x) AS t",
    "window": "(SELECT a, sum(v) OVER (PARTITION BY s ORDER BY a) AS v, s FROM t) AS t",
    "lateral window": "(SELECT t.a, n AS v, s FROM t, LATERAL (SELECT row_number() OVER (ORDER BY w)"
    " AS n FROM u WHERE u.a = t.a) x) AS t",
    "union": "(SELECT * FROM t UNION ALL SELECT a, w, 'u' FROM u) AS t",
    "except": "(SELECT a, v, s FROM t EXCEPT ALL SELECT a, w, 'x' FROM u) AS t",
    "sample": "t TABLESAMPLE (50 PERCENT)",
    "pivot": "(SELECT * FROM (SELECT a, s, v FROM t) PIVOT (max(v) FOR s IN ('x' AS v, 'y' AS s)))"
    " AS t",
    "generator": "(SELECT a, e AS v, s FROM t LATERAL VIEW explode(array(a, v)) AS e) AS t",
}
SHAPES = {
    "rows": "SELECT a, v, s FROM {t}",
    "grouping sets": "SELECT s, a, count(v) AS n, grouping(a) AS g FROM {t} GROUP BY CUBE (s, a)",
    "scalar subquery": "SELECT a, (SELECT max(w) FROM u WHERE u.a = t.a) AS m FROM {t}",
    "exists in a case": "SELECT a, CASE WHEN EXISTS (SELECT 1 FROM u WHERE u.a = t.a) THEN 1 END AS e"
    " FROM {t}",
    "not in": "SELECT a FROM {t} WHERE a NOT IN (SELECT w FROM u)",
    "subquery in an aggregate": "SELECT s, sum(v + (SELECT max(w) FROM u)) AS x FROM {t} GROUP BY s",
    "window over an aggregate": "SELECT s, rank() OVER (ORDER BY count(*)) AS r FROM {t} GROUP BY s",
    "named window": "SELECT a, lag(v) OVER w AS p FROM {t} WINDOW w AS (PARTITION BY s ORDER BY a)",
    "higher order": "SELECT transform(array(a, v), x -> x + 1) AS xs FROM {t}",
    "nested": "SELECT named_struct('m', map('k', v), 'a', array(a)) AS n FROM {t}",
    "collation": "SELECT s COLLATE UTF8_LCASE AS c, count(*) AS n FROM {t} GROUP BY 1",
    "twice": "WITH c AS (SELECT a, v FROM {t}) SELECT x.a, y.v FROM c x JOIN c y ON x.a = y.v",
    "hint": "SELECT /*+ BROADCAST(u) */ t.a, w FROM {t} JOIN u ON t.a = u.a",
    "limit": "SELECT a, v FROM {t} ORDER BY a, v LIMIT 2",
    "having": "SELECT s, count(DISTINCT a) AS n FROM {t} GROUP BY s HAVING max(v) > 1",
    "distinct window": "SELECT DISTINCT s, max(v) OVER (PARTITION BY s) AS m FROM {t}",
    "full join": "SELECT t.a, u.w FROM {t} FULL JOIN u ON t.a = u.a AND t.v > u.w",
}
PAIRS = list(itertools.product(SHAPES, SOURCES))


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("shapes")), spark=spark) as db:
        db.sql("CREATE TABLE t (a BIGINT, v BIGINT, s STRING)")
        db.sql("CREATE TABLE u (a BIGINT, w BIGINT)")
        with db.transaction() as tx:
            tx.insert("t", [(1, 2, "x"), (2, 3, "y"), (3, None, "X")])
            tx.insert("u", [(1, 2), (5, 3)])
        yield db


def _hunt(db: Database, shape: str, source: str) -> None:
    try:
        db.create_view("shape", SHAPES[shape].format(t=SOURCES[source]))
    except RekindleError:
        return
    try:
        with db.transaction() as tx:
            tx.insert("t", [(1, 9, "y"), (7, 1, None)])
            tx.insert("u", [(2, 1)])
        db.check("shape")
        with db.transaction() as tx:
            tx.delete("t", [(1, 9, "y"), (7, 1, None)])
            tx.delete("u", [(2, 1)])
        db.check("shape")
    finally:
        db.sql("DROP VIEW shape")


@pytest.mark.parametrize(("shape", "source"), PAIRS[::17])
def test_some_shapes(shapes: Database, shape: str, source: str) -> None:
    _hunt(shapes, shape, source)


@pytest.mark.fuzz
@pytest.mark.parametrize(("shape", "source"), PAIRS)
def test_all_shapes(shapes: Database, shape: str, source: str) -> None:
    _hunt(shapes, shape, source)
