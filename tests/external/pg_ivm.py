"""pg_ivm's regression scripts: views under DML, held against what psql printed.

    python -m tests.external.pg_ivm [--files outer_join,pg_ivm] [--limit N] [--seed 7] [--minutes M]

A transcript is replayed statement by statement. A transaction there is many epochs here; to roll
back is to push the opposite change. What psql printed for `SELECT * FROM` a view must be the view's
rows; every other look at a view compares it with Spark. Views that pg_ivm refuses are tried too,
through deletes and inserts of their own.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import UndeterminedError, UnsupportedError
from rekindle.runtime.database import Database
from tests.external.batches import Batches, Case, Contents, condition, stages_of, text
from tests.external.compare import FEW_TASKS, TINY, Difference, Reference, Row, rows_of
from tests.external.grouped import write_grouped
from tests.external.material import absent, material
from tests.external.outcomes import Outcome, Results
from tests.external.transcript import Step, read_steps, require_printed

FILES = ("create_immv", "refresh_immv", "pg_ivm", "outer_join")
_CREATE = re.compile(
    r"SELECT\s+(?:pgivm\.)?create_immv\(\s*'\s*([\w.]+)\s*(?:\(([^)]*)\))?\s*'\s*,\s*'(.*)'\s*\)",
    re.IGNORECASE | re.DOTALL,
)
_INNER = re.compile(r"AS\s*\(((?:INSERT|UPDATE|DELETE).*?)\s+RETURNING[^)]*\)", re.DOTALL)


@dataclass(slots=True)
class Mark:
    """What a rollback returns to."""

    contents: Contents
    views: frozenset[str]
    diverged: bool


@dataclass(slots=True)
class Replay:
    """One transcript in one database; the views that it has now, by name."""

    name: str
    batches: Batches
    views: dict[str, Case] = field(default_factory=dict)
    marks: dict[str, Mark] = field(default_factory=dict)
    columns: dict[str, list[str]] = field(default_factory=dict)
    refused_there: list[Case] = field(default_factory=list)
    diverged: bool = False
    looked: bool = True
    seed: int = 7

    @property
    def db(self) -> Database:
        return self.batches.db

    def step(self, step: Step) -> None:
        sql = step.sql.rstrip(";").strip()
        created = _CREATE.search(sql)
        first = sql.upper().split()[0]
        looks = re.match(r"SELECT\s+\*\s+FROM\s+(\w+)", sql, re.IGNORECASE)
        if created is not None:
            self._create(step, created[1], created[2], created[3].replace("''", "'"))
        elif step.error:
            return
        elif first in ("BEGIN", "SAVEPOINT"):
            key = "" if first == "BEGIN" else sql.split()[1]
            if key or key not in self.marks:  # a transaction goes on where another begins
                self.marks[key] = Mark(self._contents(), frozenset(self.views), self.diverged)
        elif first == "ROLLBACK":
            self._back(sql.split()[-1] if " TO " in sql.upper() else "")
        elif looks is not None and looks[1] in self.views:
            self._look(looks[1], step)
        elif first == "SELECT" and (self._names_a_view(sql) or "is_match" in sql):
            self._compare(step)
        else:
            self._change(sql)

    def _names_a_view(self, sql: str) -> bool:
        return any(re.search(rf"\b{view}\b", sql) for view in self.views)

    def _create(self, step: Step, view: str, names: str | None, query: str) -> None:
        case = Case(f"{self.name}:{step.line} {view}", _translated(query))
        self.batches.queries[case.name] = case.query
        if not re.match(r"\s*(SELECT|WITH)\b(?!.*\bRETURNING\b)", query, re.I | re.S):
            self._note(case, Outcome.NOT_APPLICABLE, "not a query")
            return
        try:
            with Reference(self.db, TINY) as reference:
                columns = reference.frame(case.query).columns
        except (PySparkException, Py4JError) as error:
            self._note(case, Outcome.NOT_APPLICABLE, f"Spark: {condition(error)}")
            return
        given = [name.strip() for name in (names or "").split(",") if name.strip()]
        if step.error:
            self.refused_there.append(case)
            return
        lower = [column.lower() for column in columns]
        if given or len(set(lower)) < len(lower):
            given += [f"c{i}" for i in range(len(given), len(columns))]
            named = f"SELECT * FROM ({case.query}) AS named({', '.join(given)})"
            case = Case(case.name, named)
            self.batches.queries[case.name] = named
        try:
            if view in self.views:
                self._drop(view)
            self.db.create_view(view, case.query)
        except UndeterminedError as error:
            self._note(case, Outcome.UNDETERMINED, str(error))
        except UnsupportedError as error:
            self._note(case, Outcome.REFUSED, str(error))
        except Exception as error:
            self._note(case, Outcome.FAILED, f"creating it: {text(error)}")
        else:
            self.views[view] = case
            self._note(case, Outcome.PASSED)
            self.looked = False

    def _look(self, view: str, step: Step) -> None:
        if self.diverged or not step.header:
            self._compare(step)
            return
        try:
            require_printed(rows_of(self.db.table(view)), step)
        except Difference as error:
            self._note(self.views[view], Outcome.FAILED, str(error))
        self.looked = True

    def _compare(self, step: Step) -> None:
        """Every view with Spark, unless they were looked at since the last change."""
        if self.looked:
            return
        with Reference(self.db, TINY) as reference:
            for view, case in self.views.items():
                try:
                    reference.compare(view, case.query)
                except (Difference, PySparkException) as error:
                    self._note(case, Outcome.FAILED, f"line {step.line}: {text(error)}")
        self.looked = True

    def _change(self, sql: str) -> None:
        statements = [sql]
        if sql.upper().startswith("WITH"):
            # PostgreSQL runs them all on the rows before any: its result is not ours to match.
            statements = sorted(_INNER.findall(sql), key=lambda part: part.startswith("INSERT"))
            self.diverged = True
        for statement in statements:
            spark = self._statement(_translated(statement))
            if spark is None:
                continue
            self.batches.forget(*self.db.tables)
            try:
                self.db.sql(spark)
            except Exception as error:
                self.diverged = True
                self.batches.say(f"{self.name}: {spark.splitlines()[0]}: {condition(error)}")
            self.looked = False

    def _statement(self, sql: str) -> str | None:
        """For Rekindle; None where there is nothing to do, such as for functions and grants."""
        if table := re.match(r"TRUNCATE\s+(?:TABLE\s+)?(\w+)$", sql, re.IGNORECASE):
            return f"DELETE FROM {table[1]}"
        if dropped := re.match(r"DROP\s+TABLE\s+(\w+)", sql, re.IGNORECASE):
            if dropped[1] in self.views:
                self._drop(dropped[1])
                return None
            if any(re.search(rf"\b{dropped[1]}\b", case.query) for case in self.refused_there):
                self.try_refused()
            return sql
        if gone := re.match(r"ALTER\s+TABLE\s+(\w+)\s+DROP\s+COLUMN\s+(\w+)", sql, re.IGNORECASE):
            kept = [c for c in self.columns[gone[1]] if c.split()[0] != gone[2]]
            self.columns[gone[1]] = kept
            self.db.drop_table(gone[1])
            return f"CREATE TABLE {gone[1]} ({', '.join(kept)})"
        if new := re.match(r"CREATE\s+TABLE\s+(\w+)\s*\((.*)\)$", sql, re.IGNORECASE | re.DOTALL):
            parts = [part.strip() for part in new[2].split(",")]
            self.columns[new[1]] = parts
            keys = [p.split()[0] for p in parts if "PRIMARY KEY" in p.upper()]
            plain = [re.sub(r"\s+PRIMARY KEY", "", p, flags=re.IGNORECASE) for p in parts]
            plain += [f"PRIMARY KEY ({', '.join(keys)})"] if keys else []
            return f"CREATE TABLE {new[1]} ({', '.join(plain)})"
        return sql if re.match(r"(INSERT|DELETE|UPDATE)\b", sql, re.IGNORECASE) else None

    def try_refused(self) -> None:
        """Views that pg_ivm refuses, through deletes and inserts; an empty table gets rows."""
        cases, self.refused_there = self.refused_there, []
        if not cases:
            return
        before, chance = self._contents(), random.Random(self.seed)
        rows = {name: rows or self._made_up(name, chance) for name, rows in before.items()}
        self.batches.run(cases, stages_of(rows, chance))
        self.batches.move(before)

    def _made_up(self, table: str, chance: random.Random) -> list[Row]:
        """Rows that often meet, for a table of integers without a key; no others stay empty."""
        columns = self.db.sql(f"DESCRIBE {table}").collect()
        if any(column["type"] != "int" or column["key"] for column in columns):
            return []
        return [tuple(chance.choice((None, 1, 2, 3)) for _ in columns) for _ in range(8)]

    def _contents(self) -> Contents:
        for name in self.db.tables:
            if name not in self.batches.contents:
                self.batches.contents[name] = rows_of(self.db.table(name))
        return {name: self.batches.contents[name] for name in self.db.tables}

    def _back(self, key: str) -> None:
        mark = self.marks.get(key)
        if mark is None:
            return
        if not key:
            self.marks.clear()
        for view in [v for v in self.views if v not in mark.views]:
            self._drop(view)
        for table in [t for t in self.db.tables if t not in mark.contents]:
            self.db.drop_table(table)
            self.batches.forget(table)
        self.batches.move({n: r for n, r in mark.contents.items() if n in self.db.tables})
        self.diverged, self.looked = mark.diverged, False

    def _drop(self, view: str) -> None:
        del self.views[view]
        self.db.drop_view(view)

    def _note(self, case: Case, outcome: Outcome, reason: str = "") -> None:
        result = self.batches.results.add(case.name, outcome, reason)
        if outcome in (Outcome.FAILED, Outcome.REFUSED):
            self.batches.say(str(result))


def _translated(sql: str) -> str:
    """The few spellings that differ; everything else is Spark's to judge."""
    spark = re.sub(r"\bpublic\.", "", sql).replace('"', "`")
    spark = re.sub(r"\btext\b", "string", spark)
    spark = re.sub(r"\bSELECT\s+generate_series\(", "SELECT * FROM range(", spark)
    return re.sub(r"range\(1, (\d+)\)", lambda m: f"range(1, {int(m[1]) + 1})", spark)


