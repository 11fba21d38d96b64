"""MRQL views: after every batch each is what its query means on the rows of the tables.

The meaning is that of the interpreter on Python values, apart from Spark. Every view has to follow
incrementally, and a planted error is seen.
"""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import (
    EvaluationError,
    RekindleError,
    StatementError,
    StorageError,
    UnknownNameError,
    UnsupportedError,
)
from rekindle.frontends.mrql.front_end import Mrql
from rekindle.frontends.mrql.rows import bag_of, element_of
from rekindle.mrql_language.parse import parse_expression, parse_statement, pieces
from rekindle.mrql_language.session import Session
from rekindle.mrql_language.values import Bag, List, Long, Record, Value
from rekindle.runtime.database import Database
from tests.mrql.cases import queries
from tests.mrql.test_golden import GOLDEN, JOIN

DEFINITIONS = """
function twice ( x: long ): long { x * 2 };
function heavy ( xs: bag(long) ): bag(long) { select x from x in xs where x > 1 };
macro near ( a, b ) { abs(a - b) <= 1 };
function turned ( x: bag(long), y: bag(long) ): (bag(long), bag(long)) {
  repeat (x1, y1) = (x, y) step let z = select a + 1 from a in y1 where a < 300 in (z, x1) limit 107
};
function larger ( x: long, y: long ): long { if x > y then x else y };
aggregation longest ( larger, 0 as long ) : long;
"""
VIEWS = {
    "join_group": "select (k, avg(r.w)) from s in S, r in R where s.k = r.k group by k: s.v",
    "many": "select <a: s.v, b: r.w> from s in S, r in R where s.k = r.k",
    "counts": "select (s.k, count(select r.w from r in R where r.k = s.k), sum(select r.w * s.v "
    "from r in R where r.k = s.k)) from s in S",
    "total": "sum(select s.v from s in S) - count(R)",
    "above": "select s from s in S where s.v > sum(select r.w from r in R where r.k = s.k)",
    "distinct_": "select distinct (s.k, s.v) from s in S",
    "except_": "(select s.k from s in S) except (select r.k from r in R)",
    "intersect_": "(select s.k from s in S) intersect (select r.k from r in R)",
    "bags": "select (k, v, count(v)) from s in S, v = s.v group by k: s.k having count(v) > 1",
    "best": "select (k, (select x from x in v order by x desc)[0]) from s in S, v = s.v "
    "group by k: s.k",
    "top": "select (s.v, s.k) from s in S order by s.v desc, s.k limit 3",
    "some_": "select s from s in S where some r in R: r.k = s.k and r.w > s.v",
    "all_": "select s from s in S where all r in R: r.w > s.v",
    "unequal": "select (s.v, count(select r from r in R where r.w > s.v)) from s in S",
    "inner_groups": "select (k, select (j, count(w)) from w in v group by j: w mod 2) "
    "from s in S, v = s.v group by k: s.k",
    "regrouped": "select (m, count(k)) from (k,n) in (select (k, sum(v)) from s in S, v = s.v "
    "group by k: s.k) group by m: n mod 2",
    "own_monoid": "select (k, longest(v)) from s in S, v = s.v group by k: s.k",
    "functions": "select (twice(s.v), near(s.v, 2), count(heavy(select t.v from t in S "
    "where t.k = s.k))) from s in S",
    "union_": "select x from x in (select s.v from s in S) union (select r.w from r in R) "
    "where x > 0",
    "nested": "select (n.id, i.q, sum(select j.q from j in n.items)) from n in N, i in n.items "
    "where i.q > 0",
    "nested_join": "select (i.k, s.v) from n in N, i in n.items, s in S where i.k = s.k",
    "steps": "repeat nodes = select (s.k, 0 as long) from s in S where s.v = 1 "
    "step select ((r.w, n + 1), true) from (k, n) in nodes, r in R where r.k = k limit 3",
    "grows": "repeat nodes = select s.k from s in S where s.v = 1 step nodes union "
    "(select r.w from n in nodes, r in R where r.k = n and r.w > n) limit 4",
    "stops": "repeat x = {1 as long} step select (if y < 3 then y + 1 else y, "
    "y < 2 and count(S) > 3) from y in x limit 6",
    "together": "(repeat (a, b) = ({1 as long}, select s.k from s in S) step (b, "
    "select r.w from k in b, r in R where r.k = k) limit 2)#1",
    "alternate": "let (a, b) = repeat (a, b) = ({1 as long}, select s.k from s in S) step (b, "
    "select distinct n from n in a union (select r.w from k in b, r in R where r.k = k)) limit 150 "
    "in select (x, count(select y from y in b where y = x)) from x in a",
    "in_turns": "turned((select s.v from s in S), {0 as long})#1",
    "paired": "let (n, xs) = (count(R), select s.v from s in S) in select x * n from x in xs",
    "largest": "(select <k: s.k, v: s.v> from s in S where s.v > 2 order by s.v desc, s.k)[0]",
    "columns": "(sum(S.v), count(R.w), max(R.w))",
    "quantified": "some s in S: s.v > 3",
    "chosen": "select if s.v > 1 then (s.k, true) else (s.v, false) from s in S",
    "cases": 'select (case s.v { 1: "one" | 2: "two" | *: "more" }, case (s.k, s.v) { (1, x): x '
    "| (a, 2): 0 as long | *: s.v * 10 }, case s { <v: 4, k: k>: k | *: 7 as long }) from s in S",
    "lists": "select (case (select x from x in v order by x) { [a, b]: a - b | [a]: a "
    "| *: 0 as long }) from s in S, v = s.v group by k: s.k",
    "list_rows": "select (k, a, b) from (k, l) in (select (k, (select x from x in v order by x)) "
    "from s in S, v = s.v group by k: s.k), [a, b] in {l}",
    "reached": "repeat nodes = select s.k from s in S where s.v = 1 step select distinct n "
    "from n in nodes union (select r.w from m in nodes, r in R where r.k = m)",
    "converges": "repeat x = select (s.k, s.v) from s in S step select ((k, if v < 4 then v + 1 "
    "else v), v < 3) from (k, v) in x",
    "far": "repeat x = {1} step select (y + count(S), y < 600) from y in x limit 150",
    "smallest": "repeat x = select (s.k, s.v) from s in S step select ((k, min(w)), some(select "
    "n > m from n in w, m in w)) from (k, v) in x, (j, u) in x, w = if v > u then u else v "
    "group by k",
    "reach_of_each": "select (s.v, member(s.k, repeat x = {1 as long} step select distinct n "
    "from n in x union (select r.w from m in x, r in R where r.k = m)), count(repeat x = "
    "{2 as long} step select distinct n from n in x union (select r.w from m in x, r in R "
    "where r.k = m) limit 1000)) from s in S",
    "over_view": "select (a, sum(b)) from m in many, b = m.b group by a: m.a",
}
BRIEF = (
    "join_group",
    "many",
    "counts",
    "total",
    "except_",
    "bags",
    "own_monoid",
    "some_",
    "unequal",
    "nested_join",
    "stops",
    "cases",
    "lists",
    "list_rows",
    "reached",
    "converges",
    "alternate",
    "paired",
    "columns",
)
"""The views of every run of the tests; the others are tried where there is time."""


