"""Windows that read less than their partitions: every frame against Spark, after every step."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.calculus.terms import Distance, Reach, RunningFrame, SlidingFrame
from rekindle.circuit.nodes import GroupMap
from rekindle.circuit.operators import group_map
from rekindle.kernels import regroup
from rekindle.runtime.database import Database
from tests.spark.helpers import collected, weighted

TABLE = "CREATE TABLE t (k INT, o INT, n INT, x INT, y DOUBLE, z DECIMAL(12, 2))"
TOTAL = "(PARTITION BY k ORDER BY o, n, x, y, z {})"
LEVEL = "(PARTITION BY k ORDER BY o {})"


def _query(functions: str, over: str, *frames: str) -> str:
    written = functions.split("; ")
    items = [
        f"{function} OVER {over.format(frame)} AS f{i}_{j}"
        for i, function in enumerate(written)
        for j, frame in enumerate(frames)
    ]
    return f"SELECT k, o, n, x, y, z, {', '.join(items)} FROM t"


def _picked(frame: str) -> str:
    """Functions that pick rows; what is shown does not depend on which level row comes first."""
    over = LEVEL.format(frame)
    return (
        f"SELECT k, o, n, sort_array(collect_list(x) OVER {over}) AS l, "
        f"nth_value(o, 2) OVER {over} AS s, last_value(o) OVER {over} AS e, "
        f"first_value(o) OVER {over} AS b FROM t"
    )


VIEWS = {
    "near rows": _query(
        "avg(y); collect_list(x)",
        TOTAL,
        "ROWS BETWEEN 2 PRECEDING AND 1 FOLLOWING",
        "ROWS BETWEEN 3 PRECEDING AND 2 PRECEDING",
    ),
    "lag and lead": _query("lag(x, 2, -1); lead(y); lag(z, -1)", TOTAL, ""),
    "near values": _query(
        "sum(y); count(x); max(z)",
        "(PARTITION BY k ORDER BY o DESC {})",
        "RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING",
        "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
    ),
    "running rows": _query(
        "sum(x); sum(y); sum(z); avg(y); avg(z); avg(x); count(x); max(y); first_value(x); "
        "last_value(x) IGNORE NULLS; bit_xor(x)",
        TOTAL,
        "ROWS UNBOUNDED PRECEDING",
    )
    + " WHERE x IS NULL OR x < 90",
    "running values": _query(
        "sum(x); sum(z); avg(x); count(*); min(z); rank(); dense_rank(); bool_and(x > 1)", LEVEL, ""
    ),
    "picked near values": _picked("RANGE BETWEEN 2 PRECEDING AND 1 FOLLOWING"),
    "picked so far": _picked(""),
    "numbers": _query("row_number(); lag(x)", TOTAL, ""),
    "one partition": _query("sum(x); rank()", "(ORDER BY o NULLS LAST {})", ""),
    "whole": _query("ntile(2); row_number(); lag(x)", TOTAL, ""),
}
REACHES: dict[str, list[type[Reach] | None]] = {
    "near rows": [SlidingFrame],
    "lag and lead": [SlidingFrame],
    "near values": [SlidingFrame],
    "running rows": [RunningFrame],
    "running values": [RunningFrame],
    "picked near values": [SlidingFrame],
    "picked so far": [None, RunningFrame],
    "numbers": [RunningFrame, SlidingFrame],
    "one partition": [RunningFrame],
    "whole": [None],
}

Row = tuple[Any, ...]


def _named(view: str) -> str:
    return view.replace(" ", "_")


def _row(draw: random.Random) -> Row:
    return (
        draw.choice([1, 1, 1, 2, None]),
        draw.choice([None, None, *range(12)]),
        draw.choice([1, 2]),
        draw.choice([None, 0, 1, 2, 3]),
        draw.choice([None, 0.5, 0.25, -1.0]),
        draw.choice([None, "1.25", "-3.00"]),
    )


def _transactions(db: Database, seed: int, steps: int) -> Iterator[None]:
    """Random steps: insertions, deletions, updates, duplicates, all at several places."""
    draw = random.Random(seed)
    held: list[Row] = []
    for step in range(steps):
        come = [_row(draw) for _ in range(draw.choice([1, 1, 2, 40 if step == 0 else 3]))]
        come += draw.sample(come, draw.choice([0, 1]))
        gone = draw.sample(held, min(len(held), draw.choice([0, 1, 3])))
        if step == steps - 1:
            come, gone = come[:1], [row for row in held if row[0] == 2]
        with db.transaction() as tx:
            tx.insert("t", [_typed(row) for row in come])
            tx.delete("t", [_typed(row) for row in gone])
        for row in gone:
            held.remove(row)
        held += come
        yield


def _typed(row: Row) -> Row:
    from decimal import Decimal

    return (*row[:5], None if row[5] is None else Decimal(row[5]))


def _reaches(db: Database, view: str) -> list[Reach | None]:
    circuit = db._engine.circuit
    nodes = circuit.reachable(db._engine.state.entry(_named(view)).node)
    return [node.reach for node in nodes if isinstance(node, GroupMap)]


def _agree(db: Database) -> None:
    for view in db.views:
        assert collected(db.table(view)) == collected(db.recompute(view)), view


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_every_step_gives_what_spark_gives(db: Database, placement: str) -> None:
    db.sql(TABLE)
    db.place(placement)
    names = list(VIEWS) if placement == "inline" else ["near values", "numbers"]
    first, *others = names
    db.create_view(_named(first), VIEWS[first])
    for i, _ in enumerate(_transactions(db, 7, 4 if placement == "inline" else 2)):
        if i == 0:
            # The others begin with rows that are there.
            for name in others:
                db.create_view(_named(name), VIEWS[name])
                assert [reach and type(reach) for reach in _reaches(db, name)] == REACHES[name]
        _agree(db)
    if placement == "inline":
        for statement in (
            "UPDATE t SET o = o + 3 WHERE o = 2",
            "DELETE FROM t",
            "INSERT INTO t VALUES (1, 2, 3, 4, 5.0, 6.00)",
        ):
            db.sql(statement)
            _agree(db)
    for view in db.views:
        assert weighted(db.changes(view)) == collected(db.table(view)), view


def test_a_window_is_the_same_in_any_placement_and_after_reopening(
    warehouse: str, spark: SparkSession
) -> None:
    queries = [VIEWS["running rows"], VIEWS["running values"]]
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql(TABLE)
        for i, query in enumerate(queries):
            db.create_view(f"v{i}", query)
        for _ in _transactions(db, 11, 2):
            pass
    with rekindle.connect(warehouse, spark=spark) as db:
        for placement in ("spark", "inline", "spark"):
            db.place(placement)
            with db.transaction() as tx:
                tx.insert(
                    "t", [_typed((1, 5, 1, 2, 0.5, "1.25")), _typed((2, None, 1, 2, 0.5, None))]
                )
                tx.delete("t", db.table("t").where("o = 3").limit(2))
            _agree(db)


SPEND = "CREATE TABLE t (k INT, o INT, x BIGINT)"
LOADED = "INSERT INTO t SELECT 1, id, id % 7 FROM range(20000)"
LONG = {
    "SELECT o, sum(x) OVER (PARTITION BY k ORDER BY o ROWS 3 PRECEDING) AS s FROM t": 10_000,
    "SELECT o, lag(x, 3) OVER (ORDER BY o) AS s FROM t": 10_000,
    "SELECT o, avg(x) OVER (PARTITION BY k ORDER BY o DESC RANGE 3 PRECEDING) AS s FROM t": 10_000,
    "SELECT o, sum(x) OVER (PARTITION BY k ORDER BY o) AS s FROM t": 19_990,
    "SELECT o, row_number() OVER (ORDER BY o) AS s, lag(x) OVER (ORDER BY o) AS l FROM t": 19_990,
    "SELECT o, rank() OVER (PARTITION BY k ORDER BY o DESC) AS s FROM t": 10,
}


@pytest.mark.parametrize("query", LONG)
def test_a_long_partition_is_not_read(
    db: Database, query: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 6: a change costs the rows near it, or those from it on."""
    db.sql(SPEND)
    db.sql(LOADED)
    db.create_view("v", query)
    read = _rows_read(monkeypatch)
    place = LONG[query]
    for statement in (
        f"INSERT INTO t VALUES (1, {place}, 100)",
        f"DELETE FROM t WHERE o = {place} AND x = 100",
        f"INSERT INTO t VALUES (1, {20_000 if place > 10 else -1}, 100)",
    ):
        read.clear()
        db.sql(statement)
        assert read and max(read) < 60, read
        step = db.last_step
        assert step is not None and all(not did.rebuilt for did in step.nodes.values())
        assert all(did.rows_out < 60 for did in step.nodes.values())
    _agree(db)


