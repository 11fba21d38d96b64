"""Python table functions: the rows that they give for a row come and go with it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql.functions import arrow_udtf, udtf

import rekindle
from rekindle.errors import StatementError, UnsupportedError
from rekindle.runtime.database import Database
from tests.property.oracle import collected
from tests.spark.helpers import refused, rows


class Words:
    """The words of a text, numbered."""

    def eval(self, text: str | None) -> Iterator[tuple[int, str]]:
        yield from enumerate((text or "").split())


class WordsAtOnce:
    """The same for a column of texts."""

    def eval(self, texts: pa.Array) -> Iterator[pa.RecordBatch]:
        (text,) = texts.to_pylist()
        words = (text or "").split()
        yield pa.RecordBatch.from_pydict(
            {"i": pa.array(range(len(words)), pa.int32()), "w": pa.array(words, pa.string())}
        )


class RunsAtOnce:
    """How many rows each batch has, and after the last one how many there were and the last."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def eval(self, batch: pa.RecordBatch, least: pa.Array | None = None) -> Iterator[pa.Table]:
        self.rows += batch.to_pylist()
        if batch.num_rows >= (1 if least is None else least[0].as_py()):
            yield pa.table({"i": pa.array([-batch.num_rows], pa.int32()), "w": ["a batch"]})

    def terminate(self) -> Iterator[pa.RecordBatch]:
        counts = [len(self.rows)] if self.rows else []
        yield pa.RecordBatch.from_pydict(
            {"i": pa.array(counts, pa.int32()), "w": [row["s"] for row in self.rows[-1:]]},
            pa.schema({"i": pa.int32(), "w": pa.string()}),
        )


class CountedAtOnce:
    """How many batches there were, also of none."""

    def eval(self, batch: pa.RecordBatch) -> None:
        pass

    def terminate(self) -> Iterator[pa.Table]:
        yield pa.table({"i": pa.array([0], pa.int32()), "w": [""]})


class Counted:
    """How many rows there were, said after the last one."""

    def __init__(self) -> None:
        self.count = 0

    def eval(self, text: Any) -> None:
        self.count += 1

    def terminate(self) -> Iterator[tuple[int, str]]:
        yield self.count, ""


class Runs:
    """How often each id comes in a row, and the last text of all; says so after the last row."""

    def __init__(self) -> None:
        self.rows: list[Any] = []

    def eval(self, row: Any) -> Iterator[tuple[int, str]]:
        self.rows.append(row)
        if row["s"] == "at once":
            yield -1, row["s"]

    def terminate(self) -> Iterator[tuple[int, str]]:
        if self.rows:
            yield len(self.rows), self.rows[-1]["s"]


VIEWS = {
    "inner": "SELECT t.id, f.* FROM t, LATERAL words(t.s) AS f",
    "outer": "SELECT t.id, f.w FROM t LEFT JOIN LATERAL words(t.s) AS f ON f.i = t.id",
    "counted": "SELECT f.w, count(*) AS n FROM t, LATERAL words(t.s) AS f GROUP BY f.w",
    "constant": "SELECT * FROM words('a b')",
    "constant_at_once": "SELECT * FROM words_at_once('a b')",
}


@pytest.fixture
def functions(spark: SparkSession) -> None:
    shape = "i int, w string"
    spark.udtf.register("words", udtf(Words, returnType=shape).asDeterministic())
    spark.udtf.register(
        "words_at_once", arrow_udtf(WordsAtOnce, returnType=shape).asDeterministic()
    )
    spark.udtf.register("runs_at_once", arrow_udtf(RunsAtOnce, returnType=shape).asDeterministic())
    spark.udtf.register(
        "counted_at_once", arrow_udtf(CountedAtOnce, returnType=shape).asDeterministic()
    )
    spark.udtf.register("runs", udtf(Runs, returnType=shape).asDeterministic())
    spark.udtf.register("any_words", udtf(Words, returnType=shape))
    spark.udtf.register("counted", udtf(Counted, returnType=shape).asDeterministic())


