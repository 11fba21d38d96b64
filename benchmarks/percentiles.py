"""Measure a step of percentiles over one large group, against computing the group as a whole.

python benchmarks/percentiles.py [ROWS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from statistics import median
from unittest.mock import patch

import rekindle
from rekindle.frontends.spark_sql import aggregates
from rekindle.runtime.database import Database
from rekindle.spark.session import local_session

QUERY = "SELECT median(x) AS p50, percentile(x, 0.95) AS p95, percentile(x, 0.99) AS p99 FROM t"
REPEATED = 7


def main(rows: int) -> None:
    spark = local_session(**{"spark.master": "local[2]", "spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    print(f"three percentiles, 100 rows inserted and 50 deleted; median of {REPEATED} steps")
    for count in (rows // 100, rows):
        with (
            tempfile.TemporaryDirectory() as path,
            rekindle.connect(f"{path}/w", spark=spark) as ranked,
            rekindle.connect(f"{path}/v", spark=spark) as whole,
        ):
            with patch.object(aggregates, "_is_quantile", lambda call: False):
                _fill(whole, count)
            _fill(ranked, count)
            found = [(_step(ranked, count, i), _step(whole, count, i)) for i in range(REPEATED + 2)]
            after, before = (median(seconds[2:]) for seconds in zip(*found, strict=True))
            recomputed = _recomputed(ranked)
            ranked.check("v")
            print(
                f"{count:,} rows: {after * 1000:.0f} ms by ranks, {before * 1000:.0f} ms by the "
                f"whole group, {recomputed * 1000:.0f} ms for Spark's own computation"
            )


def _fill(db: Database, rows: int) -> None:
    db.sql("CREATE TABLE t (id BIGINT, x DOUBLE)")
    db.sql(f"INSERT INTO t SELECT id, hash(id) % 1000000 / 7 FROM range({rows})")
    db.create_view("v", QUERY)


def _step(db: Database, rows: int, number: int) -> float:
    first = rows + 100 * number
    new = [(first + i, float((first + i) * 7919 % 100003)) for i in range(100)]
    started = time.perf_counter()
    with db.transaction() as tx:
        tx.insert("t", new)
        if number:
            tx.delete("t", [(i - 100, float((i - 100) * 7919 % 100003)) for i, _ in new[:50]])
    return time.perf_counter() - started


def _recomputed(db: Database) -> float:
    seconds = []
    for _ in range(3):
        started = time.perf_counter()
        db.recompute("v").collect()
        seconds.append(time.perf_counter() - started)
    return median(seconds)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000)
