"""Executors that lack the package or see other files are found before anything is written."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import ExecutionError, StorageError
from rekindle.runtime.database import Database
from rekindle.spark import preflight
from rekindle.spark.preflight import Access, Answer, ask, check_executors, judge
from rekindle.traces.store import Store

STORE = Store("s3://AKIA7:topsecret@bucket/w")
FIT = Answer("worker-3", "/usr/bin/python3", rekindle.__version__, "read", "wrote")


def test_executors_that_are_fit() -> None:
    judge([FIT, FIT], STORE)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            replace(FIT, version=None, trouble="ModuleNotFoundError: No module named 'pyarrow'"),
            ["cannot import rekindle", "'pyarrow'", "/usr/bin/python3", "spark.pyspark.python"],
        ),
        (
            replace(FIT, version="0.0.7"),
            ["another version", f"0.0.7 there, {rekindle.__version__} in the driver"],
        ),
        (
            replace(FIT, read=None, wrote=None, trouble="FileNotFoundError: w/data"),
            ["cannot read what the driver wrote", "s3://***@bucket/w", "FileNotFoundError"],
        ),
        (
            replace(FIT, wrote=None),
            ["cannot write what the driver can read", "another place", "network file system"],
        ),
    ],
)
def test_an_executor_that_is_not_fit(answer: Answer, words: list[str]) -> None:
    with pytest.raises((ExecutionError, StorageError)) as caught:
        judge([FIT, answer], STORE)
    for word in ["worker-3", *words]:
        assert word in str(caught.value)
    assert "topsecret" not in str(caught.value)


@pytest.mark.parametrize("access", Access)
def test_the_question_is_answered(db: Database, spark: SparkSession, access: Access) -> None:
    store = db._engine.store
    answers = ask(spark, store, access)
    judge(answers, store)
    assert len(answers) >= 2 and all(answer.version for answer in answers)
    assert not store.list("data"), "nothing is left"


def test_another_place_under_the_same_path(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each process the directory it works in is another one."""
    monkeypatch.chdir(tmp_path)
    store = Store("/proc/self/cwd/w")
    with pytest.raises(StorageError, match="cannot read what the driver wrote"):
        judge(ask(spark, store, Access.WRITE), store)
    assert not store.list()


def test_the_question_is_not_asked_twice(
    db: Database, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, executors = [], {"a:1"}

    def answering(spark: SparkSession, store: Store, access: Access) -> list[Answer]:
        asked.append(sorted(executors))
        return [FIT]

    monkeypatch.setattr(preflight, "is_local", lambda spark: False)
    monkeypatch.setattr(preflight, "ask", answering)
    monkeypatch.setattr(preflight, "_executors", lambda spark: frozenset(executors))
    check_executors(spark, STORE, Access.WRITE)
    check_executors(spark, STORE, Access.WRITE)
    executors.add("b:2")
    check_executors(spark, STORE, Access.WRITE)
    executors.remove("a:1")
    check_executors(spark, STORE, Access.WRITE)
    assert asked == [["a:1"], ["a:1", "b:2"]]


def test_a_local_session_is_not_asked(spark: SparkSession) -> None:
    assert preflight.is_local(spark)
    check_executors(spark, Store("/no/such/place"), Access.WRITE)


# ---- real executors ------------------------------------------------------------------------------

SCRIPT = """
import json, os, sys
import rekindle
from rekindle.spark.session import local_session

path, rows, settings = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
spark = local_session(**{
    "spark.master": "local-cluster[2,1,1024]", "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2", **settings,
})
said = {}
try:
    with rekindle.connect(path, spark) as db:
        db.sql("CREATE TABLE t (n BIGINT)")
        with db.transaction() as tx:
            tx.insert("t", spark.range(rows).toDF("n"))
        said = {"rows": db.table("t").count(), "epoch": db.epoch}
except rekindle.RekindleError as error:
    said = {"kind": type(error).__name__, "text": str(error)}
print("SAID " + json.dumps(said), flush=True)
os._exit(0)
"""


def run_on_cluster(
    directory: Path, path: str, rows: int, environment: dict[str, str], **settings: str
) -> dict[str, object]:
    """What a driver says that works in a directory, with two executors of their own."""
    home = directory / "spark"
    home.mkdir()
    for name in ("bin", "jars", "sbin", "python"):
        installed = Path(pyspark.__file__).parent / name
        if installed.exists():
            (home / name).symlink_to(installed)
    working = directory / "driver"
    working.mkdir()
    ours = str(Path(rekindle.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, path, str(rows), json.dumps(settings)],
        cwd=working,
        env={**os.environ, "SPARK_HOME": str(home), "PYTHONPATH": ours, **environment},
        capture_output=True,
        text=True,
        timeout=280,
    )
    said = re.search(r"^SAID (.*)$", done.stdout, re.MULTILINE)
    assert said, done.stderr[-3000:]
    found: dict[str, object] = json.loads(said[1])
    return found


@pytest.mark.torture
@pytest.mark.parametrize("rows", [300_000, 1_000_000])
def test_a_path_that_executors_cannot_see(tmp_path: Path, rows: int) -> None:
    """The load of 300,000 rows once succeeded, and no read did afterwards."""
    said = run_on_cluster(tmp_path, "/proc/self/cwd/w", rows, {})
    assert said["kind"] == "StorageError"
    assert "cannot read what the driver wrote in '/proc/self/cwd/w'" in str(said["text"])
    assert not list((tmp_path / "driver/w/data").rglob("*.arrow")), "nothing was applied"


@pytest.mark.torture
def test_a_path_that_executors_see(tmp_path: Path) -> None:
    said = run_on_cluster(tmp_path, str(tmp_path / "w"), 300_000, {})
    assert said == {"rows": 300_000, "epoch": 2}


@pytest.mark.torture
def test_executors_without_the_package(tmp_path: Path) -> None:
    """Their Python finds something else under its name."""
    bare = tmp_path / "bare"
    hidden = tmp_path / "hidden"
    (hidden / "rekindle").mkdir(parents=True)
    (hidden / "rekindle/__init__.py").write_text("raise ImportError('no rekindle here')")
    bare.write_text(f'#!/bin/sh\nPYTHONPATH="{hidden}:$PYTHONPATH" exec {sys.executable} "$@"\n')
    bare.chmod(0o755)
    said = run_on_cluster(tmp_path, str(tmp_path / "w"), 10, {"PYSPARK_PYTHON": str(bare)})
    assert said["kind"] == "ExecutionError"
    assert "cannot import rekindle" in str(said["text"])
    assert "no rekindle here" in str(said["text"]) and str(sys.executable) in str(said["text"])
