"""Databases that earlier code wrote open, hold what they held, and go on (law 5, over versions).

Each archive under `databases/` was written by `write.py` of its time. A stored form that changes
adds one; none is ever rewritten.
"""

from __future__ import annotations

import json
import platform
import shutil
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import HistoryError, UntrustedError
from rekindle.runtime.database import Database
from tests.compatibility.write import DATABASES, MODEL, PYTHON, VIEWS, contents, step

ARCHIVES = sorted(DATABASES.glob("*.tar.gz"))


@dataclass(frozen=True, slots=True)
class Written:
    """An unpacked database and what it held when it was written."""

    path: Path
    expected: dict[str, Any]

    @property
    def runs_functions(self) -> bool:
        """Are its Python functions of this version of Python?"""
        here = ".".join(platform.python_version_tuple()[:2])
        return bool(self.expected["python"] == here)


@pytest.fixture(params=ARCHIVES, ids=lambda path: path.name.split(".")[0])
def written(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Written]:
    with tarfile.open(request.param) as tar:
        tar.extractall(tmp_path, filter="data")
    path = tmp_path / "warehouse"
    expected = json.loads((path / "expected.json").read_text())
    (path / "expected.json").unlink()
    yield Written(path, expected)
    shutil.rmtree(path)


def test_there_are_databases() -> None:
    assert ARCHIVES


def test_a_database_opens_checks_and_steps(written: Written, spark: SparkSession) -> None:
    expected = written.expected
    with rekindle.connect(str(written.path), spark, trust=True) as db:
        assert db.epoch == expected["epoch"]
        assert contents(db) == expected["contents"]
        for view, count in expected["changes"].items():
            assert len(db.changes(view).collect()) == count
        earlier = db.table("totals", epoch=expected["epoch"] - 3).collect()
        assert earlier and len(earlier) <= len(expected["contents"]["totals"])
        if not written.runs_functions:
            for view in PYTHON:
                db.drop_view(view)
        timed = bool(db.commits().count())
        if not timed:
            with pytest.raises(HistoryError, match="is not known"):
                db.table("totals", timestamp="2026-01-01")
        steps(db)
        noted = [row["_epoch"] for row in db.commits().collect()]
        assert max(noted) == db.epoch and (timed or min(noted) > expected["epoch"])
        for view in db.views:
            db.check(view)
        model = db.model(MODEL).coefficients()
        assert model["intercept"] is not None
    with rekindle.connect(str(written.path), spark, mode="read") as again:
        assert sorted(again.views) == sorted(set(db.views))
        again.check("joined")


def test_without_trust_all_but_functions_goes_on(written: Written, spark: SparkSession) -> None:
    expected = written.expected
    with rekindle.connect(str(written.path), spark) as db:
        assert set(db.untrusted) == set(PYTHON)
        assert contents(db) == expected["contents"], "untrusted views are read as of their epoch"
        before = db.epoch
        with pytest.raises(UntrustedError, match="cannot be changed"):
            db.sql("INSERT INTO items VALUES (99, 'x', 1, 1)")
        assert db.epoch == before
        db.sql("INSERT INTO edges VALUES (3, 9)")
        db.check("path")


def steps(db: Database) -> None:
    """The next transactions, followed and not recomputed where the views can be."""
    before = db.epoch
    step(db, 5)
    assert db.epoch > before
    assert db.last_step is not None
    assert not any(node.rebuilt for node in db.last_step.nodes.values())
    assert set(VIEWS) <= set(db.views)
