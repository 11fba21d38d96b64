"""Nexmark: its queries 0 to 22 as views of streams, whose rows come late and by the clock.

    python -m tests.external.nexmark_streams [--queries 0-5,9] [--events 2000] [--batches 5]

The texts are those of `nexmark.py`. Events arrive as files that three streams read, one a batch,
some of them a batch after their time, and each table says how late its rows may be. So a part of
them is late and left out, and state is removed under the views meanwhile. Query 12 has windows of
the time at which a bid is processed: here that is the time of its micro-batch. One more view asks
for the bids of the last minute by the clock, which is moved along with the events.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import random
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import rekindle
from rekindle.benchmarks.tpch_queries import chosen_numbers
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database
from rekindle.runtime.streaming.handle import Stream
from tests.external.compare import Difference, Reference, Row
from tests.external.material import absent, material
from tests.external.nexmark import NUMBERS, query_of
from tests.external.nexmark_events import SCHEMAS, Events
from tests.external.outcomes import Outcome, Results
from tests.streams.drops import Drops

LATENESS = dt.timedelta(seconds=10)
POSTPONED = 0.1
"""The share of events that come a batch after their time."""
TIMES = {"person": 6, "auction": 5, "bid": 5}
"""Where the time stands in a row."""
SIDE_INPUT = [(key, f"value {key}") for key in range(1000, 1060)]
PROCESSED = 12
"""The query whose windows are of the time of processing."""
CLOCK = "the last minute by the clock"
CLOCK_QUERY = (
    "SELECT bidder, count(*) AS bids FROM bid WHERE date_time > now() - INTERVAL 1 MINUTE "
    "AND date_time <= now() GROUP BY bidder"
)


class Delivery:
    """Events in batches, and which of them are late."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._events = Events(seed)
        self._held: dict[str, list[Row]] = {table: [] for table in SCHEMAS}
        self._newest: dict[str, dt.datetime] = {}
        self.kept = dict.fromkeys(SCHEMAS, 0)
        self.late = dict.fromkeys(SCHEMAS, 0)

    @property
    def now(self) -> dt.datetime:
        """The time of the latest event that has come."""
        return max(self._newest.values())

    def take(self, events: int) -> dict[str, list[Row]]:
        """What comes next: events, less those that are postponed, and those that were."""
        found: dict[str, list[Row]] = {}
        for table, rows in self._events.take(events).items():
            waits = {i for i in range(len(rows)) if self._random.random() < POSTPONED}
            coming = self._held[table] + [row for i, row in enumerate(rows) if i not in waits]
            self._held[table] = [rows[i] for i in sorted(waits)]
            self._random.shuffle(coming)
            self._count(table, coming)
            found[table] = coming
        return found

    def _count(self, table: str, rows: Sequence[Row]) -> None:
        times = [row[TIMES[table]] for row in rows]
        before = self._newest.get(table)
        late = sum(before is not None and time < before - LATENESS for time in times)
        self.late[table] += late
        self.kept[table] += len(rows) - late
        self._newest[table] = max([*times, *([] if before is None else [before])])


class Market:
    """The tables, a stream into each, and the directories that they watch."""

    def __init__(self, db: Database, scratch: Path) -> None:
        self._drops = {table: Drops(scratch / table) for table in SCHEMAS}
        self._streams: list[Stream] = []
        lateness = f"TIMESTAMP LATENESS INTERVAL {LATENESS.seconds} SECONDS NOT NULL"
        for table, columns in SCHEMAS.items():
            timed = columns.replace("TIMESTAMP NOT NULL", lateness)
            more = ", processed TIMESTAMP" if table == "bid" else ""
            db.sql(f"CREATE TABLE {table} ({timed}{more})")
        db.sql("CREATE TABLE side_input (key BIGINT, value STRING)")
        with db.transaction() as tx:
            tx.insert("side_input", SIDE_INPUT)
        for table, drops in self._drops.items():
            plain = SCHEMAS[table].replace(" PRIMARY KEY", "").replace(" NOT NULL", "")
            frame = drops.stream(db.spark, plain)
            if table == "bid":
                frame = frame.withColumn("processed", F.current_timestamp())
            self._streams.append(db.stream(table, frame))

    def arrive(self, rows: dict[str, list[Row]]) -> None:
        """Let rows come, and wait until they are there."""
        for table, drops in self._drops.items():
            names = [column.split()[0] for column in SCHEMAS[table].split(", ")]
            drops.drop(dict(zip(names, map(_plain, row), strict=True)) for row in rows[table])
        for stream in self._streams:
            stream.process_all_available()

    def stop(self) -> None:
        for stream in self._streams:
            stream.stop()


