"""What does it cost to build the state, and does the driver's memory grow with the rows?

Tables are loaded and the view is created. Spark, in the same run and from the same generated rows,
writes to Parquet what each of the large arrangements holds, partitioned and sorted by its key. The
time of the load is held against the sum of those writes: small states (the groups, the view) are
not counted, so they cannot make the load look cheaper.

The driver is this Python process. Its private memory is sampled through the load, at a tenth of the
rows and at all of them; mapped files are not counted, since the kernel may drop them at any time.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rekindle.cli.bench.chart import Line, line_chart
from rekindle.cli.bench.harness import Harness, timed
from rekindle.cli.bench.machine import MemoryWatch
from rekindle.cli.bench.report import Bound, Report, Sample, Series, Verdict
from rekindle.cli.bench.workload import Workload, require_full_state

TIME_LIMIT = 3.0
MEMORY_LIMIT = 64.0
"""Megabytes. One 8-byte column of 10⁷ rows alone would be 80."""
COUNTED_SHARE = 0.01


@dataclass(frozen=True, slots=True)
class _Loaded:
    """One load and what was measured about it."""

    workload: Workload
    tables: float
    view: float
    stored: dict[str, int]
    memory: MemoryWatch

    @property
    def seconds(self) -> float:
        return self.tables + self.view


def run(harness: Harness) -> Report:
    """A load at a tenth of the rows, which also warms Spark up, then one at all of them."""
    rows = harness.rows(10_000_000)
    small = _load(harness, Workload(rows // 10))
    large = _load(harness, Workload(rows))
    counted = {k: n for k, n in large.stored.items() if n >= COUNTED_SHARE * rows}
    writes = _sorted_writes(harness, large.workload, counted)
    growth = (large.memory.growth - small.memory.growth) / 2**20
    return Report(
        name="load",
        claim=f"Building tables and view from {rows:,} orders",
        series=[
            Series("tables loaded", [Sample(large.tables, rows_written=_rows(large))]),
            Series("view created", [Sample(large.view)]),
            *writes,
        ],
        verdicts=[
            Verdict(
                f"the load against Spark's sorted Parquet of {len(counted)} arrangements",
                large.seconds / _baseline(large.workload, counted, writes),
                Bound.AT_MOST,
                TIME_LIMIT,
            ),
            Verdict(
                f"growth of the driver's memory, {rows:,} rows against {rows // 10:,}",
                growth,
                Bound.AT_MOST,
                MEMORY_LIMIT,
                "MB more",
            ),
        ],
        machine=harness.machine,
        settings={"rows": rows, "counted_share": COUNTED_SHARE},
        notes=_notes(small, large, counted, writes[0].median),
        facts=_facts(small, large),
        picture=line_chart(
            "The driver's memory while the state is built",
            "seconds since the load began",
            "megabytes above the start",
            [_memory_line(small), _memory_line(large)],
            logarithmic=False,
        ),
    )


def _load(harness: Harness, workload: Workload) -> _Loaded:
    db = harness.database(f"load-{workload.rows}")
    workload.create_tables(db)
    gc.collect()
    pa.default_memory_pool().release_unused()
    with harness.phase(f"loading {workload.rows:,} orders", 2) as advance, MemoryWatch() as memory:
        tables = timed(lambda: workload.load_tables(db)).seconds
        advance()
        view = timed(lambda: workload.create_view(db)).seconds
        advance()
    return _Loaded(workload, tables, view, require_full_state(db, workload), memory)


def _sorted_writes(harness: Harness, workload: Workload, counted: dict[str, int]) -> list[Series]:
    """Spark's sorted Parquet files of the orders by customer, and of the customers by number."""
    partitions = int(harness.spark.conf.get("spark.sql.shuffle.partitions") or 2)
    sources = {
        f"Spark writes {workload.rows:,} orders sorted": (workload.orders_frame, "cust"),
        f"Spark writes {workload.customers:,} customers sorted": (workload.customers_frame, "id"),
    }
    rounds = harness.rounds(3)
    found = []
    with harness.phase("Spark's sorted Parquet", rounds * len(sources)) as advance:
        for name, (frame, key) in sources.items():
            samples = []
            for number in range(rounds):
                place = str(harness.directory / f"sorted-{key}-{number}.parquet")
                started = time.perf_counter()
                rows = frame(harness.spark).repartition(partitions, key)
                rows.sortWithinPartitions(key).write.parquet(place)
                samples.append(Sample(time.perf_counter() - started))
                advance()
            found.append(Series(name, samples))
    return found


def _baseline(workload: Workload, counted: dict[str, int], writes: list[Series]) -> float:
    """Spark's time for every counted arrangement: of orders, or of customers."""
    orders, customers = (series.median for series in writes)
    middle = (workload.rows + workload.customers) / 2
    return sum(orders if rows > middle else customers for rows in counted.values())


def _rows(loaded: _Loaded) -> int:
    return loaded.workload.rows + loaded.workload.customers


def _notes(
    small: _Loaded, large: _Loaded, counted: dict[str, int], orders_write: float
) -> list[str]:
    each = large.seconds / len(large.stored)
    grown = [f"{load.memory.growth / 2**20:.0f} MB" for load in (small, large)]
    return [
        f"arrangements counted: {', '.join(f'{k} ({n:,} rows)' for k, n in counted.items())}",
        f"{each:.2f} s for each of all {len(large.stored)} states, "
        f"{each / orders_write:.2f} × the sorted orders",
        f"the driver grew by {grown[0]} at {small.workload.rows:,} rows and by {grown[1]} at "
        f"{large.workload.rows:,}",
    ]


def _memory_line(loaded: _Loaded) -> Line:
    start = loaded.memory.samples[0][1]
    step = max(1, len(loaded.memory.samples) // 400)
    points = [(at, [(size - start) / 2**20]) for at, size in loaded.memory.samples[::step]]
    return Line(f"{loaded.workload.rows:,} orders", points)


def _facts(*loads: _Loaded) -> dict[str, Any]:
    return {
        str(load.workload.rows): {
            "tables_seconds": load.tables,
            "view_seconds": load.view,
            "stored_rows": load.stored,
            "driver_growth_bytes": load.memory.growth,
            "driver_samples": [[round(at, 3), size] for at, size in load.memory.samples],
        }
        for load in loads
    }
