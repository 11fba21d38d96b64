"""Many small cases in one database: views in batches, kept through a few states of the tables.

A case is a query with, where there is one, a check of its rows against a published result. A batch
of them are created as views, then the tables go from state to state, one transaction each, and
after each the views are compared with what Spark computes from the tables.

A transaction that raises says nothing about which view is at fault: the batch is then split in two,
and run again from its first state, until the view stands alone.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.errors import AnalysisException, ParseException, PySparkException

from rekindle.errors import RekindleError, UndeterminedError, UnsupportedError
from rekindle.runtime.database import Database
from rekindle.runtime.reading.contents import repeated, snapshot
from rekindle.traces.partition import ALL_KEYS
from tests.external.compare import TINY, Difference, Reference, Row, reads, rows_of
from tests.external.outcomes import Outcome, Results
from tests.external.strategy import recomputed_nodes
from tests.external.unordered import left_open, varies

Contents = Mapping[str, Sequence[Row]]
"""The rows of each table."""

Expected = Callable[[list[Row]], None]
"""Raises `Difference` unless the rows are the published ones."""


@dataclass(frozen=True, slots=True)
class Case:
    """A query, and a check of its rows when the tables are as published.

    A stack of views has `parents`, in order, and a `top` over them; its query is then the same
    with the parents as common table expressions, for Spark.
    """

    name: str
    query: str
    expected: Expected | None = None
    parents: tuple[tuple[str, str], ...] = ()
    top: str = ""


@dataclass(frozen=True, slots=True)
class Stage:
    """A state of the tables.

    Where it is the published one, results are checked too. Where they suffice, Spark is asked only
    about views that have others. A case may have another result at each stage; those are given here
    by its name.
    """

    when: str
    contents: Contents
    published: bool = False
    suffices: bool = False
    results: Mapping[str, Expected] = field(default_factory=dict)

    def expected(self, case: Case) -> Expected | None:
        """What the case's rows must pass, where that is known."""
        return self.results.get(case.name, case.expected) if self.published else None


