"""The time in views: each equals its query with the clock's time put in, after every step."""

from __future__ import annotations

import datetime as dt
import random
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.circuit.nodes import HalfJoin
from rekindle.errors import CheckError, DefinitionError, StatementError, UndeterminedError
from rekindle.runtime import engine
from rekindle.runtime.database import Database
from rekindle.runtime.time import clock
from tests.spark.helpers import collected, refused

BEGINNING = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
VIEWS = {
    "last_hour": "SELECT id, v FROM e WHERE ts > now() - INTERVAL 1 HOUR AND ts <= now()",
    "recent": "SELECT id, v FROM e WHERE ts >= current_timestamp - INTERVAL 90 MINUTES",
    "upcoming": "SELECT id FROM e WHERE ts > now()",
    "sums": """SELECT v, count(*) AS n, max(ts) AS newest FROM e
               WHERE ts BETWEEN now() - INTERVAL 2 HOURS AND now() GROUP BY v""",
    "days": "SELECT to_date(ts) AS day, count(*) AS n FROM e "
    "WHERE to_date(ts) >= current_date() - 1 GROUP BY 1",
    "moved": "SELECT id FROM e WHERE ts + INTERVAL 1 HOUR > now()",
    "named": "SELECT e.id, k.name FROM e JOIN k ON e.v = k.v AND e.ts > now() - INTERVAL 3 HOURS",
    "ages": "SELECT v, CAST(now() AS DATE) AS today, localtimestamp() AS wall FROM k",
    "without": "SELECT v FROM k WHERE NOT EXISTS "
    "(SELECT 1 FROM e WHERE e.v = k.v AND e.ts > now() - INTERVAL 30 MINUTES)",
    "ranked": """SELECT id, row_number() OVER (PARTITION BY v ORDER BY ts, id) AS place FROM e
                 WHERE ts > now() - INTERVAL 1 HOUR""",
    "with_queries": """WITH r AS (SELECT id, v FROM e WHERE ts > now() - INTERVAL 1 HOUR)
                       SELECT a.id, b.id AS other FROM r a JOIN r b ON a.v = b.v""",
    "over": "SELECT count(*) AS n FROM last_hour",
    "both": "SELECT id FROM e WHERE ts > now() - INTERVAL 1 HOUR "
    "UNION ALL SELECT v FROM k WHERE now() > TIMESTAMP'2026-03-01 02:00:00'",
}
_CALLS = re.compile(r"now\(\)|current_timestamp|current_date\(\)|localtimestamp\(\)")


def _with_time(query: str, now: dt.datetime) -> str:
    """The query with a time in the place of calls for it."""
    stamp = f"TIMESTAMP'{now:%Y-%m-%d %H:%M:%S.%f}'"
    casts = {
        "current_date()": f"CAST({stamp} AS DATE)",
        "localtimestamp()": f"CAST({stamp} AS TIMESTAMP_NTZ)",
    }
    return _CALLS.sub(lambda call: casts.get(call[0], stamp), query)


def _all(queries: Mapping[str, str]) -> str:
    """One query that gives what all of them give: they are compared in one go."""
    return " UNION ALL ".join(
        f"SELECT '{name}' AS query, to_json(struct(*)) AS row FROM ({query})"
        for name, query in queries.items()
    )


def _agree(db: Database) -> None:
    now = db.now
    assert now is not None
    # Literals are read in the session's zone, which is UTC here.
    expected = db.sql(_all({name: _with_time(query, now) for name, query in VIEWS.items()}))
    actual = db.sql(_all({name: f"SELECT * FROM {name}" for name in VIEWS}))
    assert collected(actual) == collected(expected), now


