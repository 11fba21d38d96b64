"""A change that is a large part of the data: parts of the circuit are filled anew."""

from __future__ import annotations

import json

import pytest

from rekindle.errors import ConstraintError, UnknownNameError
from rekindle.runtime.database import Database
from tests.spark.helpers import refused, rows, weighted

VIEWS = {
    "counted": "SELECT k, count(*) AS n, sum(x) AS s FROM t GROUP BY k",
    "joined": "SELECT t.id, u.name FROM t JOIN u ON t.k = u.k",
    "over": "SELECT name, max(id) AS last FROM joined GROUP BY name",
    "total": "SELECT count(*) AS n, max(x) AS m FROM t",
}


@pytest.fixture
def filled(db: Database) -> Database:
    db.sql("CREATE TABLE t (id INT, k INT, x INT, PRIMARY KEY (id))")
    db.sql("CREATE TABLE u (k INT, name STRING)")
    db.sql("INSERT INTO u VALUES (0, 'a'), (1, 'b'), (1, 'c'), (NULL, 'd')")
    db.sql("INSERT INTO t SELECT CAST(id AS INT), CAST(id % 3 AS INT), 1 FROM range(5000)")
    for name, query in VIEWS.items():
        db.create_view(name, query)
    return db


def _rebuilt(db: Database, view: str) -> list[str]:
    """The kinds of the nodes behind a view that the last step filled anew."""
    nodes = json.loads(db.explain(view).json())["nodes"]
    steps = [(node["kind"], node["last_step"]) for node in nodes]
    return [kind for kind, step in steps if step and step["rebuilt"] and step["epoch"] == db.epoch]


def test_deleting_most_rows_rebuilds_from_the_rest(filled: Database) -> None:
    before = {view: rows(filled, view) for view in VIEWS}
    filled.sql("DELETE FROM t WHERE id >= 100")
    table = filled._engine.state.traces[filled._engine.state.entry("t").node]
    assert table.rows == 100, "what was deleted is not stored any more"
    assert filled.table("t").count() == 100
    for view in VIEWS:
        assert _rebuilt(filled, view), view
        filled.check(view)
        changed = weighted(filled.changes(view, since=filled.epoch - 1))
        before[view].update(changed)
        assert {row: n for row, n in before[view].items() if n} == rows(filled, view)
    assert "to rebuild" in str(filled.explain("counted"))


def test_a_large_change_of_rows_that_are_not_there_is_refused(filled: Database) -> None:
    """What is left is added up and written; it is checked as a small change would be."""
    gone = [(i, i % 3, 1) for i in range(4000)]
    with refused(filled, ConstraintError, "there is no such row"), filled.transaction() as tx:
        tx.delete("t", [*gone, (9999, 0, 1)])
    with refused(filled, ConstraintError, "4999"), filled.transaction() as tx:
        tx.delete("t", gone)
        tx.insert("t", [(4999, 0, 2)])
    with filled.transaction() as tx:
        tx.delete("t", gone)
    assert filled.table("t").count() == 1000


def test_a_small_change_is_followed(filled: Database) -> None:
    filled.sql("DELETE FROM t WHERE id < 100")
    for view in VIEWS:
        assert _rebuilt(filled, view) == []
        filled.check(view)


def test_steps_go_on_after_a_rebuilding_one(filled: Database) -> None:
    filled.sql("DELETE FROM t")
    assert _rebuilt(filled, "joined")
    for statement in (
        "INSERT INTO t VALUES (1, 1, 5), (2, NULL, 6)",
        "UPDATE t SET x = x + 1",
        "INSERT INTO u VALUES (1, 'e')",
    ):
        filled.sql(statement)
        for view in VIEWS:
            filled.check(view)


def test_rebuilding_on_spark(filled: Database) -> None:
    filled.place("spark")
    filled.sql("DELETE FROM t WHERE id >= 100")
    assert _rebuilt(filled, "joined")
    for view in VIEWS:
        filled.check(view)
    assert rows(filled, "total") == {(100, 1): 1}


def test_a_failed_rebuilding_step_leaves_everything(filled: Database) -> None:
    filled.create_view("inverse", "SELECT k, sum(100 / (x - 1000)) AS s FROM t GROUP BY k")
    filled.refresh_by("full")
    with refused(filled, Exception, "zero"):  # type: ignore[arg-type]
        filled.sql("UPDATE t SET x = 1000 WHERE id = 7")
    filled.sql("UPDATE t SET x = 7 WHERE id = 7")
    filled.check("inverse")


def test_views_that_share_a_total_agree(db: Database) -> None:
    """A new view over an aggregate without keys that exists, with rows and without."""
    db.sql("CREATE TABLE t (x INT)")
    for place in ("inline", "spark"):
        db.place(place)
        for state in ("empty", "full", "emptied"):
            for i, call in enumerate(("count(*)", "max(x)")):
                db.create_view("first", f"SELECT {call} AS c FROM t")
                db.create_view(f"v{i}", f"SELECT coalesce({call}, 0) + 1 AS c FROM t")
                db.check("first")
                db.check(f"v{i}")
                db.sql(f"DROP VIEW v{i}")
                db.sql("DROP VIEW first")
            db.sql({"empty": "INSERT INTO t VALUES (1), (2)"}.get(state, "DELETE FROM t"))


def test_an_unknown_refresh_is_refused(db: Database) -> None:
    with refused(db, UnknownNameError, "sideways"):
        db.refresh_by("sideways")