def number(value: float) -> object:
    """Infinity is what the language has for the least of nothing, where the engine has NULL."""
    return None if math.isinf(value) else "NaN" if math.isnan(value) else round(float(value), 9)


def comparable(value: Value) -> Any:
    """A value that is equal for equal values, whatever the width and rounding of numbers."""
    match value:
        case Bag():
            return ("bag", sorted(map(comparable, value), key=repr))
        case List():
            return ("list", list(map(comparable, value)))
        case Record():
            return ("record", [(name, comparable(item)) for name, item in value.fields])
        case ():
            return None
        case tuple():
            return tuple(map(comparable, value))
        case bool():
            return value
        case int() | float():
            return number(value)
        case _:
            return value


def meaning(db: Database, query: str) -> Value:
    """What a query means on the rows that tables and views hold."""
    tables = {}
    for name in (*db.tables, *db.views):
        if name in query:
            frame = db.table(name)
            tables[str(name)] = bag_of(frame.collect(), frame.schema)
    session = Session(tables=tables)
    for piece in pieces(DEFINITIONS):
        session.execute(parse_statement(piece))
    return session.evaluate(parse_expression(query))


def found(db: Database, name: str) -> Value:
    frame = db.table(name)
    return Bag(element_of(row, frame.schema) for row in frame.collect())


