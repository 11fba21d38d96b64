"""What threads do beside each other at the worst instant: each sees and says one thing."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

import rekindle
from rekindle.errors import ConstraintError, RekindleError, StreamError
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.snapshots import Snapshots
from rekindle.runtime.reading.reading import DataReader
from rekindle.runtime.reading.subscriptions import Batch
from rekindle.runtime.time.clock import Time
from rekindle.runtime.time.forgetting import Forgetting


def elsewhere(job: Callable[[], object]) -> None:
    """A job in another thread, to its end."""
    thread = threading.Thread(target=job, daemon=True)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


@pytest.fixture
def accounts(db: Database) -> Database:
    db.sql("CREATE TABLE one (id INT, v INT, PRIMARY KEY (id))")
    db.sql("CREATE TABLE two (id INT, v INT, PRIMARY KEY (id))")
    db.sql("CREATE MATERIALIZED VIEW all_one AS SELECT sum(v) AS v FROM one")
    db.sql(
        "CREATE TABLE bags (id INT, items ARRAY<STRUCT<n: INT, more: ARRAY<STRUCT<m: INT>>>>, "
        "PRIMARY KEY (id))"
    )
    with db.transaction() as tx:
        tx.insert("one", [(1, 100)])
        tx.insert("two", [(1, 0)])
        tx.insert("bags", [(1, [{"n": 1, "more": [{"m": 1}]}])])
    return db


def moved(db: Database) -> None:
    """All of `one` goes to `two`, and a bag is exchanged, in one epoch."""
    with db.transaction() as tx:
        tx.upsert("one", [(1, 0)])
        tx.upsert("two", [(1, 100)])
        tx.upsert("bags", [(1, [{"n": 2, "more": [{"m": 2}, {"m": 3}]}])])


QUERIES: dict[str, tuple[Callable[[Database], Any], Any]] = {
    "join": (
        lambda db: db.sql("SELECT one.v + two.v AS v FROM one JOIN two USING (id)").collect(),
        [(100,)],
    ),
    "subqueries": (
        lambda db: db.sql("SELECT (SELECT v FROM all_one) + (SELECT v FROM two) AS v").collect(),
        [(100,)],
    ),
    "nested": (
        lambda db: db.sql("SELECT n.id, one.v FROM bags n JOIN one USING (id)").collect(),
        [(1, 100)],
    ),
    "shredded": (
        lambda db: {path: rows.count() for path, rows in db.shredded("bags").items()},
        {"": 1, "items": 1, "items.more": 1},
    ),
}


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_reads_all_tables_as_of_one_epoch(
    accounts: Database, monkeypatch: pytest.MonkeyPatch, query: str
) -> None:
    """A commit comes between the reading of the first table and that of the next."""
    committed = DataReader.committed
    waiting = [moved]

    def interrupted(self: DataReader, *given: Any) -> DataFrame:
        found = committed(self, *given)
        if waiting:
            commit = waiting.pop()
            elsewhere(lambda: commit(accounts))
        return found

    monkeypatch.setattr(DataReader, "committed", interrupted)
    ask, expected = QUERIES[query]
    assert ask(accounts) == expected
    assert not waiting, "the commit came between"
    assert accounts.sql("SELECT v FROM two").collect() == [(100,)]


def test_what_is_forgotten_at_any_instant_holds_nothing_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The collector of garbage ends a transaction while its thread is asking what is held."""
    snapshots = Snapshots()
    snapshots.hold(1)
    snapshots.hold(1)
    snapshots.hold(2)

    class Collecting(Counter[int]):
        def __missing__(self, epoch: int) -> int:
            snapshots.release(1)
            return 0

    def work() -> None:
        snapshots._held = Collecting(snapshots._held)
        snapshots.hold(3)
        snapshots.hold(4)

    elsewhere(work)
    assert snapshots.oldest == 2
    for epoch in (2, 3, 4):
        snapshots.release(epoch)
    assert snapshots.oldest is None and not snapshots._released


def test_work_that_fails_in_a_transaction_leaves_its_sources_where_they_were(
    accounts: Database,
) -> None:
    """A batch whose rows were taken back is not committed, and comes again."""

    def batch(tx: rekindle.Transaction, *rows: tuple[int, int]) -> None:
        assert tx.once("clicks", 0)
        tx.advance("log", "7")
        tx.insert("one", list(rows))
        if len(rows) > 1:
            raise ValueError("the second row is wrong")

    with accounts.transaction() as tx:
        with pytest.raises(ValueError, match="second row"):
            accounts.change(lambda tx: batch(tx, (2, 2), (3, 3)))
        tx.insert("two", [(9, 9)])
    assert accounts.offsets == {}
    accounts.change(lambda tx: batch(tx, (2, 2)))
    assert accounts.offsets == {"clicks": "0", "log": "7"}
    assert sorted(row.id for row in accounts.table("one").collect()) == [1, 2]


