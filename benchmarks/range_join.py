"""What a step costs that joins a few rows with many on a range alone.

    python benchmarks/range_join.py [ROWS OF THE OTHER SIDE] [STEPS]

Each step brings 100 rows to one side. At the end the rows of the view are counted in Python too.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time

import rekindle

QUERY = (
    "SELECT r.id, s.id AS shift FROM readings r JOIN shifts s "
    "ON r.t >= s.begins AND r.t < s.begins + 25"
)


def main(rows: int = 200_000, steps: int = 9) -> None:
    with tempfile.TemporaryDirectory() as directory, rekindle.connect(f"{directory}/w") as db:
        db.sql("CREATE TABLE readings (id BIGINT, t BIGINT)")
        db.sql("CREATE TABLE shifts (id BIGINT, begins BIGINT)")
        db.sql(f"INSERT INTO shifts SELECT id, id * 10 FROM range({rows})")
        db.create_view("band", QUERY)
        times, expected = [], 0
        for i in range(steps):
            readings = [(i * 100 + j, (i * 7919 + j * 1999) % (rows * 10)) for j in range(100)]
            expected += sum(len(range(max(0, t // 10 - 2), t // 10 + 1)) for _, t in readings)
            expected -= sum(t // 10 >= 2 and t % 10 >= 5 for _, t in readings)
            with db.transaction() as tx:
                tx.insert("readings", readings)
                started = time.perf_counter()
            times.append(time.perf_counter() - started)
            step = db.last_step
            assert step is not None
            pairs = sum(did.rows_out for key, did in step.nodes.items() if key.startswith("join-"))
            print(f"{times[-1] * 1000:8.0f} ms  {pairs:>10,} pairs  {step.placement.value}")
        found = db.table("band").count()
        if found != expected:
            raise SystemExit(f"the view has {found} rows, not {expected}")
        print(f"median {statistics.median(times) * 1000:.0f} ms, {found:,} rows in the view")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
