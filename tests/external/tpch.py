"""TPC-H: the 22 queries as views, kept through batches of changes and compared after each.

    python -m tests.external.tpch [--scale 0.01] [--batches 30] [--queries 1,3-6] [--seed 7]

The rows are those of the material where the scale is 0.01, otherwise of the benchmark's generator.
Where the rows are official, the views are first held against the published answers. Then come the
batches: new orders with their lines, orders deleted and altered, customers, suppliers, parts,
prices and stocks changed, one transaction each. After every one, each view is compared with what
Spark computes from the tables, and at the end no node may be recomputed as a whole.
"""

from __future__ import annotations

import argparse
import csv
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from pyspark.sql import SparkSession

import rekindle
from rekindle.benchmarks.tpch_changes import ChangeStream, read_counts, read_pool
from rekindle.benchmarks.tpch_data import write_tables
from rekindle.benchmarks.tpch_queries import QUERIES, chosen_queries
from rekindle.benchmarks.tpch_schema import TABLES, tables_of
from rekindle.errors import RekindleError, UnsupportedError
from rekindle.runtime.database import Database
from tests.external.compare import Difference, Reference, rows_of
from tests.external.material import material
from tests.external.outcomes import Outcome, Results
from tests.external.strategy import recomputed_nodes

Say = Callable[[str], None]

UNEVEN_SHARE = (0.0005, 0.002, 0.01)
"""Batches of three sizes, since small and large ones may run in different places."""


@dataclass(frozen=True, slots=True)
class Rows:
    """Parquet files of the tables, and the folder of the answers that belong to them."""

    directory: Path
    answers: Path | None
    about: str


def rows_at(scale: float, scratch: Path) -> Rows:
    """The material's rows at its scale, generated ones at any other."""
    found = material("tpch")
    answers = None if found is None else found / f"answers_sf{scale:g}"
    if found is not None and scale == 0.01:
        return Rows(found / "data_sf0.01", answers, "the material's rows")
    maker = write_tables(scratch, scale)
    official = maker == "tpchgen-cli" and answers is not None and answers.is_dir()
    return Rows(scratch, answers if official else None, f"rows of {maker}")


def fill(db: Database, directory: Path, tables: Sequence[str]) -> None:
    """Create the tables and load them from the files."""
    for name in tables:
        shape = TABLES[name]
        db.sql(shape.ddl)
        rows = db.spark.read.parquet(str(directory / f"{name}.parquet"))
        with db.transaction() as transaction:
            transaction.insert(name, rows.selectExpr(*shape.casts))


class Replay:
    """One run: a database, the views that it accepted, and what became of them."""

    def __init__(self, db: Database, rows: Rows, results: Results, say: Say = print) -> None:
        self.db = db
        self.rows = rows
        self.results = results
        self.say = say
        self.reference = Reference(db)
        self.kept: list[int] = []

    def create_views(self, queries: Sequence[int]) -> None:
        for number in queries:
            started = time.perf_counter()
            try:
                self.db.sql(f"CREATE MATERIALIZED VIEW q{number} AS {QUERIES[number]}")
            except UnsupportedError as error:
                self._note(number, Outcome.REFUSED, str(error))
            except Exception as error:
                self._note(number, Outcome.FAILED, f"creating it: {_text(error)}")
            else:
                self.kept.append(number)
                self.say(f"query {number}: created in {time.perf_counter() - started:.1f} s")

    def compare_with_answers(self) -> None:
        if self.rows.answers is None:
            return
        for number in self.kept:
            try:
                require_answers(
                    rows_of(self.db.table(f"q{number}")), read_answers(self.rows.answers, number)
                )
            except Difference as error:
                self._note(number, Outcome.FAILED, f"published answers: {error}")

    def compare_with_spark(self, when: str) -> None:
        with self.reference as reference:
            for number in list(self.kept):
                try:
                    reference.compare(f"q{number}", QUERIES[number])
                except Exception as error:
                    self._note(number, Outcome.FAILED, f"{when}: {_text(error)}")
                    self._drop(number)

    def run_batches(self, count: int, seed: int) -> None:
        """Batches of changes; a view is not followed any further once it was wrong."""
        pool, counts = read_pool(self.rows.directory, 0.05), read_counts(self.rows.directory)
        stream = ChangeStream(pool, counts, UNEVEN_SHARE[0], seed)
        for number in range(1, count + 1):
            stream.share = UNEVEN_SHARE[number % len(UNEVEN_SHARE)]
            batch = stream.take().of(self.db.tables)
            started = time.perf_counter()
            try:
                with self.db.transaction() as transaction:
                    batch.apply(transaction)
            except Exception as error:
                for query in self.kept:
                    self._note(query, Outcome.FAILED, f"batch {number}: {_text(error)}")
                return
            stepped = time.perf_counter()
            self.compare_with_spark(f"after batch {number}")
            self.say(
                f"batch {number}: {batch.rows} rows, step {stepped - started:.2f} s, "
                f"comparison {time.perf_counter() - stepped:.1f} s, {len(self.kept)} views"
            )

    def require_incremental(self) -> None:
        for number in self.kept:
            whole = recomputed_nodes(self.db, f"q{number}")
            if whole:
                self._note(number, Outcome.FAILED, f"recomputed as a whole: {'; '.join(whole)}")
            else:
                self.results.add(f"query {number}", Outcome.PASSED)

    def _note(self, number: int, outcome: Outcome, reason: str) -> None:
        self.say(str(self.results.add(f"query {number}", outcome, reason)))

    def _drop(self, number: int) -> None:
        self.kept.remove(number)
        self.db.drop_view(f"q{number}")


