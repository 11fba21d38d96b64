"""What benchmarks share: databases of a size, steps, interleaved rounds and progress."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

import rekindle
from rekindle.benchmarks.machine import describe_machine
from rekindle.benchmarks.report import Sample, Series
from rekindle.benchmarks.workload import QUERY, ChangeStream, Workload, require_full_state
from rekindle.runtime.database import Database
from rekindle.runtime.transactions.transaction import Transaction

Action = Callable[[], Sample]


@dataclass(frozen=True, slots=True)
class Request:
    """What the user asked to be different from the benchmark's own settings."""

    rows: int | None = None
    rounds: int | None = None
    scale: float | None = None
    change: float | None = None
    queries: str | None = None
    views: int | None = None
    graph: Path | None = None
    batches: int | None = None
    only: str | None = None
    events: int | None = None


class Harness:
    """One run of a benchmark; closes its databases at the end."""

    def __init__(
        self, spark: SparkSession, directory: Path, request: Request, console: Console
    ) -> None:
        self.spark = spark
        self.directory = directory
        self.request = request
        self.machine: dict[str, Any] = describe_machine(spark)
        self._stack = ExitStack()
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )

    def rows(self, usual: int) -> int:
        return usual if self.request.rows is None else self.request.rows

    def rounds(self, usual: int) -> int:
        return usual if self.request.rounds is None else self.request.rounds

    def views(self, usual: int) -> int:
        return usual if self.request.views is None else self.request.views

    def database(self, name: str, retain: int | None = None) -> Database:
        """A new, empty database that lives as long as the run."""
        place = str(self.directory / name)
        return self._stack.enter_context(rekindle.connect(place, self.spark, retain=retain))

    def say(self, line: str) -> None:
        """A line that stays above the progress bars."""
        self._progress.console.print(line, style="dim", soft_wrap=True, highlight=False)

    def filled(self, workload: Workload) -> Filled:
        """A database with the workload's tables and view."""
        db = self.database(f"rows-{workload.rows}")
        with self.phase(f"{workload.rows:,} orders", 3) as advance:
            workload.create_tables(db)
            advance()
            workload.load_tables(db)
            advance()
            workload.create_view(db)
            advance()
        return Filled(db, workload, require_full_state(db, workload))

    def recomputation(self, workload: Workload) -> Action:
        """Spark's evaluation of the workload's view, from Parquet to nowhere."""
        places = {n: str(self.directory / f"{n}.parquet") for n in ("orders", "customers")}
        with self.phase("writing Parquet", 2) as advance:
            workload.customers_frame(self.spark).write.parquet(places["customers"])
            advance()
            workload.orders_frame(self.spark).write.parquet(places["orders"])
            advance()

        def compute() -> None:
            tables = {name: self.spark.read.parquet(place) for name, place in places.items()}
            run_to_nowhere(self.spark.sql(QUERY, **tables))  # type: ignore[arg-type]

        return lambda: timed(compute)

    @contextmanager
    def phase(self, description: str, total: int) -> Iterator[Callable[[], None]]:
        """A progress bar of so many parts, each ended by calling what is given."""
        task = self._progress.add_task(description, total=total)
        try:
            yield lambda: self._progress.advance(task)
        finally:
            self._progress.remove_task(task)

    def interleave(
        self,
        actions: Mapping[str, Action],
        rounds: int,
        warm_up: int,
        description: str = "measuring",
    ) -> dict[str, Series]:
        """Every action once a round, so that what disturbs one disturbs all.

        A run that was asked to be short warms up no longer than it measures.
        """
        warm_up = min(warm_up, rounds)
        samples: dict[str, list[Sample]] = {name: [] for name in actions}
        with self.phase(description, warm_up + rounds) as advance:
            for number in range(warm_up + rounds):
                for name, action in actions.items():
                    gc.collect()
                    sample = action()
                    if number >= warm_up:
                        samples[name].append(sample)
                advance()
        return {name: Series(name, found) for name, found in samples.items()}

    def __enter__(self) -> Harness:
        self._stack.enter_context(self._progress)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.close()


class Filled:
    """A database with the workload in it, and an endless stream of changes to it."""

    def __init__(self, db: Database, workload: Workload, stored: Mapping[str, int]) -> None:
        self.db = db
        self.workload = workload
        self.stored = stored
        self._stream = ChangeStream(workload)

    def step(self, rows: int) -> Sample:
        """One transaction of so many changed rows, half of them inserted, half deleted."""
        inserts, deletes = self._stream.take(rows)

        def change(tx: Transaction) -> None:
            tx.insert("orders", inserts)
            tx.delete("orders", deletes)

        return stepped(self.db, change)


def stepped(db: Database, change: Callable[[Transaction], None]) -> Sample:
    """How long a transaction takes, and the rows that the nodes read and gave."""
    started = time.perf_counter()
    with db.transaction() as tx:
        change(tx)
    seconds = time.perf_counter() - started
    last = db.last_step
    assert last is not None
    return Sample(
        seconds,
        sum(node.rows_in for node in last.nodes.values()),
        sum(node.rows_out for node in last.nodes.values()),
    )


def timed(action: Callable[[], object]) -> Sample:
    """How long an action takes."""
    started = time.perf_counter()
    action()
    return Sample(time.perf_counter() - started)


def run_to_nowhere(frame: DataFrame) -> None:
    """Compute every row of a frame and write none."""
    frame.write.format("noop").mode("overwrite").save()
