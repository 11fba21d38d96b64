"""How often the JVM is asked while a view is created: each question costs 0.1 ms or more."""

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
    asked = []
    send = ClientServerConnection.send_command

    def counted(connection: Any, command: str) -> Any:
        # Another thread gives objects back that are no longer needed.
        if threading.current_thread() is threading.main_thread():
            asked.append(command)
        return send(connection, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", counted)
    db.create_view("second", query.format(2))
    assert 50 < len(asked) <= QUERIES[query]
