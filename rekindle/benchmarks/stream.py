"""Do views follow a stream as fast as Structured Streaming answers the same query?

Nexmark's events come as files, one of each table a batch, after those that are there already. Each
of the queries 0 to 8 is a view of its own database, whose tables are fed by `db.stream`. Beside it
Structured Streaming reads the same files in the same micro-batches:

    only adds rows     Structured Streaming evaluates it by itself, with its own state; its rows
                       are stored exactly once, as those of a view are: in Parquet
    changes results    it is computed anew in foreachBatch over all events so far, to nowhere

A turn of either side is a few batches, from the arrival of their files until all are there. The
time of a batch is what Spark says of its query (`triggerExecution`), for both sides. What it costs
where no row is stored is shown beside it (`to nowhere`), without a bound: a view is always stored.
"""

from __future__ import annotations

import os
import shutil
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from rich import box
from rich.table import Table

from rekindle.benchmarks.harness import Harness, run_to_nowhere, timed
from rekindle.benchmarks.nexmark_data import ALL, KEYS, SCHEMAS, Events
from rekindle.benchmarks.nexmark_queries import QUERIES, Query
from rekindle.benchmarks.report import (
    Bound,
    Report,
    Sample,
    Series,
    Verdict,
    duration,
    ratio_verdict,
)
from rekindle.benchmarks.tpch_queries import chosen_numbers
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database
from rekindle.runtime.streaming.handle import Stream

EVENTS = 3_000_000
"""The events that are there before the first batch."""
BATCH = 10_000
BATCHES, COMPUTED = 10, 3
"""The batches of a turn; fewer where all is computed anew after each."""
ROUNDS = 5
WARM_UP = 1
APPEND_LIMIT, UPDATE_LIMIT = 1.0, 5.0
OURS, STORED, NOWHERE, AGAIN = "view", "Structured Streaming", "to nowhere", "computed anew"
_IDLE = {"spark.sql.streaming.pollingDelay": "100ms"}
"""A query that waits for files looks for them now and then, and leaves the others alone."""


def run(harness: Harness) -> Report:
    """The chosen queries, one after the other, each beside Structured Streaming."""
    numbers = chosen_numbers(harness.request.queries, QUERIES)
    size = BATCH if harness.request.events is None else harness.request.events
    turns = harness.rounds(ROUNDS)
    prepared = _Prepared(harness, harness.rows(EVENTS), size, (WARM_UP + turns) * BATCHES)
    measured: list[_Measured] = []
    with _settings(harness.spark, _IDLE):
        for number in numbers:
            measured.append(_one(harness, prepared, number, turns))
            harness.say(measured[-1].line(size))
        together = _together(harness, prepared, numbers, turns) if len(numbers) > 1 else None
    if together is not None:
        measured.append(together)
        harness.say(together.line(size))
    return Report(
        name="stream",
        claim=f"Nexmark's events in batches of {size:,}, {prepared.events:,} before them",
        series=[series for each in measured for series in each.found.values()],
        verdicts=[verdict for each in measured for verdict in each.verdicts],
        machine=harness.machine,
        settings={"events": prepared.events, "batch": size, "batches": BATCHES, "queries": numbers},
        facts={each.title: each.to_json(size) for each in measured},
        table=_table(measured, size),
    )


# ---- events ------------------------------------------------------------------------------------


class _Prepared:
    """Files of events: those before the first batch, and those of each batch."""

    def __init__(self, harness: Harness, events: int, size: int, batches: int) -> None:
        self.events = events // ALL * ALL
        self.place = harness.directory / "prepared"
        made = Events()
        with harness.phase("events", batches + 1) as advance:
            for number in range(-1, batches):
                first = 0 if number < 0 else self.events + number * size
                rows = made.take(first, self.events if number < 0 else size)
                for table, part in rows.items():
                    path = self.file(table, number)
                    path.parent.mkdir(parents=True, exist_ok=True)
                    pq.write_table(part, path, row_group_size=1 << 17)
                    # The source takes files in the order of their times.
                    moment = (10**9 + number) * 10**9
                    os.utime(path, ns=(moment, moment))
                advance()

    def file(self, table: str, number: int) -> Path:
        """The rows of a table in a batch; -1 has those before the first."""
        return self.place / table / f"{number + 1:06}.parquet"

    def frame(self, spark: SparkSession, table: str, until: int) -> DataFrame:
        """The rows of a table up to a batch."""
        paths = [str(self.file(table, number)) for number in range(-1, until + 1)]
        return spark.read.schema(SCHEMAS[table]).parquet(*paths)


