"""Without an option the policy is the one that keeps least, and explain shows what each keeps."""

from __future__ import annotations

import json

import pytest

from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.state import ViewEntry

QUERY = """
    SELECT a.k, count(*) AS n, sum(a.x * c.x) AS s
    FROM a JOIN b ON a.k = b.k JOIN c ON b.k = c.k GROUP BY a.k
"""


def policy_of(db: Database, view: str) -> Policy:
    entry = db._engine.state.entry(view)
    assert isinstance(entry, ViewEntry)
    return entry.policy


@pytest.fixture
def tables(db: Database, monkeypatch: pytest.MonkeyPatch) -> Database:
    monkeypatch.setattr("rekindle.runtime.views.choosing.LEAST_ROWS", 100)
    for name in "abc":
        db.sql(f"CREATE TABLE {name} (k INT, x INT)")
    return db


def fill(db: Database, keys: int) -> None:
    with db.transaction() as tx:
        for name in "abc":
            tx.insert(name, [(i % keys, i) for i in range(60)])


def test_a_join_of_many_with_many_follows_another_policy(tables: Database) -> None:
    fill(tables, keys=2)
    tables.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    tables.create_view("w", QUERY, policy="first_order")
    assert policy_of(tables, "v") in (Policy.VIEW_TREE, Policy.HIGHER_ORDER)
    assert policy_of(tables, "w") is Policy.FIRST_ORDER
    with tables.transaction() as tx:
        tx.delete("a", [(0, 0), (1, 1)])
        tx.insert("b", [(0, 7), (5, 7), (None, 7)])
        tx.insert("c", [(5, 1)])
    tables.check("v")
    assert sorted(tables.table("v").collect()) == sorted(tables.table("w").collect())
    kept = {name: _rows_kept(tables, name) for name in "vw"}
    assert kept["w"] > 4 * kept["v"], kept
    explanation = tables.explain("v")
    for policy in ("first_order", "view_tree", "higher_order"):
        assert f"{policy} keeps" in str(explanation)
    chosen = policy_of(tables, "v").value
    assert json.loads(explanation.json())["policies"].startswith(f"policy {chosen}")


def test_a_join_along_keys_stays_as_it_is(tables: Database) -> None:
    fill(tables, keys=60)
    tables.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    assert policy_of(tables, "v") is Policy.FIRST_ORDER
    assert "policy first_order" in str(tables.explain("v"))


def test_small_tables_are_not_worth_a_choice(db: Database) -> None:
    for name in "abc":
        db.sql(f"CREATE TABLE {name} (k INT, x INT)")
    fill(db, keys=2)
    db.sql(f"CREATE MATERIALIZED VIEW v AS {QUERY}")
    assert policy_of(db, "v") is Policy.FIRST_ORDER


def _rows_kept(db: Database, view: str) -> int:
    nodes = db._engine.circuit.reachable(db._engine.state.entry(view).node)
    traces = db._engine.state.traces
    return sum(traces[n.id].rows for n in nodes if n.id in traces and not n.id.startswith("table"))
