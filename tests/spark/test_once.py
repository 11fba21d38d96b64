"""What several readers need in a step on Spark is computed once, and one reader needs no job."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rekindle.circuit.nodes import Formed, HalfJoin, Node
from rekindle.runtime.database import Database
from rekindle.spark import passage, tasks
from rekindle.spark.outputs import Outputs
from rekindle.spark.passage import Passage, Readers
from rekindle.spark.tasks import Reports, Tasks, sorting
from rekindle.traces.layout import weighted_layout
from rekindle.traces.reader import TraceReader
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace
from tests.spark.helpers import strays

JOINED = "SELECT {} FROM o JOIN c ON o.k = c.k {}"
SUMMED = JOINED.format("c.name, sum(o.price) AS s", "GROUP BY c.name")
COUNTED = JOINED.format("c.name, o.price, count(*) AS n", "GROUP BY c.name, o.price")
SHOUTED = JOINED.format("o.price, initcap(c.name) AS name", "")
BOTH = f"{JOINED.format('c.name, o.price', '')} UNION ALL {JOINED.format('c.name, -o.price', '')}"
RANKED = "(SELECT k, n, rank() OVER (PARTITION BY k ORDER BY price) AS r FROM o)"


@pytest.fixture
def filled(db: Database) -> Database:
    db.sql("CREATE TABLE o (n INT, k INT, price INT)")
    db.sql("CREATE TABLE c (k INT, name STRING)")
    with db.transaction() as tx:
        tx.insert("o", [(i, i % 7, i % 13) for i in range(60)])
        tx.insert("c", [(k, f"c{k}") for k in range(3, 10)])
    return db


@pytest.fixture
def computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Counter[str]]:
    """How often the tasks of joins ran, by the node and the number of the task."""
    directory = tmp_path / "computed"
    directory.mkdir()
    place, of = str(directory), Outputs.of

    def noted(self: Outputs, node: Node, *given: Any) -> Any:
        rows = of(self, node, *given)
        if not isinstance(node, HalfJoin) or not isinstance(rows, Tasks):
            return rows
        source, key = rows.source, node.id

        def read(number: int) -> Iterator[pa.Table]:
            with open(f"{place}/{key}.{number}.{secrets.token_hex(4)}", "x"):
                pass
            return source(number)

        return replace(rows, source=read)

    monkeypatch.setattr(Outputs, "of", noted)
    return lambda: Counter(file.name.rpartition(".")[0] for file in directory.iterdir())


def _step(db: Database) -> int:
    """Change a table on Spark; gives the number of jobs."""
    db.place("spark")
    context = db.spark.sparkContext
    group = secrets.token_hex(4)
    context.setJobGroup(group, "a step")
    try:
        with db.transaction() as tx:
            tx.insert("o", [(200 + i, i % 9, i) for i in range(12)])
            tx.delete("o", [(12, 5, 12), (13, 6, 0)])
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    assert db.last_step is not None and db.last_step.placement.value == "spark"
    return len(context.statusTracker().getJobIdsForGroup(group))


def _jobs_of_writers(db: Database) -> int:
    """One for each node that writes a run, and one that checks what the table's change does."""
    assert db.last_step is not None
    nodes = db._engine.circuit.nodes
    return 1 + sum(isinstance(nodes[key], Formed) for key in db.last_step.nodes)


def _pairs(db: Database) -> list[int]:
    assert db.last_step is not None
    return [step.rows_out for key, step in db.last_step.nodes.items() if key.startswith("join-")]


@pytest.mark.parametrize("views", [(SUMMED,), (SUMMED, COUNTED)], ids=["one", "two"])
def test_a_join_runs_once_and_without_a_job(
    filled: Database, computed: Callable[[], Counter[str]], views: tuple[str, ...]
) -> None:
    for i, query in enumerate(views):
        filled.create_view(f"v{i}", query)
    assert _step(filled) == _jobs_of_writers(filled)
    assert computed() and set(computed().values()) == {1}
    assert _pairs(filled) == [8]
    for i in range(len(views)):
        filled.check(f"v{i}")
    assert not strays(filled)


