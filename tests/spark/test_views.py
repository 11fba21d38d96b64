"""Views: what is kept fresh, what is refused, and how values of every kind behave."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import DefinitionError, EvaluationError, UnsupportedError
from rekindle.runtime.database import Database
from tests.spark.helpers import bag, refused, rows

NAN = float("nan")


def insert(db: Database, table: str, *given: tuple[object, ...]) -> None:
    with db.transaction() as tx:
        tx.insert(table, list(given))


def delete(db: Database, table: str, *given: tuple[object, ...]) -> None:
    with db.transaction() as tx:
        tx.delete(table, list(given))


@pytest.fixture
def pairs(db: Database) -> Database:
    db.sql("CREATE TABLE t (a INT, b INT, s STRING)")
    db.sql("CREATE TABLE u (a INT, c INT)")
    return db


UNSUPPORTED = [
    ("SELECT first(a) AS f FROM t", "first"),
    ("SELECT b, any_value(a) AS f FROM t GROUP BY b", "first"),
    ("SELECT a FROM t TABLESAMPLE (10 PERCENT)", "TABLESAMPLE"),
]


@pytest.mark.parametrize(("query", "word"), UNSUPPORTED, ids=[q for q, _ in UNSUPPORTED])
def test_what_is_not_maintained_is_refused_by_name(pairs: Database, query: str, word: str) -> None:
    with refused(pairs, UnsupportedError, word):
        pairs.create_view("v", query)


POSITIONED = [
    ("SELECT\n  first(a) AS m FROM t", "line 2"),
    ("SELECT b,\n last(a) AS n FROM t GROUP BY b", "line 2"),
]


@pytest.mark.parametrize(("query", "where"), POSITIONED)
def test_a_refusal_says_where(pairs: Database, query: str, where: str) -> None:
    with refused(pairs, UnsupportedError, where):
        pairs.create_view("v", query)


@pytest.mark.parametrize(
    "call", ["current_time()", "rand()", "uuid()", "current_user()", "randn()"]
)
def test_a_volatile_function_is_refused(pairs: Database, call: str) -> None:
    with refused(pairs, UnsupportedError, call.split("(")[0]):
        pairs.create_view("v", f"SELECT a, {call} AS w FROM t")


def test_two_columns_of_one_name_are_refused(pairs: Database) -> None:
    with refused(pairs, DefinitionError, "'a'"):
        pairs.create_view("v", "SELECT t.a, u.a FROM t JOIN u ON t.a = u.a")


def test_overflow_in_a_view_leaves_everything_as_it_was(pairs: Database) -> None:
    pairs.create_view("doubled", "SELECT a + a AS d FROM t")
    pairs.create_view("ratio", "SELECT 100 / b AS r FROM t")
    insert(pairs, "t", (1, 1, "x"))
    with refused(pairs, EvaluationError, "overflow"):
        insert(pairs, "t", (5, 5, "y"), (2**31 - 1, 1, "x"))
    with refused(pairs, EvaluationError, "ivision by zero"), pairs.transaction() as tx:
        tx.insert("u", [(1, 1)])
        tx.insert("t", [(1, 0, "x")])
    insert(pairs, "t", (2, 2, "x"))
    assert rows(pairs, "doubled") == bag([(2,), (4,)])
    assert pairs.check("ratio").rows == 2


def test_overflow_of_a_sum_leaves_everything_as_it_was(db: Database) -> None:
    db.sql("CREATE TABLE big (n BIGINT)")
    db.create_view("total", "SELECT sum(n) AS s FROM big")
    insert(db, "big", (2**63 - 1,))
    with refused(db, EvaluationError):
        insert(db, "big", (1,))
    insert(db, "big", (1,), (-5,))
    assert rows(db, "total") == bag([(2**63 - 5,)])


def test_a_filter_guards_what_comes_after(pairs: Database) -> None:
    pairs.create_view("v", "SELECT a / b AS q FROM (SELECT * FROM t WHERE b <> 0)")
    pairs.create_view("g", "SELECT s, sum(a / b) AS q FROM t WHERE b <> 0 GROUP BY s")
    pairs.create_view("j", "SELECT t.a / u.c AS q FROM t JOIN u ON t.a = u.a WHERE u.c <> 0")
    insert(pairs, "t", (4, 0, "x"), (4, 2, "x"), (None, 0, "y"))
    insert(pairs, "u", (4, 0), (4, 4))
    assert rows(pairs, "v") == bag([(2.0,)])
    assert rows(pairs, "g") == bag([("x", 2.0)])
    assert rows(pairs, "j") == bag([(1.0,), (1.0,)])
    delete(pairs, "t", (4, 0, "x"))
    assert rows(pairs, "j") == bag([(1.0,)])


def test_null_keys_group_together_and_join_nothing(pairs: Database) -> None:
    pairs.create_view("g", "SELECT a, count(*) AS n, count(b) AS m FROM t GROUP BY a")
    pairs.create_view("j", "SELECT t.b, u.c FROM t JOIN u ON t.a = u.a")
    pairs.create_view("e", "SELECT t.b, u.c FROM t JOIN u ON t.a <=> u.a")
    insert(pairs, "t", (None, 1, "x"), (None, None, "x"), (1, 2, "x"))
    insert(pairs, "u", (None, 10), (1, 20))
    assert rows(pairs, "g") == bag([(None, 2, 1), (1, 1, 1)])
    assert rows(pairs, "j") == bag([(2, 20)])
    assert rows(pairs, "e") == bag([(1, 10), (None, 10), (2, 20)])
    delete(pairs, "t", (None, 1, "x"))
    assert rows(pairs, "g") == bag([(None, 1, 0), (1, 1, 1)])
    assert rows(pairs, "e") == bag([(None, 10), (2, 20)])


def test_zeros_and_nans_are_one_key(db: Database) -> None:
    db.sql("CREATE TABLE f (x DOUBLE, y FLOAT, n INT)")
    db.create_view("g", "SELECT x, y, count(*) AS c, sum(n) AS s FROM f GROUP BY x, y")
    db.create_view("d", "SELECT DISTINCT x FROM f")
    db.create_view("j", "SELECT l.n, r.n AS m FROM f l JOIN f r ON l.x = r.x")
    insert(db, "f", (0.0, 1.0, 1), (-0.0, 1.0, 2), (NAN, NAN, 4), (-NAN, NAN, 8))
    assert rows(db, "g") == bag([(0.0, 1.0, 2, 3), (NAN, NAN, 2, 12)])
    assert rows(db, "d") == bag([(0.0,), (NAN,)])
    assert sum(rows(db, "j").values()) == 8
    delete(db, "f", (-0.0, 1.0, 2), (NAN, NAN, 4))
    assert rows(db, "g") == bag([(0.0, 1.0, 1, 1), (NAN, NAN, 1, 8)])
    for view in db.views:
        db.check(view)


def test_a_view_is_a_function_of_its_table_even_on_negative_zero(db: Database) -> None:
    """Spark can tell -0.0 from 0.0 in a projection, though its grouping cannot."""
    db.sql("CREATE TABLE f (x DOUBLE)")
    db.create_view("v", "SELECT CAST(x AS STRING) AS s FROM f")
    insert(db, "f", (-0.0,))
    insert(db, "f", (0.0,))
    db.check("v")


def test_a_view_is_a_function_of_its_table_even_on_the_order_of_a_map(db: Database) -> None:
    db.sql("CREATE TABLE f (m MAP<STRING, INT>)")
    db.create_view("v", "SELECT map_keys(m) AS k FROM f")
    db.sql("INSERT INTO f VALUES (map('a', 1, 'b', 2))")
    db.sql("INSERT INTO f VALUES (map('b', 2, 'a', 1))")
    db.check("v")


def test_a_global_aggregate_has_a_row_from_the_start(pairs: Database) -> None:
    pairs.create_view("n", "SELECT count(*) AS n, sum(a) AS s, avg(b) AS m FROM t")
    assert rows(pairs, "n") == bag([(0, None, None)])
    insert(pairs, "t", (1, 2, "x"))
    assert rows(pairs, "n") == bag([(1, 1, 2.0)])
    delete(pairs, "t", (1, 2, "x"))
    assert rows(pairs, "n") == bag([(0, None, None)])


def test_views_over_views_follow(pairs: Database) -> None:
    insert(pairs, "t", (1, 1, "x"), (1, 1, "x"), (2, 1, "y"))
    pairs.create_view("v", "SELECT a, count(*) AS n FROM t GROUP BY a")
    pairs.create_view("w", "SELECT n, count(*) AS m FROM v GROUP BY n")
    pairs.create_view("x", "SELECT DISTINCT m FROM w")
    assert rows(pairs, "w") == bag([(2, 1), (1, 1)])
    insert(pairs, "t", (2, 5, "z"))
    assert rows(pairs, "w") == bag([(2, 2)])
    assert rows(pairs, "x") == bag([(2,)])
    with pytest.raises(rekindle.RekindleError, match="w"):
        pairs.drop_view("v")


def test_two_views_of_one_query_live_and_die_apart(pairs: Database) -> None:
    query = "SELECT a, count(*) AS n FROM t GROUP BY a"
    pairs.create_view("one", query)
    insert(pairs, "t", (1, 1, "x"))
    pairs.create_view("two", query)
    insert(pairs, "t", (1, 1, "x"))
    assert rows(pairs, "one") == rows(pairs, "two") == bag([(1, 2)])
    pairs.drop_view("one")
    insert(pairs, "t", (1, 1, "x"))
    assert rows(pairs, "two") == bag([(1, 3)])
    pairs.check("two")


def test_a_dataframe_view_survives_reopening(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (a INT, b INT)")
        frame = db.table("t")
        db.create_view("v", frame.where(F.col("b") > 1).groupBy("a").agg(F.sum("b").alias("s")))
        insert(db, "t", (1, 2), (1, 3), (2, 1))
        assert rows(db, "v") == bag([(1, 5)])
        db.check("v")
    with rekindle.connect(warehouse, spark=spark) as db:
        assert rows(db, "v") == bag([(1, 5)])
        delete(db, "t", (1, 2))
        insert(db, "t", (2, 7))
        assert rows(db, "v") == bag([(1, 3), (2, 7)])
        db.check("v")


def test_set_operations_and_lateral_joins_of_dataframes(
    warehouse: str, spark: SparkSession
) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (a INT, b INT)")
        db.sql("CREATE TABLE u (a INT, c INT)")
        t, u = db.table("t"), db.table("u")
        beside = u.where(u.a == F.col("t.a").outer()).select("c")
        found = {
            "both": t.intersect(u),
            "both_all": t.intersectAll(u),
            "one": t.subtract(u),
            "one_all": t.exceptAll(u),
            "nested": t.exceptAll(u.intersectAll(t)).groupBy("a").count(),
            "beside": t.alias("t").lateralJoin(beside, how="left"),
            "most": t.alias("t").lateralJoin(beside.select(F.max("c").alias("m"))),
        }
        for name, frame in found.items():
            db.create_view(name, frame)
        insert(db, "t", (1, 2), (1, 2), (1, 2), (None, 3), (4, None))
        insert(db, "u", (1, 2), (1, 2), (1, 5), (None, 3))
        assert rows(db, "both") == bag([(1, 2), (None, 3)])
        assert rows(db, "both_all") == bag([(1, 2), (1, 2), (None, 3)])
        assert rows(db, "one") == bag([(4, None)])
        assert rows(db, "one_all") == bag([(1, 2), (4, None)])
        assert rows(db, "most") == bag([*[(1, 2, 5)] * 3, (None, 3, None), (4, None, None)])
        before = {name: rows(db, name) for name in found}
    with rekindle.connect(warehouse, spark=spark) as db:
        assert {name: rows(db, name) for name in found} == before
        for change in ("DELETE FROM u WHERE c = 2", "INSERT INTO u VALUES (4, NULL), (1, 2)"):
            db.sql(change)
            for name in found:
                db.check(name)
        assert rows(db, "one_all") == bag([(1, 2), (1, 2)])


def test_fields_of_a_struct_are_not_lost(db: Database) -> None:
    db.sql("CREATE TABLE t (s STRUCT<F: INT>)")
    try:
        insert(db, "t", ({"f": 1},))
    except rekindle.RekindleError:
        return
    assert rows(db, "t") == bag([((1,),)])


def test_empty_batches_lose_no_rows(pairs: Database) -> None:
    with pairs.transaction() as tx:
        for given in ([(1, 1)], [], [], [(2, 2)]):
            tx.insert("u", given)
    assert rows(pairs, "u") == bag([(1, 1), (2, 2)])


def test_arrays_may_hold_nulls(db: Database) -> None:
    db.sql("CREATE TABLE t (a ARRAY<INT>)")
    insert(db, "t", ([1, None],))
    assert rows(db, "t") == bag([([1, None],)])


def test_a_dataframe_over_other_data_is_refused(pairs: Database, spark: SparkSession) -> None:
    with refused(pairs, UnsupportedError):
        pairs.create_view("v", spark.sparkContext.parallelize([(1,)]).toDF(["a"]))


def test_a_join_is_the_same_after_reopening(warehouse: str, spark: SparkSession) -> None:
    """Two filters of one text over tables of different width must not be taken for each other."""
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (a BIGINT, b INT, s STRING)")
        db.sql("CREATE TABLE u (a BIGINT, c DATE)")
        db.create_view("v", "SELECT t.a, b, c FROM t JOIN u ON t.a = u.a")
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("INSERT INTO t VALUES (1, 2, 'x')")
        db.sql("INSERT INTO u VALUES (1, DATE'2024-01-01')")
        db.check("v")


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_a_hot_key_joins_every_pair(pairs: Database, placement: str) -> None:
    pairs.create_view("j", "SELECT t.b, u.c FROM t JOIN u ON t.a = u.a")
    pairs.place(placement)
    insert(pairs, "t", *((0, i, "x") for i in range(30)), *((i, i, "y") for i in range(1, 30)))
    insert(pairs, "u", *((0, i) for i in range(20)), (5, 5), (5, 5))
    assert sum(rows(pairs, "j").values()) == 602
    pairs.check("j")
    with pairs.transaction() as tx:
        tx.delete("t", [(0, i, "x") for i in range(15)])
        tx.delete("u", [(0, i) for i in range(10)])
    assert sum(rows(pairs, "j").values()) == 152
    pairs.check("j")


def test_a_condition_ignores_not_null_columns_that_it_does_not_read(db: Database) -> None:
    """What a semi join with an inequality looks up holds NULL in every column it does not need."""
    db.sql("CREATE TABLE t (k INT NOT NULL, a INT NOT NULL, s STRING NOT NULL)")
    db.sql("CREATE TABLE u (k INT NOT NULL, c INT NOT NULL, s STRING NOT NULL)")
    db.create_view(
        "v",
        "SELECT concat(s, '!') AS s FROM t "
        "WHERE EXISTS (SELECT 1 FROM u WHERE u.k = t.k AND u.c + 1 > t.a + length(t.s))",
    )
    insert(db, "t", (1, 1, "x"), (2, 9, "y"))
    insert(db, "u", (1, 5, "p"), (2, 5, "q"))
    assert rows(db, "v") == bag([("x!",)])
    delete(db, "u", (1, 5, "p"))
    assert rows(db, "v") == bag([])


@pytest.mark.parametrize("place", ["inline", "spark"])
def test_the_last_step_says_where_a_load_ran(db: Database, place: str) -> None:
    """Also that of a table which no view reads, and so no node follows."""
    db.sql("CREATE TABLE lonely (id BIGINT)")
    db.place(place)
    with db.transaction() as tx:
        tx.insert("lonely", db.spark.range(10))
    assert db.last_step is not None and not db.last_step.nodes
    assert db.last_step.placement.value == place
