"""Evaluation from scratch: does shredding balance what a few heavy bags make uneven?

Every query is evaluated by Spark in three forms that take turns, from Parquet files to Parquet
files. A plain query makes and reads nested rows. A shredded one is the flat queries of the view's
parts, as Rekindle keeps them, each written as it is: nothing is nested. A partially shredded one
puts only heavy bags into tables of their own. Q4 to Q7 read what the same form of Q1 to Q3 wrote.
"""

from __future__ import annotations

import enum
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType

import rekindle
from rekindle.benchmarks.harness import Harness
from rekindle.benchmarks.nested_data import SHAPES
from rekindle.benchmarks.nested_queries import QUERIES, Partial, with_sources
from rekindle.benchmarks.report import Sample, Series
from rekindle.benchmarks.tasks import Tasks, watched
from rekindle.frontends.comprehension.definition import ComprehensionDefinition
from rekindle.names import quoted, sql_text
from rekindle.runtime.database import Database
from rekindle.runtime.epochs.state import ViewEntry

TASKS = 16
SETTINGS = {
    "spark.sql.shuffle.partitions": str(TASKS),
    # So many tasks, however few the bytes: with one task there is nothing to balance.
    "spark.sql.adaptive.coalescePartitions.enabled": "false",
}
HEAVY = 20
"""A bag is heavy when it has more than this part of what a task has if all have the same."""
ROUNDS = 2


class Form(enum.Enum):
    """What a query gives and what it reads."""

    PLAIN = "plain"
    SHREDDED = "shredded"
    PARTIAL = "partially shredded"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """One query on one set of tables, in each form."""

    query: int
    tables: str
    times: Mapping[Form, Series]
    imbalance: Mapping[Form, float | None]

    def ratio(self, form: Form) -> float:
        """The time of a form as a multiple of the plain one's."""
        return self.times[form].median / self.times[Form.PLAIN].median

    def to_json(self) -> dict[str, Any]:
        return {
            "query": self.query,
            "tables": self.tables,
            **{
                form.value: {
                    "seconds": self.times[form].median,
                    "ratio_to_plain": self.ratio(form),
                    "longest_to_median_task": self.imbalance[form],
                    "rows": self.times[form].rows_read,
                }
                for form in Form
            },
        }


def parts_of(db: Database, view: str) -> dict[str, list[str]]:
    """The queries whose rows each part of a comprehension's view has, in the order of reading."""
    entries = db._engine.state.parts(view) or [db._engine.state.entry(view)]
    found: dict[str, list[str]] = {}
    for entry in entries:
        assert isinstance(entry, ViewEntry)
        definition = entry.definition
        assert isinstance(definition, ComprehensionDefinition)
        assert all(count == 1 for count, _ in definition.summands)
        found[entry.name] = list(definition.queries)
    return found


def shredded_queries(harness: Harness, queries: Sequence[int]) -> dict[int, dict[str, list[str]]]:
    """The parts of queries and of what they read, found by creating views over empty tables."""
    db = harness.database("shapes")
    for shape in SHAPES.values():
        db.sql(shape.ddl)
    found = {}
    for number in with_sources(list(queries)):
        query = QUERIES[number]
        db.create_view(query.name, rekindle.comprehension(query.comprehension))
        found[number] = parts_of(db, query.name)
    return found


