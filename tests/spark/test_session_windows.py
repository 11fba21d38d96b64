"""Sessions merge and split as rows come and go, as Spark's own session windows do."""

from __future__ import annotations

import datetime
import random

from rekindle.runtime.database import Database

VIEWS = {
    "by_user": (
        "SELECT u, session_window.start AS s, session_window.end AS e, count(*) AS n, max(p) AS m "
        "FROM b GROUP BY u, session_window(at, '10 seconds')"
    ),
    "of_all": "SELECT session_window(at, '5 seconds') AS w, count(*) AS n FROM b GROUP BY 1",
    "of_varying_gap": (
        "SELECT u % 2 AS q, sum(p) AS n, session_window(at, CASE WHEN u = 1 THEN '3 seconds' "
        "ELSE '20 seconds' END) AS w FROM b GROUP BY 1, 3"
    ),
}


def test_sessions_follow_changes(db: Database) -> None:
    db.sql("CREATE TABLE b (u INT, at TIMESTAMP, p INT)")
    for name, query in VIEWS.items():
        db.create_view(name, query)
    pick = random.Random(1)
    live: list[tuple[int, datetime.datetime | None, int]] = []
    for _ in range(4):
        gone = [live.pop(pick.randrange(len(live))) for _ in range(min(len(live), 12))]
        new = [(pick.randint(0, 3), _moment(pick), pick.randint(0, 9)) for _ in range(25)]
        live += new
        with db.transaction() as tx:
            tx.insert("b", new)
            tx.delete("b", gone)
        for name in VIEWS:
            db.check(name)


def _moment(pick: random.Random) -> datetime.datetime | None:
    if pick.random() < 0.05:
        return None
    return datetime.datetime(2024, 1, 1, 0, pick.randint(0, 2), pick.randint(0, 59))


def test_windows_that_touch_are_one_session(db: Database) -> None:
    db.sql("CREATE TABLE b (u INT, at TIMESTAMP, p INT)")
    db.create_view("v", VIEWS["of_all"])
    for second in (0, 10, 5):
        db.sql(f"INSERT INTO b VALUES (1, TIMESTAMP '2024-01-01 00:00:{second:02}', 1)")
        db.check("v")
    assert db.table("v").count() == 1


def test_a_change_looks_at_rows_near_it(db: Database) -> None:
    """However long the history of a user is; also where all rows are in one group."""
    db.sql("CREATE TABLE b (u INT, at TIMESTAMP, p INT)")
    for name in ("by_user", "of_all"):
        db.create_view(name, VIEWS[name], incremental="required")
        assert "the rows around a change" in str(db.explain(name))
    beginning = datetime.datetime(2024, 1, 1)
    rows = [(i % 2, beginning + datetime.timedelta(seconds=30 * i), i) for i in range(2_000)]
    with db.transaction() as tx:
        tx.insert("b", rows)
    for at in (rows[-1][1], rows[-7][1] + datetime.timedelta(seconds=7)):
        with db.transaction() as tx:
            tx.insert("b", [(1, at, 0)])
        step = db.last_step
        assert step is not None
        # The rows from the change on are read, and the windows that reach it, not those before.
        assert max(node.rows_in + node.rows_out for node in step.nodes.values()) < 50
        for name in ("by_user", "of_all"):
            db.check(name)
