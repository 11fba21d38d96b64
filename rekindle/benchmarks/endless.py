"""Does a stream without an end cost the same for ever?

Events over simulated weeks, half an hour a batch, up to three quarters of an hour late where an
hour is allowed, and answers to some of them. Rows leave the tables after six hours; views of
tumbling windows, of sessions, of the last hour by `now()` and of a join over an interval follow.
All that is stored is counted, tables and views with it, and the time of each batch: of the last
tenth of the batches against the second, when rows have begun to leave: they do from about the
thirtieth batch on, so that of fewer than 300 the second tenth is too early.
"""

from __future__ import annotations

import datetime as dt
import statistics
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rekindle.benchmarks.chart import Line, line_chart
from rekindle.benchmarks.harness import Harness
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict, ratio_verdict
from rekindle.runtime.database import Database

EVENTS, BATCHES = 10_000_000, 400
STEP_LIMIT, STATE_LIMIT = 1.2, 1.2
BEGINNING = dt.datetime(2026, 3, 1, tzinfo=dt.UTC)
BETWEEN = dt.timedelta(minutes=30)
"""Simulated time between two batches."""
LATE = dt.timedelta(minutes=45)
KINDS, USERS = 5, 200
"""Kinds of events; people, of whom each is there in some batches only."""
AWAY = 12
"""A person comes back after so many batches."""
VIEWS = {
    "tumbling": "SELECT window(ts, '10 minutes') AS w, kind, count(*) AS n, sum(id) AS s "
    "FROM events GROUP BY 1, 2",
    "lately": "SELECT kind, count(*) AS n FROM events WHERE ts > now() - INTERVAL 1 HOUR "
    "GROUP BY kind",
    "answered": "SELECT a.id, b.kind AS answer FROM events a JOIN answers b ON a.id = b.id "
    "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 10 MINUTES",
    "sessions": "SELECT session_window(ts, '5 minutes') AS w, person, count(*) AS n FROM visits "
    "GROUP BY 1, 2",
}
TABLES = {
    "events": "id BIGINT, ts TIMESTAMP LATENESS INTERVAL 1 HOUR, kind INT",
    "answers": "id BIGINT, ts TIMESTAMP LATENESS INTERVAL 1 HOUR, kind INT",
    "visits": "person BIGINT, ts TIMESTAMP LATENESS INTERVAL 1 HOUR",
}


def run(harness: Harness) -> Report:
    """All batches, and the last tenth of them against the second."""
    events = EVENTS if harness.request.events is None else harness.request.events
    batches = BATCHES if harness.request.batches is None else max(20, harness.request.batches)
    followed = _Followed(harness, max(10, events // batches))
    with harness.phase(f"{events:,} events", batches) as advance:
        for number in range(batches):
            followed.step(number)
            advance()
    for view in VIEWS:
        followed.db.check(view)
    tenth = batches // 10
    early = Series("the second tenth", followed.samples[tenth : 2 * tenth])
    late = Series("the last tenth", followed.samples[-tenth:])
    return Report(
        name="endless",
        claim=f"{events:,} events in {batches} batches, an hour of lateness",
        series=[early, late],
        verdicts=[
            ratio_verdict("a batch, late against early", late, early, Bound.AT_MOST, STEP_LIMIT),
            *(
                Verdict(
                    f"{what}, late against early",
                    statistics.median(values[-tenth:])
                    / max(1, statistics.median(values[tenth : 2 * tenth])),
                    Bound.AT_MOST,
                    STATE_LIMIT,
                )
                for what, values in followed.stored.items()
            ),
        ],
        machine=harness.machine,
        settings={"events": events, "batches": batches, "views": VIEWS},
        notes=[
            f"{what} by tenths of the batches: "
            + ", ".join(f"{value:,.4g}" for value in _by_tenths(values))
            for what, values in {
                **followed.stored,
                "seconds of a batch": [sample.seconds for sample in followed.samples],
            }.items()
        ],
        facts={
            **followed.stored,
            "seconds": [round(sample.seconds, 4) for sample in followed.samples],
        },
        picture=_picture(followed.samples, batches),
    )


class _Followed:
    """A database that an endless stream goes through."""

    def __init__(self, harness: Harness, size: int) -> None:
        self._size = size
        self._draw = np.random.default_rng(7)
        self.db: Database = harness.database("endless", retain=20)
        for name, columns in TABLES.items():
            self.db.sql(f"CREATE TABLE {name} ({columns}) RETAIN INTERVAL 6 HOURS")
        self.db.advance_time(BEGINNING)
        for name, query in VIEWS.items():
            self.db.create_view(name, query, incremental="required")
        self.samples: list[Sample] = []
        self.stored: dict[str, list[float]] = {"rows": [], "bytes": [], "files": []}

    def step(self, number: int) -> None:
        """A batch, and the clock moved on."""
        now = BEGINNING + number * BETWEEN
        rows = self._rows(number, now)
        started = time.perf_counter()
        with self.db.transaction() as tx:
            for name, table in rows.items():
                tx.insert(name, table)
        self.db.advance_time(now)
        self.samples.append(Sample(time.perf_counter() - started))
        state = self.db._engine.state
        segments = {segment.path: segment.size for segment in state.segments}
        self.stored["rows"].append(sum(trace.rows for trace in state.traces.values()))
        self.stored["bytes"].append(sum(segments.values()))
        self.stored["files"].append(len(segments))

    def _rows(self, number: int, now: dt.datetime) -> dict[str, pa.Table]:
        size, draw = self._size, self._draw
        ids = np.arange(number * size, (number + 1) * size)
        times = _micros(now) - draw.integers(0, _length(LATE), size)
        asked, visiting = ids[::10], ids[::20]
        # Whoever is there now was not in the batch before, so that sessions end.
        person = visiting % USERS * AWAY + number % AWAY
        return {
            "events": pa.table({"id": ids, "ts": _times(times), "kind": _kinds(ids)}),
            "answers": pa.table(
                {"id": asked, "ts": _times(times[::10] + 60_000_000), "kind": _kinds(asked)}
            ),
            "visits": pa.table({"person": person, "ts": _times(times[::20])}),
        }


Int64s = npt.NDArray[np.int64]


def _micros(moment: dt.datetime) -> int:
    return round(moment.timestamp() * 10**6)


def _length(span: dt.timedelta) -> int:
    return span // dt.timedelta(microseconds=1)


def _times(micros: Int64s) -> Any:
    return pa.array(micros).cast(pa.timestamp("us", "UTC"))


def _kinds(ids: Int64s) -> pa.Array:
    return pa.array(ids % KINDS, pa.int32())


def _by_tenths(values: Sequence[float]) -> list[float]:
    size = len(values) // 10
    return [statistics.median(values[i * size : (i + 1) * size]) for i in range(10)]


def _picture(samples: Sequence[Sample], batches: int) -> str:
    size = max(1, batches // 50)
    points = [
        (start + size / 2, [1000 * statistics.median(s.seconds for s in samples[start:][:size])])
        for start in range(0, batches - size + 1, size)
    ]
    return line_chart(
        "A batch of a stream without an end",
        "batches before it",
        "median, milliseconds",
        [Line("an hour of lateness, six hours kept", points)],
        logarithmic=False,
    )