def check(db: Database, name: str) -> None:
    wanted = meaning(db, VIEWS[name])
    rows = wanted if isinstance(wanted, Bag | List) else Bag((wanted,))
    assert comparable(found(db, name)) == comparable(Bag(rows)), (name, VIEWS[name])


@pytest.fixture(scope="module")
def db(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    made = rekindle.connect(str(tmp_path_factory.mktemp("mrql") / "w"), spark)
    made.create_table("S", "k BIGINT, v BIGINT NOT NULL")
    made.create_table("R", "k BIGINT, w BIGINT NOT NULL")
    made.create_table("N", "id BIGINT, items ARRAY<STRUCT<k: BIGINT, q: BIGINT>>")
    assert made.mrql(DEFINITIONS) == []
    with made.transaction() as tx:
        tx.insert("S", [(1, 1), (1, 2), (1, 2), (2, 4), (None, 3)])
        tx.insert("R", [(1, 2), (2, 1), (2, 1), (3, 0), (None, 5)])
        tx.insert("N", [(1, [(1, 2), (1, 2), (2, 0)]), (2, [])])
    for name in BRIEF:
        made.create_view(name, rekindle.mrql(VIEWS[name]), incremental="required")
    yield made
    made.close()


def change(db: Database, draw: random.Random, batch: int) -> None:
    with db.transaction() as tx:
        for table in ("S", "R"):
            rows = [tuple(row) for row in db.table(table).collect()]
            tx.delete(table, draw.sample(rows, min(len(rows), 2)))
            new = [(draw.choice((1, 2, 3, None)), draw.randrange(5)) for _ in range(3)]
            tx.insert(table, new)
        tx.insert("N", [(batch + 3, [(draw.randrange(3), draw.randrange(4))] * 2)])
        if batch == 1:
            tx.delete("N", [(1, [(1, 2), (1, 2), (2, 0)])])


def test_views_are_what_their_queries_mean(db: Database) -> None:
    draw = random.Random(7)
    for batch in range(2):
        change(db, draw, batch)
        for name in BRIEF:
            check(db, name)
    wrong = comparable(found(db, "many"))
    db.sql("INSERT INTO S VALUES (2, 3)")
    assert comparable(found(db, "many")) != wrong
    check(db, "many")


def test_explain_of_the_papers_example(db: Database) -> None:
    db.create_table("S1", "A BIGINT, B BIGINT")
    db.create_table("S2", "C BIGINT, D DOUBLE")
    db.create_view("paper", rekindle.mrql(JOIN), incremental="required")
    said = json.loads(db.explain("paper").json())["language"]
    assert f"{said}\n" == (GOLDEN / "view.txt").read_text()


def wait(holds: Callable[[], bool]) -> None:
    """Until a stream has brought what it has to."""
    end = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.2)


def test_streams_feed_views(spark: SparkSession, tmp_path: Path) -> None:
    """Directories are watched, each batch is one epoch, and a restart goes on where it was."""
    arriving, fixed = tmp_path / "arriving", tmp_path / "fixed"
    for folder, lines in ((arriving, "1,2.5\n2,1.0\n"), (fixed, "1,one\n2,two\n")):
        folder.mkdir()
        (folder / "first.csv").write_text(lines)
    query = f"""
        select (n, sum(v)) from (k, v) in stream(line, "{arriving}", ",", type((long,double))),
               (k, n) in source(line, "{fixed}", ",", type((long,string)))
         group by n: n
    """

    db = rekindle.connect(str(tmp_path / "w"), spark)

    def totals() -> dict[str, float]:
        return dict(tuple(row) for row in db.table("totals").collect())

    db.create_view("totals", rekindle.mrql(query), incremental="required")
    db.create_view("number", rekindle.mrql(f'count(stream(text, "{arriving}"))'))
    assert sorted(db.tables) == ["arriving", "arriving_2", "fixed"]
    wait(lambda: totals() == {"one": 2.5, "two": 1.0})
    db.close()

    (arriving / "second.csv").write_text("1,0.5\n")
    db = rekindle.connect(str(tmp_path / "w"), spark)
    assert sorted(db.resume_streams()) == ["arriving", "arriving_2"]
    wait(lambda: totals() == {"one": 3.0, "two": 1.0})
    wait(lambda: db.table("number").collect()[0]["value"] == 3)
    assert "⊢ arriving : ⊎" in str(db.explain("totals"))
    with pytest.raises(UnsupportedError, match="cannot follow a source of 'xml'"):
        db.create_view("bad", rekindle.mrql(f'count(source(xml, "{fixed}", {{"a"}}))'))
    db.close()


