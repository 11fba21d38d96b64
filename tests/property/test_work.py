"""Law 6: a step's work follows the change, whatever the tables hold."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.circuit.nodes import Arrangement, Group, HalfJoin, Table, View
from rekindle.runtime.database import Database
from rekindle.spark.step import Placement
from rekindle.traces.reader import TraceReader
from tests.property.changes import Edit
from tests.property.laws import check_work

ROWS = 3_000
VIEWS = {
    "filtered": "SELECT id, n * 2 AS m FROM big WHERE n >= 0",
    "grouped": "SELECT k, sum(n) AS s, avg(n) AS a, count(*) AS c FROM big GROUP BY k",
    "total": "SELECT count(*) AS c, sum(n) AS s FROM big",
    "named": "SELECT DISTINCT n FROM big",
    "joined": "SELECT id, label FROM big JOIN small ON big.k = small.k",
    "over": "SELECT c, count(*) AS groups FROM grouped GROUP BY c",
    "other": "SELECT label, count(*) AS c FROM small GROUP BY label",
}


@pytest.fixture(scope="module")
def loaded(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    path: Path = tmp_path_factory.mktemp("work")
    with rekindle.connect(str(path / "w"), spark=spark) as db:
        db.sql("CREATE TABLE big (id INT, k INT, n INT, PRIMARY KEY (id))")
        db.sql("CREATE TABLE small (k INT, label STRING)")
        with db.transaction() as tx:
            tx.insert("big", [(i, i // 2, i % 1000) for i in range(ROWS)])
            tx.insert("small", [(i, f"l{i % 7}") for i in range(ROWS)])
        for name, query in VIEWS.items():
            db.create_view(name, query)
        yield db


def nodes_of(db: Database, view: str) -> set[str]:
    """What only a step that concerns the view visits."""
    circuit = db._engine.circuit
    reached = circuit.reachable(db._engine.state.entry(view).node)
    return {node.id for node in reached if not isinstance(node, Table)}


@pytest.fixture
def scanless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading all of a trace is an error."""

    def scan(self: Any, *given: Any) -> Any:
        raise AssertionError("a step scanned a whole trace")

    monkeypatch.setattr(TraceReader, "scan", scan)


def test_one_row_costs_one_row(loaded: Database, scanless: None) -> None:
    with loaded.transaction() as tx:
        tx.delete("big", [(10, 5, 10)])
        tx.insert("big", [(10, 6, 11)])
    step = loaded.last_step
    assert step is not None and step.placement is Placement.INLINE
    circuit = loaded._engine.circuit
    kinds = set()
    for key, did in step.nodes.items():
        node = circuit.nodes[key]
        kinds.add(type(node))
        # Two rows in; a group gives its old and its new result; one label matches each row.
        assert did.rows_in <= 4 and did.rows_out <= 4, (node, did)
    assert {Arrangement, Group, HalfJoin, View} <= kinds
    assert not nodes_of(loaded, "other") & step.nodes.keys()


def test_views_of_other_tables_are_not_visited(loaded: Database, scanless: None) -> None:
    with loaded.transaction() as tx:
        tx.insert("small", [(10**6, "new")])
    step = loaded.last_step
    assert step is not None
    for view in ("filtered", "grouped", "total", "named", "over"):
        assert not nodes_of(loaded, view) & step.nodes.keys()
    assert all(did.rows_in <= 2 and did.rows_out <= 2 for did in step.nodes.values())


def test_a_change_that_cancels_visits_nothing(loaded: Database, scanless: None) -> None:
    with loaded.transaction() as tx:
        tx.insert("small", [(1, "z")])
        tx.delete("small", [(1, "z")])
        tx.insert("big", [])
    assert loaded.last_step is not None and not loaded.last_step.nodes


def test_a_statement_on_a_key_reads_that_key(
    loaded: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UPDATE ... WHERE id = c must not read the table."""
    read: list[int] = []
    right = TraceReader.scan

    def scan(self: Any, *given: Any) -> Any:
        for table in right(self, *given):
            read.append(len(table))
            yield table

    monkeypatch.setattr(TraceReader, "scan", scan)
    loaded.sql("UPDATE big SET n = 5 WHERE id = 20")
    assert sum(read) <= 2, f"the statement read {sum(read)} rows"
    step = loaded.last_step
    assert step is not None and all(did.rows_in <= 4 for did in step.nodes.values())


def test_the_views_are_right_after_all_that(loaded: Database) -> None:
    for view in VIEWS:
        loaded.check(view)


def test_a_join_with_itself_reads_its_change_on_both_sides(db: Database) -> None:
    db.sql("CREATE TABLE t (a INT, b INT)")
    db.create_view(
        "pairs",
        "SELECT x.b, y.b AS c FROM t x JOIN t y ON x.a = y.a WHERE x.b > 0 AND y.b > 0",
    )
    joins = [n for n in db._engine.circuit.nodes.values() if isinstance(n, HalfJoin)]
    assert any(join.change == join.against for join in joins)
    rows = ((1, 2),)
    with db.transaction() as tx:
        tx.insert("t", list(rows))
    check_work(db, [Edit("insert", "t", rows)])
