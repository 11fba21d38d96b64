"""Many threads on one connection: a serial order explains everything that anybody was told."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.calculus.schema import Field, Schema
from rekindle.circuit.nodes import Table
from rekindle.errors import (
    ClosedError,
    ConflictError,
    ConstraintError,
    EvaluationError,
    StatementError,
    TransactionTimeoutError,
)
from rekindle.runtime.database import Database
from rekindle.runtime.transactions import commits, sessions
from rekindle.runtime.transactions.stepping import TableChange
from rekindle.runtime.transactions.transaction import Transaction
from tests.concurrency.serial import anomalies
from tests.concurrency.workload import (
    VIEWS,
    Client,
    Diary,
    build,
    check_log,
    registers,
    together,
)


def run(db: Database, threads: int, count: int, seed: int) -> Diary:
    """So many clients, each with so many transactions."""
    diary = Diary()
    clients = [Client(db, diary, random.Random(f"{seed}/{i}")) for i in range(threads)]
    together([partial(client.run, count) for client in clients])
    return diary


def defining(db: Database, rounds: int) -> None:
    """Views that come and go meanwhile."""
    for number in range(rounds):
        name = f"passing{number}"
        db.sql(f"CREATE MATERIALIZED VIEW {name} AS SELECT k, max(id) AS m FROM log GROUP BY k")
        db.check(name)
        db.sql(f"DROP VIEW {name}")


def test_sixteen_threads_with_rollbacks_conflicts_definitions_and_readers(
    db: Database, warehouse: str, spark: SparkSession
) -> None:
    build(db)
    diary = Diary()
    clients = [Client(db, diary, random.Random(i)) for i in range(16)]
    with rekindle.connect(warehouse, spark, mode="read") as reader:
        following = Client(reader, diary, random.Random(99))

        def read() -> None:
            for _ in range(4):
                following.read()

        together([*(partial(each.run, 4) for each in clients), read, partial(defining, db, 2)])
    assert not diary.failures
    assert anomalies(diary.observed, registers(db.table("registers"))) == []
    check_log(db, diary)
    for view in VIEWS:
        db.check(view)
    before = registers(db.table("registers"))
    db.close()
    with rekindle.connect(warehouse, spark, mode="read") as again:
        assert registers(again.table("registers")) == before


@pytest.mark.torture
def test_many_threads_for_long(db: Database) -> None:
    """As above, with more transactions than a developer waits for."""
    build(db)
    diary = run(db, 16, 150, 7)
    assert not diary.failures
    assert anomalies(diary.observed, registers(db.table("registers"))) == []
    check_log(db, diary)


# ---- negative controls -------------------------------------------------------------------------


def found_by_the_checker(db: Database, begin: Callable[[Database], None] = build) -> list[str]:
    """The anomalies of a run, or the errors in which a broken commit ended."""
    begin(db)
    diary = run(db, 8, 5, 3)
    wrong = [repr(each) for each in diary.failures]
    try:
        check_log(db, diary)
        return [*wrong, *anomalies(diary.observed, registers(db.table("registers")))]
    except (AssertionError, rekindle.RekindleError) as error:
        return [*wrong, repr(error)]


def test_a_transaction_that_ends_too_early_is_caught(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: what is applied is a state that others have replaced meanwhile."""
    engine = db._engine
    finish = engine._finish

    def slow(*args: Any) -> None:
        time.sleep(0.02)  # Others get here with the same state.
        finish(*args)

    def apply_at_once(request: commits.Request) -> int:
        request.epoch = engine.apply(request.changes)
        return request.epoch

    def plant(database: Database) -> None:
        build(database)
        monkeypatch.setattr(engine, "turn", _Free())
        monkeypatch.setattr(engine.commits, "commit", apply_at_once)
        monkeypatch.setattr(engine, "_finish", slow)

    assert found_by_the_checker(db, plant)


class _Free:
    """A turn that everybody has."""

    is_mine = False

    def __enter__(self) -> None: ...

    def __exit__(self, *_: object) -> None: ...

    def acquire(self, timeout: float = -1) -> bool:
        return True

    def release(self) -> None: ...