@pytest.mark.parametrize(
    "views",
    [(SHOUTED, SUMMED), (SUMMED, SHOUTED), (BOTH, SUMMED)],
    ids=["the first is Spark's", "the second is Spark's", "read twice by one"],
)
def test_a_join_runs_once_for_readers_of_any_kind(
    filled: Database, computed: Callable[[], Counter[str]], views: tuple[str, ...]
) -> None:
    for i, query in enumerate(views):
        filled.create_view(f"v{i}", query)
    assert _step(filled) <= _jobs_of_writers(filled) + 1
    assert computed() and set(computed().values()) == {1}
    assert _pairs(filled) == [8]
    for i in range(len(views)):
        filled.check(f"v{i}")
    assert not strays(filled)


def test_a_join_that_gives_nothing(filled: Database) -> None:
    """What is kept of it is no file at all, which the readers of no rows get along with."""
    filled.create_view("v", SHOUTED)
    filled.create_view("w", SUMMED)
    filled.place("spark")
    filled.sql("INSERT INTO o VALUES (1, 100, 1)")
    assert _pairs(filled) == [0]
    filled.check("v")


def test_windows_and_distinct_rows_run_once(filled: Database) -> None:
    filled.create_view("first", f"SELECT k, count(*) AS c FROM {RANKED} WHERE r < 3 GROUP BY k")
    filled.create_view("last", f"SELECT max(r) AS r FROM {RANKED}")
    distinct = "(SELECT DISTINCT k, price FROM o)"
    filled.create_view("few", f"SELECT k, count(*) AS c FROM {distinct} GROUP BY k")
    filled.create_view("sums", f"SELECT price, sum(k) AS c FROM {distinct} GROUP BY price")
    _step(filled)
    for view in filled.views:
        filled.check(view)
    assert not strays(filled)


def test_a_join_that_fails_its_reader_leaves_nothing(filled: Database) -> None:
    """The first reader's tasks leave files before an expression fails in another of them."""
    filled.create_view("v", SUMMED)
    filled.create_view("w", JOINED.format("c.name, CAST(1 AS DOUBLE) / (o.price - 100) AS q", ""))
    epoch = filled.epoch
    filled.place("spark")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"), filled.transaction() as tx:
        tx.insert("o", [(1000 + i, i % 7, 95 + i) for i in range(10)])
    assert filled.epoch == epoch
    assert not strays(filled)
    _step(filled)
    filled.check("w")


def test_an_attempt_too_many_is_neither_counted_nor_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two attempts at a task, Spark takes the report of one; the other's files are its own."""
    store, layout = Store(str(tmp_path)), weighted_layout(pa.schema([("c0", pa.int64())]))
    rows = pa.table(
        {"_key": [1, 2], "_id0": [1, 2], "_id1": [0, 0], "_weight": [1, 1], "c0": [7, 8]}
    )
    source = Tasks(lambda number: iter([rows]), layout.schema, 1).for_several()

    class Context:
        attempt = 0

        def taskAttemptId(self) -> int:
            return Context.attempt

    monkeypatch.setattr("pyspark.TaskContext.get", lambda: Context())
    work = sorting([source, source], layout, store, "data/join-0/e1-bulk")
    reports = []
    for number in range(work.count):
        for Context.attempt in (2 * number, 2 * number + 1):
            report = pa.concat_tables(work.tables(number)).to_pylist()
        reports += [(row["run"], row["keys"], row["part"], row["passed"]) for row in report]
    taken = Reports.of(reports, 2)
    assert [passed.rows for passed in taken.passed] == [2, 2]
    assert len(store.list("data")) == 8, "a run and a file for each attempt at each task"
    for passed in taken.passed:
        assert [store.read_rows(file).column("c0").to_pylist() for file in passed.files] == [[7, 8]]
    whole = TraceReader.of_trace(Trace(layout, taken.runs), store).whole()
    assert whole.column("_weight").to_pylist() == [2, 2]


def test_what_passes_is_put_together_to_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(passage, "FILE_BYTES", 100)
    store = Store(str(tmp_path))
    given = [pa.table({"_weight": list(range(n))}) for n in (5, 0, 10, 3)]
    several = Passage(Readers.SEVERAL, store, tasks.numbered("data/n/e1"))
    assert list(several.through(given)) == [table for table in given if len(table)]
    assert several.passed.rows == 18
    assert [file.rows for file in several.passed.files] == [15, 3]
    assert [path for path in store.list("data")] == sorted(several.passed.paths)
    one = Passage(Readers.ONE, store, tasks.numbered("data/n/e2"))
    assert len(list(one.through(given))) == 3
    assert one.passed.rows == 18 and not one.passed.files
