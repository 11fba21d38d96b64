"""Maintenance: all rows in fifty batches, and then steps that change a thousandth of them.

The tables begin empty. A batch brings rows to one table, the tables taking turns, and takes a few
away that are there. Databases of different policies get the same batches. Spark's recomputation
evaluates the plain query from Parquet files of the tables as they are then, to nowhere; it is done
at some of the batches, evenly spread, whose mean stands for all. Q4 to Q7 read nested views: a step
maintains those too, and a recomputation evaluates their queries too.

Once, while there are few rows, the views are checked: to compare all takes longer than all steps.

Where a policy cannot follow a view, which has no aggregate over a join then, the reason is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import rekindle
from rekindle.benchmarks.harness import Harness, run_to_nowhere, stepped
from rekindle.benchmarks.nested_data import SHAPES, Stream
from rekindle.benchmarks.nested_queries import QUERIES, tables_of, with_sources
from rekindle.benchmarks.report import Sample, Series
from rekindle.benchmarks.tasks import watched
from rekindle.errors import RekindleError
from rekindle.incremental.policies.choice import Policy
from rekindle.runtime.database import Database

BATCHES = 50
RECOMPUTED = 5
"""So many of the batches are recomputed."""
SHARE = 0.001
SMALL_STEPS = 6
SMALL_RECOMPUTED = 2
"""After so many of the small steps all rows are recomputed."""
CHECKED_ROWS = 1_000_000
"""Views are compared with Spark's recomputation before tables have more rows, or at the end."""
POLICIES = {"first order": Policy.FIRST_ORDER, "higher order": Policy.HIGHER_ORDER}
RETAINED = 2


@dataclass(frozen=True, slots=True)
class Maintained:
    """One query: what its batches took, recomputed and by each policy that can follow it."""

    query: int
    batches: int
    recomputation: Series
    again_small: Series
    steps: Mapping[str, Series]
    small: Mapping[str, Series]
    refused: Mapping[str, str]
    changed: float

    @property
    def recomputed(self) -> float:
        """The seconds of a recomputation at each batch."""
        return _total(self.recomputation) / len(self.recomputation.samples) * self.batches

    @property
    def recomputed_rows(self) -> float:
        rows = [sample.rows_read or 0 for sample in self.recomputation.samples]
        return sum(rows) / len(rows) * self.batches

    def gain(self, policy: str) -> float | None:
        """How many times less the steps of all batches take than recomputations."""
        return self.recomputed / _total(self.steps[policy]) if policy in self.steps else None

    def small_gain(self, policy: str) -> float | None:
        """The same for a step that changes a thousandth."""
        found = self.small.get(policy)
        return None if found is None else self.again_small.median / found.median

    def rows(self, policy: str) -> int | None:
        """The rows that the steps of all batches read."""
        return _rows(self.steps[policy]) if policy in self.steps else None

    @property
    def best_gain(self) -> float:
        return max((self.gain(policy) or 0.0 for policy in POLICIES), default=0.0)

    @property
    def best_small_gain(self) -> float:
        return max((self.small_gain(policy) or 0.0 for policy in POLICIES), default=0.0)

    @property
    def series(self) -> list[Series]:
        return [self.recomputation, *self.steps.values(), self.again_small, *self.small.values()]

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "recomputation_seconds": self.recomputed,
            "recomputation_rows": self.recomputed_rows,
            "last_recomputation_seconds": self.again_small.median,
            "rows_of_a_small_step": self.changed,
            **{
                policy: {
                    "seconds": _total(series),
                    "rows": self.rows(policy),
                    "gain": self.gain(policy),
                    "small_step_seconds": self.small[policy].median,
                    "small_step_rows": _rows(self.small[policy]) / len(self.small[policy].samples),
                    "small_step_gain": self.small_gain(policy),
                }
                for policy, series in self.steps.items()
            },
            "refused": dict(self.refused),
        }


def _total(series: Series) -> float:
    return sum(sample.seconds for sample in series.samples)


def _rows(series: Series) -> int:
    """The rows that nodes read."""
    return sum(sample.rows_read or 0 for sample in series.samples)


