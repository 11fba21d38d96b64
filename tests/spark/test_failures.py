"""What a failure of Spark is called: a row that broke an expression, or trouble of its own."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from rekindle.errors import ConstraintError, EvaluationError, ExecutionError, StorageError
from rekindle.runtime.database import Database
from rekindle.spark import compiled_stages
from rekindle.spark.frames import collect
from rekindle.spark.tasks import over_ranges
from rekindle.traces.partition import KeyRange
from tests.spark.helpers import refused

ROW = "an expression failed on a changed row"
STEP = "Spark failed while it worked on a step"


@pytest.mark.parametrize("placement", ["inline", "spark"])
@pytest.mark.parametrize(
    ("expression", "said"),
    [
        ("n + 2147483647", "ARITHMETIC_OVERFLOW"),
        ("1 / (n - 1)", "DIVIDE_BY_ZERO"),
        ("CAST(s AS INT)", "CAST_INVALID_INPUT"),
        ("element_at(array(1), n + 1)", "INVALID_ARRAY_INDEX"),
        ("sequence(n, 5, -1)", "sequence"),
        ("CAST(assert_true(n > 1) AS INT)", "is not true"),
    ],
)
def test_an_expression_that_a_row_breaks(
    db: Database, placement: str, expression: str, said: str
) -> None:
    db.sql("CREATE TABLE t (n INT, s STRING)")
    db.create_view("v", f"SELECT n, {expression} AS e FROM t")
    db.place(placement)
    with refused(db, EvaluationError, ROW, said, "hint: correct the row"), db.transaction() as tx:
        tx.insert("t", [(1, "x")])


def test_a_function_that_raises(spark: SparkSession) -> None:
    def bad(n: int) -> int:
        raise ValueError("no such thing")

    frame = spark.range(2).select(F.udf(bad, "int")("id"))
    with pytest.raises(EvaluationError, match=ROW) as caught:
        collect(frame)
    assert "ValueError: no such thing" in caught.value.detail


def test_a_module_that_workers_do_not_have(spark: SparkSession) -> None:
    def lacking(n: int) -> int:
        import only_on_the_driver  # type: ignore[import-not-found]

        return int(only_on_the_driver.f(n))

    def mistaken(n: int) -> int:
        try:
            return lacking(n)
        except ImportError:
            raise ValueError("no such thing") from None

    with pytest.raises(ExecutionError, match=STEP) as caught:
        collect(spark.range(2).select(F.udf(lacking, "int")("id")))
    assert "No module named 'only_on_the_driver'" in caught.value.detail
    assert "Python workers" in caught.value.hint
    with pytest.raises(EvaluationError, match=ROW):
        collect(spark.range(2).select(F.udf(mistaken, "int")("id")))


def test_a_file_that_is_gone(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("one\n")
    frame = spark.read.text(str(tmp_path / "lines"))
    (tmp_path / "lines").unlink()
    check_trouble(frame, str(tmp_path / "lines"))


def check_trouble(frame: DataFrame, said: str) -> None:
    with pytest.raises(ExecutionError, match=STEP) as caught:
        collect(frame)
    assert said in caught.value.detail
    assert "\tat " not in caught.value.detail
    assert not caught.value.hint


def test_a_kernel_without_its_disk(db: Database) -> None:
    def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
        raise OSError(28, "No space left on device")
        yield

    frame = db._connection.frames.of_tasks(over_ranges(kernel, pa.schema([("n", pa.int64())]), 1))
    with pytest.raises(StorageError, match="a disk that Spark works on is full") as caught:
        collect(frame)
    assert caught.value.errno == 28
    assert "No space left on device" in caught.value.detail


def test_a_kernel_that_refuses(db: Database) -> None:
    def kernel(key_range: KeyRange) -> Iterator[pa.Table]:
        raise ConstraintError("too many", detail="3 of them", hint="take less")
        yield

    with pytest.raises(ConstraintError) as caught:
        tasks = over_ranges(kernel, pa.schema([("n", pa.int64())]), 1)
        collect(db._connection.frames.of_tasks(tasks))
    assert str(caught.value) == "too many\n  detail: 3 of them\n  hint: take less"


def test_the_way_to_the_jvm_is_blocked(
    db: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    db.sql("CREATE TABLE t (n MAP<INT, INT>)")
    with refused(db, ExecutionError, STEP, str(tmp_path)), monkeypatch.context() as patch:
        patch.setattr(db._connection.channel, "_outward", str(tmp_path))
        db.sql("INSERT INTO t VALUES (map(1, 1))")


def test_a_worker_that_is_killed(db: Database, spark: SparkSession) -> None:
    """The next transaction works, in the same connection."""

    def deadly(n: int) -> int:
        if n == 7:
            os.kill(os.getpid(), signal.SIGKILL)
        return n

    db.sql("CREATE TABLE t (n INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT n % 2 AS odd, count(*) AS many FROM t GROUP BY 1")
    db.place("spark")
    frame = spark.range(9).select(F.udf(deadly, "int")("id").alias("n"))
    with refused(db, ExecutionError, STEP, "a Python worker was killed"), db.transaction() as tx:
        tx.insert("t", frame)
    with db.transaction() as tx:
        tx.insert("t", spark.range(9).select(F.col("id").cast("int").alias("n")))
    assert db.check("v").rows == 2


@pytest.mark.parametrize("side", ["_inward", "_outward"])
def test_memory_for_files_that_is_full(
    db: Database, monkeypatch: pytest.MonkeyPatch, side: str
) -> None:
    db.sql("CREATE TABLE t (n STRUCT<a: INT>)")
    db.create_view("v", "SELECT upper(CAST(n.a AS STRING)) AS u FROM t")
    channel = db._connection.channel
    os.symlink("/dev/full", getattr(channel, side) + "-full")
    monkeypatch.setattr(channel, side, getattr(channel, side) + "-full")
    assert not channel._ordinary
    db.sql("INSERT INTO t VALUES (named_struct('a', 5))")
    assert channel._ordinary
    assert [row.u for row in db.table("v").collect()] == ["5"]


def test_an_ordinary_directory_that_is_full_too(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.sql("CREATE TABLE t (n STRUCT<a: INT>)")
    db.create_view("v", "SELECT upper(CAST(n.a AS STRING)) AS u FROM t")
    channel = db._connection.channel
    channel._directory.cleanup()
    channel._settle(None)
    with monkeypatch.context() as patch:
        os.symlink("/dev/full", channel._inward + "-full")
        patch.setattr(channel, "_inward", channel._inward + "-full")
        with refused(db, StorageError, "is full", "make room"):
            db.sql("INSERT INTO t VALUES (named_struct('a', 5))")
    db.sql("INSERT INTO t VALUES (named_struct('a', 5))")
    assert db.check("v").rows == 1


def test_a_tiny_memory_for_files_is_not_used(
    db: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # The suite's own temporary directories may be in the memory for files.
    monkeypatch.setattr(compiled_stages, "SHARED", str(tmp_path))
    with closing(compiled_stages.Channel(db._connection.catalyst)) as channel:
        assert channel._inward.startswith(compiled_stages.SHARED)
    monkeypatch.setattr(compiled_stages, "ENOUGH_BYTES", 2**62)
    with closing(compiled_stages.Channel(db._connection.catalyst)) as channel:
        assert not channel._inward.startswith(compiled_stages.SHARED)