def read_answers(directory: Path, number: int) -> list[list[str]]:
    """The published rows of a query; NULL is an empty field, and a line of its own when alone."""
    text = (directory / f"q{number:02}.csv").read_text(encoding="utf-8")
    return [row or [""] for row in csv.reader(text.splitlines()[1:], delimiter="|")]


def require_answers(actual: list[tuple[object, ...]], expected: list[list[str]]) -> None:
    """Raise `Difference` unless the published rows are ours, but for their order and rounding."""
    left = list(actual)
    for row in expected:
        found = next((ours for ours in left if _same(ours, row)), None)
        if found is None:
            raise Difference(f"{row} is not among {len(actual)} rows, such as {actual[:2]}")
        left.remove(found)
    if left:
        raise Difference(f"{len(left)} row(s) too many, such as {left[0]}")


def _same(ours: tuple[object, ...], published: list[str]) -> bool:
    return len(ours) == len(published) and all(map(_same_value, ours, published))


def _same_value(ours: object, published: str) -> bool:
    """Numbers agree to a hundredth or to four digits of a share, as section 2.1.3.5 allows."""
    if ours is None:
        return published == ""
    if isinstance(ours, int | float | Decimal):
        try:
            near = abs(float(ours) - float(published))
        except ValueError:
            return False
        return near <= max(0.01 if abs(float(ours)) >= 1 else 1e-4, 1e-9 * abs(float(ours)))
    return str(ours).rstrip() == published.rstrip()


def _text(error: Exception) -> str:
    return str(error) if isinstance(error, RekindleError | Difference) else repr(error)


def replay(
    spark: SparkSession,
    scratch: Path,
    *,
    scale: float,
    queries: Sequence[int],
    batches: int,
    seed: int = 7,
    say: Say = print,
) -> Results:
    """Everything above, in a new database under `scratch`."""
    results = Results("TPC-H", "The 22 queries as views, under batches of changes.")
    rows = rows_at(scale, scratch / "rows")
    results.notes.append(
        f"Scale {scale:g}, {rows.about}, "
        f"{'held against the published answers, then ' if rows.answers else ''}"
        f"{batches} transactions with a comparison after each."
    )
    with rekindle.connect(str(scratch / "database"), spark, retain=2) as db:
        run = Replay(db, rows, results, say)
        fill(db, rows.directory, sorted({t for q in queries for t in tables_of(QUERIES[q])}))
        run.create_views(queries)
        run.compare_with_answers()
        run.compare_with_spark("after the load")
        run.run_batches(batches, seed)
        run.require_incremental()
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.tpch")
    parser.add_argument("--scale", type=float, default=0.01)
    parser.add_argument("--batches", type=int, default=30)
    parser.add_argument("--queries")
    parser.add_argument("--seed", type=int, default=7)
    asked = parser.parse_args()
    from rekindle.spark.session import local_session

    queries = chosen_queries(asked.queries)
    with tempfile.TemporaryDirectory(prefix="rekindle-tpch-") as scratch:
        results = replay(
            local_session(),
            Path(scratch),
            scale=asked.scale,
            queries=queries,
            batches=asked.batches,
            seed=asked.seed,
        )
    print(results.summary)
    if queries == list(QUERIES):
        print(f"written to {os.path.relpath(results.write())}")
    if results.of(Outcome.FAILED) or results.of(Outcome.REFUSED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
