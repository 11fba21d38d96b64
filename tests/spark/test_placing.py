"""In a step on Spark, operators that few rows reach run in the driver: with the same result."""

from __future__ import annotations

import random
import secrets
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import EvaluationError
from rekindle.runtime.database import Database
from rekindle.spark import in_driver, placing
from rekindle.spark.step import Placement
from tests.spark.helpers import strays
from tests.spark.test_figures import VIEWS

ABOVE = {
    "few": "SELECT o.n, o.price, c.name FROM o JOIN c ON o.k = c.k WHERE o.price = 12",
    "means": "SELECT k, avg(price) AS a, max(n) AS m FROM o GROUP BY k",
    "ranked": "SELECT k, a, rank() OVER (ORDER BY a DESC, k) AS r FROM means",
    "over": "SELECT k FROM means WHERE a > (SELECT avg(a) FROM means)",
    "beside": "SELECT m.k, c.name, m.m FROM means m LEFT JOIN c ON m.k = c.k",
    "missing": "SELECT m.k FROM means m WHERE NOT EXISTS "
    "(SELECT 1 FROM c WHERE c.k = m.k AND c.name > 'c4')",
    "again": "SELECT c.name, count(*) AS t FROM means m JOIN c ON m.k = c.k GROUP BY c.name",
}
"""Views in which much becomes little."""
KINDS = ("fully", "different", "rollup", "leading", "reach")


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placing, "STEP_ROWS", 60)
    monkeypatch.setattr(placing, "OPERATOR_ROWS", 60)


def _prepare(db: Database) -> list[tuple[int, int, int]]:
    db.sql("CREATE TABLE o (n INT, k INT, price INT)")
    db.sql("CREATE TABLE c (k INT, name STRING)")
    db.sql("CREATE TABLE e (a INT, b INT)")
    held = [(i, i % 7, i % 13) for i in range(40)]
    with db.transaction() as tx:
        tx.insert("o", held)
        tx.insert("c", [(k, f"c{k}") for k in range(3, 10)])
        tx.insert("e", [(i, i + 1) for i in range(8)])
    return held


def _jobs(db: Database, held: list[tuple[int, int, int]], random_: random.Random) -> int:
    """A large change of one table and a small one of others; gives the number of jobs."""
    gone = random_.sample(held, min(len(held), 45))
    come = [(random_.randrange(900), random_.randrange(9), random_.randrange(13)) for _ in gone]
    context, group = db.spark.sparkContext, secrets.token_hex(4)
    context.setJobGroup(group, "a step")
    try:
        with db.transaction() as tx:
            tx.delete("o", gone)
            tx.insert("o", [*come, (1, None, 12)])
            tx.insert("c", [(random_.randrange(9), None)])
            tx.insert("e", [(random_.randrange(5), 10 + random_.randrange(5))])
    finally:
        context.setLocalProperty("spark.jobGroup.id", None)
    for row in gone:
        held.remove(row)
    held += [*come, (1, None, 12)]
    assert db.last_step is not None and db.last_step.placement is Placement.SPARK
    return len(context.statusTracker().getJobIdsForGroup(group))


@pytest.mark.usefixtures("small")
def test_every_step_gives_what_spark_gives(db: Database) -> None:
    """Views of all kinds of nodes, of which some are in the driver and some on Spark."""
    held, random_ = _prepare(db), random.Random(5)
    for name, query in {**{kind: VIEWS[kind] for kind in KINDS}, **ABOVE}.items():
        db.create_view(name, query)
    _jobs(db, held, random_)
    assert db.last_step is not None
    assert {step.placement for step in db.last_step.nodes.values()} == set(Placement)
    for name in db.views:
        db.check(name)
    assert not strays(db)


@pytest.mark.usefixtures("small")
def test_operators_in_the_driver_need_no_jobs(db: Database) -> None:
    held, random_ = _prepare(db), random.Random(6)
    for name in ("means", "over"):
        db.create_view(name, ABOVE[name])
    few = _jobs(db, held, random_)
    db.place("spark")
    assert few + 3 <= _jobs(db, held, random_)
    assert db.last_step is not None
    assert {step.placement for step in db.last_step.nodes.values()} == {Placement.SPARK}
    db.check("over")


@pytest.mark.usefixtures("small")
def test_what_grows_is_left_to_spark(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """One row meets all of a table: more than the driver takes of one operator."""
    held = _prepare(db)
    db.create_view("pairs", "SELECT o.n, c.name FROM c JOIN o ON o.price >= c.k")
    db.create_view("total", "SELECT name, count(*) AS n FROM pairs GROUP BY name")
    monkeypatch.setattr(in_driver, "MAXIMUM_ROWS", 15)
    _jobs(db, held, random.Random(3))
    db.check("pairs")
    db.check("total")
    assert not strays(db)


@pytest.mark.usefixtures("small")
def test_an_expression_that_fails_in_the_driver_leaves_nothing(db: Database) -> None:
    held = _prepare(db)
    db.create_view("means", ABOVE["means"])
    db.create_view("quotients", "SELECT k, 1 / (a - 100.0) AS q FROM means")
    epoch = db.epoch
    with pytest.raises(EvaluationError, match="DIVIDE_BY_ZERO"), db.transaction() as tx:
        tx.insert("o", [(1000 + i, 50 + i % 5, 100) for i in range(60)])
    assert db.epoch == epoch
    assert not strays(db)
    _jobs(db, held, random.Random(4))
    db.check("quotients")


@pytest.mark.usefixtures("small")
def test_filling_goes_on_in_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    """A view over a large table is filled on Spark, and what is small above it is not."""
    with rekindle.connect(str(tmp_path / "w"), spark=spark) as db:
        _prepare(db)
        with db.transaction() as tx:
            tx.insert("o", [(i, i % 3, i % 5) for i in range(100)])
        db.create_view("steps", "WITH m AS (SELECT k, avg(price) AS a FROM o GROUP BY k) "
                       "SELECT k, rank() OVER (ORDER BY a) AS r FROM m")  # fmt: skip
        db.check("steps")
    with rekindle.connect(str(tmp_path / "w"), spark=spark) as db:
        db.check("steps")
        assert not strays(db)