def test_streams_with_deletions_and_files_of_answers(spark: SparkSession, tmp_path: Path) -> None:
    """A tag says which rows come and go; each epoch's answer is a file, also after a restart."""
    arriving, answers = tmp_path / "arriving", tmp_path / "answers"
    arriving.mkdir()
    stream = f'stream(line, "{arriving}", ",", type(<op:string,k:int,v:long>), "op")'
    query = f"select (k, sum(v)) from s in {stream}, v = s.v group by k: s.k"

    def arrives(name: str, lines: str) -> None:
        (tmp_path / name).write_text(lines)
        (tmp_path / name).rename(arriving / name)

    arrives("1.csv", "insert,1,5\ninsert,1,5\ninsert,2,1\n")
    db = rekindle.connect(str(tmp_path / "w"), spark)
    db.create_view("totals", rekindle.mrql(query), incremental="required")
    db.create_view("same", rekindle.mrql(f"count({stream})"))
    assert db.tables == ["arriving"] and db.table("arriving").columns == ["k", "v"]
    wait(lambda: db.table("same").collect()[0]["value"] == 3)
    with db.write_files("totals", answers) as files:
        arrives("2.csv", "delete,1,5\ndelete,2,1\ninsert,3,7\n")
        wait(lambda: db.table("same").collect()[0]["value"] == 2)
        assert files.wait(timeout=60)
    assert [path.read_text() for path in sorted(answers.iterdir())] == [
        "1,10\n2,1\n",
        "1,5\n3,7\n",
    ]
    assert sorted(db.mrql(f"select (s.k, s.v) from s in {stream};")[0]) == [(1, 5), (3, 7)]
    db.close()

    arrives("3.csv", "delete,3,7\n")
    db = rekindle.connect(str(tmp_path / "w"), spark)
    db.resume_streams()
    with db.write_files("totals", answers) as files:
        wait(lambda: db.table("same").collect()[0]["value"] == 1)
        assert files.wait(timeout=60)
    assert [path.read_text() for path in sorted(answers.iterdir())][2:] == ["1,5\n"]
    with pytest.raises(UnsupportedError, match="no deletions"):
        db.create_view("bad", rekindle.mrql(f"count({stream.replace('stream', 'source')})"))
    with pytest.raises(EvaluationError, match="no column 'what'"):
        untold = stream.replace('"op"', '"what"')
        db.create_view("bad", rekindle.mrql(f"count({untold})"))
    (tmp_path / "taken").write_text("")
    with pytest.raises(StorageError, match="no files can be written"):
        db.write_files("totals", tmp_path / "taken")
    db.close()