def maintain(
    harness: Harness, tables: dict[str, pa.Table], number: int, batches: int
) -> Maintained:
    """One query over all batches, and over small steps after them."""
    names = tables_of(number)
    stream = Stream(tables, names, batches)
    databases, refused = _databases(harness, number, names)
    again = _Recomputation(harness, number, stream, names)
    # The middles of equal stretches, so that their mean is that of all batches.
    recomputed = {int((i + 0.5) * batches / RECOMPUTED) for i in range(RECOMPUTED)}
    steps: dict[str, list[Sample]] = {policy: [] for policy in databases}
    scratch: list[Sample] = []
    # What is compiled and loaded once is no part of a batch.
    again.run()
    checked = False
    with harness.phase(f"Q{number}, {batches} batches", batches) as advance:
        for i in range(batches):
            if not checked and i and stream.rows + stream.coming(i) > CHECKED_ROWS:
                _check(databases, number)
                checked = True
            change = stream.batch(i)
            for policy, db in databases.items():
                steps[policy].append(stepped(db, change.apply))
            if i in recomputed:
                again.refresh()
                scratch.append(again.run())
            advance()
    small: dict[str, list[Sample]] = {policy: [] for policy in databases}
    last: list[Sample] = []
    changed: list[int] = []
    rounds = harness.rounds(SMALL_STEPS)
    with harness.phase(f"Q{number}, small steps", rounds + 1) as advance:
        for i in range(rounds + 1):
            step = stream.small(SHARE)
            found = {policy: stepped(db, step.apply) for policy, db in databases.items()}
            if i:
                changed.append(step.rows)
                if len(last) < SMALL_RECOMPUTED:
                    last.append(again.run())
                for policy, sample in found.items():
                    small[policy].append(sample)
            advance()
    if not checked:
        _check(databases, number)
    for db in databases.values():
        db.close()
    return Maintained(
        number,
        batches,
        Series(f"Q{number}, recomputation", scratch),
        Series(f"Q{number}, recomputation at the end", last),
        {policy: Series(f"Q{number}, {policy}", found) for policy, found in steps.items()},
        {policy: Series(f"Q{number}, {policy}, small", found) for policy, found in small.items()},
        refused,
        sum(changed) / len(changed),
    )


def _check(databases: Mapping[str, Database], number: int) -> None:
    for db in databases.values():
        db.check(QUERIES[number].name)


def _databases(
    harness: Harness, number: int, names: Sequence[str]
) -> tuple[dict[str, Database], dict[str, str]]:
    """A database for each policy that can follow the query, and why others cannot.

    The nested view that the query reads has the policy too if that can follow it.
    """
    databases: dict[str, Database] = {}
    refused: dict[str, str] = {}
    with harness.phase(f"Q{number}, databases", len(POLICIES)) as advance:
        for words, policy in POLICIES.items():
            db = harness.database(f"q{number}-{policy.value}", retain=RETAINED)
            for name in names:
                db.sql(SHAPES[name].ddl)
            try:
                for each in with_sources([number]):
                    _create(db, each, policy, required=each == number)
                databases[words] = db
            except RekindleError as error:
                refused[words] = " ".join(f"{error.message}: {error.detail}".split())
                db.close()
            advance()
    return databases, refused


def _create(db: Database, number: int, policy: Policy, *, required: bool) -> None:
    query = QUERIES[number]
    text = rekindle.comprehension(query.comprehension)
    try:
        db.create_view(query.name, text, policy=policy.value)
    except RekindleError:
        if required:
            raise
        db.create_view(query.name, text)


class _Recomputation:
    """Spark's evaluation of a plain query from files of the tables."""

    def __init__(self, harness: Harness, number: int, stream: Stream, names: Sequence[str]) -> None:
        self._spark = harness.spark.newSession()
        self._number, self._stream, self._names = number, stream, names
        self._place: Path = harness.directory / f"recomputed-{number}"
        self._place.mkdir()
        self.refresh()

    def refresh(self) -> None:
        """Write the tables as they are now."""
        for name in self._names:
            pq.write_table(self._stream.current(name), self._place / f"{name}.parquet")

    def run(self) -> Sample:
        """Evaluate the query and those that it reads, to nowhere."""
        return watched(self._spark, self._evaluate)[0]

    def _evaluate(self) -> None:
        for name in self._names:
            path = str(self._place / f"{name}.parquet")
            self._spark.read.parquet(path).createOrReplaceTempView(name)
        for each in with_sources([self._number]):
            frame = self._spark.sql(QUERIES[each].plain)
            frame.createOrReplaceTempView(QUERIES[each].name)
        run_to_nowhere(frame)