@dataclass(slots=True)
class Batches:
    """A database with its results so far.

    `read` gives the rows that are held against published ones.
    `contents` are the rows that the tables have now, `recomputed` counts the nodes of views that a
    step computes as a whole, and `disagreeing` are the cases in which Spark itself does not give
    the published result.
    """

    db: Database
    results: Results
    say: Callable[[str], None] = print
    read: Callable[[Database, str], list[Row]] = lambda db, view: rows_of(db.table(view))
    queries: dict[str, str] = field(default_factory=dict)
    recomputed: Counter[str] = field(default_factory=Counter)
    contents: dict[str, Sequence[Row]] = field(default_factory=dict)
    disagreeing: dict[str, str] = field(default_factory=dict)
    _views: dict[str, Case] = field(default_factory=dict)
    _compared: set[str] = field(default_factory=set)
    _number: int = 0
    _reference: Reference = field(init=False)

    def __post_init__(self) -> None:
        self._reference = Reference(self.db, TINY)

    def run(self, cases: Sequence[Case], stages: Sequence[Stage]) -> None:
        """Create the cases' views at the first stage, and follow them through the others."""
        self.queries |= {case.name: case.query for case in cases}
        self._follow(cases, stages)

    def _analysed(self, case: Case) -> Case | None:
        """The case if Spark accepts it; its columns get names where Spark gives one twice."""
        try:
            columns = [name.lower() for name in self._reference.frame(case.query).columns]
        except (AnalysisException, ParseException) as error:
            self._note(case, Outcome.NOT_APPLICABLE, f"Spark: {condition(error)}")
            return None
        return case if len(set(columns)) == len(columns) else renamed(case, len(columns))

    def _follow(self, cases: Sequence[Case], stages: Sequence[Stage]) -> None:
        if not cases:
            return
        self.move(stages[0].contents)
        for case in cases:
            self._create(case)
        for stage in stages[1:]:
            try:
                moved = self.move(stage.contents)
            except Exception as error:
                self._split(cases, stages, stage, error)
                return
            self._compare(stage, moved)
        for view, case in list(self._views.items()):
            whole = recomputed_nodes(self.db, view)
            for node in whole:
                self.recomputed[generalised(node)] += 1
            reason = f"a part is recomputed: {'; '.join(whole)}" if whole else ""
            self._note(case, Outcome.PASSED, reason)
            self._drop(view)

    def _create(self, case: Case) -> None:
        """Make the view of a case; Spark is asked about those that cannot be made as they are."""
        try:
            self._made(case)
            return
        except Exception:
            known = self._analysed(case)
        if known is None:
            return
        try:
            self._made(known)
        except UndeterminedError as error:
            self._note(case, Outcome.UNDETERMINED, str(error))
        except UnsupportedError as error:
            self._note(case, Outcome.REFUSED, str(error))
        except Exception as error:
            if case.parents and "several columns called" in str(error):
                self._note(case, Outcome.NOT_APPLICABLE, "no view has two columns of one name")
            elif self._spark_raises(case):
                self._note(case, Outcome.NOT_APPLICABLE, f"Spark raises: {condition(error)}")
            else:
                self._note(case, Outcome.FAILED, f"creating it: {text(error)}")

    def _made(self, case: Case) -> None:
        """Make the views of a case, or none of them."""
        self._number += 1
        view = f"view_{self._number}"
        made: list[str] = []
        try:
            for name, query in (*case.parents, (view, case.top or case.query)):
                self.db.sql(f"CREATE MATERIALIZED VIEW {name} AS {query}")
                made.append(name)
        except Exception:
            for name in reversed(made):
                self.db.drop_view(name)
            raise
        self._views[view] = case

    def _split(
        self, cases: Sequence[Case], stages: Sequence[Stage], at: Stage, error: Exception
    ) -> None:
        """Drop the views, and find by halves the one that made a transaction raise."""
        left = list(self._views.values())
        for view in list(self._views):
            self._drop(view)
        if len(left) > 1:
            self._follow(left[: len(left) // 2], stages)
            self._follow(left[len(left) // 2 :], stages)
            return
        for case in left:
            self.move(at.contents)
            if self._spark_raises(case):
                self._note(case, Outcome.NOT_APPLICABLE, f"Spark raises: {condition(error)}")
            else:
                self._note(case, Outcome.FAILED, f"{at.when}: {text(error)}")

    def _spark_raises(self, case: Case) -> bool:
        return raises(self._reference, case)

    def _compare(self, stage: Stage, moved: Sequence[str]) -> None:
        """Every view with Spark, but for those of which no table has moved since they were."""
        for view, case in list(self._views.items()):
            known = stage.expected(case) if case.name not in self.disagreeing else None
            touched = view not in self._compared or any(reads(case.query, t) for t in moved)
            if not touched and (known is None or stage.suffices):
                continue
            try:
                differs = None if known is None else self._differs(view, known)
                if known is None or differs is not None or not stage.suffices:
                    self._reference.compare(view, case.query)
                if differs is not None:
                    # The view has what Spark computes: the published result is a dialect's.
                    self.disagreeing[case.name] = str(differs)
                self._compared.add(view)
            except Difference as error:
                ours, theirs = (
                    rows_of(f) for f in (self.db.table(view), self._reference.frame(case.query))
                )
                if left_open(case.query, ours, theirs) or varies(
                    ours, theirs, self._reference.rows_of_reversed(case.query)
                ):
                    self._note(case, Outcome.NOT_APPLICABLE, "the query leaves it open")
                else:
                    self._note(case, Outcome.FAILED, f"{stage.when}: {error}")
                self._drop(view)
            except Exception as error:
                if self._spark_raises(case):
                    why = f"Spark raises: {condition(error)}"
                    self._note(case, Outcome.NOT_APPLICABLE, why)
                else:
                    self._note(case, Outcome.FAILED, f"{stage.when}: {text(error)}")
                self._drop(view)

    def move(self, target: Contents) -> list[str]:
        """Bring the tables to the given contents, by one transaction; gives those that change."""
        moved = []
        for name in target:
            if name not in self.contents:
                self.contents[name] = stored_rows(self.db, name)
        with self.db.transaction() as transaction:
            for name, rows in target.items():
                by_key = {_key(row): row for row in (*rows, *self.contents[name])}
                now, wanted = (Counter(map(_key, r)) for r in (self.contents[name], rows))
                gone = [by_key[key] for key in (now - wanted).elements()]
                new = [by_key[key] for key in (wanted - now).elements()]
                if gone:
                    transaction.delete(name, gone)
                if new:
                    transaction.insert(name, new)
                if gone or new:
                    moved.append(name)
        self.contents |= target
        self._reference.forget(*moved)
        return moved

    def forget(self, *tables: str) -> None:
        """The tables were dropped, or changed by other means."""
        for table in tables:
            self.contents.pop(table, None)
        self._reference.forget(*tables)

    def _differs(self, view: str, known: Expected) -> Difference | None:
        """How the view's rows differ from the published ones."""
        try:
            known(self.read(self.db, view))
        except Difference as difference:
            return difference
        return None

    def _drop(self, view: str) -> None:
        case = self._views.pop(view)
        self._compared.discard(view)
        for name in (view, *(parent for parent, _ in reversed(case.parents))):
            self.db.drop_view(name)

    def _note(self, case: Case, outcome: Outcome, reason: str = "") -> None:
        result = self.results.add(case.name, outcome, reason)
        if result.outcome in (Outcome.FAILED, Outcome.REFUSED):
            self.say(str(result))


def kept_rows(db: Database, view: str) -> list[Row]:
    """The rows of a view of numbers and texts as the engine has them, without a Spark job."""
    state = db._engine.state
    entry = state.entry(view)
    tables = snapshot(state.traces[entry.node], None, db._engine.store, ALL_KEYS)
    kept = (repeated(table, len(entry.schema)) for table in tables)
    return [tuple(row.values()) for table in kept for row in table.to_pylist()]


def stored_rows(db: Database, table: str) -> list[Row]:
    """The rows of a table, fit to be deleted: `collect()` forgets the order of a map's entries."""
    frame = db.table(table)
    if "map<" not in frame.schema.simpleString():
        return rows_of(frame)
    return [tuple(row.values()) for row in frame.toArrow().to_pylist()]


def raises(reference: Reference, case: Case) -> bool:
    """Whether plain Spark cannot run the query on these rows either."""
    try:
        reference.frame(case.query).collect()
    except PySparkException:
        return True
    return False


def stages_of(contents: Contents, chance: random.Random) -> list[Stage]:
    """Some rows or none, all of them, all but some with others twice, and all again."""
    first = chance.choice((0.0, 0.6))
    return [
        Stage("at first", sample(contents, first, chance)),
        Stage("after inserts", contents, published=True),
        Stage("after deletes", sample(contents, chance.choice((0.3, 0.7)), chance)),
        Stage("after inserts again", contents, published=True, suffices=True),
    ]


def sample(contents: Contents, share: float, chance: random.Random) -> Contents:
    return {n: [row for row in rows if chance.random() < share] for n, rows in contents.items()}


def renamed(case: Case, columns: int) -> Case:
    """The same with columns c0, c1, ...; a view cannot have two of one name."""
    names = ", ".join(f"c{i}" for i in range(columns))
    query, top = (f"SELECT * FROM ({q}) AS named({names})" for q in (case.query, case.top))
    return replace(case, query=query, top=top if case.top else "")


def condition(error: Exception) -> str:
    """Spark's name for an error, or its first line."""
    if isinstance(error, PySparkException) and (name := error.getCondition()):
        return str(name)
    found = re.search(r"\[([A-Z_0-9.]{6,})\]", str(error))
    return found[1] if found else generalised(str(error).strip().split("\n")[0])


def generalised(reason: str) -> str:
    """A reason without the names and numbers that are a case's own."""
    plain = re.sub(r"'[^']*'|`[^`]*`|\"[^\"]*\"", "'...'", reason)
    return re.sub(r"\b\d+\b|#\d+L?", "n", plain)[:160]


def text(error: Exception) -> str:
    return str(error) if isinstance(error, RekindleError | Difference) else repr(error)


def _key(row: Row) -> Any:
    return repr(row)
