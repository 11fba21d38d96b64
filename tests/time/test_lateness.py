"""Lateness: views equal their queries over the rows that were not late, after every batch.

A model in Python says which rows are late, and the table must hold the others. What the views hold
is compared with their queries over the table, while the state under them is removed.
"""

from __future__ import annotations

import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.circuit.nodes import Arrangement, Group
from rekindle.errors import ConstraintError, DefinitionError, RekindleError, StatementError
from rekindle.runtime.database import Database
from rekindle.runtime.time import lateness, watermarks
from rekindle.runtime.time.clauses import TimedClauses, read_timed
from rekindle.runtime.time.tables import shown_instant
from tests.spark.helpers import collected, refused
from tests.time.test_clock import _all

BEGINNING = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
LATENESS = dt.timedelta(minutes=5)
Event = tuple[int, dt.datetime | None, int]
WINDOWED = {
    "tumbling": """SELECT window(ts, '10 minutes') AS w, v, count(*) AS n, sum(id) AS s
                   FROM e GROUP BY 1, 2""",
    "hopping": "SELECT window.start AS s, count(*) AS n FROM e "
    "GROUP BY window(ts, '10 minutes', '5 minutes')",
    "hours": "SELECT date_trunc('hour', ts) AS h, max(v) AS m, count(DISTINCT id) AS d "
    "FROM e GROUP BY 1",
    "days": "SELECT DISTINCT v, to_date(ts) AS d FROM e",
    "best": """SELECT id, v, r FROM (SELECT *, row_number() OVER
               (PARTITION BY window(ts, '20 minutes') ORDER BY v DESC, id, ts) AS r FROM e)
               WHERE r <= 2""",
    "joined": """SELECT a.id AS x, b.id AS y, b.ts AS u FROM e a JOIN f b ON a.v = b.v
                 AND b.ts BETWEEN a.ts - INTERVAL 5 MINUTES AND a.ts + INTERVAL 10 MINUTES""",
    "counted": """SELECT window(b.ts, '10 minutes').start AS w, count(*) AS n FROM e a JOIN f b
                  ON a.v = b.v AND b.ts BETWEEN a.ts - INTERVAL 5 MINUTES AND a.ts
                  GROUP BY window(b.ts, '10 minutes')""",
    "over": "SELECT w.start AS s, n FROM tumbling WHERE n > 1",
    "lately": """SELECT id, sum(v) OVER (PARTITION BY v ORDER BY ts RANGE BETWEEN
                 INTERVAL 10 MINUTES PRECEDING AND INTERVAL 5 MINUTES FOLLOWING) AS s FROM e""",
    "union": "SELECT day, count(*) AS n FROM (SELECT to_date(ts) AS day FROM e UNION ALL "
    "SELECT to_date(ts) AS day FROM f) GROUP BY 1",
}
WHOLE = {"totals": "SELECT v, count(*) AS n, max(ts) AS newest FROM e GROUP BY v"}
VIEWS = WINDOWED | WHOLE


def _at(minutes: float) -> dt.datetime:
    return BEGINNING + dt.timedelta(minutes=minutes)


def _agree(db: Database) -> None:
    expected = db.sql(_all(VIEWS))
    actual = db.sql(_all({name: f"SELECT * FROM {name}" for name in VIEWS}))
    assert collected(actual) == collected(expected)


class Model:
    """Which rows of a table without a key were not late."""

    def __init__(self) -> None:
        self.rows: Counter[Event] = Counter()
        self.newest: dt.datetime | None = None
        self.late = 0

    @classmethod
    def of(cls, db: Database, table: str) -> Model:
        """A table as other tests have left it."""
        model, mark = cls(), db.watermark(table)
        model.rows, model.late = _contents(db, table), mark.late
        model.newest = None if mark.time is None else mark.time + mark.lateness
        return model

    def apply(self, coming: list[Event], leaving: list[Event]) -> None:
        mark = None if self.newest is None else self.newest - LATENESS
        change = Counter(coming)
        change.subtract(leaving)
        for row, count in change.items():
            if mark is not None and row[1] is not None and row[1] < mark:
                self.late += abs(count)
                continue
            self.rows[row] += count
            if row[1] is not None and count > 0:
                self.newest = max(row[1], self.newest or row[1])


