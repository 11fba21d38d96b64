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
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

import rekindle
from rekindle.errors import StatementError
from rekindle.runtime.database import Database
from tests.external.batches import condition, text
from tests.external.compare import Difference, rows_of
from tests.external.grouped import write_grouped
from tests.external.material import absent, material
from tests.external.openivm_dialect import Dialect, Record, read_records, require_recorded
from tests.external.openivm_views import Tally, Views
from tests.external.outcomes import Outcome, Results

_CREATE = re.compile(
    r"CREATE\s+(OR\s+REPLACE\s+)?MATERIALIZED\s+VIEW\s+(?:IF\s+NOT\s+EXISTS\s+)?(`[^`]+`|\w+)\s+"
    r"(?:REFRESH\s+\w+\s+'[^']*'\s+)?AS\s*(.*)",
    re.IGNORECASE | re.DOTALL,
)
_CHANGE = re.compile(
    r"(?:INSERT\s+INTO|DELETE\s+FROM|UPDATE|ALTER\s+TABLE|CREATE\s+TABLE)\s+(`[^`]+`|\w+)",
    re.IGNORECASE,
)
_DROP = re.compile(r"DROP\s+(?:TABLE|VIEW)\s+(?:IF\s+EXISTS\s+)?(`[^`]+`|\w+)", re.IGNORECASE)
_ONE_ROW = re.compile(
    r"DELETE\s+FROM\s+(\w+)\s+WHERE\s+rowid\s*(?:=|IN)\s*\(\s*SELECT\s+(?:min\(rowid\)|rowid)\s+"
    r"FROM\s+\1\s+WHERE\s+(.*?)(?:\s+LIMIT\s+1)?\s*\)$",
    re.IGNORECASE | re.DOTALL,
)
_ITS_OWN = re.compile(
    r"\bopenivm_|\bduckdb_|\bducklake_|\bpragma_|information_schema|read_text|__TEST_DIR__"
    r"|SET\s+(?:SORTED|PARTITIONED)",
    re.IGNORECASE,
)


@dataclass(slots=True)
class Replay:
    """One file in one database."""

    name: str
    views: Views
    dialect: Dialect = field(default_factory=Dialect)

    @property
    def db(self) -> Database:
        return self.views.db

    @property
    def tally(self) -> Tally:
        return self.views.tally

    def step(self, record: Record) -> None:
        self.dialect.learn(record.sql)
        sql = self.dialect.spark(record.sql)
        where = f"{self.name}:{record.line}"
        if created := _CREATE.match(sql):
            if not record.fails:
                self.views.create(where, created[2].strip("`"), created[3], bool(created[1]))
        elif record.fails:
            return
        elif re.match(r"PRAGMA\s+refresh(_options)?\b", sql, re.IGNORECASE):
            self._refresh(where, sql)
        elif record.rows is not None:
            if re.match(r"SELECT|WITH", sql, re.IGNORECASE) and self.views.named(sql):
                self.views.compare(where)
                self._look(where, record, sql)
        elif _ITS_OWN.search(sql):
            return
        elif changed := _CHANGE.match(sql):
            self._change(where, changed[1].strip("`"), sql)
        elif dropped := _DROP.match(sql):
            self.views.compare(where)
            self.views.drop(dropped[1].strip("`"))

    def finish(self) -> None:
        """Compare every view once more, and count what is recomputed as a whole."""
        self.views.compare_all("at the end")
        for name in self.views.now:
            self.views.count_recomputed(name)

    def _refresh(self, where: str, sql: str) -> None:
        """A refresh reaches the views before and after it, by the settings of most files."""
        self.views.compare(where)
        for name in self.views.named(sql):
            tables = self.views.now[name].tables
            for view in self.views.now.values():
                view.refreshed |= bool(view.tables & tables)

    def _look(self, where: str, record: Record, sql: str) -> None:
        """The views equal Spark's results: what was recorded may differ by the dialect alone."""
        views = [self.views.now[name] for name in self.views.named(sql)]
        fresh = all(view.refreshed for view in views)
        if not fresh or _ITS_OWN.search(sql) or re.search(r"\bEXCEPT\b", sql, re.IGNORECASE):
            return
        try:
            require_recorded(rows_of(self.db.sql(sql)), record)
        except (AnalysisException, ParseException, StatementError):
            return
        except Difference as error:
            self.tally.disagreeing[where] = str(error)
        except Exception as error:
            for view in views:
                self.tally.note(view.case, Outcome.FAILED, f"{where}: {text(error)}")
        self.tally.recorded += 1

    def _change(self, where: str, table: str, sql: str) -> None:
        reading = self.views.reading(table)
        try:
            self._apply(where, table, sql)
        except (AnalysisException, ParseException, StatementError) as error:
            self._say(where, sql, error)
        except Exception as error:
            self._say(where, sql, error)
            for view in reading.values():
                self.tally.note(view.case, Outcome.FAILED, f"{where}: {text(error)}")
        for view in reading.values():
            view.refreshed = False
        self.views.changed.add(table)

    def _apply(self, where: str, table: str, sql: str) -> None:
        """Columns are added in place; to be without one, or rename it, a table is made anew."""
        if one := _ONE_ROW.match(sql):
            chosen = self.db.sql(f"SELECT * FROM {table} WHERE {one[2]} LIMIT 1")
            with self.db.transaction() as transaction:
                transaction.delete(table, rows_of(chosen))
        elif gone := re.search(r"\sDROP\s+COLUMN\s+(\w+)$", sql, re.IGNORECASE):
            self.views.compare(where)
            self.views.without_column(table, gone[1])
        elif new := re.search(r"\sRENAME\s+COLUMN\s+(\w+)\s+TO\s+(\w+)$", sql, re.IGNORECASE):
            self.views.compare(where)
            self.views.with_renamed(table, new[1], new[2])
        else:
            self.db.sql(sql)

    def _say(self, where: str, sql: str, error: Exception) -> None:
        self.tally.say(f"{where}: {' '.join(sql.split())[:100]}: {condition(error)}")


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
        run = Replay(place.stem, Views(db, tally))
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