def test_a_transaction_that_others_join_is_caught(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Planted: one transaction for all threads of a connection."""
    monkeypatch.setattr(sessions, "_caller", lambda: db)
    assert found_by_the_checker(db)


# ---- isolation ---------------------------------------------------------------------------------


@pytest.fixture
def pairs(db: Database) -> Database:
    db.sql("CREATE TABLE t (id INT, v INT, PRIMARY KEY (id))")
    db.sql("CREATE MATERIALIZED VIEW s AS SELECT sum(v) AS s, count(*) AS n FROM t")
    db.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    return db


def elsewhere(job: Callable[[], object]) -> None:
    """Run a job in another thread and wait for it; its error is raised here."""
    errors: list[BaseException] = []

    def caught() -> None:
        try:
            job()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=caught)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]


def test_a_statement_of_another_thread_is_its_own(pairs: Database) -> None:
    tx = pairs.transaction()
    tx.insert("t", [(3, 30)])
    elsewhere(lambda: pairs.sql("INSERT INTO t VALUES (4, 40)"))
    tx.rollback()
    assert sorted(row.id for row in pairs.table("t").collect()) == [1, 2, 4]


def test_a_transaction_reads_its_snapshot_and_its_own_changes(pairs: Database) -> None:
    with pairs.transaction() as tx:
        tx.insert("t", [(3, 30)])
        elsewhere(lambda: pairs.sql("INSERT INTO t VALUES (4, 40)"))
        assert sorted(row.id for row in pairs.table("t").collect()) == [1, 2, 3]
        assert pairs.sql("SELECT count(*) AS n FROM t").collect()[0].n == 3
        assert tuple(pairs.sql("SELECT s, n FROM s").collect()[0]) == (60, 3)
        assert tuple(pairs.table("s").collect()[0]) == (60, 3)
        pairs.sql("UPDATE t SET v = v + 1 WHERE id = 3")
        assert tuple(pairs.table("s").collect()[0]) == (61, 3)
    assert tuple(pairs.table("s").collect()[0]) == (101, 4)
    pairs.check("s")


def test_old_files_stay_while_a_transaction_reads_them(
    pairs: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rekindle.runtime.epochs.garbage.GRACE_EPOCHS", 0)
    monkeypatch.setattr("rekindle.runtime.epochs.garbage.GRACE_SECONDS", 0)
    with pairs.transaction() as tx:

        def many() -> None:
            for i in range(40):
                with pairs.transaction() as other:
                    other.insert("t", [(100 + i, i)])
            pairs.collect()

        elsewhere(many)
        pairs._engine.store.release(tx.snapshot.paths)
        assert pairs.table("t").count() == 2
        tx.rollback()
    assert pairs.collect() and pairs.table("t").count() == 42


def test_the_first_to_commit_wins(pairs: Database) -> None:
    before = pairs.epoch
    words = "rows of 't' were changed by another"
    with pytest.raises(ConflictError, match=words) as caught, pairs.transaction():
        pairs.sql("UPDATE t SET v = v + 1 WHERE id = 1")
        elsewhere(lambda: pairs.sql("UPDATE t SET v = v * 2 WHERE id = 1"))
    assert "again" in caught.value.hint
    assert pairs.epoch == before + 1
    assert pairs.sql("SELECT v FROM t WHERE id = 1").collect()[0].v == 20


def test_a_key_that_two_insert_is_a_conflict_and_one_that_is_there_is_not(
    pairs: Database,
) -> None:
    with pytest.raises(ConflictError), pairs.transaction() as tx:
        tx.insert("t", [(5, 50)])
        elsewhere(lambda: pairs.sql("INSERT INTO t VALUES (5, 51)"))
    words = "duplicate primary key"
    with pytest.raises(ConstraintError, match=words) as caught, pairs.transaction() as tx:
        tx.insert("t", [(1, 0)])
        elsewhere(lambda: pairs.sql("INSERT INTO t VALUES (6, 60)"))
    assert not isinstance(caught.value, ConflictError), "nobody touched the key"


def test_changes_of_other_keys_are_no_conflict(pairs: Database) -> None:
    with pairs.transaction():
        pairs.sql("UPDATE t SET v = v + 1 WHERE id = 1")
        elsewhere(lambda: pairs.sql("UPDATE t SET v = v + 1 WHERE id = 2"))
    assert sorted(map(tuple, pairs.table("t").collect())) == [(1, 11), (2, 21)]


def test_a_table_that_is_altered_meanwhile_is_a_conflict(pairs: Database) -> None:
    with pytest.raises(ConflictError, match="'t' was altered"), pairs.transaction() as tx:
        tx.insert("t", [(7, 70)])
        elsewhere(lambda: pairs.sql("ALTER TABLE t ADD COLUMN w INT"))
    assert pairs.table("t").count() == 2


def test_statements_by_themselves_never_conflict(pairs: Database) -> None:
    together(
        [partial(pairs.sql, "UPDATE t SET v = v + 1 WHERE id = 1") for _ in range(10)],
    )
    assert pairs.sql("SELECT v FROM t WHERE id = 1").collect()[0].v == 20


def test_a_statement_that_fails_leaves_the_transaction_as_it_was(pairs: Database) -> None:
    pairs.sql("CREATE TABLE full (id INT NOT NULL, v INT)")
    pairs.sql("INSERT INTO full VALUES (1, 1)")
    with pairs.transaction():
        pairs.sql("INSERT INTO full VALUES (2, 2)")
        with pytest.raises(rekindle.RekindleError):
            pairs.sql("UPDATE full SET id = NULL WHERE v = 1")
    assert sorted(map(tuple, pairs.table("full").collect())) == [(1, 1), (2, 2)]


def test_a_thread_has_one_transaction_and_each_thread_its_own(pairs: Database) -> None:
    with pairs.transaction() as tx:
        with pytest.raises(StatementError, match="already open in this thread"):
            pairs.transaction()

        def other() -> None:
            with pairs.transaction() as own:
                own.insert("t", [(8, 80)])

        elsewhere(other)
        tx.insert("t", [(9, 90)])
    assert pairs.table("t").count() == 4


def test_a_transaction_of_a_thread_that_ended_is_nobodys(pairs: Database) -> None:
    elsewhere(lambda: pairs.transaction().insert("t", [(3, 30)]))
    for _ in range(3):  # Systems give the number of a thread that ended to the next.
        elsewhere(lambda: pairs.transaction().rollback())
    assert pairs.table("t").count() == 2


def test_a_transaction_is_used_by_other_threads_only_by_name(pairs: Database) -> None:
    with pairs.transaction() as tx:
        elsewhere(lambda: tx.insert("t", [(3, 30)]))
        elsewhere(lambda: tx.sql("UPDATE t SET v = 31 WHERE id = 3"))
        assert pairs.sql("SELECT v FROM t WHERE id = 3").collect()[0].v == 31
    assert pairs.table("t").count() == 3


def test_tasks_of_one_thread_have_transactions_of_their_own(pairs: Database) -> None:
    async def one(key: int, gate: asyncio.Event) -> None:
        with pairs.transaction() as tx:
            tx.insert("t", [(key, key)])
            await gate.wait()
            pairs.sql(f"UPDATE t SET v = v + 1 WHERE id = {key}")

    async def main() -> None:
        gate = asyncio.Event()
        tasks = [asyncio.create_task(one(key, gate)) for key in (11, 12)]
        await asyncio.sleep(0)
        with pairs.transaction() as tx:
            pairs.sql("INSERT INTO t VALUES (13, 0)")
            await asyncio.sleep(0)
            tx.rollback()
        gate.set()
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert sorted(map(tuple, pairs.table("t").where("id > 10").collect())) == [(11, 12), (12, 13)]


def test_a_transaction_that_takes_too_long_is_rolled_back(pairs: Database) -> None:
    words = "longer than its 0.05 s"
    with pytest.raises(TransactionTimeoutError, match=words), pairs.transaction(timeout=0.05) as tx:
        tx.insert("t", [(3, 30)])
        time.sleep(0.1)
    with pairs._engine.turn, pytest.raises(TransactionTimeoutError, match="in time"):

        def late() -> None:
            with pairs.transaction(timeout=0.1) as other:
                other.insert("t", [(3, 30)])

        elsewhere(late)
    with pytest.raises(StatementError, match="above 0"):
        pairs.transaction(timeout=0)
    assert pairs.table("t").count() == 2
    assert pairs._engine.snapshots.oldest is None


def test_closing_ends_the_transactions_of_all_threads(pairs: Database) -> None:
    begun: list[Transaction] = []
    elsewhere(lambda: begun.append(pairs.transaction()))
    keep = threading.Event()

    def hold() -> None:
        begun.append(pairs.transaction())
        keep.wait()

    thread = threading.Thread(target=hold)
    thread.start()
    while len(begun) < 2:
        time.sleep(0.01)
    pairs.close()
    with pytest.raises(ClosedError):
        begun[1].insert("t", [(3, 3)])
    keep.set()
    thread.join()


# ---- groups ------------------------------------------------------------------------------------


def grouped(db: Database, jobs: list[Callable[[], None]]) -> int:
    """Run jobs so that all of them wait before the first is committed; gives how many epochs."""
    before = db.epoch
    threads = [threading.Thread(target=job) for job in jobs]
    with db._engine.turn:
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + 30
        while len(db._engine.commits._waiting) < len(jobs) and time.monotonic() < deadline:
            time.sleep(0.005)
    for thread in threads:
        thread.join()
    return db.epoch - before


def inserting(db: Database, key: int, v: int | None, told: dict[int, object]) -> None:
    try:
        with db.transaction() as tx:
            tx.insert("t", [(key, v)])
        told[key] = tx.epoch
    except rekindle.RekindleError as error:
        told[key] = error


def test_transactions_that_wait_together_become_one_epoch(pairs: Database) -> None:
    told: dict[int, object] = {}
    jobs = [partial(inserting, pairs, key, key, told) for key in range(20, 30)]
    assert grouped(pairs, jobs) == 1
    assert set(told.values()) == {pairs.epoch} and len(told) == 10
    pairs.check("s")


def test_one_that_breaks_a_key_is_told_and_the_others_go_on(pairs: Database) -> None:
    told: dict[int, object] = {}
    jobs = [partial(inserting, pairs, key, key, told) for key in (20, 21, 1, 22, 23)]
    assert grouped(pairs, jobs) <= 4
    assert isinstance(told[1], ConstraintError) and "id = 1" in str(told[1])
    assert all(isinstance(told[key], int) for key in (20, 21, 22, 23))
    assert pairs.table("t").count() == 6
    pairs.check("s")


def test_one_whose_rows_a_view_fails_on_is_told_and_the_others_go_on(pairs: Database) -> None:
    pairs.sql("CREATE MATERIALIZED VIEW inverse AS SELECT id, 100 DIV v AS i FROM t")
    told: dict[int, object] = {}
    jobs = [partial(inserting, pairs, key, key - 22, told) for key in (20, 21, 22, 23)]
    grouped(pairs, jobs)
    assert isinstance(told[22], EvaluationError)
    assert pairs.table("t").count() == 5
    pairs.check("inverse")


def test_those_that_touch_one_key_are_not_one_epoch(pairs: Database) -> None:
    """A deletion in error and an insertion by chance must not cancel."""
    told: dict[str, object] = {}

    def change(name: str, call: str) -> None:
        try:
            with pairs.transaction() as tx:
                getattr(tx, call)("t", [(30, 30)])
            told[name] = tx.epoch
        except rekindle.RekindleError as error:
            told[name] = error

    grouped(pairs, [partial(change, "deletion", "delete"), partial(change, "insertion", "insert")])
    assert isinstance(told["insertion"], int)
    if isinstance(told["deletion"], int):
        assert told["deletion"] > told["insertion"]
    else:
        assert pairs.table("t").where("id = 30").count() == 1


def test_together_takes_what_touches_nothing_in_common() -> None:
    schema = Schema((Field("id", "int", True),))
    table, bag = Table("t", schema, (0,), "a"), Table("b", schema, (), "a")
    one, two, again = (_request(table, keys) for keys in ([1, 2], [3], [2]))
    assert commits.together([one, again, two]) == [one, two]
    adding, more, less = _request(bag, [1]), _request(bag, [1]), _request(bag, [1], -1)
    assert commits.together([adding, more, less]) == [adding, more]
    assert commits.together([less, more, adding]) == [less]
    assert commits.together([]) == []


def _request(node: Table, keys: list[int], weight: int = 1) -> commits.Request:
    rows = pa.table({"_weight": [weight] * len(keys), "_key": keys, "c0": keys})
    return commits.Request({node: TableChange(rows=rows)})
