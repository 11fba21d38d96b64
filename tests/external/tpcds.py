"""TPC-DS: its queries as views, kept through batches of changes and compared after each.

    python -m tests.external.tpcds [--queries 1,3-6] [--batches 4] [--seed 7] [--merge]

The queries are taken in groups that share a database. Rows come and go in every table that a
group reads: facts and dimensions, some of the deleted rows return.

The page is written after a run of all queries, or of some with `--merge`.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

import rekindle
from rekindle.benchmarks.tpch_queries import chosen_numbers
from rekindle.errors import RekindleError, UnsupportedError
from rekindle.runtime.database import Database
from tests.external.compare import Difference, Reference
from tests.external.material import absent, material
from tests.external.outcomes import Outcome, Results
from tests.external.strategy import recomputed_nodes

NUMBERS = range(1, 100)
GROUP = 12
DELETED = (1, 12, 60)
"""How many rows a table loses in a batch: steps of several sizes."""

Say = Callable[[str], None]


def query_text(place: Path, number: int) -> str:
    """The query in Spark's dialect: it writes names between backticks."""
    text = (place / "queries" / f"q{number:02}.sql").read_text(encoding="utf-8")
    return re.sub(r'"([^"]*)"', r"`\1`", text.strip().rstrip(";"))


def empty_answers(place: Path) -> int:
    """How many queries have an answer of no rows."""
    files = (place / "answers_duckdb_sf0.01").glob("q*.csv")
    return sum(len(file.read_text(encoding="utf-8").splitlines()) < 2 for file in files)


class Changes:
    """Random changes of tables given as files; rows that were deleted may return."""

    def __init__(self, directory: Path, tables: Sequence[str], seed: int) -> None:
        self._random = random.Random(seed)
        self._rows = {t: pq.read_table(directory / f"{t}.parquet") for t in tables}
        self._live = {t: list(range(len(rows))) for t, rows in self._rows.items()}
        self._gone: dict[str, list[int]] = {t: [] for t in tables}

    def apply(self, db: Database, size: int) -> int:
        """One transaction; gives the number of rows that it changed."""
        changed = 0
        with db.transaction() as tx:
            for table, live in self._live.items():
                count = min(size, len(live) // 4)
                back = self._gone[table][: count // 2]
                self._random.shuffle(live)
                out, self._live[table] = live[:count], live[count:] + back
                self._gone[table] = self._gone[table][len(back) :] + out
                rows = self._rows[table]
                if out:
                    tx.delete(table, rows.take(pa.array(np.array(out))))
                if back:
                    tx.insert(table, rows.take(pa.array(np.array(back))))
                changed += len(out) + len(back)
        return changed


def replay(
    spark: SparkSession,
    place: Path,
    scratch: Path,
    numbers: Sequence[int],
    batches: int,
    seed: int,
    results: Results,
    say: Say = print,
) -> None:
    """A group of queries in a database of its own."""
    texts = {number: query_text(place, number) for number in numbers}
    tables = sorted(
        file.stem
        for file in (place / "data_sf0.01").glob("*.parquet")
        if any(re.search(rf"\b{file.stem}\b", text) for text in texts.values())
    )
    with rekindle.connect(str(scratch), spark, retain=2) as db:
        for table in tables:
            rows = spark.read.parquet(str(place / "data_sf0.01" / f"{table}.parquet"))
            db.create_table(table, rows.schema)
            with db.transaction() as tx:
                tx.insert(table, rows)
        kept = list(_created(db, texts, results, say))
        reference = Reference(db)
        _compared(db, reference, kept, texts, "after the load", results, say)
        changes = Changes(place / "data_sf0.01", tables, seed)
        for batch in range(1, batches + 1):
            started = time.perf_counter()
            try:
                rows_changed = changes.apply(db, DELETED[batch % len(DELETED)])
            except RekindleError as error:
                for number in kept:
                    say(str(results.add(f"query {number}", Outcome.FAILED, str(error))))
                return
            say(f"batch {batch}: {rows_changed} rows, {time.perf_counter() - started:.1f} s")
            _compared(db, reference, kept, texts, f"after batch {batch}", results, say)
        for number in kept:
            whole = recomputed_nodes(db, f"q{number}")
            note = f"a part is recomputed: {'; '.join(whole)}" if whole else ""
            results.add(f"query {number}", Outcome.PASSED, note)


def _created(db: Database, texts: dict[int, str], results: Results, say: Say) -> Iterable[int]:
    for number, text in texts.items():
        try:
            db.sql(f"CREATE MATERIALIZED VIEW q{number} AS {text}")
            yield number
        except UnsupportedError as error:
            say(str(results.add(f"query {number}", Outcome.REFUSED, str(error))))
        except RekindleError as error:
            say(str(results.add(f"query {number}", Outcome.FAILED, str(error))))


def _compared(
    db: Database,
    reference: Reference,
    kept: list[int],
    texts: dict[int, str],
    when: str,
    results: Results,
    say: Say,
) -> None:
    with reference:
        for number in list(kept):
            try:
                reference.compare(f"q{number}", texts[number])
            except Difference as error:
                say(str(results.add(f"query {number}", Outcome.FAILED, f"{when}: {error}")))
                kept.remove(number)
                db.drop_view(f"q{number}")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.tpcds")
    parser.add_argument("--queries")
    parser.add_argument("--batches", type=int, default=4)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--merge", action="store_true", help="keep the page's other queries")
    asked = parser.parse_args()
    place = material("tpcds")
    if place is None:
        raise SystemExit(absent("tpcds"))
    from rekindle.spark.session import local_session

    numbers = chosen_numbers(asked.queries, NUMBERS)
    results = Results("TPC-DS", "Its queries as views, under batches of changes at scale 0.01.")
    results.notes.append(f"{asked.batches} transactions with a comparison after each.")
    results.notes.append(
        f"{empty_answers(place)} of the {len(NUMBERS)} have no rows before the changes by DuckDB's "
        "answers: at this scale their conditions select nothing."
    )
    for start in range(0, len(numbers), GROUP):
        with tempfile.TemporaryDirectory(prefix="rekindle-tpcds-") as scratch:
            group = numbers[start : start + GROUP]
            print(f"queries {group[0]} to {group[-1]}")
            replay(
                local_session(),
                place,
                Path(scratch) / "database",
                group,
                asked.batches,
                asked.seed,
                results,
            )
    print(results.summary)
    if asked.merge and results.page.exists():
        results.keep_others(results.page.read_text(encoding="utf-8"))
    if asked.merge or len(numbers) == len(NUMBERS):
        print(f"written to {os.path.relpath(results.write())}")
    if results.of(Outcome.FAILED) or results.of(Outcome.REFUSED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