class _Feed:
    """Directories that files of batches are put into, one after the other."""

    def __init__(self, prepared: _Prepared, place: Path, tables: Sequence[str]) -> None:
        self._prepared, self._place = prepared, place
        self._tables = tables
        self._next = 0
        for table in tables:
            (place / table).mkdir(parents=True)

    def frames(self, spark: SparkSession) -> dict[str, DataFrame]:
        """The tables as streams, a file a batch."""
        reader = spark.readStream.option("maxFilesPerTrigger", "1")
        return {
            table: reader.schema(SCHEMAS[table]).parquet(str(self._place / table))
            for table in self._tables
        }

    def give(self, batches: int) -> None:
        """Let the next batches come."""
        for number in range(self._next, self._next + batches):
            self._give(number)
        self._next += batches

    def give_first(self) -> None:
        """Let those events come that are there before the first batch."""
        self._give(-1)

    def _give(self, number: int) -> None:
        for table in self._tables:
            source = self._prepared.file(table, number)
            os.link(source, self._place / table / source.name)


# ---- sides -------------------------------------------------------------------------------------


class _Side(Protocol):
    """Who follows a feed."""

    feed: _Feed

    @property
    def queries(self) -> Sequence[StreamingQuery]: ...

    def wait(self) -> None:
        """Wait until all that has come is there."""
        ...

    def close(self) -> None: ...


class _Views:
    """A database with views, fed by `db.stream`."""

    def __init__(
        self, harness: Harness, prepared: _Prepared, name: str, queries: Mapping[str, Query]
    ) -> None:
        tables = tuple(dict.fromkeys(t for query in queries.values() for t in query.tables))
        self.db: Database = harness.database(name, retain=20)
        with harness.phase(f"{name}, database", 1) as advance:
            for table in tables:
                self.db.create_table(table, SCHEMAS[table], KEYS[table])
            with self.db.transaction() as tx:
                for table in tables:
                    tx.insert(table, prepared.frame(harness.spark, table, -1))
            for view, query in queries.items():
                self.db.create_view(view, query.text, incremental="required")
            advance()
        self.feed = _Feed(prepared, harness.directory / f"{name}-feed", tables)
        frames = self.feed.frames(harness.spark)
        self._streams: list[Stream] = [self.db.stream(t, frame) for t, frame in frames.items()]

    @property
    def queries(self) -> Sequence[StreamingQuery]:
        return [stream._query for stream in self._streams if stream._query is not None]

    def wait(self) -> None:
        for stream in self._streams:
            stream.process_all_available()

    def close(self) -> None:
        for stream in self._streams:
            stream.stop()
        self.db.close()


class _Spark:
    """A query of Structured Streaming."""

    def __init__(
        self,
        harness: Harness,
        feed: _Feed,
        place: Path,
        start: Callable[[SparkSession, Mapping[str, DataFrame]], Any],
    ) -> None:
        # A session of its own, since names of tables are those of the query.
        spark = harness.spark.newSession()
        for name, value in _IDLE.items():
            spark.conf.set(name, value)
        self.feed = feed
        writer = start(spark, feed.frames(spark))
        self._query: StreamingQuery = writer.option(
            "checkpointLocation", str(place / "checkpoint")
        ).start()

    @property
    def queries(self) -> Sequence[StreamingQuery]:
        return [self._query]

    def wait(self) -> None:
        self._query.processAllAvailable()

    def close(self) -> None:
        self._query.stop()


