"""Whatever a public call is given: it works, or a RekindleError says why and nothing changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database
from tests.spark.intruders import COLUMNS, ODD_NAMES, VALUES, rows, statements

QUICK = settings(
    max_examples=25, deadline=None, suppress_health_check=list(HealthCheck), database=None
)
LONG = settings(QUICK, max_examples=int(os.environ.get("REKINDLE_FUZZ_EXAMPLES", "2000")))


@pytest.fixture(scope="module")
def open_house(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Database]:
    with rekindle.connect(str(tmp_path_factory.mktemp("open")), spark=spark) as db:
        db.create_table("t", COLUMNS, primary_key=["id"])
        db.sql("CREATE TABLE u (k BIGINT, w STRING)")
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT a, count(*) AS n FROM t GROUP BY a")
        db.sql("INSERT INTO t (id, a, s) VALUES (1, 1, 'x'), (2, 1, NULL)")
        db.sql("INSERT INTO u VALUES (1, 'a'), (2, 'd'), (2, 'd')")
        yield db


def attempt(db: Database, call: Callable[[], object]) -> None:
    """The call succeeds, or raises an error of ours and leaves the database as it was."""
    before = (db.epoch, db.tables, db.views)
    try:
        call()
    except RekindleError as error:
        assert str(error)
        assert (db.epoch, db.tables, db.views) == before
    assert db.sql("SELECT count(*) AS n FROM t").schema.names == ["n"]


@QUICK
@given(statement=statements(), args=st.none() | st.dictionaries(st.just("p"), VALUES))
def test_statements(open_house: Database, statement: str, args: Any) -> None:
    attempt(open_house, lambda: open_house.sql(statement, args))


@pytest.mark.fuzz
@LONG
@given(statement=statements(), args=st.none() | st.dictionaries(st.just("p"), VALUES))
def test_many_statements(open_house: Database, statement: str, args: Any) -> None:
    attempt(open_house, lambda: open_house.sql(statement, args))


def _change(db: Database, verb: str, table: Any, given: Any) -> None:
    if verb == "apply" and isinstance(given, list):
        given = [(*row, 1) if isinstance(row, tuple) else row for row in given]
    with db.transaction() as tx:
        getattr(tx, verb)(table, given)


VERBS = st.sampled_from(["insert", "delete", "upsert", "apply"])
TABLES = st.integers(0, 9).flatmap(
    lambda i: ODD_NAMES if i == 9 else st.just("u") if i == 8 else st.just("t")
)


@settings(QUICK, max_examples=60)
@given(verb=VERBS, table=TABLES, given=rows())
def test_rows(open_house: Database, verb: str, table: Any, given: Any) -> None:
    attempt(open_house, lambda: _change(open_house, verb, table, given))


@pytest.mark.fuzz
@LONG
@given(verb=VERBS, table=TABLES, given=rows())
def test_many_rows(open_house: Database, verb: str, table: Any, given: Any) -> None:
    attempt(open_house, lambda: _change(open_house, verb, table, given))


ANYTHING = VALUES | ODD_NAMES | statements()
CALLS: dict[str, Callable[[Database, Any, Any, Any], object]] = {
    "create_table": lambda db, name, x, y: db.create_table(name, x, y),
    "create_view": lambda db, name, x, y: db.create_view(name, x),
    "options": lambda db, name, x, y: db.create_view(
        name, "SELECT a FROM t", policy=x, incremental=y
    ),
    "representation": lambda db, name, x, y: db.create_view(
        name, "SELECT a FROM t", representation=x, comment=y
    ),
    "replace_view": lambda db, name, x, y: db.replace_view(name, x),
    "add_columns": lambda db, name, x, y: db.add_columns(name, x),
    "datalog": lambda db, name, x, y: db.datalog(x),
    "iterations": lambda db, name, x, y: db.datalog("z(x) :- u(x, _).", iterations=x),
    "create_model": lambda db, name, x, y: db.create_model(
        name, "SELECT id, f FROM t", label=x, features=y
    ),
    "model_of": lambda db, name, x, y: db.create_model(name, x, label="f", features=["id"], kind=y),
    "model": lambda db, name, x, y: db.model(name),
    "drop_table": lambda db, name, x, y: db.drop_table(name) if name not in ("t", "T", "u") else 0,
    "drop_view": lambda db, name, x, y: db.drop_view(name) if name != "n" else 0,
    "table": lambda db, name, x, y: db.table(name, epoch=x),
    "changes": lambda db, name, x, y: db.changes(name, since=x),
    "explain": lambda db, name, x, y: db.explain(name),
    "definition": lambda db, name, x, y: db.definition(name),
    "check": lambda db, name, x, y: db.check(name),
    "recompute": lambda db, name, x, y: db.recompute(name),
    "factorised": lambda db, name, x, y: db.factorised(name),
    "place": lambda db, name, x, y: db.place(x),
    "refresh_by": lambda db, name, x, y: db.refresh_by(x),
    "sql": lambda db, name, x, y: db.sql(x, y),
}


@settings(QUICK, max_examples=100)
@given(call=st.sampled_from(sorted(CALLS)), name=ODD_NAMES, x=ANYTHING, y=ANYTHING)
def test_calls(open_house: Database, call: str, name: Any, x: Any, y: Any) -> None:
    attempt(open_house, lambda: CALLS[call](open_house, name, x, y))


@pytest.mark.fuzz
@LONG
@given(call=st.sampled_from(sorted(CALLS)), name=ODD_NAMES, x=ANYTHING, y=ANYTHING)
def test_many_calls(open_house: Database, call: str, name: Any, x: Any, y: Any) -> None:
    attempt(open_house, lambda: CALLS[call](open_house, name, x, y))
