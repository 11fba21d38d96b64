"""SQL and DataFrames over nested views: bags are read by their labels, and equal to Spark's."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.errors import CheckError
from rekindle.frontends.spark_sql.rules import open_dictionaries
from rekindle.runtime.database import Database

NESTED = """
    for c in customers yield (
        id: c.id, name: c.name,
        orders: for o in orders where o.cust = c.id yield (
            okey: o.okey, price: o.price,
            lines: for l in lines where l.okey = o.okey yield (part: l.part, qty: l.qty)),
        prices: for o in orders where o.cust = c.id yield o.price)"""

TABLES = (
    "CREATE TABLE customers (id INT, name STRING, PRIMARY KEY (id))",
    "CREATE TABLE orders (okey INT, cust INT, price DOUBLE)",
    "CREATE TABLE lines (okey INT, part STRING, qty INT)",
    "INSERT INTO customers VALUES (1, 'a'), (2, 'b'), (3, NULL)",
    "INSERT INTO orders VALUES (10, 1, 1.5), (11, 1, 2.5), (11, 1, 2.5), (12, 2, NULL)",
    "INSERT INTO lines VALUES (10, 'x', 1), (10, 'y', NULL), (11, 'x', 3), (12, NULL, 4)",
)

STEPS = (
    "INSERT INTO orders VALUES (13, 3, 7.0)",
    "INSERT INTO lines VALUES (13, 'q', 7), (13, 'q', 7)",
    "DELETE FROM orders WHERE okey = 11",
    "UPDATE lines SET qty = 9 WHERE okey = 10",
    "DELETE FROM customers WHERE id = 1",
)

OPENED = {
    "top": "SELECT name FROM n",
    "elements": "SELECT name, x.okey FROM n LATERAL VIEW explode(orders) AS x",
    "elements of elements": "SELECT name, x.okey, y FROM n LATERAL VIEW explode(orders) AS x "
    "LATERAL VIEW explode(x.lines) AS y",
    "outer": "SELECT name, x.okey, y.part FROM n LATERAL VIEW OUTER explode(orders) AS x "
    "LATERAL VIEW OUTER explode(x.lines) AS y",
    "outer elements": "SELECT name, okey, y FROM n LATERAL VIEW OUTER inline(orders) x "
    "LATERAL VIEW OUTER explode(lines) z AS y",
    "values": "SELECT name, p FROM n LATERAL VIEW explode(prices) AS p",
    "columns": "SELECT name, okey, qty FROM n LATERAL VIEW inline(orders) x "
    "LATERAL VIEW inline(lines) y",
    "lateral": "SELECT n.name, t.e.okey FROM n, LATERAL explode(n.orders) AS t(e)",
    "sizes": "SELECT name, size(orders) AS k, cardinality(prices) AS j FROM n "
    "WHERE size(orders) > 0",
    "inner sizes": "SELECT name, x.okey, size(x.lines) AS k FROM n "
    "LATERAL VIEW explode(orders) AS x",
    "groups": "SELECT name, sum(x.price) AS s, count(*) AS k FROM n "
    "LATERAL VIEW explode(orders) AS x GROUP BY name",
    "absent": "SELECT b.name, b.prices IS NULL AS k, size(b.prices) AS z "
    "FROM n a LEFT JOIN n b ON a.id = b.id + 1",
}
"""What needs no array."""

ASSEMBLED = {
    "all": "SELECT * FROM n",
    "an element": "SELECT name, x FROM n LATERAL VIEW OUTER explode(orders) AS x",
    "a guard": "SELECT name, element_at(orders, 1).okey AS k FROM n WHERE size(orders) > 0",
    "an inner guard": "SELECT name, element_at(x.lines, 1).qty AS k FROM n "
    "LATERAL VIEW explode(orders) AS x WHERE size(x.lines) > 0",
    "positions": "SELECT name, i, p FROM n LATERAL VIEW posexplode(prices) AS i, p",
    "a field of each": "SELECT name, orders.okey AS ks FROM n",
    "both": "SELECT a.name, b.orders, x.okey FROM n a LEFT JOIN n b ON a.id = b.id + 1 "
    "LATERAL VIEW OUTER explode(b.orders) AS x",
    "a group of bags": "SELECT prices, count(*) AS k FROM n GROUP BY prices",
    "a union": "SELECT name, prices FROM n UNION ALL SELECT 'z', array(1.0D)",
    "a subquery": "SELECT name, (SELECT sum(p) FROM explode(n.prices) AS t(p)) AS s FROM n",
}
"""What needs one."""


@pytest.fixture
def db(spark: SparkSession, tmp_path: Path) -> Iterator[Database]:
    database = rekindle.connect(str(tmp_path / "warehouse"), spark=spark)
    for statement in TABLES:
        database.sql(statement)
    database.create_view("n", rekindle.comprehension(NESTED))
    yield database
    database.close()


def bag(frame: Any) -> list[str]:
    return sorted(map(repr, frame.collect()))


def name_of(case: str) -> str:
    return case.replace(" ", "_")


def follow(db: Database, spark: SparkSession, queries: dict[str, str]) -> None:
    """After every step each view is what Spark gives for its query over the nested rows."""
    for statement in (None, *STEPS):
        if statement is not None:
            db.sql(statement)
        db.table("n").createOrReplaceTempView("n")
        for case, query in queries.items():
            expected = bag(spark.sql(query))
            assert bag(db.table(name_of(case))) == expected, (statement, case)
    for case in queries:
        db.check(name_of(case))


def test_views_that_open_bags_assemble_nothing(db: Database, spark: SparkSession) -> None:
    for case, query in OPENED.items():
        db.create_view(name_of(case), query)
        assert "collect_list" not in str(db.explain(name_of(case))), case
    follow(db, spark, OPENED)


def test_other_uses_of_bags_are_equal_too(db: Database, spark: SparkSession) -> None:
    for case, query in ASSEMBLED.items():
        db.create_view(name_of(case), query)
        assert "collect_list" in str(db.explain(name_of(case))), case
    follow(db, spark, ASSEMBLED)


def test_a_column_that_is_not_read_costs_nothing(db: Database) -> None:
    db.create_view("names", "SELECT name FROM n WHERE id > 1")
    assert list(db._engine.sources_of("names")) == ["n·"]


def test_dataframes_open_bags_too(db: Database) -> None:
    def frame() -> Any:
        elements = db.table("n").select("name", F.explode("orders").alias("x"))
        lines = elements.select("name", "x.okey", F.explode_outer("x.lines").alias("y"))
        return lines.select("name", "okey", "y.qty")

    db.create_view("opened", frame())
    db.create_view("whole", db.table("n").where("size(prices) > 0"))
    assert "collect_list" not in str(db.explain("opened"))
    for statement in STEPS:
        db.sql(statement)
        assert bag(db.table("opened")) == bag(frame())
        assert bag(db.table("whole")) == bag(db.table("n").where("size(prices) > 0"))
    db.check("opened")
    db.check("whole")
    with pytest.raises(rekindle.errors.RekindleError):
        db.create_view("old", db.table("n", epoch=db.epoch))


def test_a_planted_bug_is_caught(db: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows without elements are lost where an outer explode opens a dictionary."""
    joined = open_dictionaries._Opening._joined

    def inner(self: Any, *given: Any, outer: bool) -> Any:
        return joined(self, *given, outer=False)

    with monkeypatch.context() as patched:
        patched.setattr(open_dictionaries._Opening, "_joined", inner)
        db.create_view("wrong", "SELECT name, p FROM n LATERAL VIEW OUTER explode(prices) AS p")
    with pytest.raises(CheckError):
        db.check("wrong")
