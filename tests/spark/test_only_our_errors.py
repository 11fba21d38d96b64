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
        db.create_table("bags", "id int, items array<struct<n: int>>", primary_key=["id"])
        db.sql("INSERT INTO bags VALUES (1, array(named_struct('n', 1)))")
        db.define("near", "(m, n) -> m.a = n.a")
        yield db


def attempt(db: Database, call: Callable[[], object]) -> None:
    """The call succeeds, or raises an error of ours and leaves the database as it was."""
    before = (db.tables, db.views, db.functions)
    epoch = db.epoch
    try:
        call()
    except RekindleError as error:
        assert str(error)
        assert (db.tables, db.views, db.functions) == before
        # A stream is stored before it is started, and taken back if it cannot be.
        assert db.epoch in (epoch, epoch + 2) or db.streams
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
    "timestamp": lambda db, name, x, y: db.table("t", timestamp=x),
    "shredded": lambda db, name, x, y: db.shredded(name),
    "arrow": lambda db, name, x, y: db.arrow(name, epoch=x, timestamp=y),
    "where": lambda db, name, x, y: db.arrow("bags", where={name: x} if _is_key(name) else x),
    "changes_arrow": lambda db, name, x, y: db.changes_arrow(name, since=x),
    "commits": lambda db, name, x, y: db.commits(since=x),
    "subscribe": lambda db, name, x, y: db.subscribe(name, since=x).close(),
    "next": lambda db, name, x, y: db.subscribe("t", since=0).next(timeout=x),
    "wait": lambda db, name, x, y: db.subscribe("t", print).wait(epoch=0, timeout=x),
    "watermark": lambda db, name, x, y: db.watermark(name),
    "lateness": lambda db, name, x, y: db.create_table(
        "late", "ts timestamp", lateness=x, late=y, retain="0 days"
    ),
    "length": lambda db, name, x, y: db.create_table(
        "late", "ts timestamp", lateness={"ts": x}, retain="0 days"
    ),
    "transaction": lambda db, name, x, y: db.transaction(timeout=x).rollback(),
    "once": lambda db, name, x, y: _in_transaction(db, lambda tx: tx.once(name, x)),
    "advance": lambda db, name, x, y: _in_transaction(db, lambda tx: tx.advance(name, x)),
    "offset": lambda db, name, x, y: _in_transaction(db, lambda tx: tx.offset(x)),
    "factored": lambda db, name, x, y: _in_transaction(
        db, lambda tx: tx.update_factored(name, x, y)
    ),
    "nested": lambda db, name, x, y: _in_transaction(
        db, lambda tx: tx.nested("bags", x, name).insert(y)
    ),
    "selected": lambda db, name, x, y: _in_transaction(
        db, lambda tx: tx.nested("bags", 1, "items").update(x, y)
    ),
    "deleted": lambda db, name, x, y: _in_transaction(
        db, lambda tx: tx.nested("bags", 1, "items").delete_where(x)
    ),
    "queried": lambda db, name, x, y: _in_transaction(
        db, lambda tx: tx.nested("bags", 1, "items").insert_query(x, y)
    ),
    "emit": lambda db, name, x, y: db.create_view(name, "SELECT a FROM t", emit=x, shredding=y),
    "iteration": lambda db, name, x, y: db.create_view(
        name, rekindle.mrql("select t.a from t in t"), iteration=x
    ),
    "kinds": lambda db, name, x, y: db.create_model(
        name, "SELECT id, f FROM t", label="f", features=["id"], kind=x, degree=y
    ),
    "retain": lambda db, name, x, y: db.retain(x),
    "define": lambda db, name, x, y: db.define(name, x),
    "redefine": lambda db, name, x, y: db.redefine("near", x),
    "drop_function": lambda db, name, x, y: db.drop_function(name),
    "mrql": lambda db, name, x, y: db.mrql(x),
    "comprehension": lambda db, name, x, y: db.create_view(name, rekindle.comprehension(x)),
    "mrql_view": lambda db, name, x, y: db.create_view(name, rekindle.mrql(x)),
    "agca": lambda db, name, x, y: db.create_view(name, rekindle.agca(x)),
    "fixpoint": lambda db, name, x, y: db.create_view(
        name, rekindle.fixpoint(db.table("u"), lambda u: x, iterations=y)
    ),
    "while_any": lambda db, name, x, y: db.create_view(
        name, rekindle.fixpoint(db.table("u"), lambda u: u, while_any=x, limit=y)
    ),
    "stream": lambda db, name, x, y: db.stream(name, x),
    "stream_of": lambda db, name, x, y: db.stream(
        "u", _never(db), name=name, mode=x, weight=y
    ).stop(),
    "interval": lambda db, name, x, y: db.stream("u", _never(db), interval=x, sequence_by=y).stop(),
    "deletes": lambda db, name, x, y: db.stream("u", _never(db), "changes", deletes=x, keys=y),
    "create_stream": lambda db, name, x, y: db.create_stream(name, x),
    "resume_streams": lambda db, name, x, y: db.resume_streams(x),
    "drop_stream": lambda db, name, x, y: db.drop_stream(x),
    "register": lambda db, name, x, y: db.register(name, x),
    "refresh": lambda db, name, x, y: db.refresh(name),
    "connect": lambda db, name, x, y: rekindle.connect(db.path, db.spark, mode="read", wait=x),
    "modes": lambda db, name, x, y: rekindle.connect(db.path, db.spark, mode=x),
    "parts": lambda db, name, x, y: rekindle.connect(
        db.path, db.spark, mode="read", partitions=x, trust=y
    ).close(),
    "session": lambda db, name, x, y: rekindle.connect(db.path, x, mode="read"),
    "path": lambda db, name, x, y: rekindle.connect(_nowhere(x), db.spark, mode="read"),
    "read": lambda db, name, x, y: rekindle.read(_nowhere(x)),
    "verify": lambda db, name, x, y: rekindle.verify(_nowhere(x)),
    "backup": lambda db, name, x, y: db.backup(x) if not isinstance(x, str) else None,
    "restore": lambda db, name, x, y: rekindle.restore(db.path, db.path, epoch=x),
    "restore_from": lambda db, name, x, y: rekindle.restore(_nowhere(x), db.path),
}