def test_streams_of_two_directories(spark: SparkSession, tmp_path: Path) -> None:
    """Rows come by one directory and go by the other; a restart knows both."""
    for folder in ("arriving", "leaving", "hidden"):
        (tmp_path / folder).mkdir()
    stream = (
        f'stream(line, ("{tmp_path}/arriving", "{tmp_path}/leaving"), ",", type(<k:int,v:long>))'
    )
    query = f"select (k, sum(v)) from s in {stream}, v = s.v group by k: s.k"

    def put(folder: str, name: str, lines: str) -> None:
        (tmp_path / "hidden" / name).write_text(lines)
        (tmp_path / "hidden" / name).rename(tmp_path / folder / name)

    def totals(db: Database) -> dict[int, int]:
        return dict(tuple(row) for row in db.table("totals").collect())

    put("arriving", "1.csv", "1,5\n1,5\n2,1\n")
    db = rekindle.connect(str(tmp_path / "w"), spark)
    db.create_view("totals", rekindle.mrql(query), incremental="required")
    db.create_view("same", rekindle.mrql(f"count({stream})"))
    assert db.tables == ["arriving"]
    wait(lambda: totals(db) == {1: 10, 2: 1})
    put("leaving", "2.csv", "1,5\n2,1\n")
    wait(lambda: totals(db) == {1: 5})
    db.close()

    put("leaving", "3.csv", "1,5\n")
    put("arriving", "4.csv", "3,7\n")
    db = rekindle.connect(str(tmp_path / "w"), spark)
    assert sorted(db.resume_streams()) == ["arriving"]
    wait(lambda: totals(db) == {3: 7})
    wait(lambda: db.table("same").collect()[0]["value"] == 1)
    assert sorted(db.mrql(f"select (s.k, s.v) from s in {stream};")[0]) == [(3, 7)]
    with pytest.raises(UnsupportedError, match="needs no tag"):
        tagged = stream.replace("v:long>)", 'v:long,op:string>), "op"')
        db.create_view("bad", rekindle.mrql(f"count({tagged})"))
    nowhere = f"{tmp_path}/nowhere"
    for request in (
        f'source(line, "{nowhere}", ",", type((int,int)))',
        f'source(parquet, "{nowhere}")',
        f'stream(line, "{nowhere}", ",", type((int,int)))',
        f'stream(text, ("{tmp_path}/arriving", "{nowhere}"))',
    ):
        with pytest.raises(RekindleError, match=r"(?s)Path does not exist.*nowhere"):
            db.create_view("bad", rekindle.mrql(f"count({request})"))
        assert (db.tables, [each.name for each in db.streams]) == (["arriving"], ["arriving"])
        assert "bad" not in db.views, "nothing is left of it"
    with pytest.raises(EvaluationError, match="name of a directory is a text"):
        db.create_view("bad", rekindle.mrql('count(stream(line, 5, ",", type((int,int))))'))
    with pytest.raises(EvaluationError, match="where rows come, and where they go"):
        db.create_view("bad", rekindle.mrql('count(stream(text, ("a", "b", "c")))'))
    db.close()


@pytest.mark.slow
def test_more_views_are_what_their_queries_mean(db: Database) -> None:
    draw = random.Random(8)
    more = [name for name in VIEWS if name not in BRIEF]
    for name in more:
        db.create_view(name, rekindle.mrql(VIEWS[name]), incremental="required")
    for batch in range(2, 4):
        change(db, draw, batch)
        for name in more:
            check(db, name)


@pytest.mark.slow
def test_views_are_the_same_where_steps_are_jobs(db: Database) -> None:
    draw = random.Random(9)
    db.place("spark")
    try:
        change(db, draw, 4)
        assert db.last_step is not None and db.last_step.placement.value == "spark"
    finally:
        db.place(None)
    for name in BRIEF:
        check(db, name)


NAMES = (
    "S = select (x.k, x.v) from x in TS; R = select (x.k, x.v) from x in TR; "
    "D = select (x.k, x.v) from x in TD;"
)


