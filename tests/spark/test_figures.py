"""What nodes say that they did: the rows that came and went, in the driver as on Spark."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.runtime.database import Database
from rekindle.spark.step import Placement

VIEWS = {
    "joined": "SELECT o.k, o.price, c.name FROM o JOIN c ON o.k = c.k WHERE o.price > 2",
    "summed": "SELECT c.name, sum(o.price) AS s FROM o JOIN c ON o.k = c.k GROUP BY c.name",
    "fully": "SELECT o.n, o.price, c.name FROM o FULL JOIN c ON o.k = c.k",
    "absent": "SELECT o.k FROM o WHERE NOT EXISTS (SELECT 1 FROM c WHERE c.k = o.k)",
    "shouted": "SELECT o.n, initcap(c.name) AS name FROM o JOIN c ON o.k = c.k",
    "above": "SELECT n, price FROM o WHERE price > (SELECT avg(price) FROM o)",
    "counted": "SELECT o.n, count(*) AS t FROM o JOIN c ON o.price >= c.k GROUP BY o.n",
    "different": "SELECT DISTINCT k, price % 3 AS p FROM o",
    "without": "SELECT k FROM o EXCEPT SELECT k FROM c",
    "rollup": "SELECT k, price % 2 AS p, count(*) AS n FROM o GROUP BY ROLLUP (k, price % 2)",
    "ends": "SELECT k, min(price) AS low, max(price) AS high FROM o GROUP BY k",
    "total": "SELECT count(*) AS n, sum(price) AS s, max(price) AS m FROM o",
    "listed": "SELECT k, sort_array(collect_list(price)) AS l FROM o GROUP BY k",
    "middle": "SELECT k, percentile(price, 0.5) AS p FROM o GROUP BY k",
    "running": "SELECT k, sum(price) OVER (PARTITION BY k ORDER BY price, n) AS s FROM o",
    "lagging": "SELECT k, lag(price) OVER (PARTITION BY k ORDER BY n) AS before FROM o",
    "leading": """
        SELECT k, n FROM (SELECT k, n,
          row_number() OVER (PARTITION BY k ORDER BY price DESC, n) AS place FROM o)
        WHERE place <= 2""",
    "reach": """
        WITH RECURSIVE r(a, b) AS (
          SELECT a, b FROM e UNION ALL SELECT r.a, e.b FROM r JOIN e ON r.b = e.a)
        SELECT * FROM r""",
}


def _figures(db: Database) -> dict[int, tuple[int, int, int]]:
    """Rows in, rows out and visits of the last step, by a node's place in the circuit."""
    places = {key: i for i, key in enumerate(db._engine.circuit.nodes)}
    assert db.last_step is not None
    steps = db.last_step.nodes
    return {places[key]: (s.rows_in, s.rows_out, s.visits) for key, s in steps.items()}


Figures = list[dict[int, tuple[int, int, int]]]


def _history(
    path: Path, spark: SparkSession, placement: str, views: dict[str, str], filled: str = ""
) -> Figures:
    """What all nodes did in every step of a small history, and when a view was `filled` last."""
    with rekindle.connect(str(path), spark=spark) as db:
        db.place("inline")
        db.sql("CREATE TABLE o (n INT, k INT, price INT)")
        db.sql("CREATE TABLE c (k INT, name STRING)")
        db.sql("CREATE TABLE e (a INT, b INT)")
        with db.transaction() as tx:
            tx.insert("o", [(i, i % 7, i % 13) for i in range(60)])
            tx.insert("c", [(k, f"c{k}") for k in range(3, 10)])
            tx.insert("e", [(i, i + 1) for i in range(8)])
        for name, query in views.items():
            db.create_view(name, query)
        figures = []
        db.place(placement)
        if filled:
            db.create_view("filled", filled)
            return [_figures(db)]
        with db.transaction() as tx:
            tx.insert("o", [(200 + i, i % 9, i) for i in range(12)])
            tx.delete("o", [(5, 5, 5), (6, 6, 6)])
        figures.append(_figures(db))
        with db.transaction() as tx:
            tx.insert("c", [(0, "zero"), (4, "again")])
            tx.delete("c", [(5, "c5")])
            tx.delete("o", [(i, i % 7, i % 13) for i in range(20, 40)])
            tx.delete("e", [(3, 4)])
            tx.insert("e", [(3, 6), (20, 21)])
        figures.append(_figures(db))
        assert db.last_step is not None
        if placement == "spark":
            assert db.last_step.placement is Placement.SPARK
        for name in views:
            db.check(name)
        return figures


def test_figures_are_those_of_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    inline, distributed = (
        _history(tmp_path / placement, spark, placement, VIEWS) for placement in ("inline", "spark")
    )
    for here, there in zip(inline, distributed, strict=True):
        assert there == here


@pytest.mark.parametrize("view", ["fully", "total"])
def test_figures_of_filling_are_those_of_the_driver(
    view: str, spark: SparkSession, tmp_path: Path
) -> None:
    inline, distributed = (
        _history(tmp_path / placement, spark, placement, {}, VIEWS[view])
        for placement in ("inline", "spark")
    )
    assert distributed == inline
