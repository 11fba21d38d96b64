"""How often the JVM is asked while a view is created, or followed: 0.1 ms or more each time."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from py4j.clientserver import ClientServerConnection

from rekindle.runtime.database import Database

# A plan with a CASE is walked: its JSON form, which is one question, may be exponentially long.
QUERIES = {
    "SELECT k, x + 1 AS e FROM a WHERE x > {} AND s LIKE 'a%'": 200,
    "SELECT x, CASE WHEN k > {} THEN x ELSE k * 2 END AS o FROM a WHERE x IN (1, 2, 3)": 270,
    "SELECT a.s, sum(a.x * b.z) AS t, count(*) AS c FROM a JOIN b ON a.k = b.k "
    "WHERE a.y > {} GROUP BY a.s": 680,
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_view_is_created_with_few_questions(
    db: Database, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    db.sql("CREATE TABLE a (k INT, x INT, y DOUBLE, s STRING)")
    db.sql("CREATE TABLE b (k INT, z INT)")
    db.create_view("first", query.format(1))  # Names of classes are asked once.
    asked = _questions(monkeypatch)
    db.create_view("second", query.format(2))
    assert 50 < len(asked) <= QUERIES[query]


STEPS = 3


def test_a_step_that_evaluates_nothing_asks_for_the_settings_alone(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE TABLE a (k INT, x INT, y DOUBLE)")
    db.sql("CREATE TABLE b (k INT, z INT)")
    db.create_view(
        "sums",
        "SELECT z, sum(x) AS s, sum(y) AS t, count(*) AS n FROM a JOIN b ON a.k = b.k GROUP BY z",
    )
    with db.transaction() as tx:
        tx.insert("b", [(1, 1), (2, 1)])
    for i in range(2):  # Stages are compiled once.
        with db.transaction() as tx:
            tx.insert("a", [(1, i, 0.5), (2, i, 0.25)])
    asked = _questions(monkeypatch)
    for i in range(STEPS):
        with db.transaction() as tx:
            tx.insert("a", [(1, i, 0.5), (2, i, 0.25)])
    assert len(asked) <= 2 * STEPS, asked
    db.check("sums")


def _questions(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The questions that this thread asks from now on."""
    asked: list[str] = []
    send = ClientServerConnection.send_command

    def counted(connection: Any, command: str) -> Any:
        # Another thread gives objects back that are no longer needed.
        if threading.current_thread() is threading.main_thread():
            asked.append(command)
        return send(connection, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    return asked