def _itself(query: Query, sink: str, place: Path) -> Callable[..., Any]:
    """Structured Streaming evaluates the query, and its rows go to a sink."""

    def start(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Any:
        for table, frame in frames.items():
            frame.createOrReplaceTempView(table)
        found = spark.sql(query.text) if query.streamed is None else query.streamed(frames)
        writer = found.writeStream.outputMode("append").format(sink)
        return writer.option("path", str(place / "rows"))

    return start


def _again(query: Query, prepared: _Prepared) -> Callable[..., Any]:
    """Spark evaluates the query over all events so far, at each batch."""

    def start(spark: SparkSession, frames: Mapping[str, DataFrame]) -> Any:
        def compute(_: DataFrame, batch: int) -> None:
            for table in query.tables:
                prepared.frame(spark, table, batch).createOrReplaceTempView(table)
            run_to_nowhere(spark.sql(query.text))

        return frames["bid"].writeStream.foreachBatch(compute)

    return start


# ---- measuring ---------------------------------------------------------------------------------


@dataclass
class _Measured:
    """The turns of all sides, and how long their batches took."""

    title: str
    query: Query | None
    batches: int
    found: dict[str, Series] = field(default_factory=dict)
    latencies: dict[str, list[float]] = field(default_factory=dict)

    @property
    def verdicts(self) -> list[Verdict]:
        if self.query is None:
            return []
        other, limit = (STORED, APPEND_LIMIT) if self.query.appends else (AGAIN, UPDATE_LIMIT)
        words = f"{self.title}: {other} against the view"
        return [ratio_verdict(words, self.found[other], self.found[OURS], Bound.AT_LEAST, limit)]

    def speed(self, side: str, size: int) -> float:
        """Events a second."""
        return self.batches * size / self.found[side].median

    def latency(self, side: str) -> float:
        return statistics.median(self.latencies[side])

    def line(self, size: int) -> str:
        said = [
            f"{side} {self.speed(side, size):,.0f} events a second, "
            f"{duration(self.latency(side))} a batch"
            for side in self.found
        ]
        return f"{self.title}: {'; '.join(said)}"

    def to_json(self, size: int) -> dict[str, object]:
        return {
            side: {
                "events_a_second": self.speed(side, size),
                "batch_median_seconds": self.latency(side),
                "batch_seconds": [round(seconds, 4) for seconds in self.latencies[side]],
            }
            for side in self.found
        }


def _one(harness: Harness, prepared: _Prepared, number: int, turns: int) -> _Measured:
    query, title = QUERIES[number], f"q{number}"
    place = harness.directory / f"{title}-spark"
    batches = BATCHES if query.appends else COMPUTED
    with ExitStack() as stack:
        stack.callback(_remove, harness, title)
        views = _Views(harness, prepared, title, {title: query})
        stack.callback(views.close)
        sides: dict[str, _Side] = {OURS: views}
        if query.appends:
            for name, sink in ((STORED, "parquet"), (NOWHERE, "noop")):
                inner = place / sink
                feed = _Feed(prepared, inner / "feed", query.tables)
                sides[name] = _Spark(harness, feed, inner, _itself(query, sink, inner))
                feed.give_first()
        else:
            feed = _Feed(prepared, place / "feed", ("bid",))
            sides[AGAIN] = _Spark(harness, feed, place, _again(query, prepared))
        for side in list(sides.values())[1:]:
            stack.callback(side.close)
            side.wait()
        measured = _measured(harness, title, query, batches, sides, turns)
        views.db.check(title)
        if query.appends:
            _refuse_others(harness.spark, views.db, title, place / "parquet" / "rows")
    return measured


def _remove(harness: Harness, title: str) -> None:
    """What a query has stored: the next one has as much."""
    for name in (title, f"{title}-feed", f"{title}-spark"):
        shutil.rmtree(harness.directory / name, ignore_errors=True)


def _together(
    harness: Harness, prepared: _Prepared, numbers: Sequence[int], turns: int
) -> _Measured:
    """All queries as views of one database."""
    queries = {f"q{number}": QUERIES[number] for number in numbers}
    title = f"{len(numbers)} views of one database"
    views = _Views(harness, prepared, "together", queries)
    try:
        return _measured(harness, title, None, BATCHES, {OURS: views}, turns)
    finally:
        views.close()


def _measured(
    harness: Harness,
    title: str,
    query: Query | None,
    batches: int,
    sides: Mapping[str, _Side],
    turns: int,
) -> _Measured:
    measured = _Measured(title, query, batches)
    latencies: dict[str, list[list[float]]] = {name: [] for name in sides}

    def action(name: str, side: _Side) -> Callable[[], Sample]:
        seen: dict[int, int] = {i: _last(q) for i, q in enumerate(side.queries)}

        def turn() -> None:
            side.feed.give(batches)
            side.wait()

        def measure() -> Sample:
            sample = timed(turn)
            taken: list[float] = []
            for i, each in enumerate(side.queries):
                taken += _seconds(each, seen[i])
                seen[i] = _last(each)
            latencies[name].append(taken)
            return sample

        return measure

    actions = {name: action(name, side) for name, side in sides.items()}
    measured.found = {
        name: Series(f"{title}, {name}", series.samples)
        for name, series in harness.interleave(actions, turns, WARM_UP, title).items()
    }
    measured.latencies = {
        name: [seconds for turn in found[-turns:] for seconds in turn]
        for name, found in latencies.items()
    }
    return measured


def _last(query: StreamingQuery) -> int:
    return max((int(each["batchId"]) for each in _batches(query)), default=-1)


def _seconds(query: StreamingQuery, after: int) -> list[float]:
    """How long the batches took that came after one."""
    return [
        each["durationMs"]["triggerExecution"] / 1000
        for each in _batches(query)
        if int(each["batchId"]) > after
    ]


def _batches(query: StreamingQuery) -> list[Any]:
    """What Spark tells of batches, and not of looking in vain for files."""
    return [each for each in query.recentProgress if "addBatch" in each["durationMs"]]


def _refuse_others(spark: SparkSession, db: Database, view: str, place: Path) -> None:
    """Raise unless Structured Streaming has found as many rows as the view has."""
    ours, theirs = db.table(view).count(), spark.read.parquet(str(place)).count()
    if ours != theirs:
        raise RekindleError(
            f"{view} has {ours} rows as a view and {theirs} by Structured Streaming",
            detail="both sides are to do the same work",
        )


@contextmanager
def _settings(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Settings of a session, for a while."""
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def _table(measured: Sequence[_Measured], size: int) -> Table:
    table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
    table.add_column("query")
    table.add_column("by")
    for name in ("events a second", "a batch", "90 %", "turns"):
        table.add_column(name, justify="right")
    for each in measured:
        title = each.title if each.query is None else f"{each.title}, {each.query.title}"
        for side, series in each.found.items():
            found = Series(side, [Sample(seconds) for seconds in each.latencies[side]])
            table.add_row(
                title,
                side,
                f"{each.speed(side, size):,.0f}",
                duration(found.median),
                duration(found.quantile(0.9)),
                str(len(series.samples)),
            )
            title = ""
    return table
