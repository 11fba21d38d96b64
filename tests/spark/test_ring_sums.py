"""Aggregates in a ring that is defined in Python, against Spark after every step."""

from __future__ import annotations

from fractions import Fraction

from pyspark.sql import SparkSession

import rekindle
from rekindle.algebra.cofactor import Cofactor, CofactorRing
from rekindle.algebra.groups import RATIONALS
from rekindle.circuit.nodes import Group, GroupMap
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database
from tests.kernels.test_ring_sums import Histograms, middle, single
from tests.spark.helpers import bag, refused, rows

COFACTORS = CofactorRing(2, RATIONALS)


def lifted(x: int, y: int) -> Cofactor[Fraction]:
    return COFACTORS.multiply(COFACTORS.lift(0, Fraction(x)), COFACTORS.lift(1, Fraction(y)))


def slope(value: Cofactor[Fraction]) -> float | None:
    n, (x, y), products = value.count, value.sums, value.products
    spread = n * products[0][0] - x * x
    return None if spread == 0 else float((n * products[0][1] - x * y) / spread)


def test_sums_in_rings_follow_changes(db: Database, warehouse: str, spark: SparkSession) -> None:
    median = rekindle.ring_sum(Histograms(), single, "int", middle)
    trend = rekindle.ring_sum(COFACTORS, lifted, "double", slope)
    db.sql("CREATE TABLE t (k INT, x INT, y INT)")
    db.sql("CREATE TABLE names (k INT, name STRING)")
    db.sql("INSERT INTO names VALUES (1, 'one'), (2, 'two')")
    db.sql("INSERT INTO t SELECT id % 3, id % 7, id * id % 11 FROM range(30)")
    joined = db.table("t").join(db.table("names"), "k")
    measures = (median("x").alias("m"), trend("x", "y").alias("s"))
    db.create_view("v", joined.groupBy("name").agg(*measures))
    kinds = {type(node) for node in db._engine.circuit.nodes.values()}
    assert Group in kinds and GroupMap not in kinds
    assert "accumulators of the touched groups: ring(x), ring(x, y)" in str(db.explain("v"))
    for statement in (
        "INSERT INTO t VALUES (1, 6, 2), (1, 6, 2), (1, NULL, 5), (2, 5, NULL), (NULL, 1, 1)",
        "DELETE FROM t WHERE x = 6",
        "UPDATE t SET x = x + 1 WHERE k = 2",
        "UPDATE names SET name = 'one' WHERE k = 2",
        "DELETE FROM t WHERE k = 1",
    ):
        db.sql(statement)
        db.check("v")
        assert db.last_step is not None
        assert not any(step.rebuilt for step in db.last_step.nodes.values())
    before = rows(db, "v")
    db.close()
    with rekindle.connect(warehouse, spark=spark) as again:
        assert rows(again, "v") == before
        again.place("spark")
        again.sql("INSERT INTO t VALUES (1, 3, 3), (1, 3, 4), (2, 8, 8)")
        again.check("v")
        again.sql("DELETE FROM t")
        assert rows(again, "v") == bag([])


def test_a_ring_sum_of_everything_and_in_sql(db: Database) -> None:
    db.spark.udf.register("median_of", rekindle.ring_sum(Histograms(), single, "int", middle))
    db.sql("CREATE TABLE t (k INT, x INT)")
    db.sql("CREATE MATERIALIZED VIEW v AS SELECT median_of(x) AS m FROM t")
    for statement, expected in (
        ("INSERT INTO t VALUES (1, 5), (2, 7), (2, 9)", [(7,)]),
        ("DELETE FROM t WHERE k = 2", [(5,)]),
        ("UPDATE t SET x = NULL", [(None,)]),
        ("DELETE FROM t", []),  # As Spark has it for Python functions.
    ):
        db.sql(statement)
        assert rows(db, "v") == bag(expected)
        db.check("v")


def test_a_last_step_that_fails_leaves_everything_as_it_was(db: Database) -> None:
    db.sql("CREATE TABLE t (k INT, x INT)")
    first = rekindle.ring_sum(Histograms(), single, "int", lambda value: 10 // value[0][0])
    db.create_view("v", db.table("t").groupBy("k").agg(first("x").alias("f")))
    db.sql("INSERT INTO t VALUES (1, 5)")
    with refused(db, RekindleError, "zero"):
        db.sql("INSERT INTO t VALUES (2, 0)")
