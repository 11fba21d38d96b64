"""Views whose functions came with the directory: read and shown, followed once they are trusted."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import DefinitionError, RekindleError, UntrustedError
from rekindle.runtime.database import Database
from tests.hostile.template import forget
from tests.spark.helpers import bag, rows


def plus_one(x: int) -> int:
    return x + 1


def plus_two(x: int) -> int:
    return x + 2


def plus(column: str) -> Column:
    return F.udf(plus_one, "int")(column)


def definition(db: Database) -> DataFrame:
    return db.table("t").select("k", plus("x").alias("p"))


@pytest.fixture
def path(tmp_path: Path, spark: SparkSession) -> str:
    """A database of somebody else."""
    place = str(tmp_path / "theirs")
    with rekindle.connect(place, spark) as db:
        db.sql("CREATE TABLE t (k INT, x INT)")
        db.sql("CREATE TABLE other (k INT)")
        db.sql("INSERT INTO t VALUES (1, 5), (2, 6)")
        db.create_view("python", definition(db))
        db.sql("CREATE MATERIALIZED VIEW above AS SELECT k FROM python WHERE p > 6")
        db.sql("CREATE MATERIALIZED VIEW plain AS SELECT sum(k) AS s FROM other")
    forget()
    return place


def test_an_untrusted_view_is_read_and_not_followed(path: str, spark: SparkSession) -> None:
    with rekindle.connect(path, spark) as db:
        assert set(db.untrusted) == {"python", "above"}
        assert "Python" in db.untrusted["python"] and "python" in db.untrusted["above"]
        assert db.views == ["python", "above", "plain"]
        shown = {row["name"]: row["untrusted"] for row in db.sql("SHOW VIEWS").collect()}
        assert shown["plain"] == "" and "Python" in shown["python"]
        assert any("untrusted" in row["column"] for row in db.sql("DESCRIBE python").collect())
        assert (
            "untrusted" in str(db.explain("python")) and "untrusted" in db.explain("above").json()
        )
        assert rows(db, "python") == bag([(1, 6), (2, 7)])
        assert len(db.changes("python").collect()) == 2
        for refused in (db.check, db.recompute):
            with pytest.raises(UntrustedError, match="'python' is untrusted"):
                refused("python")
        epoch = db.epoch
        with pytest.raises(UntrustedError, match=r"'t' cannot be changed: the view 'python'"):
            db.sql("INSERT INTO t VALUES (3, 7)")
        assert db.epoch == epoch and db.table("t").count() == 2
        with pytest.raises(UntrustedError, match="cannot read 'python'"):
            db.sql("CREATE MATERIALIZED VIEW more AS SELECT p FROM python")
        with pytest.raises(UntrustedError):
            db.sql("ALTER TABLE t ADD COLUMN y INT")
        with pytest.raises(RekindleError, match="read by"):
            db.sql("DROP TABLE t")
        db.sql("INSERT INTO other VALUES (4), (5)")
        db.check("plain")
        db.sql("ALTER TABLE other ADD COLUMN y INT")
        db.check("plain")
    with rekindle.connect(path, spark, mode="read") as db:
        assert set(db.untrusted) == {"python", "above"}
        assert rows(db, "above") == bag([(2,)])


def test_an_untrusted_view_can_be_dropped(path: str, spark: SparkSession) -> None:
    with rekindle.connect(path, spark) as db:
        db.sql("DROP VIEW above")
        db.sql("DROP VIEW python")
        assert db.untrusted == {}
        db.sql("INSERT INTO t VALUES (3, 7)")
        assert set(db._engine.state.traces) == set(db._engine.circuit.nodes) & set(
            db._engine.state.traces
        )
    with rekindle.connect(path, spark) as db:
        assert db.table("t").count() == 3 and db.views == ["plain"]


def test_trust_and_registration_let_it_go_on(path: str, spark: SparkSession) -> None:
    with rekindle.connect(path, spark) as db:
        with pytest.raises(DefinitionError, match="not the one it was made of"):
            db.register("python", db.table("t").select("k", F.udf(plus_two, "int")("x").alias("p")))
        db.register("python", definition(db))
        assert db.untrusted == {}
        db.sql("INSERT INTO t VALUES (3, 7)")
        db.check("python")
        db.check("above")
    forget()
    with rekindle.connect(path, spark, trust=True) as db:
        assert db.untrusted == {}
        db.sql("INSERT INTO t VALUES (4, 8)")
        db.check("python")
        assert rows(db, "above") == bag([(2,), (3,), (4,)])


def test_what_this_process_made_goes_on_without_a_word(tmp_path: Path, spark: SparkSession) -> None:
    place = str(tmp_path / "ours")
    with rekindle.connect(place, spark) as db:
        db.sql("CREATE TABLE t (k INT, x INT)")
        db.create_view("python", definition(db))
    with rekindle.connect(place, spark) as db:
        assert db.untrusted == {}
        db.sql("INSERT INTO t VALUES (1, 5)")
        db.check("python")
