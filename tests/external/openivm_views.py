"""The views of a replayed file: created, compared with Spark, dropped, and made anew.

OpenIVM's files keep many small tables and views side by side, some of them reading others. Only the
views whose tables changed are compared, with only those tables; a view that reads views is compared
with what Spark makes of their queries, not with their rows.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from rekindle.errors import UndeterminedError, UnsupportedError
from rekindle.runtime.database import Database
from tests.external.batches import Case, condition, generalised, raises, text
from tests.external.compare import TINY, Backwards, Difference, Reference, Row, differing, rows_of
from tests.external.outcomes import Outcome, Results
from tests.external.strategy import recomputed_nodes
from tests.external.unordered import left_open


@dataclass(slots=True)
class View:
    """A view that is there: its case, what Spark is asked for, and the tables behind it."""

    case: Case
    tables: frozenset[str]
    parents: frozenset[str]
    refreshed: bool = True


@dataclass(slots=True)
class Tally:
    """What came of the files so far.

    `disagreeing` are the queries whose recorded rows are not Spark's.
    """

    results: Results
    say: Callable[[str], None] = print
    queries: dict[str, str] = field(default_factory=dict)
    recomputed: Counter[str] = field(default_factory=Counter)
    disagreeing: dict[str, str] = field(default_factory=dict)
    comparisons: int = 0
    recorded: int = 0

    def note(self, case: Case, outcome: Outcome, reason: str = "") -> None:
        result = self.results.add(case.name, outcome, reason)
        if outcome in (Outcome.FAILED, Outcome.REFUSED):
            self.say(str(result))


@dataclass(slots=True)
class Views:
    """The views that a database has now, by name, parents first."""

    db: Database
    tally: Tally
    now: dict[str, View] = field(default_factory=dict)
    missing: dict[str, Outcome] = field(default_factory=dict)
    changed: set[str] = field(default_factory=set)

    def named(self, sql: str) -> list[str]:
        """The views that a statement may read."""
        return named(sql, self.now)

    def reading(self, table: str) -> dict[str, View]:
        return {name: view for name, view in self.now.items() if table in view.tables}

    def create(self, where: str, name: str, query: str, replace: bool) -> None:
        """A case of its own, whatever comes of it; `where` is the beginning of its name."""
        case = Case(f"{where} {name}", query)
        self.tally.queries[case.name] = query
        if name in self.now:
            self.compare(where)
        if name in self.now and not replace:
            self.tally.note(case, Outcome.NOT_APPLICABLE, "a view of that name is there")
            return
        parents = self.named(query)
        tables = set(named(query, self.db.tables))
        tables.update(*(self.now[parent].tables for parent in parents))
        outcome, reason = Outcome.PASSED, ""
        with Reference(self.db, TINY) as reference:
            try:
                self._define(reference, parents)
                case = _with_names(case, reference.frame(query).columns)
                verb = "CREATE OR REPLACE" if replace else "CREATE"
                self.db.sql(f"{verb} MATERIALIZED VIEW {name} AS {case.query}")
            except UndeterminedError as error:
                outcome, reason = Outcome.UNDETERMINED, str(error)
            except UnsupportedError as error:
                outcome, reason = Outcome.REFUSED, str(error)
            except Exception as error:
                outcome, reason = Outcome.FAILED, f"creating it: {text(error)}"
                if raises(reference, case):
                    outcome, reason = Outcome.NOT_APPLICABLE, self._why_not(query, error)
        self.tally.queries[case.name] = case.query
        self.tally.note(case, outcome, reason)
        if outcome is not Outcome.PASSED:
            self.missing[name] = outcome
            return
        self.now.pop(name, None)
        self.missing.pop(name, None)
        self.now[name] = View(case, frozenset(tables), frozenset(parents))
        self.changed.update(tables)

    def _why_not(self, query: str, error: Exception) -> str:
        if found := named(query, self.missing):
            return f"reads '{found[0]}', a view that was {self.missing[found[0]].value}"
        return f"Spark: {condition(error)}"

    def _define(self, reference: Reference, wanted: Iterable[str]) -> None:
        needed = set(wanted)
        for name in reversed(self.now):
            if name in needed:
                needed |= self.now[name].parents
        for name, view in self.now.items():
            if name in needed:
                reference.define(name, view.case.query)

    def compare(self, when: str) -> None:
        """The views whose tables changed since they were compared, with Spark."""
        reached = {name: view for name, view in self.now.items() if view.tables & self.changed}
        if not reached:
            return
        with Reference(self.db, TINY) as reference:
            self._define(reference, set().union(*(view.parents for view in reached.values())))
            for name, view in reached.items():
                self._compare_one(reference, name, view.case, when)
        self.changed.clear()

    def compare_all(self, when: str) -> None:
        self.changed.update(*(view.tables for view in self.now.values()))
        self.compare(when)

    def _compare_one(self, reference: Reference, name: str, case: Case, when: str) -> None:
        self.tally.comparisons += 1
        try:
            reference.compare(name, case.query)
        except Difference as error:
            ours, theirs = rows_of(self.db.table(name)), rows_of(reference.frame(case.query))
            if left_open(case.query, ours, theirs) or self._follows_order(name, theirs):
                self.tally.note(case, Outcome.NOT_APPLICABLE, "the query leaves it open")
            else:
                self.tally.note(case, Outcome.FAILED, f"{when}: {error}")
        except (PySparkException, Py4JError) as error:
            if raises(reference, case):
                self.tally.note(case, Outcome.NOT_APPLICABLE, f"Spark raises: {condition(error)}")
            else:
                self.tally.note(case, Outcome.FAILED, f"{when}: {text(error)}")

    def _follows_order(self, name: str, rows: list[Row]) -> bool:
        """Whether Spark gives other rows when those of the tables come in another order."""
        view = self.now[name]
        with Backwards(self.db, TINY) as reference:
            self._define(reference, view.parents)
            return differing(rows_of(reference.frame(view.case.query)), rows) != ([], [])

    def drop(self, name: str) -> None:
        """Drop a view or a table, and before it the views that read it."""
        for view in reversed(
            [n for n, v in self.now.items() if name in {n, *v.tables, *v.parents}]
        ):
            self.count_recomputed(view)
            self.db.drop_view(view)
            del self.now[view]
        if name in self.db.tables:
            self.db.drop_table(name)

    def without_column(self, table: str, column: str) -> None:
        self._rebuild(
            table, {name: name for name in self.db.table(table).columns if name != column}
        )

    def with_renamed(self, table: str, before: str, after: str) -> None:
        """The views that read the table go on reading the column by its old name too."""
        for view in self.reading(table).values():
            if named(view.case.query, [table]):
                both = f"WITH {table} AS (SELECT *, `{after}` AS `{before}` FROM {table})"
                view.case = Case(view.case.name, f"{both} SELECT * FROM ({view.case.query})")
        columns = self.db.table(table).columns
        self._rebuild(table, {name: after if name == before else name for name in columns})

    def _rebuild(self, table: str, columns: dict[str, str]) -> None:
        """Make a table anew with some of its columns, under other names, and its views too."""
        rows = self.db.table(table).toArrow().select(list(columns))
        rows = rows.rename_columns(list(columns.values()))
        reading = self.reading(table)
        for name in reversed(reading):
            self.db.drop_view(name)
        self.db.drop_table(table)
        self.db.create_table(table, self.db.spark.createDataFrame(rows).schema)
        with self.db.transaction() as transaction:
            transaction.insert(table, rows)
        for name, view in reading.items():
            self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {view.case.query}")

    def count_recomputed(self, view: str) -> None:
        for node in recomputed_nodes(self.db, view):
            self.tally.recomputed[generalised(node)] += 1


def named(sql: str, names: Iterable[str]) -> list[str]:
    """Those of the names that occur in a statement.

    >>> named("SELECT x FROM T JOIN u_1", ["t", "u", "v"])
    ['t']
    """
    return [name for name in names if re.search(rf"\b{re.escape(name)}\b", sql, re.IGNORECASE)]


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