def test_work_that_fails_after_it_was_told_of_a_repetition_repeats_nothing(
    accounts: Database,
) -> None:
    with accounts.transaction() as tx:
        tx.once("clicks", 3)

    def again(tx: rekindle.Transaction) -> None:
        assert not tx.once("clicks", 3)
        raise ValueError("there already")

    with accounts.transaction() as tx:
        tx.insert("one", [(5, 5)])
        with pytest.raises(ValueError, match="there already"):
            accounts.change(again)
    assert tx.epoch is not None and accounts.table("one").count() == 2


def test_several_threads_take_each_batch_once(accounts: Database) -> None:
    """Also where all of them find it at the same time."""
    with accounts.subscribe("one", since=accounts.epoch) as changes:
        taken: list[Batch] = []
        errors: list[BaseException] = []
        ready = threading.Barrier(8)

        def take() -> None:
            try:
                ready.wait(30)
                while (batch := changes.next(timeout=0.5)) is not None:
                    taken.append(batch)
            except BaseException as error:
                errors.append(error)

        for i in range(40):
            accounts._engine.wake_up()
            with accounts.transaction() as tx:
                tx.insert("one", [(100 + i, i)])
        threads = [threading.Thread(target=take, daemon=True) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert errors == []
    assert sorted(batch.epoch for batch in taken) == list(
        range(accounts.epoch - 39, accounts.epoch + 1)
    )


def test_a_subscription_hands_on_what_is_committed_while_the_connection_closes(
    accounts: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = accounts._engine
    begun, go = threading.Event(), threading.Event()
    finish = engine._finish

    def slow(*given: Any) -> None:
        begun.set()
        go.wait(30)
        finish(*given)

    monkeypatch.setattr(engine, "_finish", slow)
    told: list[int] = []
    epochs: list[int | None] = []
    changes = accounts.subscribe("one", lambda batch: told.append(batch.epoch))

    def insert() -> None:
        epochs.append(accounts.change(lambda tx: tx.insert("one", [(2, 2)])))

    writer = threading.Thread(target=insert, daemon=True)
    writer.start()
    assert begun.wait(30)
    closer = threading.Thread(target=accounts.close, daemon=True)
    closer.start()
    while not accounts._connection.is_closed:
        closer.join(0.01)
    engine.wake_up()  # Whoever looks now sees a connection that closes, and no new epoch.
    changes.wait(timeout=1.2)
    go.set()
    for thread in (writer, closer):
        thread.join(30)
    changes.wait(epochs[0], timeout=30)
    changes.close()
    assert told == epochs


def test_the_clock_is_asked_beside_commits(accounts: Database) -> None:
    """Whoever reads the time while it moves leaves the one who moves it with what it found."""
    accounts.sql("CREATE MATERIALIZED VIEW late AS SELECT id FROM one WHERE now() > DATE'2020-1-1'")
    engine = accounts._engine

    class Asked(type(engine)):  # type: ignore[misc]
        """An engine that another thread asks for the time, with an older state, at each move."""

        def __setattr__(self, name: str, value: Any) -> None:
            super().__setattr__(name, value)
            if name == "_time":
                super().__setattr__(name, (object(), Time(0)))

    engine.__class__ = Asked
    for i in range(3):
        accounts.change(lambda tx, i=i: tx.insert("one", [(10 + i, i)]))
        assert accounts.now is not None and accounts.now.year > 2020
    accounts.check("late")
    accounts.check("all_one")


def test_bounds_are_begun_anew_beside_a_step(
    accounts: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever explains a view while a step asks what may be removed."""
    db = accounts
    db.create_table("events", "ts timestamp_ntz, k int", lateness={"ts": "1 minute"})
    db.sql(
        "CREATE MATERIALIZED VIEW w AS SELECT window(ts, '1 minute') AS w, count(*) AS n "
        "FROM events GROUP BY window(ts, '1 minute')"
    )
    sieve = Forgetting._sieve

    def interrupted(self: Forgetting, *given: Any) -> Any:
        found = sieve(self, *given)
        elsewhere(self.forget)
        return found

    monkeypatch.setattr(Forgetting, "_sieve", interrupted)
    for i in range(6):
        db.sql(f"INSERT INTO events VALUES (TIMESTAMP_NTZ'2026-01-01 10:0{i}:00', {i})")
    db.check("w")


def test_an_error_of_several_is_told_to_each(accounts: Database) -> None:
    """Errors of classes that cannot be made anew from their arguments, too."""
    from rekindle.runtime.transactions.commits import _own

    class Strange(RuntimeError):
        def __init__(self, one: str, *, other: str) -> None:
            super().__init__(one, other)

    strange = Strange("a", other="b")
    assert _own(strange) is strange
    known = ConstraintError("no", detail="d", hint="h")
    copied = _own(known)
    assert copied is not known and isinstance(copied, RekindleError)
    assert str(copied) == str(known)


DEFINITIONS: dict[str, Callable[[Database], object]] = {
    "table": lambda db: db.create_table("t", "a int"),
    "view": lambda db: db.create_view("z", "SELECT sum(v) AS s FROM two"),
    "replaced": lambda db: db.replace_view("all_one", "SELECT max(v) AS v FROM one"),
    "columns": lambda db: db.add_columns("one", "w int"),
    "drop": lambda db: db.drop_view("all_one"),
    "redefined": lambda db: db.redefine("many", "x -> x.v > 3"),
}


@pytest.mark.parametrize("define", DEFINITIONS)
def test_who_is_interrupted_when_a_definition_is_committed_commits_nothing_more(
    accounts: Database, monkeypatch: pytest.MonkeyPatch, define: str
) -> None:
    """Steps that do not know of it would leave a view behind without a word."""
    accounts.define("many", "x -> x.v > 50")
    accounts.create_view("large", rekindle.comprehension("for x in one where many(x) yield x.id"))
    engine = accounts._engine
    before, path, spark = accounts.epoch, accounts.path, accounts.spark

    class Interrupted(type(engine)):  # type: ignore[misc]
        """An engine whose thread is interrupted as soon as the record is there."""

        def __setattr__(self, name: str, value: object) -> None:
            if name == "circuit":
                raise KeyboardInterrupt
            super().__setattr__(name, value)

    engine.__class__ = Interrupted
    with pytest.raises(KeyboardInterrupt):
        DEFINITIONS[define](accounts)
    engine.__class__ = Interrupted.__mro__[1]
    assert accounts.epoch == before + 1
    with pytest.raises(RekindleError, match="interrupted while it committed"):
        accounts.change(lambda tx: tx.insert("two", [(5, 5)]))
    accounts.close()
    with rekindle.connect(path, spark) as db:
        with db.transaction() as tx:
            tx.delete("two", [(1, 0)])
            tx.insert("two", [(1, 70), (2, 30)])
        for view in db.views:
            db.check(view)


def test_what_is_there_is_known_all_the_while(
    accounts: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another thread reads while a definition changes, here or, for a reader, elsewhere."""
    accounts.define("many", "x -> x.v > 50")
    accounts.create_view("large", rekindle.comprehension("for x in one where many(x) yield x.id"))
    reader = rekindle.connect(accounts.path, accounts.spark, mode="read")
    always = {"one", "two", "bags", "all_one", "large"}
    missed: list[set[str]] = []

    for method in ("opaque", "remove"):
        plain = getattr(Leaves, method)

        def watched(self: Leaves, *given: Any, plain: Any = plain) -> Any:
            found = plain(self, *given)
            missed.append(always - set(self.plans))
            return found

        monkeypatch.setattr(Leaves, method, watched)
    with reader:
        accounts.add_columns("one", "w int")
        accounts.add_columns("bags", "w int")
        accounts.replace_view("all_one", "SELECT max(v) AS v, count(w) AS w FROM one")
        accounts.redefine("many", "x -> x.v > 3 and x.w is null")
        for db in (accounts, reader):
            assert db.sql("SELECT v, w FROM all_one").collect() == [(100, 0)]
            assert db.sql("SELECT id, w FROM bags").collect() == [(1, None)]
            assert db.sql("SELECT id, v, w FROM one").collect() == [(1, 100, None)]
        always.discard("all_one")
        accounts.drop_view("all_one")
        for db in (accounts, reader):
            with pytest.raises(RekindleError, match="unknown table or view 'all_one'"):
                db.sql("SELECT * FROM all_one")
    assert missed and not any(missed)


def test_a_table_that_gets_columns_keeps_its_watermark(db: Database) -> None:
    db.create_table("events", "ts timestamp_ntz, k int", lateness={"ts": "1 minute"})
    db.add_columns("events", "v int")
    db.sql(
        "CREATE MATERIALIZED VIEW w OPTIONS (emit = 'on window close') AS SELECT window(ts, "
        "'1 minute') AS w, count(v) AS n FROM events GROUP BY window(ts, '1 minute')"
    )
    db.sql("INSERT INTO events VALUES (TIMESTAMP_NTZ'2026-01-01 10:00:00', 1, 1)")
    db.sql("INSERT INTO events VALUES (TIMESTAMP_NTZ'2026-01-01 10:09:00', 1, 1)")
    assert [row.n for row in db.table("w").collect()] == [1]
    db.check("w")


def test_who_is_interrupted_while_it_closes_lets_others_in(
    accounts: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, spark = accounts.path, accounts.spark
    told: list[int] = []
    changes = accounts.subscribe("one", lambda batch: told.append(batch.epoch))
    tx = accounts.transaction()

    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(tx, "rollback", interrupted)
    with pytest.raises(KeyboardInterrupt):
        accounts.close()
    changes.wait(epoch=10**9, timeout=30)
    assert changes.is_closed
    with rekindle.connect(path, spark) as db:
        moved(db)


def test_a_stream_that_cannot_be_stopped_keeps_nobody_out(
    accounts: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, spark = accounts.path, accounts.spark
    stopped: list[int] = []

    class Stuck:
        status = "running"

        def stop(self) -> None:
            stopped.append(1)
            raise StreamError("it hangs")

    accounts._streams.running.update({"a": Stuck(), "b": Stuck()})  # type: ignore[dict-item]
    with pytest.raises(StreamError, match="it hangs"):
        accounts.close()
    assert len(stopped) == 2
    with rekindle.connect(path, spark) as db:
        moved(db)
