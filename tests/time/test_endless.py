"""An endless stream with an hour of lateness: state, files and the time of a step stay the same.

10,000,000 events over simulated weeks, or as many as `REKINDLE_EVENTS` says. Rows leave the tables
after six hours, so all that is stored is compared, tables and views with it.
"""

from __future__ import annotations

import datetime as dt
import os
import statistics
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import rekindle
from rekindle.circuit.nodes import Arrangement, Group

EVENTS = int(os.environ.get("REKINDLE_EVENTS", 10_000_000))
BATCHES = int(os.environ.get("REKINDLE_BATCHES", 400))
HOUR = 3_600_000_000
BEGINNING = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
VIEWS = {
    "tumbling": """SELECT window(ts, '10 minutes') AS w, v, count(*) AS n, sum(id) AS s
                   FROM events GROUP BY 1, 2""",
    "best": """SELECT id, v, r FROM (SELECT *, row_number() OVER (PARTITION BY
               window(ts, '10 minutes') ORDER BY id) AS r FROM events) WHERE r <= 3""",
    "lately": "SELECT v, count(*) AS n FROM events WHERE ts > now() - INTERVAL 1 HOUR GROUP BY v",
    "answered": """SELECT a.id, b.v AS answer FROM events a JOIN answers b ON a.id = b.id
                   AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES""",
}


@pytest.mark.slow
def test_state_files_and_steps_stay_the_same(spark: SparkSession, tmp_path: Path) -> None:
    chance = np.random.default_rng(7)
    batch = EVENTS // BATCHES
    kept: list[float] = []
    stored: list[float] = []
    files: list[float] = []
    seconds: list[float] = []
    with rekindle.connect(str(tmp_path / "w"), spark=spark, retain=20) as db:
        for table in ("events", "answers"):
            db.sql(
                f"CREATE TABLE {table} (id BIGINT, ts TIMESTAMP LATENESS INTERVAL 1 HOUR, v INT) "
                "RETAIN INTERVAL 6 HOURS"
            )
        db.advance_time(BEGINNING)
        for name, query in VIEWS.items():
            db.create_view(name, query)
        beginning = int(BEGINNING.timestamp() * 10**6)
        for step in range(BATCHES):
            now = beginning + step * HOUR // 2
            ids = np.arange(step * batch, (step + 1) * batch)
            times = now - chance.integers(0, HOUR * 3 // 4, batch)
            rows = _rows(ids, times)
            answers = _rows(ids[::10], times[::10] + 60_000_000)
            started = time.perf_counter()
            with db.transaction() as tx:
                tx.insert("events", rows)
                tx.insert("answers", answers)
            db.advance_time(BEGINNING + dt.timedelta(microseconds=step * HOUR // 2))
            seconds.append(time.perf_counter() - started)
            state = db._engine.state
            nodes = db._engine.circuit.nodes
            kept.append(
                sum(t.rows for k, t in state.traces.items()
                    if isinstance(nodes[k], Arrangement | Group))
            )  # fmt: skip
            segments = {segment.path: segment.size for segment in state.segments}
            stored.append(sum(segments.values()))
            files.append(len(segments))
        for name in VIEWS:
            db.check(name)
    for what, values in [("rows", kept), ("bytes", stored), ("files", files), ("s", seconds)]:
        size = len(values) // 10
        tenths = [statistics.fmean(values[i * size : (i + 1) * size]) for i in range(10)]
        print(what, [f"{each:.4g}" for each in tenths])
        assert max(tenths[5:]) <= 1.3 * max(tenths[1:5]), what


def _rows(ids: np.ndarray[tuple[int], np.dtype[np.int64]], times: object) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(ids),
            "ts": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "v": pa.array(ids % 5, pa.int32()),
        }
    )