def replay_file(
    spark: SparkSession,
    scratch: Path,
    place: Path,
    batches_of: Callable[[Database], Batches],
    *,
    limit: int | None = None,
    seed: int = 7,
    until: float | None = None,
) -> None:
    """One transcript, or its first statements, in a new database."""
    with rekindle.connect(str(scratch / place.stem), spark, retain=2) as db:
        run = Replay(place.stem, batches_of(db), seed=seed)
        for step in islice(read_steps(place.read_text(encoding="utf-8")), limit):
            if until is not None and time.monotonic() > until:
                run.batches.results.notes.append(f"{run.name}: up to line {step.line}.")
                break
            run.step(step)
        for view in list(run.views):
            run._drop(view)
        run.try_refused()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.pg_ivm")
    parser.add_argument("--files", default=",".join(FILES))
    parser.add_argument("--limit", type=int, help="statements of each file")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--minutes", type=float, help="begin nothing new after so many")
    asked = parser.parse_args()
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    place = material("pg_ivm")
    if place is None:
        raise SystemExit(absent("pg_ivm"))
    from rekindle.spark.session import local_session

    results = Results("pg_ivm", "Views of pg_ivm's regression scripts under their DML.")
    all_batches: list[Batches] = []

    def batches_of(db: Database) -> Batches:
        all_batches.append(Batches(db, results))
        return all_batches[-1]

    session = local_session(**FEW_TASKS, **{"spark.ui.enabled": "false"})
    for name in asked.files.split(","):
        with tempfile.TemporaryDirectory(prefix="rekindle-pg-") as scratch:
            transcript = place / "expected" / f"{name}.out"
            bounds = {"limit": asked.limit, "seed": asked.seed, "until": until}
            replay_file(session, Path(scratch), transcript, batches_of, **bounds)
        print(f"{name}: {results.summary}", flush=True)
    queries = {name: query for each in all_batches for name, query in each.queries.items()}
    whole = sum((each.recomputed for each in all_batches), start=type(all_batches[0].recomputed)())
    print(results.summary)
    if asked.files == ",".join(FILES) and asked.limit is None:
        print(write_grouped(results, queries, whole))
    if results.of(Outcome.FAILED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
