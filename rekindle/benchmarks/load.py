"""What does it cost to build the state, and does the driver's memory grow with the rows?

Tables are loaded and the view is created. Spark, in the same run and from the same generated rows,
writes to Parquet what each of the large arrangements holds, partitioned and sorted by its key. The
time of the load is held against the sum of those writes: small states (the groups, the view) are
not counted, so they cannot make the load look cheaper.

A load is too long to take turns with the writes, so they stand on both sides of it: what disturbs
the machine for a while has a chance to show in their spread.

The driver is this Python process. Its private memory is sampled through the load, at a tenth of the
rows and at all of them; mapped files are not counted, since the kernel may drop them at any time.
The two peaks are compared as they are and not from where each load began: the second load may use
again what the first one freed, which would hide its growth.
"""

from __future__ import annotations

import gc
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from rekindle.benchmarks.chart import Line, line_chart
from rekindle.benchmarks.harness import Harness, timed
from rekindle.benchmarks.machine import MemoryWatch
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict
from rekindle.benchmarks.workload import Workload, require_full_state

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
    rounds = harness.rounds(4)
    writes = _SortedWrites(harness, Workload(rows))
    small = _load(harness, Workload(rows // 10))
    writes.run(rounds // 2)
    large = _load(harness, Workload(rows))
    writes.run(rounds - rounds // 2)
    counted = {k: n for k, n in large.stored.items() if n >= COUNTED_SHARE * rows}
    growth = (large.memory.peak - small.memory.peak) / 2**20
    return Report(
        name="load",
        claim=f"Building tables and view from {rows:,} orders",
        series=[
            Series("tables loaded", [Sample(large.tables, rows_written=_rows(large))]),
            Series("view created", [Sample(large.view)]),
            writes.orders,
            writes.customers,
        ],
        verdicts=[
            Verdict(
                f"the load against Spark's sorted Parquet of {len(counted)} arrangements",
                large.seconds / writes.total(counted, 0.5),
                Bound.AT_MOST,
                TIME_LIMIT,
                fastest=large.seconds / writes.total(counted, 0.0),
            ),
            Verdict(
                f"the driver's peak memory, {rows:,} rows against {rows // 10:,}",
                growth,
                Bound.AT_MOST,
                MEMORY_LIMIT,
                "MB more",
            ),
        ],
        machine=harness.machine,
        settings={"rows": rows, "counted_share": COUNTED_SHARE},
        notes=_notes(small, large, counted, writes.orders.median),
        facts=_facts(small, large),
        picture=line_chart(
            "The driver's memory while the state is built",
            "seconds since the load began",
            "private memory, megabytes",
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


class _SortedWrites:
    """Spark's sorted Parquet files of the orders by customer, and of the customers by number."""

    def __init__(self, harness: Harness, workload: Workload) -> None:
        self._harness = harness
        self._workload = workload
        self._partitions = int(harness.spark.conf.get("spark.sql.shuffle.partitions") or 2)
        self._orders: list[Sample] = []
        self._customers: list[Sample] = []

    @property
    def orders(self) -> Series:
        return Series(f"Spark writes {self._workload.rows:,} orders sorted", self._orders)

    @property
    def customers(self) -> Series:
        return Series(
            f"Spark writes {self._workload.customers:,} customers sorted", self._customers
        )

    def run(self, rounds: int) -> None:
        """Write both, so many times."""
        spark = self._harness.spark
        with self._harness.phase("Spark's sorted Parquet", 2 * rounds) as advance:
            for _ in range(rounds):
                self._orders.append(self._write(self._workload.orders_frame(spark), "cust"))
                advance()
                self._customers.append(self._write(self._workload.customers_frame(spark), "id"))
                advance()

    def total(self, counted: Mapping[str, int], share: float) -> float:
        """Spark's time for every counted arrangement, of orders or of customers, by quantile."""
        middle = (self._workload.rows + self._workload.customers) / 2
        return sum(
            (self.orders if rows > middle else self.customers).quantile(share)
            for rows in counted.values()
        )

    def _write(self, frame: DataFrame, key: str) -> Sample:
        place = self._harness.directory / "sorted.parquet"
        rows = frame.repartition(self._partitions, key).sortWithinPartitions(key)
        sample = timed(lambda: rows.write.parquet(str(place)))
        shutil.rmtree(place)
        return sample


def _rows(loaded: _Loaded) -> int:
    return loaded.workload.rows + loaded.workload.customers


def _notes(
    small: _Loaded, large: _Loaded, counted: dict[str, int], orders_write: float
) -> list[str]:
    each = large.seconds / len(large.stored)
    peaks = [f"{load.memory.peak / 2**20:.0f} MB" for load in (small, large)]
    return [
        f"arrangements counted: {', '.join(f'{k} ({n:,} rows)' for k, n in counted.items())}",
        f"{each:.2f} s for each of all {len(large.stored)} states, "
        f"{each / orders_write:.2f} × the sorted orders",
        f"the driver's memory peaked at {peaks[0]} with {small.workload.rows:,} rows and at "
        f"{peaks[1]} with "
        f"{large.workload.rows:,}",
    ]


def _memory_line(loaded: _Loaded) -> Line:
    step = max(1, len(loaded.memory.samples) // 400)
    points = [(at, [size / 2**20]) for at, size in loaded.memory.samples[::step]]
    return Line(f"{loaded.workload.rows:,} orders", points)


def _facts(*loads: _Loaded) -> dict[str, Any]:
    return {
        str(load.workload.rows): {
            "tables_seconds": load.tables,
            "view_seconds": load.view,
            "stored_rows": load.stored,
            "driver_peak_bytes": load.memory.peak,
            "driver_samples": [[round(at, 3), size] for at, size in load.memory.samples],
        }
        for load in loads
    }