@pytest.fixture(scope="module")
def events(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Database, Path]]:
    """A database of events, with views of every kind that ask for the time."""
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    place = tmp_path_factory.mktemp("clock")
    with rekindle.connect(str(place / "w"), spark=spark) as db:
        db.sql("CREATE TABLE e (id BIGINT, ts TIMESTAMP, v INT)")
        db.sql("CREATE TABLE k (v INT, name STRING)")
        db.advance_time(BEGINNING)
        for name, query in VIEWS.items():
            db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
        yield db, place / "w"
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_views_equal_their_queries_with_the_time_put_in(
    events: tuple[Database, Path], placement: str
) -> None:
    db, _ = events
    db.place(placement)
    chance = random.Random(placement)
    present: list[tuple[int, dt.datetime | None, int]] = []
    for step in range(4 if placement == "inline" else 1):
        now = db.now
        assert now is not None
        with db.transaction() as tx:
            for leaving in chance.sample(present, len(present) // 3):
                tx.delete("e", [leaving])
                present.remove(leaving)
            coming = [
                (
                    chance.randrange(10**6),
                    now + dt.timedelta(minutes=chance.randrange(-200, 200)) if i % 9 else None,
                    chance.randrange(4),
                )
                for i in range(40)
            ]
            coming.append((step, now, 0))
            tx.insert("e", coming)
            tx.insert("k", [(chance.randrange(4), f"n{step}")])
            present += coming
        _agree(db)
        db.advance_time(now + dt.timedelta(minutes=chance.choice([0, 1, 45, 60, 500])))
        _agree(db)
    for name in VIEWS:
        db.check(name)
    with db.transaction() as tx:
        tx.delete("e", present)
    db.place(None)


def test_only_rows_that_enter_or_leave_are_read(events: tuple[Database, Path]) -> None:
    db, _ = events
    now = db.now
    assert now is not None
    minutes = [(i, now - dt.timedelta(minutes=i), 0) for i in range(3_000)]
    with db.transaction() as tx:
        tx.insert("e", minutes)
    db.create_view("hour_alone", VIEWS["last_hour"])
    db.create_view("days_alone", VIEWS["days"])
    db.advance_time(now + dt.timedelta(minutes=5))
    step = db.last_step
    assert step is not None
    halves = [
        node.id
        for name in ("hour_alone", "days_alone")
        for node in db._engine.circuit.reachable(db._engine.state.entry(name).node)
        if isinstance(node, HalfJoin) and node.id in step.nodes
    ]
    assert halves
    # Five rows leave; some at the ends of both ranges are looked at more than once.
    assert sum(step.nodes[key].rows_out for key in halves) <= 20
    _agree(db)
    db.sql("DROP VIEW hour_alone")
    db.sql("DROP VIEW days_alone")
    with db.transaction() as tx:
        tx.delete("e", minutes)


def test_the_clock_is_found_again(events: tuple[Database, Path], spark: SparkSession) -> None:
    db, place = events
    with rekindle.connect(str(place), spark=spark, mode="read") as reader:
        assert reader.now == db.now
        assert reader.tables == ["e", "k"]
        for name in VIEWS:
            assert collected(reader.table(name)) == collected(db.table(name))
        reader.check("last_hour")


def test_the_clock_never_goes_back(events: tuple[Database, Path]) -> None:
    db, _ = events
    assert db.now is not None
    with refused(db, DefinitionError, "cannot go back", "it shows"):
        db.advance_time(db.now - dt.timedelta(seconds=1))
    epoch = db.epoch
    assert db.advance_time(db.now) == epoch
    with db.transaction(), refused(db, StatementError, "while a transaction is open"):
        db.advance_time(db.now + dt.timedelta(seconds=1))


def test_a_transaction_sees_views_at_the_time_that_it_began_with(
    events: tuple[Database, Path],
) -> None:
    db, _ = events
    now = db.now
    assert now is not None
    with db.transaction() as tx:
        tx.insert("e", [(-5, now - dt.timedelta(minutes=5), 1)])
        assert (-5, 1) in collected(db.table("last_hour"))
        tx.rollback()
    assert (-5, 1) not in collected(db.table("last_hour"))


def test_a_generator_that_asks_for_the_time_is_refused_by_name(
    events: tuple[Database, Path],
) -> None:
    db, _ = events
    query = (
        "SELECT id, day FROM e LATERAL VIEW explode(sequence(to_date(ts), current_date())) AS day"
    )
    with refused(db, UndeterminedError, "in a generate", "in a subquery's column first"):
        db.create_view("each_day", query)


def test_a_dataframe_asks_for_the_time(events: tuple[Database, Path]) -> None:
    db, _ = events
    now = db.now
    assert now is not None
    frame = db.table("e").where(F.col("ts") > F.now() - F.expr("INTERVAL 1 HOUR")).select("id")
    db.create_view("framed", frame)
    rows = [(7, now, 1), (8, now - dt.timedelta(minutes=59), 1)]
    with db.transaction() as tx:
        tx.insert("e", rows)
    assert collected(db.table("framed")) == {(7,): 1, (8,): 1}
    db.advance_time(now + dt.timedelta(minutes=2))
    assert collected(db.table("framed")) == {(7,): 1}
    db.check("framed")
    db.sql("DROP VIEW framed")
    with db.transaction() as tx:
        tx.delete("e", rows)


def test_a_comprehension_asks_for_the_time(events: tuple[Database, Path]) -> None:
    db, _ = events
    now = db.now
    assert now is not None
    text = """for k in k yield (name: k.name,
        ids: for e in e where e.v = k.v and e.ts > now() - INTERVAL 1 HOUR yield e.id)"""
    db.create_view("nested", rekindle.comprehension(text))
    rows = [(7, now, 77), (8, now - dt.timedelta(minutes=59), 77)]
    with db.transaction() as tx:
        tx.insert("e", rows)
        tx.insert("k", [(77, "seven")])
    ids = db.table("nested").where("name = 'seven'").select(F.sort_array("ids"))
    assert ids.collect() == [([7, 8],)]
    db.advance_time(now + dt.timedelta(minutes=2))
    ids = db.table("nested").where("name = 'seven'").select(F.sort_array("ids"))
    assert ids.collect() == [([7],)]
    db.check("nested")
    db.sql("DROP VIEW nested")
    with db.transaction() as tx:
        tx.delete("e", rows)
        tx.delete("k", [(77, "seven")])


def test_a_clock_that_forgets_what_it_showed_is_caught(
    events: tuple[Database, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A planted bug: views are not told which time is over."""
    db, _ = events
    now = db.now
    assert now is not None
    rows = [(i, now, 1) for i in range(3)]
    with db.transaction() as tx:
        tx.insert("e", rows)
    later = now + dt.timedelta(hours=4)
    with monkeypatch.context() as planted:
        planted.setattr(
            engine, "movement", lambda node, _, after: clock.movement(node, None, after)
        )
        db.advance_time(later)
    with pytest.raises((CheckError, ValueError)):
        db.check("last_hour")


def test_without_hands_it_follows_the_day(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    today = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)

    def at(minutes: int) -> None:
        instant = int((today + dt.timedelta(minutes=minutes)).timestamp() * 10**6)
        for module in (clock, engine):
            monkeypatch.setattr(module, "time_of_day", lambda: clock.Time(instant))

    at(0)
    assert db.now is None
    db.sql("CREATE TABLE e (id BIGINT, ts TIMESTAMP)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM e WHERE ts > now() - INTERVAL 1 HOUR")
    assert db.now == today
    with db.transaction() as tx:
        tx.insert("e", [(1, today)])
    at(59)
    with db.transaction() as tx:
        tx.insert("e", [(2, today + dt.timedelta(minutes=58))])
    assert collected(db.table("v")) == {(1,): 1, (2,): 1}
    at(61)
    assert collected(db.table("v")) == {(1,): 1, (2,): 1}, "nothing has moved the clock"
    db.advance_time()
    assert collected(db.table("v")) == {(2,): 1}
    assert db.check("v").rows == 1
    at(10)  # The machine's clock was set back; that of the database stays where it is.
    with db.transaction() as tx:
        tx.insert("e", [(3, today)])
    assert db.now == today + dt.timedelta(minutes=61)
    before = db.epoch
    assert db.advance_time() == before and db.now == today + dt.timedelta(minutes=61)
    changes = {(row.id, row._weight) for row in db.changes("v", since=0).collect()}
    assert changes == {(1, 1), (2, 1), (1, -1)}


def test_a_timer_moves_the_clock_while_nobody_changes_anything(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    minute = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
    for module in (clock, engine):
        monkeypatch.setattr(
            module, "time_of_day", lambda: clock.Time(int(minute.timestamp() * 10**6))
        )
    db.sql("CREATE TABLE e (id BIGINT, ts TIMESTAMP)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT id FROM e WHERE ts > now() - INTERVAL 1 HOUR")
    with db.transaction() as tx:
        tx.insert("e", [(1, minute), (2, minute + dt.timedelta(minutes=30))])
    minute += dt.timedelta(minutes=61)
    timer = db.follow_time(every="20 milliseconds")
    deadline = time.monotonic() + 60
    while db.now != minute and time.monotonic() < deadline:
        time.sleep(0.02)
    assert db.now == minute and timer.is_running
    assert collected(db.table("v")) == {(2,): 1}
    epoch = db.epoch
    time.sleep(0.2)
    assert db.epoch == epoch, "a clock that has not moved makes no epoch"
    other = db.follow_time(every=dt.timedelta(milliseconds=20))
    assert not timer.is_running and timer.error is None
    db.advance_time(minute + dt.timedelta(days=1))  # By hand, and ahead of the day.
    while other.is_running and time.monotonic() < deadline:
        time.sleep(0.02)
    assert other.error is not None and "cannot go back" in other.error.message
    with refused(db, DefinitionError, "not a length of time"):
        db.follow_time(every="1 month")
    with refused(db, DefinitionError, "cannot be 0 seconds"):
        db.follow_time(every="0 seconds")
    last = db.follow_time(every="1 hour")
    db.close()
    assert not last.is_running
