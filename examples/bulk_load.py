"""Load a DataFrame of a million rows, then change a few: the work follows the change.

The large insert is sorted and written by Spark tasks; its rows do not pass through the driver. The
small steps after it run in the driver and read only what they touch.

    python examples/bulk_load.py
"""

import time

import rekindle

ROWS = 1_000_000
db = rekindle.connect("warehouse")
db.sql("CREATE TABLE readings (id BIGINT, sensor INT, value DOUBLE, PRIMARY KEY (id))")
db.sql("""
    CREATE MATERIALIZED VIEW by_sensor AS
    SELECT sensor, count(*) AS n, avg(value) AS mean, stddev(value) AS deviation
    FROM readings GROUP BY sensor
""")

started = time.perf_counter()
with db.transaction() as tx:
    rows = db.spark.range(ROWS)
    tx.insert(
        "readings", rows.selectExpr("id", "CAST(id % 1000 AS INT) AS sensor", "id * 0.5 AS value")
    )
seconds = time.perf_counter() - started
assert db.last_step is not None
print(f"{ROWS:,} rows loaded in {seconds:.1f} s, placed on {db.last_step.placement.value}")
assert db.last_step.placement.value == "spark"
assert db.table("by_sensor").count() == 1000

for step in range(5):
    started = time.perf_counter()
    with db.transaction() as tx:
        tx.insert("readings", [(ROWS + step, step, 1.0)])
        tx.upsert("readings", [(step, step, -1.0)])
    seconds = time.perf_counter() - started
    # An upsert is a deletion and an insertion, so three rows of the table changed.
    changed = db.changes("readings", since=db.epoch - 1).count()
    touched = sum(node.rows_in for node in db.last_step.nodes.values())
    print(f"step {step}: {changed} rows changed, {touched} rows touched, {seconds * 1000:.0f} ms")
    assert changed == 3
    assert touched < 20

first = db.table("by_sensor").where("sensor = 0").collect()[0]
assert first.n == ROWS // 1000 + 1
print(db.check("by_sensor"))
db.close()
