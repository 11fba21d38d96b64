"""Queries of every kind, kept under inserts and deletes, NULLs, duplicates and empty tables.

After every step each view equals its query run by Spark on the tables as they are then. Some views
are created over empty tables and some over full ones.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database
from tests.property.oracle import without_zeros
from tests.spark.helpers import collected, weighted

pytestmark = pytest.mark.usefixtures("adaptive")

QUERIES = {
    "left join": "select t.k,a,c from t left join u on t.k=u.k",
    "left join with a condition": "select t.k,a,c from t left join u on t.k=u.k and a<c",
    "right join": "select t.k,a,c from t right join u on t.k=u.k",
    "full join": "select t.k,a,u.k kk,c from t full join u on t.k=u.k",
    "full join with a condition": "select t.k,a,u.k kk,c from t full join u on t.k=u.k and a<>c",
    "exists": "select * from t where exists (select 1 from u where u.k=t.k)",
    "exists with an inequality": (
        "select * from t where exists (select 1 from u where u.k=t.k and c>a)"
    ),
    "not exists": "select * from t where not exists (select 1 from u where u.k=t.k)",
    "not in": "select * from t where a not in (select c from u)",
    "correlated not in": "select * from t where a not in (select c from u where u.k=t.k)",
    "in": "select * from t where a in (select c from u)",
    "exists in an expression": "select k, a, exists(select 1 from u where u.k=t.k) or a>2 e from t",
    "range join": "select a, c from t, u where a < c",
    "sums of decimals over a window": (
        "select k, sum(cast(a as decimal(7,2))) over (partition by k order by a) s, "
        "avg(cast(a as decimal(7,2))) over (partition by k) m from t"
    ),
    "min and max": "select k, min(a), max(b), min(s), max(s) from t group by k",
    "global min and max": "select min(a), max(b), count(*), sum(a) from t",
    "distinct aggregate": (
        "select k, count(distinct a), sum(distinct a), count(*), min(b) from t group by k"
    ),
    "several distinct aggregates": (
        "select k, count(distinct a), count(distinct s), sum(a) from t group by k"
    ),
    "collected values": (
        "select k, sort_array(collect_list(a)), sort_array(collect_set(s)) x from t group by k"
    ),
    "percentiles": (
        "select k, percentile(b, 0.5), median(a), mode() within group (order by a) often from "
        "t group by k"
    ),
    "filtered aggregates": (
        "select k, count(*) filter (where a>1), max(b) filter (where a>1), collect_set(a) "
        "filter (where a>100) from t group by k"
    ),
    "other aggregates": (
        "select k, round(skewness(b), 6), round(kurtosis(b), 6), bit_and(a), bool_and(a>1), "
        "approx_count_distinct(s) from t group by k"
    ),
    "top rows": "select * from t order by a desc, b, k, s limit 3",
    "top rows after an offset": "select * from t order by s, a, k, b limit 2 offset 1",
    "limit below a projection": "select k from (select k, a from t order by a, k limit 4)",
    "ranks and running sums": (
        "select *, rank() over (partition by k order by a) r, dense_rank() over "
        "(partition by k order by a) dr, sum(b) over (partition by k order by a) sb from "
        "t"
    ),
    "window over all rows": "select *, count(*) over () n from t",
    "first rows of a partition": (
        "select k, a, rn from (select k, a, row_number() over (partition by k order by a "
        "desc) rn from t) where rn <= 2"
    ),
    "first ranks of a partition": (
        "select k, a, rn from (select k, a, rank() over (partition by k order by a desc) "
        "rn from t) where rn <= 2"
    ),
    "scalar subquery": "select * from t where b > (select avg(d) from u)",
    "scalar subquery as a column": "select k, (select max(c) from u) m from t",
    "correlated scalar subquery": "select * from t where b > (select avg(d) from u where u.k=t.k)",
    "except": "select k,a from t except select k,c from u",
    "except all": "select k,a from t except all select k,c from u",
    "intersect": "select k,a from t intersect select k,c from u",
    "intersect all": "select k,a from t intersect all select k,c from u",
    "rollup": (
        "select k, a, sum(b), min(c) m from (select t.k, a, b, c from t join u on "
        "t.k=u.k) group by rollup(k,a)"
    ),
    "join with constants": (
        "select t.k, v.n from t join (values (1,'one'),(2,'two')) v(i,n) on t.k=v.i"
    ),
    "constants": "select * from values (1,2),(3,4)",
    "a query without a table": "select csc(1) x, explode(array(1, 2)) y",
    "subqueries of one row": "select 1 in (select a from t) b, exists (select * from u) e",
    "a left join of one row": "select x, a from (select 1 x) c left join t on x = a",
    "an aggregate that is a constant": "select distinct cast(null as double) * max(-a) m from t",
    "a union with one row": "select a from t union all select 7",
    "a scalar subquery alone": "select (select max(a) from t) m",
    "nothing": "select k from t where false",
    "generator": "select k, x from t lateral view stack(2, a, a+1) as x",
    "having": "select k, max(a) m from t group by k having min(a) < 3",
    "pivot": "select * from (select k, a, s from t) pivot (sum(a) for s in ('x','y'))",
    "not in of two columns": "select k from t where (k, a) not in (select k, c from u)",
    "subquery under an aggregate": (
        "select k, count(*) from t where a >= (select min(c) from u where u.k=t.k) group by k"
    ),
    "lateral join": (
        "select t.k, l.* from t, lateral (select sum(c) s, max(c) m from u where u.k=t.k) l"
    ),
    "scalar subquery of one row": (
        "select k, (select c from u where u.k = t.k and c = 100) x from t"
    ),
    "scalar subquery of one row by an inequality": (
        "select k, (select m from (select k, max(c) m from u group by k) g "
        "where g.k = t.k and g.m > t.a) x from t"
    ),
    "NULL of no type": "select k, null n, array(null) x, struct(a, null) y from t",
    "NULL of no type in groups": "select n, count(*) c from (select null n, a from t) group by n",
    "max_by and min_by": "select k, max_by(a, a * 2), min_by(a, a) from t group by k",
    "shared common table expression": (
        "with q as (select k, sum(a) x from t group by k) select q.k, q.x, r.x y from q "
        "join q r on q.x < r.x"
    ),
}

ON_SPARK = (
    "full join with a condition",
    "not in",
    "global min and max",
    "distinct aggregate",
    "collected values",
    "top rows",
    "ranks and running sums",
    "first rows of a partition",
    "join with constants",
    "generator",
)
"""What is tried with steps on Spark too, where each takes seconds."""

Row = tuple[object, ...]


class _Tables:
    """Two tables that change at random, and the rows that they hold."""

    def __init__(self, db: Database, seed: int) -> None:
        self._db = db
        self._random = random.Random(seed)
        self._live: dict[str, list[Row]] = {"t": [], "u": []}
        db.sql("CREATE TABLE t (k INT, a INT, b DOUBLE, s STRING)")
        db.sql("CREATE TABLE u (k INT, c INT, d DOUBLE)")

    def reopened(self, db: Database) -> _Tables:
        """The same tables through another connection."""
        self._db = db
        return self

    def step(self) -> None:
        """Insert and delete a few rows of both tables in one transaction."""
        with self._db.transaction() as tx:
            for table, live in self._live.items():
                gone = [
                    live.pop(self._random.randrange(len(live)))
                    for _ in range(min(len(live), self._random.randint(0, 4)))
                ]
                new = [self._row(table) for _ in range(self._random.randint(1, 6))]
                live += new
                tx.delete(table, gone)
                tx.insert(table, new)

    def clear(self) -> None:
        """Delete every row."""
        with self._db.transaction() as tx:
            for table, live in self._live.items():
                tx.delete(table, live)
                live.clear()

    def _row(self, table: str) -> Row:
        pick = self._random.choice
        numbers = [None, 0, 1, 2, 3, 4]
        if table == "t":
            return pick(numbers[:5]), pick(numbers), pick([None, 0.5, 2.0, -0.0, 7.5]), pick("xyz")
        return pick(numbers), pick(numbers), pick([None, 0.5, 1.5])


def _agree(db: Database, views: Iterable[str]) -> None:
    for view in views:
        kept, recomputed = collected(db.table(view)), collected(db.recompute(view))
        assert kept == recomputed, (view, kept - recomputed, recomputed - kept)


def _name(kind: str) -> str:
    return "v_" + "".join(c if c.isalnum() else "_" for c in kind)


@pytest.mark.parametrize("part", range(4))
def test_every_kind_of_query_follows_changes(db: Database, part: int) -> None:
    db.place("inline")
    tables = _Tables(db, part)
    kinds = list(QUERIES)[part::4]
    views = [_name(kind) for kind in kinds]
    for kind, view in list(zip(kinds, views, strict=True))[::2]:
        db.create_view(view, QUERIES[kind])
    tables.step()
    for kind, view in list(zip(kinds, views, strict=True))[1::2]:
        db.create_view(view, QUERIES[kind])
    _agree(db, views)
    tables.step()
    tables.step()
    _agree(db, views)
    tables.clear()
    _agree(db, views)
    tables.step()
    _agree(db, views)


def test_every_kind_of_query_is_found_again_and_can_be_rebuilt(
    warehouse: str, spark: SparkSession
) -> None:
    """A view's term is kept as text and Java objects: each kind must come back as it was.

    Filled anew instead of followed it has the same contents, and changes that lead to them.
    """
    views = {_name(kind): query for kind, query in QUERIES.items()}
    with rekindle.connect(warehouse, spark=spark) as db:
        tables = _Tables(db, 7)
        tables.step()
        for view, query in views.items():
            db.create_view(view, query)
    with rekindle.connect(warehouse, spark=spark) as db:
        before = {view: collected(db.table(view)) for view in views}
        db.refresh_by("full")
        tables.reopened(db).step()
        _agree(db, views)
        for view in views:
            total = Counter(before[view])
            total.update(weighted(db.changes(view, since=db.epoch - 1)))
            assert without_zeros(total) == collected(db.table(view)), view
        db.refresh_by("incremental")
        tables.step()
        _agree(db, views)


def test_on_spark_too(db: Database) -> None:
    tables = _Tables(db, 11)
    views = [_name(kind) for kind in ON_SPARK]
    for kind, view in zip(ON_SPARK, views, strict=True):
        db.create_view(view, QUERIES[kind])
    tables.step()
    db.place("spark")
    tables.step()
    _agree(db, views)
    tables.clear()
    _agree(db, views)