def _random_view(
    db: Database, query: str, draw: random.Random, placement: str | None = None
) -> None:
    """A query over pairs as a view, against its meaning, after some batches."""
    names = {"TS": "S", "TR": "R", "TD": "D"}
    db.create_view("random_", Mrql(query, NAMES))
    db.place(placement)
    try:
        for _ in range(2):
            with db.transaction() as tx:
                for table in ("TS", "TR"):
                    held = [tuple(row) for row in db.table(table).collect()]
                    tx.delete(table, draw.sample(held, len(held) // 2))
                    tx.insert(table, [(draw.randrange(4), draw.randrange(-3, 5)) for _ in "abc"])
            tables = {
                name: Bag(tuple(map(Long, row)) for row in db.table(table).collect())
                for table, name in names.items()
            }
            wanted = Session(tables=tables).evaluate(parse_expression(query))
            rows = wanted if isinstance(wanted, Bag | List) else Bag((wanted,))
            assert comparable(found(db, "random_")) == comparable(Bag(rows)), query
    finally:
        db.place(None)
        db.drop_view("random_")


@pytest.fixture(scope="module")
def pairs(db: Database) -> Database:
    for name in ("TS", "TR", "TD"):
        db.create_table(name, "k BIGINT NOT NULL, v BIGINT NOT NULL")
    db.sql("INSERT INTO TD VALUES (1, 1), (2, 0), (2, 3)")
    return db


@given(query=queries, seed=st.integers(0, 99))
@settings(max_examples=5)
def test_random_views(pairs: Database, query: str, seed: int) -> None:
    _random_view(pairs, query, random.Random(seed))


@pytest.mark.fuzz
@given(query=queries, seed=st.integers(0, 99), placement=st.sampled_from(("inline", "spark")))
@settings(max_examples=100)
def test_many_random_views(pairs: Database, query: str, seed: int, placement: str) -> None:
    _random_view(pairs, query, random.Random(seed), placement)


def test_scripts(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lines.csv").write_text("1,a\n2,b\n")
    db = rekindle.connect(str(tmp_path / "w"), spark)
    db.create_table("S", "k BIGINT, v BIGINT")
    db.sql("INSERT INTO S VALUES (1, 2), (1, 4), (2, 5)")
    results = db.mrql(
        f"""
        function next ( x: long ): long {{ x + 1 }};
        function fact ( x: int ): int {{ if x <= 1 then 1 else x * fact(x-1) }};
        n = 5;
        1 + 2; {{1}}; select (s.k, next(s.v)) from s in S where s.v < n;
        (count(S), sum(select s.v from s in S));
        select fact(s.v as int) from s in S;
        select <t: t> from (i, t) in source(line, "{tmp_path}/lines.csv", ",", type((int,string)));
        store big := 5000000000 as long;
        store copy := select <a: s.k, b: s.v + n> from s in S;
        select c.a from c in copy;
        upper("a"); select (concat_ws("-", "x", t), date_add(to_date("2024-02-28"), i)) from
          (i, t) in source(line, "{tmp_path}/lines.csv", ",", type((int,string)));
        """
    )
    three, one, rows, both, facts, texts, copied, upper, dates = results
    assert upper == "A"
    assert sorted(dates) == [("x-a", dt.date(2024, 2, 29)), ("x-b", dt.date(2024, 3, 1))]
    assert (three, one, both) == (3, [1], (3, 11))
    assert sorted(rows.collect()) == [(1, 3), (1, 5)]
    assert (sorted(facts), texts) == ([2, 24, 120], [{"t": "a"}, {"t": "b"}])
    assert sorted(tuple(row) for row in copied.collect()) == [(1,), (1,), (2,)]

    for statement, words in (
        ("store S := 3;", "'S' is a table or view"),
        ("select explode({1}) from s in S;", "no function 'explode'"),
        ("select s from s in S order by s.k limit 1.5;", "a limit is a whole number"),
        ("year(1, 2);", "year"),
    ):
        with pytest.raises(RekindleError, match=words):
            db.mrql(statement)

    db.create_view("v", rekindle.mrql("select (next(s.v), big) from s in S where s.v < n"))
    db.sql("CREATE MATERIALIZED VIEW w AS MRQL select (k, sum(s.v)) from s in S group by k: s.k")
    assert db.definition("w").endswith("AS\nMRQL select (k, sum(s.v)) from s in S group by k: s.k")
    exact = (
        "CREATE MATERIALIZED VIEW e OPTIONS (iteration = 'exact') AS\nMRQL repeat x = {1} step "
        "select (y + count(S), true) from y in x limit 2"
    )
    db.sql(exact)
    assert db.definition("e") == exact and "iteration: exact" in str(db.explain("e"))
    with pytest.raises(UnsupportedError, match="'approximate' is not offered"):
        db.sql(exact.replace(" e ", " f ").replace("'exact'", "'approximate'"))
    assert "n = 5;" in db.definition("v")
    assert "⊗  T1 : ↑[□×(+)]" in str(db.explain("w"))
    for query, error, words in (
        ("select x frm y", StatementError, "line 1, column 10"),
        ("select s.kk from s in S", UnknownNameError, "no field 'kk'"),
        ("select s from s in SS", StatementError, "there is no 'SS'"),
        ("select (k, v) from (k, v) in S", UnsupportedError, "rows of tables are records"),
        ("select fact(s.v as int) from s in S", UnsupportedError, "calls itself"),
        ("x = 1", StatementError, "the last statement is none"),
        (
            "data c = C: long; select case C(s.v) { C(x): x | *: 1 } from s in S",
            UnsupportedError,
            "data type",
        ),
    ):
        with pytest.raises(error, match=words):
            db.create_view("bad", rekindle.mrql(query))
    db.close()

    db = rekindle.connect(str(tmp_path / "w"), spark)
    db.sql("INSERT INTO S VALUES (1, 1)")
    assert sorted(db.table("v").collect()) == [(n, 5_000_000_000) for n in (2, 3, 5)]
    assert db.mrql("big + 1;") == [5_000_000_001]
    db.check("v")
    db.check("w")
    db.close()


def test_definitions_come_after_what_they_use(db: Database) -> None:
    """A function may be given anew after others that use it, and a data type is a definition."""
    db.mrql("""
        function scaled ( x: long ): long { x };
        function moved ( x: long ): long { scaled(x) + 1 };
        function scaled ( x: long ): long { x * 10 };
        data shade = Light: long | Dark: string;
        function kept ( x: long, y: shade ): long { x };
        macro bare ( x ) { kept(x, null) };
    """)
    db.create_view("moved_", rekindle.mrql("select moved(s.v) - 1 from s in S"))
    held = sorted(row["v"] * 10 for row in db.table("S").collect())
    assert sorted(row["value"] for row in db.table("moved_").collect()) == held
    db.create_view("kept_", rekindle.mrql("select bare(s.v) from s in S"))
    assert "data shade" in db.definition("kept_") and db.table("kept_").count() == len(held)


def test_bags_are_equal_whatever_their_order(db: Database) -> None:
    """Two rows with one bag in different orders read one nested answer, and read it once each."""
    db.create_table("B", "id BIGINT, xs ARRAY<BIGINT>")
    db.sql("INSERT INTO B VALUES (1, array(1, 2)), (2, array(2, 1)), (3, array())")
    asked = "select (b.id, count(select r from r in R where member(r.k, b.xs))) from b in B"
    db.create_view("in_bags", rekindle.mrql(asked))
    counted = dict(tuple(row) for row in db.table("in_bags").collect())
    assert counted[1] == counted[2] > 0 == counted[3]
    with pytest.raises(UnsupportedError, match="descend"):
        ordered = "select distinct s.k from s in S order by s.v desc, s.k limit 2"
        db.create_view("ordered", rekindle.mrql(ordered))


def test_a_table_may_have_the_name_of_arguments(spark: SparkSession, tmp_path: Path) -> None:
    with rekindle.connect(str(tmp_path / "w"), spark) as db:
        db.create_table("args", "x BIGINT")
        db.sql("INSERT INTO args VALUES (1), (2)")
        assert db.mrql("count(args);") == [2]
        db.mrql("store v := 5; store v := select <y: a.x> from a in args;")
        assert db.mrql("args = select a from a in args where a.x > 1; count(args);") == [1]
    with rekindle.connect(str(tmp_path / "w"), spark) as db:
        assert sorted(row["y"] for row in db.mrql("v;")[0].collect()) == [1, 2]


def test_a_stored_value_is_a_value(spark: SparkSession, tmp_path: Path) -> None:
    """A text that would read a file if it were looked at again gives what it is, and no more."""
    (tmp_path / "private.txt").write_text("secret")
    with rekindle.connect(str(tmp_path / "w"), spark) as db:
        db.create_table("t", "a BIGINT")
        db.mrql("store lim := 3;")
        text = f'if true then 3 else count(source(text, "{tmp_path}/private.txt"))'
        stored = next(name for name in db._engine.state.entries if "stored" in name)
        db.change(lambda tx: tx.upsert(stored, [("lim", text)]))
    with rekindle.connect(str(tmp_path / "w"), spark) as db:
        db.create_view("q", rekindle.mrql("select x.a from x in t where x.a < lim"))
        assert db.tables == ["t"]
        assert "private" not in db.definition("q")
