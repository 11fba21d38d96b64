"""TPC-H: is keeping a query's result by changes faster than computing it anew?

The tables are loaded once. Then each query in turn becomes a view; steps of the view and Spark's
computation of the query from Parquet files take turns, and the view is checked and dropped. From
scale 10 on the two do not take turns, since each would push what the other reads out of the
machine's memory: the recomputations come first, then the steps. There a view is not checked either:
reading all tables anew would take longer than all the rest.

A step changes the same share of every table that the query reads. What the batch changes elsewhere
goes into a transaction of its own that is not timed, so that a query does not pay for tables it
does not read, and orders keep their lines.

A query that is refused, fails or turns out wrong has no ratio and fails the benchmark.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich import box
from rich.table import Table

from rekindle.benchmarks.bars import Bar, bar_chart
from rekindle.benchmarks.harness import Action, Harness, run_to_nowhere, stepped, timed
from rekindle.benchmarks.report import Bound, Report, Sample, Series, Verdict, duration
from rekindle.benchmarks.tpch_changes import Batch, ChangeStream, read_counts, read_pool
from rekindle.benchmarks.tpch_data import write_tables
from rekindle.benchmarks.tpch_queries import QUERIES, chosen_queries
from rekindle.benchmarks.tpch_schema import TABLES, tables_of
from rekindle.errors import RekindleError
from rekindle.runtime.database import Database

SCALE = 1.0
CHANGE = 0.001
ROUNDS = 5
WARM_UP = 2
LARGE_SCALE = 10
"""From here on recomputations are long and come before the steps, and views are not checked."""
LARGE_SETTINGS = {
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
"""For recomputations there: Spark merges partitions by their bytes, and where keys compress well
one has so many rows then that sorting them runs out of memory (query 4)."""
_ABOUT_LARGE = (
    "at this scale recomputations and steps do not take turns, and views are not compared"
)
RETAINED = 2
"""Epochs of history: a long one is not what is measured."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What was found out about one query; without series when it could not be measured."""

    number: int
    reason: str = ""
    recomputation: Series | None = None
    step: Series | None = None
    created: float | None = None
    rows: int | None = None
    changed: float | None = None
    state_bytes: int | None = None
    table_bytes: int | None = None

    @property
    def ratio(self) -> float | None:
        if self.recomputation is None or self.step is None:
            return None
        return self.recomputation.median / self.step.median

    def to_json(self) -> dict[str, Any]:
        step, again = self.step, self.recomputation
        return {
            "query": self.number,
            "reason": self.reason,
            "ratio": self.ratio,
            "recomputation_seconds": None if again is None else again.median,
            "step_seconds": None if step is None else step.median,
            "rows_read": None if step is None else step.rows_read,
            "rows_written": None if step is None else step.rows_written,
            "rows_changed": self.changed,
            "view_rows": self.rows,
            "created_seconds": self.created,
            "state_bytes": self.state_bytes,
            "table_bytes": self.table_bytes,
        }


def run(harness: Harness) -> Report:
    """Every query against its recomputation."""
    scale = SCALE if harness.request.scale is None else harness.request.scale
    share = CHANGE if harness.request.change is None else harness.request.change
    queries = chosen_queries(harness.request.queries)
    files = harness.directory / "tpch"
    with harness.phase(f"rows of scale {scale:g}", 1) as advance:
        maker = write_tables(files, scale)
        advance()
    large = scale >= LARGE_SCALE
    session = _Session(harness, files, share, large=large)
    loaded = session.load(sorted({t for q in queries for t in tables_of(QUERIES[q])}))
    found = []
    for number in queries:
        found.append(session.measure(number))
        harness.say(_line(found[-1]))
    series = [part for each in found for part in (each.recomputation, each.step) if part]
    return Report(
        name="tpch",
        claim=f"TPC-H at scale {scale:g}: recomputation against a step that changes {share:.2%}",
        series=series,
        verdicts=_verdicts(found, scale),
        machine=harness.machine,
        settings={"scale": scale, "change": share, "queries": queries, "rows_by": maker},
        notes=[
            f"tables loaded in {duration(loaded)}, rows of {maker}; TPC-H is a trademark of the "
            "TPC, and these are not TPC results",
            *([_ABOUT_LARGE] if large else []),
        ],
        facts={"load_seconds": loaded, "queries": [each.to_json() for each in found]},
        picture=_picture(found, scale, share),
        table=_table(found),
    )


