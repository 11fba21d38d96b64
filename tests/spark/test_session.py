"""What a database makes of the session that it is given."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import DefinitionError, PrerequisiteError
from rekindle.runtime import session as sessions

ROOT = Path(__file__).parents[2]

SCRIPT = """
import sys
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "1g").config("spark.sql.shuffle.partitions", "1")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()
)
import rekindle
with rekindle.connect(sys.argv[1], spark=spark) as db:
    db.sql("CREATE TABLE t (id BIGINT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT count(*) AS n FROM t")
    db.place("spark")
    db.sql("INSERT INTO t VALUES (1), (2)")
    print("view", [tuple(row) for row in db.table("v").collect()])
print("source", spark.read.format("rekindle").load(sys.argv[1] + "/t").count())
"""


def test_a_script_of_an_environment_that_is_not_activated(tmp_path: Path) -> None:
    """Its `python3` has neither Arrow nor this package, as one of the system has."""
    shadow = tmp_path / "bin" / "python3"
    shadow.parent.mkdir()
    shadow.write_text("#!/bin/sh\necho 'the wrong python' >&2\nexit 3\n")
    shadow.chmod(0o755)
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYSPARK_")}
    environment["PATH"] = f"{shadow.parent}:{environment['PATH']}"
    environment["PYTHONPATH"] = str(ROOT)
    found = subprocess.run(
        [sys.executable, str(script), str(tmp_path / "warehouse")],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert found.returncode == 0, found.stderr[-3000:]
    assert "view [(2,)]" in found.stdout
    assert "source 2" in found.stdout


def _context(**facts: Any) -> Any:
    conf = SimpleNamespace(contains=lambda name: name in facts.get("conf", ()))
    return SimpleNamespace(
        pythonExec=facts.get("python", "python3"),
        master=facts.get("master", "local[2]"),
        getConf=lambda: conf,
    )


@pytest.mark.parametrize(
    "facts",
    [
        {"master": "spark://host:7077"},
        {"conf": ["spark.pyspark.python"]},
        {"python": "/opt/python"},
    ],
)
def test_a_choice_of_the_user_stands(
    facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    monkeypatch.setattr(sessions, "_is_this_python", lambda command: False)
    context = _context(**facts)
    before = context.pythonExec
    sessions._settle_workers(SimpleNamespace(sparkContext=context))  # type: ignore[arg-type]
    assert context.pythonExec == before


def test_a_session_of_spark_connect_is_refused(tmp_path: Path) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(PrerequisiteError, match="Spark Connect") as caught:
        rekindle.connect(str(tmp_path / "w"), spark=remote)
    assert "classic session" in caught.value.hint
    assert 'format("rekindle")' in caught.value.hint
    assert not (tmp_path / "w").exists()


def test_an_active_session_of_spark_connect_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    remote = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    monkeypatch.setattr(SparkSession, "getActiveSession", lambda: remote)
    with pytest.raises(PrerequisiteError, match="Spark Connect"):
        rekindle.connect(str(tmp_path / "w"))


@pytest.mark.parametrize("path", [None, "", 7])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(DefinitionError, match="a database cannot be at"):
        rekindle.connect(path)


def test_a_file_is_no_database(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(DefinitionError, match="is a file, and a database is a directory"):
        rekindle.connect(f"file:{tmp_path}/notes")
    assert (tmp_path / "notes").read_text() == "mine"


def test_what_is_no_session_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        DefinitionError, match="must be a SparkSession, not a value of the type str"
    ):
        rekindle.connect(str(tmp_path / "w"), spark="local")  # type: ignore[arg-type]