def _plain(value: object) -> object:
    return value.isoformat() if isinstance(value, dt.datetime) else value


def stream(
    spark: SparkSession,
    place: Path,
    scratch: Path,
    numbers: Sequence[int],
    *,
    events: int,
    batches: int,
    seed: int = 7,
    say: Callable[[str], None] = print,
) -> Results:
    """The queries as views of one database, through batches of its streams."""
    about = "Queries 0 to 22 as views of streams, whose rows may be ten seconds late."
    results = Results("Nexmark streams", about)
    texts = {number: query_of(place, number) for number in numbers}
    queries = {f"query {number}": text for number, (text, _) in texts.items()}
    if PROCESSED in texts:
        queries[f"query {PROCESSED}"] = texts[PROCESSED][0].replace("date_time", "processed")
    views = {case: f"v{i}" for i, case in enumerate(queries)}
    delivery = Delivery(seed)
    with rekindle.connect(str(scratch / "database"), spark, retain=2) as db:
        market = Market(db, scratch)
        db.advance_time(dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
        for case, query in queries.items():
            db.create_view(views[case], query, incremental="required")
        db.create_view("clock", CLOCK_QUERY, incremental="required")
        try:
            for number in range(batches):
                market.arrive(delivery.take(events // batches))
                db.advance_time(delivery.now)
                _require_what_was_not_late(db, delivery)
                with Reference(db) as reference:
                    for case, query in queries.items():
                        _compare(
                            results, case, lambda v=views[case], q=query: reference.compare(v, q)
                        )  # type: ignore[misc]
                _compare(results, CLOCK, partial(db.check, "clock"))
                say(f"batch {number + 1} of {batches}: {results.summary}")
        finally:
            market.stop()
        removed = [key for key, trace in db._engine.state.traces.items() if trace.partial]
    late = sum(delivery.late.values())
    results.notes.append(
        f"{events} events in {batches} batches, {late} of them late; state was removed from "
        f"{len(removed)} integrals. A comparison after each batch."
    )
    for number, (_, note) in texts.items():
        case = f"query {number}"
        if results.cases[case].outcome is Outcome.PASSED:
            said = "windows of the time of its batch" if number == PROCESSED else note
            results.add(case, Outcome.PASSED, said)
    return results


def _compare(results: Results, case: str, compare: Callable[[], object]) -> None:
    try:
        compare()
    except (Difference, RekindleError) as error:
        results.add(case, Outcome.FAILED, str(error))
    else:
        results.add(case, Outcome.PASSED)


def _require_what_was_not_late(db: Database, delivery: Delivery) -> None:
    for table, rows in delivery.kept.items():
        found, late = db.arrow(table).num_rows, db.watermark(table).late
        if (found, late) != (rows, delivery.late[table]):
            raise AssertionError(f"{table} has {found} rows and {late} were late, not {rows}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.nexmark_streams")
    parser.add_argument("--queries")
    parser.add_argument("--events", type=int, default=2000)
    parser.add_argument("--batches", type=int, default=5)
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    missing = [name for name in ("nexmark", "feldera") if material(name) is None]
    found = material("nexmark")
    if missing or found is None:
        raise SystemExit(absent(missing[0]))
    from rekindle.spark.session import local_session

    numbers = chosen_numbers(asked.queries, NUMBERS)
    with tempfile.TemporaryDirectory(prefix="rekindle-nexmark-") as scratch:
        results = stream(
            local_session(),
            found.parent,
            Path(scratch),
            numbers,
            events=asked.events,
            batches=asked.batches,
            seed=asked.seed,
        )
    print(results.summary)
    if len(numbers) == len(NUMBERS):
        print(f"written to {os.path.relpath(results.write())}")
    for result in results.of(Outcome.FAILED):
        print(result)
    if results.of(Outcome.FAILED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