@pytest.mark.usefixtures("functions")
def test_table_functions_follow_changes(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id INT, s STRING)")
        for view, query in VIEWS.items():
            db.create_view(view, query, incremental="required")
        with db.transaction() as tx:
            tx.insert("t", [(1, "a b"), (1, "a b"), (2, None), (3, ""), (0, "c a")])
            tx.insert("t", [(i, "z") for i in range(10, 50)])
        _agree(db)
        db.sql("UPDATE t SET s = 'b c d' WHERE id = 2")
        _agree(db)
        assert db.last_step is not None
        read = {n.rows_in for n in db.last_step.nodes.values()}
        assert read and max(read) < 10, "the changed rows alone go through the function"
    with rekindle.connect(warehouse, spark=spark) as db:
        with db.transaction() as tx:
            tx.delete("t", [(1, "a b"), (0, "c a")])
        _agree(db)
        db.place("spark")
        db.sql("INSERT INTO t VALUES (1, 'x a')")
        _agree(db)


@pytest.fixture(scope="module")
def unchanged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    """A database for all that is refused, which changes nothing of it."""
    with rekindle.connect(str(tmp_path_factory.mktemp("unchanged")), spark=spark) as db:
        db.sql("CREATE TABLE t (id INT, s STRING)")
        yield db


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT f.* FROM t, LATERAL any_words(t.s) AS f", "any_words is not deterministic"),
        ("SELECT * FROM any_words('a')", "any_words is not deterministic"),
        ("SELECT f.* FROM t, LATERAL counted(t.s) AS f", "terminate of the table function counted"),
        ("SELECT * FROM words_at_once(TABLE(t))", "the Arrow table function words_at_once"),
        ("SELECT * FROM counted_at_once(TABLE(t) PARTITION BY id)", "it gave {'i': 0, 'w': ''}"),
        ("SELECT * FROM counted(TABLE(t))", "terminate of the table function counted"),
        ("SELECT * FROM counted(TABLE(t) PARTITION BY id)", "it gave (0, '')"),
    ],
)
def test_what_is_not_a_function_of_a_row_is_refused(
    unchanged: Database, query: str, words: str
) -> None:
    with refused(unchanged, UnsupportedError, words):
        unchanged.create_view("v", query)


PARTITIONED = {
    "parted": "SELECT * FROM runs(TABLE(t) PARTITION BY id ORDER BY s)",
    "by_expression": (
        "SELECT w, count(*) AS n FROM runs(TABLE(SELECT id % 2 AS id, s FROM t WHERE id > 0) "
        "PARTITION BY id ORDER BY s DESC) GROUP BY w"
    ),
    "by_double": "SELECT i FROM runs(TABLE(SELECT id / 2D AS x, s FROM t) PARTITION BY x)",
    "single": "SELECT * FROM runs(TABLE(t) WITH SINGLE PARTITION ORDER BY (s, id))",
    "at_once": "SELECT * FROM runs_at_once(TABLE(t) PARTITION BY id ORDER BY s)",
    "named_at_once": (
        "SELECT i, count(*) AS n FROM runs_at_once(batch => TABLE(SELECT id / 2D AS x, s FROM t) "
        "PARTITION BY x ORDER BY s DESC, least => 1 + 1) GROUP BY i"
    ),
    "single_at_once": (
        "SELECT * FROM runs_at_once(TABLE(t) WITH SINGLE PARTITION ORDER BY (s, id))"
    ),
}


CHANGES = (
    "INSERT INTO t VALUES (1, 'a'), (1, 'a'), (2, NULL), (NULL, 'n'), (3, 'at once')",
    "INSERT INTO t VALUES (1, 'at once'), (2, 'b'), (NULL, 'm')",
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM t",
)


@pytest.mark.usefixtures("functions")
def test_partitions_follow_changes(warehouse: str, spark: SparkSession) -> None:
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("CREATE TABLE t (id INT, s STRING)")
        db.place("inline")
        for view, query in PARTITIONED.items():
            db.create_view(view, query)
        for statement in CHANGES:
            db.sql(statement)
            _agree(db)
    with rekindle.connect(warehouse, spark=spark) as db:
        db.sql("INSERT INTO t VALUES (1, 'again')")
        _agree(db)