def _is_key(name: object) -> bool:
    """Can it be a key of a dict?"""
    try:
        hash(name)
    except TypeError:
        return False
    return True


def _nowhere(place: Any) -> Any:
    """The place, and one at which nothing is where it could be a place."""
    return f"/nowhere/{place}" if isinstance(place, str) and place else place


def _in_transaction(db: Database, work: Callable[[rekindle.Transaction], object]) -> None:
    with db.transaction() as tx:
        try:
            work(tx)
        finally:
            tx.rollback()


def _never(db: Database) -> Any:
    """A stream that gives nothing."""
    rate = db.spark.readStream.format("rate").option("rowsPerSecond", "1").load()
    return rate.where("value < 0").selectExpr("value AS k", "'w' AS w")


@settings(QUICK, max_examples=100)
@given(call=st.sampled_from(sorted(CALLS)), name=ODD_NAMES, x=ANYTHING, y=ANYTHING)
def test_calls(open_house: Database, call: str, name: Any, x: Any, y: Any) -> None:
    attempt(open_house, lambda: CALLS[call](open_house, name, x, y))


@pytest.mark.fuzz
@LONG
@given(call=st.sampled_from(sorted(CALLS)), name=ODD_NAMES, x=ANYTHING, y=ANYTHING)
def test_many_calls(open_house: Database, call: str, name: Any, x: Any, y: Any) -> None:
    attempt(open_house, lambda: CALLS[call](open_house, name, x, y))