class _Session:
    """The database, the files that recomputations read, and the stream of changes."""

    def __init__(self, harness: Harness, files: Path, share: float, *, large: bool) -> None:
        self._harness = harness
        self._large = large
        self._files = files
        self._db: Database = harness.database("tpch-tables", retain=RETAINED)
        self._stream = ChangeStream(read_pool(files, share), read_counts(files), share)
        # A session of its own: the names of its temporary views are nobody else's.
        self._plain = harness.spark.newSession()
        if large:
            for name, value in LARGE_SETTINGS.items():
                self._plain.conf.set(name, value)
        self._present: list[str] = []
        self._pending = Batch()

    def load(self, tables: Sequence[str]) -> float:
        """Load the tables, all that the queries read; gives the seconds it took."""
        started = time.perf_counter()
        self._present = list(tables)
        with self._harness.phase("loading tables", len(tables)) as advance:
            for name in tables:
                shape = TABLES[name]
                self._db.sql(shape.ddl)
                rows = self._harness.spark.read.parquet(str(self._files / f"{name}.parquet"))
                with self._db.transaction() as transaction:
                    transaction.insert(name, rows.selectExpr(*shape.casts))
                advance()
        return time.perf_counter() - started

    def measure(self, number: int) -> Measured:
        """One query from its creation to its removal."""
        view = f"q{number}"
        try:
            with self._harness.phase(f"creating query {number}", 1) as advance:
                created = timed(
                    lambda: self._db.sql(f"CREATE MATERIALIZED VIEW {view} AS {QUERIES[number]}")
                ).seconds
                advance()
        except Exception as error:
            return Measured(number, _reason(error))
        try:
            return self._measured(number, view, created)
        except Exception as error:
            return Measured(number, _reason(error), created=created)
        finally:
            self._db.drop_view(view)
            # What a failed step did not apply; without it the stream would name absent rows.
            self._apply(self._pending)

    def _measured(self, number: int, view: str, created: float) -> Measured:
        read = tables_of(QUERIES[number])
        changed: list[int] = []

        def step() -> Sample:
            self._pending = self._stream.take().of(self._present)
            mine = self._pending.of(read)
            changed.append(mine.rows)
            sample = self._step(mine)
            self._pending = self._pending.of([n for n in self._present if n not in read])
            self._apply(self._pending)
            return sample

        recomputation, steps = self._timed(
            {
                f"query {number}, recomputation": lambda: self._recompute(number, read),
                f"query {number}, step": step,
            }
        )
        nodes = [node for node in self._db.explain(view).nodes if node.facts.bytes_stored]
        rows = None if self._large else self._checked(number, view)
        return Measured(
            number,
            recomputation=recomputation,
            step=steps,
            created=created,
            rows=rows,
            changed=sum(changed) / len(changed),
            state_bytes=sum(n.facts.bytes_stored or 0 for n in nodes if n.kind != "table"),
            table_bytes=sum(n.facts.bytes_stored or 0 for n in nodes if n.kind == "table"),
        )

    def _timed(self, actions: Mapping[str, Action]) -> list[Series]:
        """What the actions took: in turns, or one after the other where the tables are large."""
        rounds = self._harness.rounds(ROUNDS)
        if not self._large:
            return [*self._harness.interleave(actions, rounds, WARM_UP).values()]
        again, step = ({name: action} for name, action in actions.items())
        return [
            *self._harness.interleave(again, rounds, warm_up=1).values(),
            *self._harness.interleave(step, max(rounds, ROUNDS), WARM_UP).values(),
        ]

    def _checked(self, number: int, view: str) -> int:
        """How many rows the view has, all of them right."""
        with self._harness.phase(f"checking query {number}", 1) as advance:
            rows = self._db.check(view).rows
            advance()
        return rows

    def _apply(self, batch: Batch) -> None:
        if batch.rows:
            with self._db.transaction() as transaction:
                batch.apply(transaction)
        self._pending = Batch()

    def _step(self, batch: Batch) -> Sample:
        return stepped(self._db, batch.apply)

    def _recompute(self, number: int, read: Sequence[str]) -> Sample:
        """Spark's computation from the files; opening them is a part of it."""
        spark = self._plain

        def compute() -> None:
            for name in read:
                place = str(self._files / f"{name}.parquet")
                spark.read.parquet(place).createOrReplaceTempView(name)
            run_to_nowhere(spark.sql(QUERIES[number]))

        return timed(compute)


def _reason(error: Exception) -> str:
    text = error.message if isinstance(error, RekindleError) else repr(error)
    return " ".join(text.split())[:200]


def _verdicts(found: Sequence[Measured], scale: float) -> list[Verdict]:
    ratios = [each.ratio for each in found if each.ratio is not None]
    lost = len(found) - len(ratios)
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios)) if ratios else 0.0
    lowest = min(ratios, default=0.0)
    return [
        Verdict("queries that could not be measured", lost, Bound.AT_MOST, 0, "queries"),
        Verdict(
            f"geometric mean of {len(ratios)} ratios of recomputation to step",
            mean,
            Bound.AT_LEAST,
            mean_limit(scale),
        ),
        Verdict("the lowest of the ratios", lowest, Bound.AT_LEAST, 1),
    ]


def mean_limit(scale: float) -> float:
    """What the geometric mean is held against: data ten times as large, five times the gain."""
    return 25.0 if scale >= LARGE_SCALE else 5.0


def _picture(found: Sequence[Measured], scale: float, share: float) -> str:
    limit = mean_limit(scale)
    return bar_chart(
        f"TPC-H at scale {scale:g}: recomputation / step with {share:.2%} changed",
        "query",
        "times faster (log scale)",
        [Bar(str(each.number), each.ratio) for each in found],
        [(limit, f"{limit:g} ×, wanted of the geometric mean")],
    )


def _table(found: Sequence[Measured]) -> Table:
    table = Table(box=box.ROUNDED, border_style="dim", header_style="bold")
    for name in ("query", "recomputation", "step", "ratio", "changed", "rows read"):
        table.add_column(name, justify="right")
    table.add_column("state", justify="right")
    table.add_column("")
    for each in found:
        step, again, ratio = each.step, each.recomputation, each.ratio
        table.add_row(
            str(each.number),
            "" if again is None else duration(again.median),
            "" if step is None else duration(step.median),
            "" if ratio is None else f"[{'green' if ratio >= 1 else 'red'}]{ratio:.2f} ×[/]",
            "" if each.changed is None else f"{each.changed:,.0f}",
            "" if step is None or step.rows_read is None else f"{step.rows_read:,.0f}",
            "" if each.state_bytes is None else f"{each.state_bytes / 2**20:,.1f} MB",
            each.reason,
        )
    return table


def _line(each: Measured) -> str:
    if each.ratio is None or each.step is None or each.recomputation is None:
        return f"query {each.number}: not measured, {each.reason}"
    return (
        f"query {each.number}: recomputation {duration(each.recomputation.median)}, "
        f"step {duration(each.step.median)}, {each.ratio:.2f} ×"
    )