def _rows_read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many rows every later step hands to Spark, node by node."""
    read: list[int] = []
    for name in ("touched_groups", "touched_onwards", "deciding_rows"):
        original = getattr(regroup, name)

        def counted(*given: Any, original: Any = original) -> pa.Table:
            rows = original(*given)
            read.append(len(rows))
            return rows

        monkeypatch.setattr(group_map, name, counted)
    return read


WHOLE = {
    "a frame to the end": "sum(x) OVER (PARTITION BY k ORDER BY o ROWS BETWEEN CURRENT ROW AND "
    "UNBOUNDED FOLLOWING)",
    "NULLs skipped": "lag(x) IGNORE NULLS OVER (PARTITION BY k ORDER BY o)",
    "a share of all": "percent_rank() OVER (PARTITION BY k ORDER BY o)",
    "a buffer that no result shows": "stddev(x) OVER (PARTITION BY k ORDER BY o)",
    "a condition": "sum(x) FILTER (WHERE x > 1) OVER (PARTITION BY k ORDER BY o)",
    "NULL beyond the type": "try_sum(x) OVER (PARTITION BY k ORDER BY o)",
    "months": "count(*) OVER (PARTITION BY k ORDER BY date_from_unix_date(o) "
    "RANGE INTERVAL 1 MONTH PRECEDING)",
}


def test_what_needs_the_whole_partition_gets_it(db: Database) -> None:
    db.sql(SPEND)
    for i, function in enumerate(WHOLE.values()):
        db.create_view(f"v{i}", f"SELECT k, o, x, {function} AS f FROM t")
        assert _reaches(db, f"v{i}") == [None], function
    db.sql("INSERT INTO t VALUES (1, 1, 1), (1, 2, NULL), (1, 3, 5)")
    _agree(db)
    db.sql("UPDATE t SET x = 7 WHERE o = 2")
    _agree(db)


def test_explain_says_which_rows_are_computed_and_why(db: Database) -> None:
    db.sql(SPEND)
    for name, frame in {"near": "ROWS 3 PRECEDING", "onwards": "", "whole": NO_END}.items():
        over = f"OVER (PARTITION BY k ORDER BY o {frame})"
        db.create_view(name, f"SELECT k, sum(x) {over} AS s FROM t")
    near, onwards, whole = (str(db.explain(name)) for name in ("near", "onwards", "whole"))
    assert "Spark recomputes the rows around a change of each touched group" in near
    assert "Spark recomputes each touched group from the first change on" in onwards
    assert "Spark recomputes each touched group from its rows" in whole
    why = {node.why for name in db.views for node in db.explain(name).nodes}
    assert any("depends on the 3 before it and itself only" in words for words in why)
    assert any("a row follows from the one before it" in words for words in why)


NO_END = "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING"


def test_a_window_over_all_rows_is_incremental_where_its_frame_allows_it(db: Database) -> None:
    db.sql(SPEND)
    required = "CREATE MATERIALIZED VIEW {} OPTIONS (incremental = 'required') AS SELECT {} FROM t"
    db.sql(required.format("a", "sum(x) OVER (ORDER BY o, x) AS s"))
    db.sql(required.format("b", "lead(x) OVER (ORDER BY o, x) AS s"))
    with pytest.raises(rekindle.RekindleError):
        db.sql(required.format("c", f"sum(x) OVER (ORDER BY o, x {NO_END}) AS s"))


def test_frames_of_time(db: Database) -> None:
    """A day in a time zone may have 23 or 25 hours."""
    db.sql("CREATE TABLE e (at TIMESTAMP, day DATE, x INT)")
    db.create_view(
        "days",
        "SELECT at, count(*) OVER (ORDER BY at RANGE BETWEEN INTERVAL 1 DAY PRECEDING AND "
        "INTERVAL 2 DAYS FOLLOWING) AS c, sum(x) OVER (ORDER BY at RANGE INTERVAL 3 HOURS "
        "PRECEDING) AS s FROM e",
    )
    db.create_view("dates", "SELECT day, sum(x) OVER (ORDER BY day RANGE 2 PRECEDING) AS s FROM e")
    for view in ("days", "dates"):
        assert [type(reach) for reach in _reaches(db, view)] == [SlidingFrame]
    db.sql(
        "INSERT INTO e SELECT timestamp'2024-03-30 00:00:00Z' + make_dt_interval(0, id), "
        "date_add(date'2024-03-30', CAST(id DIV 24 AS INT)), id FROM range(72)"
    )
    _agree(db)
    db.sql("DELETE FROM e WHERE x IN (0, 25, 71)")
    _agree(db)


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_level_rows_of_a_frame_of_values_stay_together(db: Database, placement: str) -> None:
    """They see the same rows, and of these the remaining columns say which is the last."""
    db.sql(SPEND)
    db.place(placement)
    over = "OVER (PARTITION BY k ORDER BY o DESC"
    near = "RANGE BETWEEN CURRENT ROW AND 1 FOLLOWING"
    db.create_view(
        "v",
        f"SELECT o, x, last_value(x) {over}) AS e, nth_value(x, 2) {over} {near}) AS s, "
        f"first_value(x) {over}) AS b, collect_list(x) {over} {near}) AS l FROM t",
    )
    db.sql("INSERT INTO t VALUES (1, 1, 5), (1, 2, 4), (1, 2, 3), (1, 2, 9)")
    assert sorted(map(tuple, db.table("v").collect())) == [
        (1, 5, 5, None, 3, [5]),
        *((2, x, 9, 4, 3, [3, 4, 9, 5]) for x in (3, 4, 9)),
    ]
    db.sql("DELETE FROM t WHERE x = 9")
    db.sql("INSERT INTO t VALUES (1, 1, 1)")
    assert sorted(map(tuple, db.table("v").collect())) == [
        *((1, x, 5, 5, 3, [1, 5]) for x in (1, 5)),
        *((2, x, 4, 4, 3, [3, 4, 1, 5]) for x in (3, 4)),
    ]


def test_equal_rows_have_places(db: Database) -> None:
    """Of equal rows the one with the number n has the one with n - 1 before it."""
    over = "OVER (PARTITION BY k ORDER BY o)"
    functions = f"row_number() {over} AS n, lag(x) {over} AS l, count(*) {over} AS c"
    db.sql(SPEND)
    db.create_view("v", f"SELECT k, o, x, {functions} FROM t")
    db.sql("INSERT INTO t SELECT id % 3, 1, id % 3 FROM range(30)")
    _agree(db)
    db.sql("INSERT INTO t SELECT id % 3, 0, 7 FROM range(6)")
    _agree(db)


def test_an_overflow_is_met_as_without(db: Database) -> None:
    """A sum so far may be large as long as no sum is too large, and too large a one is an error."""
    db.sql(SPEND)
    db.create_view("v", "SELECT o, sum(x) OVER (PARTITION BY k ORDER BY o) AS s FROM t")
    most = 2**63 - 1
    db.sql(f"INSERT INTO t VALUES (1, 1, {-most}), (1, 2, {most}), (1, 3, {most})")
    db.sql(f"INSERT INTO t VALUES (1, 4, {-most})")
    _agree(db)
    before = collected(db.table("v"))
    with pytest.raises(rekindle.RekindleError):
        db.sql(f"INSERT INTO t VALUES (1, 5, {most}), (1, 6, 1)")
    assert collected(db.table("v")) == before


def test_distances_follow_the_frame(db: Database) -> None:
    db.sql(SPEND)
    db.create_view("a", f"SELECT {LOCAL} FROM t")
    assert _reaches(db, "a") == [SlidingFrame(3, 4, 5, Distance.ROWS)]


LOCAL = (
    "lag(x, 4) OVER (PARTITION BY k ORDER BY o) AS a, "
    "min(x) OVER (PARTITION BY k ORDER BY o ROWS BETWEEN 2 PRECEDING AND 5 FOLLOWING) AS b"
)


TEXTS = {
    "ranks": "SELECT s, n, rank() OVER w AS r, dense_rank() OVER w AS d, sum(n) OVER w AS t FROM u "
    "WINDOW w AS (PARTITION BY k ORDER BY s DESC NULLS FIRST)",
    "places": "SELECT s, n, lead(s) OVER w AS l, row_number() OVER w AS r FROM u "
    "WINDOW w AS (PARTITION BY k ORDER BY s, n)",
}


def test_texts_that_begin_alike_are_told_apart_by_spark(db: Database) -> None:
    """The order of a trace is that of eight bytes; a step that rebuilds leaves one that follows."""
    db.sql("CREATE TABLE u (k INT, s STRING, n INT)")
    texts = ["abcdefgh1", "abcdefgh2", "abcdefghi", "abcdefg", "", "z", None]
    with db.transaction() as tx:
        tx.insert("u", [(i % 2, texts[i % 7], i % 5) for i in range(80)])
    for name, query in TEXTS.items():
        db.create_view(name, query)
    for refresh in ("incremental", "full", "incremental"):
        db.refresh_by(refresh)
        with db.transaction() as tx:
            tx.insert("u", [(0, "abcdefgh15", 9), (1, None, 9), (1, "abcdefgh2", None)])
            tx.delete("u", db.table("u").where("s = 'abcdefgh2'").limit(1))
        step = db.last_step
        assert step is not None
        assert any(did.rebuilt for did in step.nodes.values()) is (refresh == "full")
        _agree(db)
