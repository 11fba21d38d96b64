"""OpenIVM's tests: views under DML, compared with Spark wherever a test refreshes or looks.

    python -m tests.external.openivm [--files union,window] [--limit N] [--seed 7] [--minutes M]

A file is replayed statement by statement, each an epoch here. OpenIVM's views are as of their last
refresh and ours always current: every refresh, and every look at a view, compares the views whose
tables changed since, and the end of a file compares them all. What a query of a refreshed view
printed there must come out here too, unless Spark's own result is another.
"""

from __future__ import annotations

import argparse
import random
import re
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import StatementError, UnsupportedError
from rekindle.runtime.database import Database
from tests.external.batches import Case, condition, generalised, raises, text
from tests.external.compare import Difference, Reference, rows_of
from tests.external.grouped import write_grouped
from tests.external.material import absent, material
from tests.external.openivm_dialect import Dialect, Record, read_records, require_recorded
from tests.external.outcomes import Outcome, Results
from tests.external.strategy import recomputed_nodes
from tests.external.unordered import left_open

_CREATE = re.compile(
    r"CREATE\s+(OR\s+REPLACE\s+)?MATERIALIZED\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?(`[^`]+`|\w+)\s+"
    r"(?:REFRESH\s+\w+\s+'[^']*'\s+)?AS\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_CHANGE = re.compile(
    r"(?:INSERT\s+INTO|DELETE\s+FROM|UPDATE|ALTER\s+TABLE)\s+(`[^`]+`|\w+)", re.IGNORECASE
)
_DROP = re.compile(r"DROP\s+(TABLE|VIEW)\s+(?:IF\s+EXISTS\s+)?(`[^`]+`|\w+)", re.IGNORECASE)
_ALTER = re.compile(
    r"ALTER\s+TABLE\s+(`[^`]+`|\w+)\s+(?:DROP\s+COLUMN\s+(\S+)|RENAME\s+COLUMN\s+(\S+)\s+TO\s+(\S+))",
    re.IGNORECASE,
)
_ITS_OWN = re.compile(
    r"\bopenivm_|\bduckdb_|\bducklake_|\bpragma_|information_schema|read_text|__TEST_DIR__"
    r"|SET\s+(?:SORTED|PARTITIONED)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class View:
    """A view that is there: its case, what Spark is asked for, and the tables behind it."""

    case: Case
    tables: frozenset[str]
    parents: frozenset[str]
    refreshed: bool = True


@dataclass(slots=True)
class Tally:
    """What came of the files so far."""

    results: Results
    say: Callable[[str], None] = print
    queries: dict[str, str] = field(default_factory=dict)
    recomputed: Counter[str] = field(default_factory=Counter)
    disagreeing: dict[str, str] = field(default_factory=dict)
    comparisons: int = 0
    recorded: int = 0


@dataclass(slots=True)
class Replay:
    """One file in one database; the views that it has now, by name, parents first."""

    name: str
    db: Database
    tally: Tally
    dialect: Dialect = field(default_factory=Dialect)
    views: dict[str, View] = field(default_factory=dict)
    missing: dict[str, Outcome] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def step(self, record: Record) -> None:
        self.dialect.learn(record.sql)
        sql = self.dialect.spark(record.sql)
        first = sql.upper().split()[0]
        if created := _CREATE.match(sql):
            if not record.fails:
                self._create(record, created[2].strip("`"), created[3], bool(created[1]))
        elif record.fails:
            return
        elif first == "PRAGMA":
            if re.match(r"PRAGMA\s+refresh(_options)?\b", sql, re.IGNORECASE):
                self._refresh(record)
        elif record.rows is not None:
            if self._named(sql, self.views):
                self._compare(record.line)
                self._look(record, sql)
        elif _ITS_OWN.search(sql):
            return
        elif first in ("INSERT", "DELETE", "UPDATE") or re.match(r"CREATE\s+TABLE", sql, re.I):
            self._change(record, sql)
        elif dropped := _DROP.match(sql):
            self._drop(record, dropped[2].strip("`"))
        elif re.match(r"ALTER\s+TABLE", sql, re.IGNORECASE):
            self._alter(record, sql)

    def finish(self) -> None:
        """Compare every view once more, and count what is recomputed as a whole."""
        self.changed.update(*(view.tables for view in self.views.values()))
        self._compare(0)
        for name in self.views:
            self._count_recomputed(name)

    def _named(self, sql: str, names: Iterable[str]) -> list[str]:
        return [name for name in names if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)]

    def _create(self, record: Record, name: str, query: str, replace: bool) -> None:
        case = Case(f"{self.name}:{record.line} {name}", query)
        self.tally.queries[case.name] = query
        if name in self.views:
            self._compare(record.line)
        if name in self.views and not replace:
            self._note(case, Outcome.NOT_APPLICABLE, "a view of that name is there")
            return
        parents = self._named(query, self.views)
        tables = set(self._named(query, self.db.tables))
        tables.update(*(self.views[parent].tables for parent in parents))
        try:
            with Reference(self.db, tables) as reference:
                self._define_parents(reference, parents)
                case = _with_names(case, reference.frame(query).columns)
        except (PySparkException, Py4JError) as error:
            self._note(case, Outcome.NOT_APPLICABLE, self._why_not(query, error))
            self.missing[name] = Outcome.NOT_APPLICABLE
            return
        self.tally.queries[case.name] = case.query
        verb = "CREATE OR REPLACE" if replace else "CREATE"
        try:
            self.db.sql(f"{verb} MATERIALIZED VIEW {name} AS {case.query}")
        except UnsupportedError as error:
            self._note(case, Outcome.REFUSED, str(error))
            self.missing[name] = Outcome.REFUSED
        except Exception as error:
            self._note(case, Outcome.FAILED, f"creating it: {text(error)}")
            self.missing[name] = Outcome.FAILED
        else:
            self.views[name] = View(case, frozenset(tables), frozenset(parents))
            self._note(case, Outcome.PASSED)
            self.changed.update(tables)

    def _why_not(self, query: str, error: Exception) -> str:
        if found := self._named(query, self.missing):
            return f"reads '{found[0]}', a view that was {self.missing[found[0]].value}"
        return f"Spark: {condition(error)}"

    def _define_parents(self, reference: Reference, wanted: Iterable[str]) -> None:
        needed = set(wanted)
        for name in reversed(self.views):
            if name in needed:
                needed |= self.views[name].parents
        for name, view in self.views.items():
            if name in needed:
                reference.define(name, view.case.query)

    def _refresh(self, record: Record) -> None:
        """A refresh reaches the views before and after it, by the settings of most files."""
        self._compare(record.line)
        for name in self._named(record.sql, self.views):
            tables = self.views[name].tables
            for view in self.views.values():
                view.refreshed |= bool(view.tables & tables)

    def _compare(self, line: int) -> None:
        """The views whose tables changed since they were compared, with Spark."""
        reached = {n: v for n, v in self.views.items() if v.tables & self.changed or not v.tables}
        if not self.changed or not reached:
            return
        with Reference(self.db, set().union(*(v.tables for v in reached.values()))) as reference:
            self._define_parents(reference, set().union(*(v.parents for v in reached.values())))
            for name, view in reached.items():
                self._compare_one(reference, name, view, f"line {line}" if line else "at the end")
        self.changed.clear()

    def _compare_one(self, reference: Reference, name: str, view: View, when: str) -> None:
        case = view.case
        self.tally.comparisons += 1
        try:
            reference.compare(name, case.query)
        except Difference as error:
            ours, theirs = rows_of(self.db.table(name)), rows_of(reference.frame(case.query))
            if left_open(case.query, ours, theirs):
                self._note(case, Outcome.NOT_APPLICABLE, "the query leaves it open")
            else:
                self._note(case, Outcome.FAILED, f"{when}: {error}")
        except Exception as error:
            if raises(reference, case):
                self._note(case, Outcome.NOT_APPLICABLE, f"Spark raises: {condition(error)}")
            else:
                self._note(case, Outcome.FAILED, f"{when}: {text(error)}")

    def _look(self, record: Record, sql: str) -> None:
        """The views equal Spark's results: what was recorded may differ by the dialect alone."""
        views = [self.views[name] for name in self._named(sql, self.views)]
        fresh = all(view.refreshed for view in views)
        if not fresh or _ITS_OWN.search(sql) or re.search(r"\bEXCEPT\b", sql, re.IGNORECASE):
            return
        try:
            rows = rows_of(self.db.sql(sql))
            require_recorded(rows, record)
        except (AnalysisException, ParseException):
            return
        except Difference as error:
            self.tally.disagreeing[f"{self.name}:{record.line}"] = str(error)
        except Exception as error:
            for view in views:
                self._note(view.case, Outcome.FAILED, f"line {record.line}: {text(error)}")
        self.tally.recorded += 1

    def _change(self, record: Record, sql: str) -> None:
        try:
            self.db.sql(sql)
        except (AnalysisException, ParseException, StatementError) as error:
            self._say(record, sql, error)
        except Exception as error:
            self._say(record, sql, error)
            for view in self._reading(sql):
                self._note(view.case, Outcome.FAILED, f"line {record.line}: {text(error)}")
        for view in self._reading(sql):
            view.refreshed = False
        if target := _CHANGE.match(sql):
            self.changed.add(target[1].strip("`"))

    def _reading(self, sql: str) -> list[View]:
        target = _CHANGE.match(sql)
        table = target[1].strip("`") if target else ""
        return [view for view in self.views.values() if table in view.tables]

    def _drop(self, record: Record, name: str) -> None:
        """Drop a view or a table, and before it the views that read it."""
        self._compare(record.line)
        gone = [n for n, v in self.views.items() if name == n or name in v.tables | v.parents]
        for view in reversed(gone):
            self._count_recomputed(view)
            self.db.drop_view(view)
            del self.views[view]
        if name in self.db.tables:
            self.db.drop_table(name)

    def _alter(self, record: Record, sql: str) -> None:
        """Columns are added in place; without one, or with another name, a table is made anew.

        The views that read it are made anew too, and go on reading the column by its old name.
        """
        self._compare(record.line)
        found = _ALTER.match(sql)
        if found is None:
            try:
                self.db.sql(sql)
            except Exception as error:
                self._say(record, sql, error)
            return
        table, gone, before, after = (part and part.strip("`") for part in found.groups())
        rows = self.db.table(table).toArrow()
        kept = [column for column in rows.column_names if column != gone]
        rows = rows.select(kept).rename_columns([after if c == before else c for c in kept])
        reading = {n: v for n, v in self.views.items() if table in v.tables}
        for name in reversed(reading):
            self.db.drop_view(name)
        self.db.drop_table(table)
        self.db.create_table(table, self.db.spark.createDataFrame(rows).schema)
        with self.db.transaction() as transaction:
            transaction.insert(table, rows)
        for name, view in reading.items():
            query = view.case.query
            if before and table in self._named(query, [table]):
                columns = ", ".join(f"{after} AS {before}" if c == before else c for c in kept)
                query = f"WITH {table} AS (SELECT {columns} FROM {table}) SELECT * FROM ({query})"
            view.case = Case(view.case.name, query)
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")

    def _count_recomputed(self, view: str) -> None:
        for node in recomputed_nodes(self.db, view):
            self.tally.recomputed[generalised(node)] += 1

    def _say(self, record: Record, sql: str, error: Exception) -> None:
        shown = " ".join(sql.split())[:100]
        self.tally.say(f"{self.name}:{record.line}: {shown}: {condition(error)}")

    def _note(self, case: Case, outcome: Outcome, reason: str = "") -> None:
        result = self.tally.results.add(case.name, outcome, reason)
        if outcome in (Outcome.FAILED, Outcome.REFUSED):
            self.tally.say(str(result))


