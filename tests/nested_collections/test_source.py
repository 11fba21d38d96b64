"""Nested tables and views through the data source: put together from their parts by its reader."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import SparkSession

import rekindle

ROWS = [
    (7, "ann", [(1, [("nut", 3), ("bolt", 1)]), (3, [])]),
    (8, "bob", []),
    (9, None, None),
    (10, "dee", [(2, None), (2, None), None]),
]


def test_the_source_gives_what_a_connection_gives(spark: SparkSession, tmp_path: Path) -> None:
    path = str(tmp_path / "db")
    with rekindle.connect(path, spark) as db:
        db.sql(
            "CREATE TABLE customers (id BIGINT, name STRING, orders ARRAY<STRUCT<okey: BIGINT, "
            "lines: ARRAY<STRUCT<part: STRING, qty: INT>>>>, PRIMARY KEY (id))"
        )
        with db.transaction() as tx:
            tx.insert("customers", ROWS)
        db.create_view(
            "parts",
            rekindle.comprehension(
                "for c in customers yield (at: (id: c.id, all: for o in c.orders, l in o.lines "
                "yield l.part), orders: c.orders)"
            ),
        )
        before = db.epoch
        with db.transaction() as tx:
            tx.nested("customers", 8, "orders").insert([(5, [("cog", 2)])])
        for name in ("customers", "parts"):
            read = spark.read.format("rekindle").load(f"{path}/{name}")
            assert sorted(map(str, read.collect())) == sorted(map(str, db.table(name).collect()))
            old = spark.read.format("rekindle").option("epoch", before).load(f"{path}/{name}")
            expected = db.table(name, epoch=before).collect()
            assert sorted(map(str, old.collect())) == sorted(map(str, expected))
        some = spark.read.format("rekindle").load(f"{path}/customers").where("id = 8")
        assert [row.orders[0].okey for row in some.select("orders").collect()] == [5]
