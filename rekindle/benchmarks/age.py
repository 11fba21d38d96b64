"""Does the ten-thousandth transaction cost what the hundredth did?

Five tables of a fixed number of rows, ten views of them, and transactions that give ten rows new
values, with all history kept: whatever grows, grows with the number of epochs alone. Steps late in
the run are held against early ones, and so are opening the database, the bytes of a record and of a
checkpoint of the log, and the memory and open files of the process and of its JVM.

The files have a bound. A trace of r rows has fewer than 2·FAN_IN runs on each of its levels, of
which there are 1 + log_RATIO(r / 1024), and merges leave pieces of at least 16,384 rows, beside
what they are made of: r / 8,192. Each table and view has a trace of its older changes, and
at most 2·RECENT changes of their own. Files that were replaced wait for readers of an older epoch,
for 16 epochs and 10 seconds, and are counted apart.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import rekindle
from rekindle.benchmarks.chart import Line, line_chart
from rekindle.benchmarks.harness import Harness, stepped, timed
from rekindle.benchmarks.machine import Jvm, open_files, private_bytes, resident_bytes
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict, ratio_verdict
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.rolling import RECENT
from rekindle.runtime.epochs.state import State
from rekindle.runtime.transactions.transaction import Transaction
from rekindle.traces.trace import FAN_IN, Trace, level

TABLES = 5
ROWS = 1_000
CHANGED = 2
"""Rows of each table that a transaction gives new values."""
TRANSACTIONS = 10_000
WINDOW = 200
POINTS = 50
OPENINGS = 5
STEP_LIMIT = 1.2
FLAT = 1.2
"""What memory, files and bytes may be late in the run, as a multiple of what they were early."""
REPORTS = 10
"""Lines that say how far a long run has come."""
OPENING_LIMIT = 2.0
PIECE_ROWS = 8_192


@dataclass(frozen=True, slots=True)
class Point:
    """What was there after so many transactions."""

    transactions: int
    record_bytes: int
    checkpoint_bytes: int
    resident_bytes: int
    private_bytes: int
    jvm_bytes: int
    open_files: int
    jvm_files: int
    data_files: int
    needed_files: int
    bound: int


def run(harness: Harness) -> Report:
    """Transactions one after the other; the database is opened anew early and at the end."""
    total = harness.rounds(TRANSACTIONS)
    window = min(WINDOW, total // 3)
    place = harness.directory / "age"
    aged = _Aged(harness, place)
    with harness.phase(f"{total:,} transactions", total) as advance:
        for number in range(total):
            if number == 2 * window:
                aged.open_again("after the early steps")
            aged.step(number)
            if (number + 1) % max(1, total // POINTS) == 0:
                aged.look(number + 1)
            if (number + 1) % max(window, total // REPORTS) == 0:
                harness.say(aged.so_far(window))
            advance()
    aged.open_again("after all steps")
    aged.db.close()
    early = Series(f"steps {window:,} to {2 * window:,}", aged.samples[window : 2 * window])
    late = Series(f"the last {window:,} steps", aged.samples[-window:])
    opened = {name: Series(f"opening {name}", found) for name, found in aged.openings.items()}
    after, before = opened["after all steps"], opened["after the early steps"]
    records = Verdict(
        "bytes of a record, the last against the early ones",
        max(aged.records[-window:]) / max(aged.records[window : 2 * window]),
        Bound.AT_MOST,
        FLAT,
    )
    files = Verdict(
        "data files that the state needs against their bound",
        max(point.needed_files / point.bound for point in aged.points),
        Bound.AT_MOST,
        1.0,
    )
    return Report(
        name="age",
        claim=f"{total:,} transactions of {TABLES * CHANGED} rows, all history kept",
        series=[early, late, before, after],
        verdicts=[
            ratio_verdict(
                f"the last {window:,} steps against steps {window:,} to {2 * window:,}",
                late,
                early,
                Bound.AT_MOST,
                STEP_LIMIT,
            ),
            ratio_verdict(
                "opening after all steps against after the early ones",
                after,
                before,
                Bound.AT_MOST,
                OPENING_LIMIT,
            ),
            records,
            *_flat_verdicts(aged.points, 2 * window),
            files,
        ],
        machine=harness.machine,
        settings={"transactions": total, "tables": TABLES, "rows": ROWS, "changed": CHANGED},
        notes=[*_notes(aged.points), _processor_note(aged.processor, window)],
        facts={
            "points": [asdict(point) for point in aged.points],
            "record_bytes": aged.records,
            "seconds": [round(sample.seconds, 5) for sample in aged.samples],
            "processor_seconds": [round(seconds, 5) for seconds in aged.processor],
        },
        picture=_picture(aged.samples, total),
    )


class _Aged:
    """A database that grows old."""

    def __init__(self, harness: Harness, place: Path) -> None:
        self._harness, self._place = harness, place
        self.db: Database = rekindle.connect(str(place), harness.spark)
        self.samples: list[Sample] = []
        self.processor: list[float] = []
        """Seconds of the processor that a step took in this process, whatever else was running."""
        self.records: list[int] = []
        self.points: list[Point] = []
        self.openings: dict[str, list[Sample]] = {}
        self._jvm = Jvm(harness.spark)
        with harness.phase("tables and views", 2) as advance:
            _create_tables(self.db)
            advance()
            _create_views(self.db)
            advance()

    def step(self, number: int) -> None:
        """The next transaction."""

        def change(tx: Transaction) -> None:
            for table in range(TABLES):
                keys = [(number * CHANGED + i) * 7 % ROWS for i in range(CHANGED)]
                tx.upsert(f"t{table}", [(k, k % 50, number + table) for k in keys])

        started = time.process_time()
        self.samples.append(stepped(self.db, change))
        self.processor.append(time.process_time() - started)
        record = self._place / "log" / f"{self.db.epoch:016}.record"
        # A checkpoint takes the place of the record at its epoch.
        size = record.stat().st_size if record.exists() else self.records[-1]
        self.records.append(size)

    def look(self, transactions: int) -> None:
        """Note what there is now."""
        state = self.db._engine.state
        checkpoints = self._place.glob("log/*.checkpoint")
        self.points.append(
            Point(
                transactions,
                self.records[-1],
                max((path.stat().st_size for path in checkpoints), default=0),
                resident_bytes(),
                private_bytes(),
                self._jvm.heap_bytes(),
                open_files(),
                self._jvm.open_files(),
                sum(1 for _ in (self._place / "data").rglob("*.arrow")),
                len(state.paths),
                bound(state),
            )
        )

    def so_far(self, window: int) -> str:
        """How the run goes, in a line."""
        median = statistics.median(sample.seconds for sample in self.samples[-window:])
        return f"after {len(self.samples):,}: {median * 1000:.1f} ms, {_memory_words(self.points)}"

    def open_again(self, name: str) -> None:
        """Close the database and open it, a few times."""
        found = self.openings.setdefault(name, [])
        for _ in range(OPENINGS):
            self.db.close()
            found.append(timed(self._open))

    def _open(self) -> None:
        self.db = rekindle.connect(str(self._place), self._harness.spark)


def _flat_verdicts(points: Sequence[Point], transactions: int) -> list[Verdict]:
    """What must not grow with the number of epochs: the last points against the early ones."""
    count = max(1, len(points) // 10)
    begun = [point for point in points if point.transactions > transactions] or points
    early, late = begun[:count], points[-count:]

    def flat(what: str, measured: Callable[[Point], int]) -> Verdict:
        before, after = (statistics.median(map(measured, each)) for each in (early, late))
        question = f"{what}, the last against the early ones"
        return Verdict(question, after / max(1, before), Bound.AT_MOST, FLAT)

    return [
        flat("bytes of a checkpoint", lambda point: point.checkpoint_bytes),
        flat("private memory of the process", lambda point: point.private_bytes),
        flat("heap of the JVM", lambda point: point.jvm_bytes),
        flat("open files", lambda point: point.open_files + point.jvm_files),
    ]


def bound(state: State) -> int:
    """How many data files a state may need."""
    older = [past.older for past in state.history.values() if past.older is not None]
    older += [] if state.times.older is None else [state.times.older]
    traces = sum(_most_files(trace) for trace in [*state.traces.values(), *older])
    return traces + 2 * RECENT * len(state.history)


def _most_files(trace: Trace) -> int:
    return 2 * FAN_IN * (1 + level(trace.rows)) + trace.rows // PIECE_ROWS


def _create_tables(db: Database) -> None:
    for table in range(TABLES):
        db.sql(f"CREATE TABLE t{table} (id BIGINT, g BIGINT, x BIGINT, PRIMARY KEY (id))")
    with db.transaction() as tx:
        for table in range(TABLES):
            tx.insert(f"t{table}", [(k, k % 50, k) for k in range(ROWS)])


def _create_views(db: Database) -> None:
    """A sum for each table, joins of two of them, and conditions."""
    for table in range(TABLES):
        db.create_view(f"sum{table}", f"SELECT g, sum(x) AS s FROM t{table} GROUP BY g")
    for table in range(3):
        db.create_view(
            f"join{table}",
            f"SELECT a.id, a.x, b.x AS y FROM t{table} a JOIN t{table + 1} b ON a.id = b.id",
        )
    db.create_view("large", "SELECT id, x FROM t4 WHERE x > 500")
    db.create_view("most", "SELECT g, max(x) AS m FROM t0 GROUP BY g")


def _notes(points: Sequence[Point]) -> list[str]:
    shown = [points[0], points[len(points) // 2], points[-1]]
    lines = [
        f"after {p.transactions:,}: {p.record_bytes:,} bytes a record, {p.checkpoint_bytes:,} a "
        f"checkpoint, {_memory_words([p])}, {p.needed_files:,} data files needed "
        f"(bound {p.bound:,}), {p.data_files - p.needed_files:,} waiting"
        for p in shown
    ]
    formula = "Σ traces (2·4·(1 + level(rows)) + rows / 8,192) + 2·32 for each table and view"
    return [*lines, f"the bound of files: {formula}"]


def _memory_words(points: Sequence[Point]) -> str:
    """The memory and the open files at the last of some points."""
    if not points:
        return "nothing looked at yet"
    p = points[-1]
    return (
        f"{p.resident_bytes / 2**20:.0f} MB resident ({p.private_bytes / 2**20:.0f} MB private), "
        f"{p.jvm_bytes / 2**20:.0f} MB in the JVM, {p.open_files} + {p.jvm_files} open files"
    )


def _processor_note(seconds: Sequence[float], window: int) -> str:
    early = statistics.median(seconds[window : 2 * window])
    late = statistics.median(seconds[-window:])
    return (
        f"processor time of a step in Python: {early * 1000:.1f} ms early, {late * 1000:.1f} ms "
        f"late, {late / early:.2f} ×"
    )


def _picture(samples: Sequence[Sample], total: int) -> str:
    size = max(1, total // POINTS)
    points: list[tuple[float, list[float]]] = [
        (start + size / 2, [1000 * sample.seconds for sample in samples[start : start + size]])
        for start in range(0, total - size + 1, size)
    ]
    medians = [(x, [statistics.median(values)]) for x, values in points]
    return line_chart(
        "A transaction as the database grows old",
        "transactions before it",
        "median, milliseconds",
        [Line("all history kept", medians)],
        logarithmic=False,
    )