class Evaluation:
    """One set of tables as files, and what queries over them gave."""

    def __init__(
        self,
        spark: SparkSession,
        place: Path,
        tables: Mapping[str, pa.Table],
        shredded: Mapping[int, Mapping[str, Sequence[str]]],
    ) -> None:
        # A session of its own: the names of its temporary views are nobody else's.
        self.spark = spark.newSession()
        for name, value in SETTINGS.items():
            self.spark.conf.set(name, value)
        self._place = place
        self._shredded = shredded
        self._threshold = max(10, len(tables["lineitem"]) // (TASKS * HEAVY))
        place.mkdir(parents=True)
        for name, rows in tables.items():
            path = place / f"{name}.parquet"
            # Several groups of rows, so that several tasks can read them.
            pq.write_table(rows, path, row_group_size=max(1_000, len(rows) // TASKS + 1))
            self.spark.read.parquet(str(path)).createOrReplaceTempView(name)

    def measure(self, harness: Harness, queries: Sequence[int], tables: str) -> list[Evaluated]:
        """The queries, in their forms by turns; what they read is evaluated before them."""
        found = []
        for number in with_sources(list(queries)):
            if number in queries:
                found.append(self._measured(harness, number, tables))
            else:
                for form in Form:
                    self.evaluate(number, form)
        return found

    def _measured(self, harness: Harness, number: int, tables: str) -> Evaluated:
        tasks: dict[Form, list[Tasks]] = {form: [] for form in Form}

        def action(form: Form) -> Sample:
            sample, seen = watched(self.spark, partial(self.evaluate, number, form))
            tasks[form].append(seen)
            return sample

        named = {f"Q{number}, {tables}, {form.value}": form for form in Form}
        series = harness.interleave(
            {name: partial(action, form) for name, form in named.items()},
            harness.rounds(ROUNDS),
            warm_up=1,
            description=f"Q{number}, {tables}",
        )
        return Evaluated(
            number,
            tables,
            {form: series[name] for name, form in named.items()},
            {form: _middle([t.imbalance for t in tasks[form][1:]]) for form in Form},
        )

    def evaluate(self, number: int, form: Form) -> None:
        """Evaluate a query in a form; what it gives can be read by its name then."""
        match form:
            case Form.PLAIN:
                self._write(QUERIES[number].name, self.spark.sql(QUERIES[number].plain))
            case Form.SHREDDED:
                for part, queries in self._shredded[number].items():
                    frames = [self.spark.sql(query) for query in queries]
                    self._write(shredded_name(part), reduce(DataFrame.unionAll, frames), part)
            case Form.PARTIAL:
                self._partial(QUERIES[number].partial)

    def _partial(self, query: Partial) -> None:
        keys = _HeavyKeys(self.spark, query.heavy, self._threshold)
        staged = []
        for name, text in query.staged.items():
            frame = self.spark.sql(text.format_map(keys)).persist()
            frame.createOrReplaceTempView(name)
            staged.append(frame)
        for name, text in query.outputs.items():
            self._write(name, self.spark.sql(text.format_map(keys)))
        for frame in staged:
            frame.unpersist()

    def result(self, file: str) -> DataFrame:
        """What was written under that name."""
        return self.spark.read.parquet(str(self._place / "results" / file))

    def _write(self, file: str, frame: DataFrame, name: str | None = None) -> None:
        frame.write.mode("overwrite").parquet(str(self._place / "results" / file))
        self.result(file).createOrReplaceTempView(quoted(name or file))


class _HeavyKeys(dict[str, str]):
    """Lists of keys of heavy bags, each found when a text asks for it."""

    def __init__(self, spark: SparkSession, queries: Mapping[str, str], threshold: int) -> None:
        super().__init__()
        self._spark, self._queries, self._threshold = spark, queries, threshold

    def __missing__(self, name: str) -> str:
        text = f"{self._queries[name]} HAVING count(*) > {self._threshold}"
        found = self._spark.sql(text)
        # A list in SQL has at least one element, and NOT IN with a NULL holds for nothing.
        nobody = "''" if isinstance(found.schema[0].dataType, StringType) else "-1"
        keys = [row[0] for row in found.collect()]
        written = [sql_text(key) if isinstance(key, str) else str(key) for key in keys]
        self[name] = ", ".join(written or [nobody])
        return self[name]


def shredded_name(part: str) -> str:
    """The file of a part; apart from that of the plain query where the view is one part."""
    return "shredded-" + part.replace("·", "-").replace(".", "-")


def _middle(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None
