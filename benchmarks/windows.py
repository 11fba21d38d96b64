"""Measure a step of a window over one long partition, against reading the partition as a whole.

python benchmarks/windows.py [ROWS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from statistics import median
from typing import Any
from unittest.mock import patch

import rekindle
from rekindle.circuit.operators import group_map
from rekindle.frontends.spark_sql import reaches
from rekindle.kernels import regroup
from rekindle.runtime.database import Database
from rekindle.spark.session import local_session

WINDOWS = {
    "ROWS 3 PRECEDING": "sum(x) OVER (PARTITION BY k ORDER BY o, x ROWS 3 PRECEDING)",
    "lag": "lag(x) OVER (PARTITION BY k ORDER BY o, x)",
    "running sum": "sum(x) OVER (PARTITION BY k ORDER BY o, x)",
}
REPEATED = 3


def main(rows: int) -> None:
    spark = local_session(**{"spark.master": "local[2]", "spark.ui.enabled": "false"})
    spark.sparkContext.setLogLevel("ERROR")
    print(f"one partition of {rows:,} rows, one row inserted; median of {REPEATED} steps")
    for name, function in WINDOWS.items():
        for place, where in (("the middle", rows // 2), ("the end", rows - 10)):
            found = []
            for whole in (True, False):
                with (
                    tempfile.TemporaryDirectory() as path,
                    rekindle.connect(f"{path}/w", spark=spark) as db,
                ):
                    found.append(_measured(db, function, rows, where, whole))
            (before, read), (after, less) = found
            print(
                f"{name}, at {place}: {before * 1000:.0f} ms and {read:,} rows read as a whole, "
                f"{after * 1000:.0f} ms and {less:,} rows"
            )


def _measured(db: Database, function: str, rows: int, place: int, whole: bool) -> tuple[float, int]:
    """Seconds of a step and the rows that Spark computes in it, before and after the change."""
    db.sql("CREATE TABLE t (k INT, o INT, x BIGINT)")
    db.sql(f"INSERT INTO t SELECT 1, id, id % 7 FROM range({rows})")
    if whole:
        with patch.object(reaches, "parts", lambda named, *_: [(list(named), None)]):
            db.create_view("v", f"SELECT o, {function} AS f FROM t")
    else:
        db.create_view("v", f"SELECT o, {function} AS f FROM t")
    read: list[int] = []

    def counted(original: Any) -> Any:
        def kernel(*given: Any) -> Any:
            table = original(*given)
            read.append(len(table))
            return table

        return kernel

    seconds = []
    with (
        patch.object(group_map, "touched_groups", counted(regroup.touched_groups)),
        patch.object(group_map, "touched_onwards", counted(regroup.touched_onwards)),
    ):
        for i in range(REPEATED + 2):
            started = time.perf_counter()
            db.sql(f"INSERT INTO t VALUES (1, {place}, {i})")
            seconds.append(time.perf_counter() - started)
    db.check("v")
    return median(seconds[2:]), int(median(read))


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 100_000)