def _with_names(case: Case, columns: list[str]) -> Case:
    """The same with a name of its own for each column; a view cannot have two of one name."""
    names: list[str] = []
    for column in columns:
        taken = [name.lower() for name in names]
        names.append(column if column.lower() not in taken else f"{column}_{len(names)}")
    if names == columns:
        return case
    named = ", ".join(f"`{name}`" for name in names)
    return Case(case.name, f"SELECT * FROM ({case.query}) AS named({named})")


def replay_file(
    spark: SparkSession,
    scratch: Path,
    place: Path,
    tally: Tally,
    *,
    limit: int | None = None,
    until: float | None = None,
) -> None:
    """One file, or its first records, in a new database."""
    with rekindle.connect(str(scratch / place.stem), spark, retain=2) as db:
        run = Replay(place.stem, db, tally)
        for record in islice(read_records(place.read_text(encoding="utf-8")), limit):
            if until is not None and time.monotonic() > until:
                tally.results.notes.append(f"{run.name}: up to line {record.line}.")
                break
            run.step(record)
        run.finish()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.external.openivm")
    parser.add_argument("--files", help="names without their ending; all unless given")
    parser.add_argument("--limit", type=int, help="records of each file")
    parser.add_argument("--seed", type=int, help="the order of the files, for a run in bounds")
    parser.add_argument("--minutes", type=float, help="begin nothing new after so many")
    asked = parser.parse_args()
    until = None if asked.minutes is None else time.monotonic() + 60 * asked.minutes
    place = material("openivm")
    if place is None:
        raise SystemExit(absent("openivm"))
    from rekindle.spark.session import local_session

    files = sorted((place / "test" / "sql").glob("*.test"))
    wanted = asked.files.split(",") if asked.files else [file.stem for file in files]
    files = [file for file in files if file.stem in wanted]
    if asked.seed is not None:
        random.Random(asked.seed).shuffle(files)
    results = Results("openivm", "Views of OpenIVM's tests under their DML.")
    tally = Tally(results)
    session = local_session(**{"spark.ui.enabled": "false"})
    for file in files:
        if until is not None and time.monotonic() > until:
            results.notes.append(f"{file.stem}: not begun.")
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="rekindle-openivm-") as scratch:
            replay_file(session, Path(scratch), file, tally, limit=asked.limit, until=until)
        print(f"{file.stem}, {time.monotonic() - began:.0f} s: {results.summary}", flush=True)
    for where, how in tally.disagreeing.items():
        print(f"not what was recorded: {where}: {how}")
    results.notes.append(
        f"{tally.comparisons} comparisons with Spark, and {tally.recorded} with recorded rows, "
        f"from which Spark itself differs {len(tally.disagreeing)} times."
    )
    print(results.summary)
    if asked.files is None and asked.limit is None:
        print(write_grouped(results, tally.queries, tally.recomputed))
    if results.of(Outcome.FAILED):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