def _contents(db: Database, table: str) -> Counter[Event]:
    """The rows of a table, read without Spark."""
    return Counter(tuple(row.values()) for row in db.arrow(table).to_pylist())


def _events(chance: random.Random, minute: float, count: int, late: float) -> list[Event]:
    """Rows around a minute, some of them early, late, twice or without a time."""
    rows: list[Event] = []
    for _ in range(count):
        when = _at(round(minute + chance.uniform(-late, 3), 2)) if chance.random() < 0.95 else None
        rows.append((chance.randrange(1_000), when, chance.randrange(3)))
    return rows + chance.sample(rows, count // 10)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("lateness")


@pytest.fixture(scope="module")
def events(utc: SparkSession, place: Path) -> Iterator[Database]:
    """A database of two streams, with views whose state is bounded, and one whose is not."""
    with rekindle.connect(str(place / "w"), spark=utc) as db:
        db.sql("CREATE TABLE e (id BIGINT, ts TIMESTAMP LATENESS INTERVAL 5 MINUTES, v INT)")
        db.create_table("f", "id bigint, ts timestamp, v int", lateness={"ts": LATENESS})
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield db


def _kept(db: Database, view: str) -> int:
    """The rows of the integrals under a view that are looked up."""
    engine = db._engine
    nodes = engine.circuit.reachable(engine.state.entry(view).node)
    kept = [node.id for node in nodes if isinstance(node, Arrangement | Group)]
    assert kept
    return sum(engine.state.traces[key].rows for key in kept)


def _run(
    db: Database, models: dict[str, Model], chance: random.Random, steps: int, start: float
) -> float:
    """Batches of both streams, each compared; gives the minute that they reached."""
    minute = start
    for _ in range(steps):
        with db.transaction() as tx:
            for name, model in models.items():
                coming = _events(chance, minute, chance.choice([0, 5, 40]), 12)
                present = sorted(
                    model.rows.elements(), key=lambda row: (row[0], str(row[1]), row[2])
                )
                leaving = chance.sample(present[-60:], min(len(present), chance.choice([0, 8])))
                if chance.random() < 0.3:
                    coming += leaving[:3]  # They cancel.
                tx.insert(name, coming)
                tx.delete(name, leaving)
                model.apply(coming, leaving)
        for name, model in models.items():
            assert _contents(db, name) == +model.rows
            assert db.watermark(name).late == model.late
        _agree(db)
        minute += chance.choice([0, 3, 11, 40])
    return minute


def test_views_equal_their_queries_over_the_rows_that_were_not_late(events: Database) -> None:
    db = events
    models = {name: Model.of(db, name) for name in ("e", "f")}
    newest = max(model.newest or BEGINNING for model in models.values())
    minute = _run(db, models, random.Random(3), 6, (newest - BEGINNING).total_seconds() / 60)
    assert all(model.late for model in models.values())
    kept = {name: _kept(db, name) for name in WINDOWED}
    for _ in range(16):  # Time goes on; the state does not grow with it.
        minute += 25
        with db.transaction() as tx:
            for name in models:
                tx.insert(name, [(i, _at(minute + i % 7), i % 3) for i in range(30)])
    _agree(db)
    bound = 30 * 2 * 5
    for name in WINDOWED:
        assert _kept(db, name) < max(kept[name], bound), name
    traces = db._engine.state.traces
    assert any(trace.partial for trace in traces.values())
    placed = db._engine.state
    db.place("spark")
    with db.transaction() as tx:
        tx.insert("e", [(1, _at(minute), 1), (2, _at(minute - 1_000), 2)])
    db.place(None)
    assert db.epoch == placed.epoch + 1
    _agree(db)


def test_explain_says_what_is_removed_and_what_is_kept(events: Database) -> None:
    assert "a row is removed once window.start falls behind the watermark of e" in str(
        events.explain("tumbling")
    )
    joined = str(events.explain("joined"))
    assert "a.ts falls behind the watermark of f" in joined
    assert "b.ts falls behind the watermark of e" in joined
    union = str(events.explain("union"))
    assert "day falls behind the watermark of e and the watermark of f" in union
    lately = str(events.explain("lately"))
    assert "a row is removed once ts falls 0:15:00 behind the watermark of e" in lately
    totals = str(events.explain("totals"))
    assert "all groups are kept: nothing bounds" in totals


@pytest.mark.parametrize(
    "key",
    [
        "IF(v = 1, ts, TIMESTAMP'2020-01-01')",
        "greatest(ts, TIMESTAMP'2020-01-01')",
        "coalesce(ts, TIMESTAMP'2020-01-01')",
        "TIMESTAMP'2030-01-01' - ts",
        "minute(ts)",
        "date_add(DATE'2026-01-01', v)",
        "add_months(ts, 1)",
    ],
)
def test_what_may_decrease_has_no_bound(events: Database, key: str) -> None:
    events.create_view("falling", f"SELECT {key} AS k, count(*) AS n FROM e GROUP BY 1")
    assert "all groups are kept" in str(events.explain("falling"))
    events.drop_view("falling")


@pytest.mark.parametrize(
    "key",
    [
        "IF(v = 1, date_trunc('day', ts), NULL)",
        "least(ts, TIMESTAMP'2030-01-01')",
        "trunc(ts, 'MONTH')",
        "year(ts) + 1",
        "date_add(to_date(ts), 3)",
        "ts - INTERVAL '2' DAY",
        "unix_seconds(ts)",
    ],
)
def test_what_never_decreases_has_a_bound(events: Database, key: str) -> None:
    events.create_view("rising", f"SELECT {key} AS k, count(*) AS n FROM e GROUP BY 1")
    assert "falls behind the watermark of e" in str(events.explain("rising"))
    events.check("rising")
    events.drop_view("rising")


def _partial(db: Database, *views: str) -> set[str]:
    """The integrals under some views that have lost rows."""
    engine = db._engine
    nodes = (engine.circuit.reachable(engine.state.entry(view).node) for view in views)
    found = {node.id for each in nodes for node in each}
    return {key for key in found if key in engine.state.traces and engine.state.traces[key].partial}


def test_a_new_view_that_shares_state_has_all_rows(events: Database) -> None:
    """Whatever was done before: this test brings the rows whose state goes, and sees that it does.

    Each batch has hours to itself, so that groups and sides of joins fall behind; every fourth run
    of a trace is merged, and by then bounds are new ones.
    """
    db = events
    shared = "SELECT w.start AS beginning, v, n, s FROM (" + WINDOWED["tumbling"] + ")"
    newest = max(db.watermark(name).time or BEGINNING for name in ("e", "f"))
    for hour in range(1, 20):
        rows = [(i, newest + dt.timedelta(hours=hour, minutes=i % 7), i % 3) for i in range(30)]
        with db.transaction() as tx:
            for name in ("e", "f"):
                tx.insert(name, rows)
    assert _partial(db, "tumbling") and _partial(db, "joined")
    db.create_view("later", shared)
    pairs = WINDOWED["joined"].replace("SELECT", "SELECT a.ts AS t,")
    lost = _partial(db, "joined")
    db.create_view("pairs", pairs)
    assert not _partial(db, "later", "pairs")
    assert lost - _partial(db, "joined"), "they share some, which are whole again"
    for name in ("later", "pairs"):
        db.check(name)
    with db.transaction() as tx:
        tx.insert("e", [(1, db.watermark("e").time, 1)])
    _agree(db)
    for name in ("later", "pairs"):
        db.check(name)
        db.drop_view(name)


def test_a_window_is_given_when_it_is_closed(utc: SparkSession, tmp_path: Path) -> None:
    query = (
        "SELECT window(ts, '10 minutes', '5 minutes') AS w, v, count(*) AS n FROM e GROUP BY 1, 2"
    )
    with rekindle.connect(str(tmp_path / "w"), spark=utc) as db:
        db.create_table("e", "id bigint, ts timestamp, v int", lateness={"ts": LATENESS})
        db.create_table("old", "ts timestamp", lateness={"ts": LATENESS}, retain="1 day")
        db.sql(f"CREATE MATERIALIZED VIEW closed OPTIONS (emit = 'on window close') AS {query}")
        db.create_view("all_windows", query)
        chance, minute = random.Random(5), 0.0
        epoch = db.epoch
        for _ in range(14):
            coming = [row for row in _events(chance, minute, 15, 8) if row[1] is not None]
            with db.transaction() as tx:
                tx.insert("e", coming)
            mark = db.watermark("e").time
            assert mark is not None
            windows = db.arrow("all_windows").to_pylist()
            wanted = [row for row in windows if row["w"]["end"] <= mark]
            given = db.arrow("closed").to_pylist()
            assert sorted(map(str, given)) == sorted(map(str, wanted))
            changes = db.changes_arrow("closed", since=epoch).to_pylist()
            assert all(change["_weight"] == 1 for change in changes)
            epoch = db.epoch
            minute += chance.choice([0, 2, 9, 14])
        assert len(given) > 5
        db.check("closed")
        engine = db._engine
        nodes = engine.circuit.reachable(engine.state.entry("closed").node)
        indexes = [n.id for n in nodes if isinstance(n, Arrangement) and n.order is not None]
        kept = max(indexes, key=lambda key: engine.state.traces[key].rows)
        assert engine.state.traces[kept].partial
        before = db.epoch
        shown = db.watermark("e")
        with db.transaction() as tx:
            tx.insert("e", [(1, _at(minute + 500), 1)])
        rekindle.restore(str(tmp_path / "w"), str(tmp_path / "r"), epoch=before)
        with rekindle.connect(str(tmp_path / "r"), spark=utc) as copy:
            assert copy.watermark("e") == shown
            assert sorted(map(str, copy.arrow("closed").to_pylist())) == sorted(map(str, given))
            copy.check("closed")
        for wrong, words in [
            ("SELECT session_window(ts, '5 minutes') AS w, count(*) FROM e GROUP BY 1", "closed"),
            ("SELECT window(ts - INTERVAL 1 HOUR, '5 minutes') AS w, count(*) FROM e GROUP BY 1",
             "cannot give its windows"),
            ("SELECT window(ts, '5 minutes') AS w, count(*) FROM old GROUP BY 1", "leave it"),
            ("SELECT v, count(*) FROM e GROUP BY v", "0 columns that are windows"),
        ]:  # fmt: skip
            with refused(db, RekindleError, words):
                db.create_view("wrong", wrong, emit="on window close")


def test_the_watermark_is_found_again(
    events: Database, place: Path, utc: SparkSession, tmp_path: Path
) -> None:
    with events.transaction() as tx:
        tx.insert("e", [(1, _at(10_000), 1)])
    before = events.watermark("e")
    events.backup(str(tmp_path / "b"))
    with rekindle.connect(str(place / "w"), spark=utc, mode="read") as reader:
        assert reader.watermark("e") == before
        assert reader.tables == ["e", "f"]
        assert "falls behind the watermark of e" in str(reader.explain("tumbling"))
    rekindle.restore(str(tmp_path / "b"), str(tmp_path / "r"))
    with rekindle.connect(str(tmp_path / "r"), spark=utc) as copy:
        assert copy.watermark("e") == before
        assert before.time is not None
        early, now = before.time - dt.timedelta(seconds=1), before.time
        for _ in range(5):
            with copy.transaction() as tx:
                tx.insert("e", [(5, early, 1), (6, now, 1)])
        assert copy.watermark("e").late == before.late + 5
        _agree(copy)


@pytest.mark.parametrize("bug", ["removed too early", "moved inside the batch"])
def test_planted_bugs_are_caught(
    utc: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bug: str
) -> None:
    if bug == "removed too early":
        early = property(lambda mark: mark.watermark + 60_000_000)
        monkeypatch.setattr(lateness.WatermarkRow, "bound", early)
        monkeypatch.setattr("rekindle.runtime.time.forgetting.REFRESHED", 1)
    else:
        late_rows = watermarks.late_rows

        def within(rows, node, late, mark):  # type: ignore[no-untyped-def]
            newest = watermarks.newest(rows, late)
            return late_rows(rows, node, late, max(mark, (newest or mark) - late.micros))

        monkeypatch.setattr(watermarks, "late_rows", within)
    with rekindle.connect(str(tmp_path / "w"), spark=utc) as db:
        db.create_table("e", "id bigint, ts timestamp, v int", lateness={"ts": LATENESS})
        db.create_view("perminute", "SELECT window(ts, '1 minute') AS w, count(*) AS n "
                       "FROM e GROUP BY 1")  # fmt: skip
        chance, model, minute = random.Random(1), Model(), 0.0
        with pytest.raises(AssertionError):
            for _ in range(40):
                coming = _events(chance, minute, 20, 6)
                with db.transaction() as tx:
                    tx.insert("e", coming)
                model.apply(coming, [])
                assert _contents(db, "e") == +model.rows
                counted = sum(row["n"] for row in db.arrow("perminute").to_pylist())
                assert counted == sum(
                    count for row, count in model.rows.items() if row[1] is not None
                )
                assert len(db.arrow("perminute")) == len(
                    {row[1].replace(second=0, microsecond=0) for row in model.rows if row[1]}
                )
                minute += chance.choice([1, 2, 4])


def test_late_rows_are_put_aside_or_refused(utc: SparkSession, tmp_path: Path) -> None:
    with rekindle.connect(str(tmp_path / "w"), spark=utc) as db:
        db.sql(
            "CREATE TABLE k (id BIGINT, ts TIMESTAMP_NTZ LATENESS INTERVAL '5' MINUTE NOT NULL, "
            "v INT, PRIMARY KEY (id)) OPTIONS (late = 'keep')"
        )
        db.create_table(
            "strict", "ts timestamp", lateness={"ts": "5 minutes"}, late="refuse", retain="1 hour"
        )
        at = [dt.datetime(2026, 3, 1) + dt.timedelta(minutes=i) for i in range(30)]
        assert db.watermark("k").time is None
        with db.transaction() as tx:
            tx.insert("k", [(1, at[0], 1), (2, at[20], 1)])
        assert db.watermark("k").time == at[15]
        with db.transaction() as tx:
            tx.upsert("k", [(1, at[21], 2), (2, at[16], 2), (3, at[1], 3), (4, at[15], 4)])
        # The update of row 1 is late as a whole, since the row that it replaces is.
        assert _contents(db, "k") == Counter([(1, at[0], 1), (2, at[16], 2), (4, at[15], 4)])
        assert db.watermark("k").late == 3
        assert db.watermark("k").time == at[15]
        late = [(r["id"], r["late_weight"]) for r in db.arrow("k_late").to_pylist()]
        assert sorted(late) == [(1, -1), (1, 1), (3, 1)]
        with db.transaction() as tx:
            tx.insert("strict", [(at[20].replace(tzinfo=dt.UTC),)])
        with refused(db, ConstraintError, "a row of 'strict' is late"), db.transaction() as tx:
            tx.insert("strict", [(at[1].replace(tzinfo=dt.UTC),)])
        shown = db.definition("k")
        db.sql("DROP TABLE k")
        db.sql("DROP TABLE k_late")
        db.sql(shown)
        assert db.watermark("k").lateness == LATENESS
        assert db.watermark("k").time is None
        with refused(db, DefinitionError, "has no watermark"):
            db.watermark("k_late")
        for wrong, words in [
            ({"lateness": {"id": "5 minutes"}}, "cannot have a lateness"),
            ({"lateness": {"ts": "1 month"}}, "not a length of time"),
            ({"lateness": {"x": "1 day"}}, "no column 'x'"),
            ({"retain": "1 day"}, "given retain and no lateness"),
            ({"lateness": {"ts": "1 day"}, "late": "away"}, "away"),
        ]:
            with refused(db, RekindleError, words):
                db.create_table("wrong", "id bigint, ts timestamp", **wrong)  # type: ignore[arg-type]


def test_rows_leave_a_table_that_retains_them_for_a_while(
    utc: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.runtime.time.forgetting.REFRESHED", 1)
    with rekindle.connect(str(tmp_path / "w"), spark=utc) as db:
        db.sql(
            "CREATE TABLE e (id BIGINT, ts TIMESTAMP LATENESS INTERVAL 5 MINUTES, v INT) "
            "RETAIN INTERVAL 4 HOURS"
        )
        db.create_view("n", "SELECT window(ts, '10 minutes') AS w, count(*) AS n FROM e GROUP BY 1")
        sizes = []
        for hour in range(12):
            with db.transaction() as tx:
                tx.insert("e", [(i, _at(60 * hour + i), 1) for i in range(60)])
            mark = db.watermark("e")
            if mark.kept_from is not None:
                assert mark.time is not None
                times = db.arrow("e").column("ts").to_pylist()
                assert min(times) >= mark.kept_from
                assert mark.time - min(times) <= dt.timedelta(hours=6)
            sizes.append(len(db.arrow("e")))
        assert max(sizes) == max(sizes[-4:]) <= 6 * 60
        assert sum(row["n"] for row in db.arrow("n").to_pylist()) == sizes[-1]
        db.check("n")


def test_clauses_are_read_where_they_stand() -> None:
    text = (
        "CREATE TABLE `a b` (id DECIMAL(10,2), /* LATENESS INTERVAL 1 DAY */ s STRUCT<x: INT, "
        "y: INT>, `t s` TIMESTAMP LATENESS INTERVAL '1 02' DAY TO HOUR NOT NULL COMMENT "
        "'LATENESS INTERVAL 2 DAYS', PRIMARY KEY (id)) RETAIN INTERVAL 30 DAYS 2 HOURS COMMENT 'x'"
    )
    rest, said = read_timed(text)
    assert said == TimedClauses("t s", "INTERVAL '1 02' DAY TO HOUR", "INTERVAL 30 DAYS 2 HOURS")
    assert len(rest) == len(text)
    assert "NOT NULL COMMENT 'LATENESS" in rest
    assert read_timed("SELECT 1 AS lateness") == ("SELECT 1 AS lateness", None)
    with pytest.raises(StatementError, match="of a table without a LATENESS"):
        read_timed("CREATE TABLE t (ts TIMESTAMP) RETAIN INTERVAL 1 DAY")
    with pytest.raises(StatementError, match="one column of a table has a LATENESS"):
        read_timed(
            "CREATE TABLE t (a TIMESTAMP LATENESS INTERVAL 1 DAY, b TIMESTAMP LATENESS "
            "INTERVAL 1 DAY)"
        )


def test_a_watermark_before_all_times_is_shown_as_the_first() -> None:
    """That of a table whose only row is of the year 1."""
    first, last = (each.replace(tzinfo=dt.UTC) for each in (dt.datetime.min, dt.datetime.max))
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    assert shown_instant((first - epoch) // dt.timedelta(microseconds=1) - 300_000_000) == first
    assert shown_instant(10**18) == last
    assert shown_instant(int(BEGINNING.timestamp()) * 10**6) == BEGINNING


def test_a_recursion_over_late_rows_keeps_all_and_is_filled_again(db: Database) -> None:
    """Its members are filled together: one that had lost rows would be empty afterwards."""
    db.create_table("edge", "w timestamp, x int, y int", lateness={"w": "1 minute"})
    db.datalog("path(w, x, y) :- edge(w, x, y). path(w, x, z) :- path(w, x, y), edge(w, y, z).")
    db.create_table("other", "a int")
    for hour in range(6):
        with db.transaction() as tx:
            tx.insert("edge", [(_at(60 * hour), 1, 2), (_at(60 * hour), 2, 3)])
    db.add_columns("other", "b int")
    with db.transaction() as tx:
        tx.insert("edge", [(_at(300), 3, 4)])
    db.check("path")


def test_late_rows_come_beside_other_changes_of_their_table(db: Database) -> None:
    db.create_table("k", "id int, ts timestamp", lateness={"ts": "1 minute"}, late="keep")
    with db.transaction() as tx:
        tx.insert("k", [(1, _at(60))])
    for late in (2, 3):
        with db.transaction() as tx:
            tx.insert("k", [(late, _at(0))])
    kept = db.arrow("k_late").to_pylist()
    assert sorted(row["id"] for row in kept) == [2, 3]
    with db.transaction() as tx:
        tx.delete("k_late", [tuple(row.values()) for row in kept])
        tx.insert("k", [(4, _at(0)), (5, _at(61))])
    assert [row["id"] for row in db.arrow("k_late").to_pylist()] == [4]
    assert sorted(row["id"] for row in db.arrow("k").to_pylist()) == [1, 5]
    with refused(db, RekindleError, "late rows are kept in 'k_late'"):
        db.add_columns("k", "more int")
    with refused(db, DefinitionError, "is a part of 'k'"):
        db.add_columns("k·watermark", "more int")