@pytest.mark.usefixtures("functions")
def test_partitions_follow_changes_on_spark(db: Database) -> None:
    db.sql("CREATE TABLE t (id INT, s STRING)")
    for view in ("by_expression", "single", "named_at_once"):
        db.create_view(view, PARTITIONED[view])
    db.sql(CHANGES[0])
    db.place("spark")
    with db.transaction() as tx:
        tx.insert("t", [(1, "at once"), (2, "b"), (None, "m")])
        tx.delete("t", [(3, "at once")])
    _agree(db)
    db.sql("DELETE FROM t WHERE id = 1")
    _agree(db)


@pytest.mark.usefixtures("functions")
def test_only_touched_partitions_go_through_a_function(db: Database) -> None:
    """Law 6."""
    db.sql("CREATE TABLE t (id INT, s STRING)")
    db.sql("INSERT INTO t SELECT id % 100, 'x' FROM range(1000)")
    db.create_view("v", PARTITIONED["parted"], incremental="required")
    db.sql("INSERT INTO t VALUES (7, 'new')")
    assert db.last_step is not None
    assert max(did.rows_out for did in db.last_step.nodes.values()) < 10
    assert not any(did.rebuilt for did in db.last_step.nodes.values())
    _agree(db)


@pytest.mark.usefixtures("functions")
@pytest.mark.parametrize("placement", ["inline", "spark"])
def test_a_partition_is_one_batch_whatever_spark_makes_of_it(
    db: Database, spark: SparkSession, placement: str
) -> None:
    """What a function says of a batch comes out again, beside any other touched partitions."""
    setting = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(setting)
    spark.conf.set(setting, "2")
    try:
        db.sql("CREATE TABLE t (id INT, s STRING)")
        db.place(placement)
        db.create_view("v", PARTITIONED["at_once"])
        db.create_view("of_a_length", PARTITIONED["named_at_once"])
        db.sql("INSERT INTO t SELECT id % 3, string(id) FROM range(9)")
        said = {(-3, "a batch"): 3, (3, "6"): 1, (3, "7"): 1, (3, "8"): 1}
        assert rows(db, "v") == said and collected(db.recompute("v")) != said
        db.sql("DELETE FROM t WHERE id = 0 OR s = '8'")
        assert rows(db, "v") == {(-3, "a batch"): 1, (-2, "a batch"): 1, (3, "7"): 1, (2, "5"): 1}
        for view in db.views:
            db.check(view)
    finally:
        spark.conf.set(setting, before)


@pytest.mark.usefixtures("functions")
def test_an_order_that_leaves_rows_level_is_gone_on_by_check(db: Database) -> None:
    db.sql("CREATE TABLE t (id INT, s STRING)")
    db.create_view("v", "SELECT * FROM runs(TABLE(t) PARTITION BY id)")
    db.create_view("at_once", "SELECT * FROM runs_at_once(TABLE(t) PARTITION BY id ORDER BY id)")
    db.sql("INSERT INTO t VALUES (1, 'c'), (1, 'z'), (1, 'a'), (2, 'x'), (2, NULL), (2, 'b')")
    for view in db.views:
        db.check(view)
        assert rows(db, view)[(3, "z")] == 1 and rows(db, view)[(3, "x")] == 1


@pytest.mark.usefixtures("functions")
def test_spark_itself_takes_no_arrow_function_after_lateral(unchanged: Database) -> None:
    with refused(unchanged, StatementError, "LATERAL_JOIN_WITH_ARROW_UDTF_UNSUPPORTED"):
        unchanged.create_view("v", "SELECT f.* FROM t, LATERAL words_at_once(t.s) AS f")


def _agree(db: Database) -> None:
    for view in db.views:
        assert rows(db, view) == collected(db.recompute(view)), view
