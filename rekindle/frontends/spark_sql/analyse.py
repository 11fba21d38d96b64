"""From SQL text or a DataFrame to Catalyst's optimised plan over opaque leaves.

A table is, to Catalyst, a `LogicalRDD` of no rows with the table's columns: the optimiser can
neither fold it nor look inside, and it is recognised afterwards by the identity of its RDD. SQL
text is resolved in the user's own session, so registered functions work; the database's names are
brought into scope as if the text began with a WITH clause, which keeps the session's catalog
untouched.
"""

from __future__ import annotations

import logging
import re
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rekindle.catalyst.classes import classes_of_plan
from rekindle.catalyst.jvm import Catalyst, JavaObject, analysed_plan, has_pattern
from rekindle.errors import (
    EvaluationError,
    RekindleError,
    RowError,
    StatementError,
    UndeterminedError,
    UnknownNameError,
    unknown_name,
)
from rekindle.frontends.spark_sql.clock import (
    CLOCK,
    COLUMNS,
    asks_for_time,
    put_in_instant,
    read_clock,
)
from rekindle.names import QUOTED, is_hidden, is_text, unquoted
from rekindle.nested.levels import Level

VOLATILE = {
    "CurrentTime": "current_time()",
    "CurrentUser": "current_user()",
    "CurrentCatalog": "current_catalog()",
    "CurrentDatabase": "current_database()",
    "Rand": "rand()",
    "Randn": "randn()",
    "RandStr": "randstr()",
    "Uniform": "uniform()",
    "Uuid": "uuid()",
    "Shuffle": "shuffle()",
    "SparkPartitionID": "spark_partition_id()",
    "MonotonicallyIncreasingID": "monotonically_increasing_id()",
    "InputFileName": "input_file_name()",
    "Sample": "TABLESAMPLE",
}
"""Constructs whose value is not a function of the tables, with the words a user writes."""


_RELATION = re.compile(r"UnresolvedRelation \[([^\]\n]*)\], \[([^\]\n]*)\], ")
_PRIVILEGES = "__required_write_privileges__"
"""An option that Spark's parser itself puts on the table of a statement."""


# PySpark prints every analysis error as a structured log line too; ours carry what it says.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


MOST_GIVEN = 100_000
"""So many DataFrames that users were given can become part of a view's definition."""


class Leaves:
    """The opaque leaf of each table and view, and the way back from a leaf to its name.

    Threads resolve queries while others define views: what is handed out is never changed, and
    replaced as a whole.
    """

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._lock = threading.Lock()
        self._frames: Mapping[str, JavaObject] = {}
        self._own: Mapping[int, str] = {}
        self._given: OrderedDict[int, str] = OrderedDict()
        """Leaves that stand for the same names, such as contents that users were given."""
        self._schemas: dict[str, StructType] = {}
        self.keys: dict[str, tuple[str, ...]] = {}
        """The primary key of each table that has one."""
        self.levels: dict[str, Level] = {}
        """The flat collections of each table and view that is nested."""

    def add_nested(self, name: str, schema: StructType, level: Level) -> None:
        """Make a nested table or view known; what reads it is rewritten to read its parts."""
        self.levels[name] = level
        self.add(name, schema)

    def add(self, name: str, schema: StructType) -> None:
        """Make `name` known, with no rows."""
        leaf, number = self.opaque(self._catalyst.session.parseDataType(schema.json()))
        with self._lock:
            self._schemas[name] = schema
            self._frames = {**self._frames, name: leaf}
            self._own = {**self._own, number: name}

    def opaque(self, schema: JavaObject) -> tuple[JavaObject, int]:
        """A leaf of no rows with the columns of a Java schema, and the number it is known by."""
        rdd = self._catalyst.spark.sparkContext._jsc.emptyRDD().rdd()
        frame = self._catalyst.session.internalCreateDataFrame(rdd, schema, False)
        return frame.queryExecution().analyzed(), rdd.id()

    def schema(self, name: str) -> StructType:
        return self._schemas[name]

    def remove(self, name: str) -> None:
        with self._lock:
            self._frames = {key: leaf for key, leaf in self._frames.items() if key != name}
            self.keys.pop(name, None)
            self.levels.pop(name, None)
            self._own = {rdd: known for rdd, known in self._own.items() if known != name}
            for rdd in [rdd for rdd, known in self._given.items() if known == name]:
                del self._given[rdd]

    def forget_older(self, name: str) -> None:
        """Let a name stand for its newest leaf alone; it is known all the while."""
        with self._lock:
            newest = leaf_number(self._frames[name])
            self._own = {n: to for n, to in self._own.items() if to != name or n == newest}
            for number in [number for number, known in self._given.items() if known == name]:
                del self._given[number]

    @contextmanager
    def unchanged(self, names: Sequence[str]) -> Iterator[None]:
        """At the end names are what they were: known as before, or unknown.

        More of them may be listed meanwhile.
        """
        frames, own = self._frames, self._own
        schemas, levels = dict(self._schemas), dict(self.levels)
        try:
            yield
        finally:
            for name in names:
                if name not in frames:
                    self.remove(name)
            again = [name for name in names if name in frames]
            with self._lock:
                self._frames = {**self._frames, **{name: frames[name] for name in again}}
                self._own = {n: to for n, to in self._own.items() if to not in again or n in own}
                self._schemas.update({name: schemas[name] for name in again})
                for name in again:
                    self.levels.pop(name, None)
                self.levels.update({name: levels[name] for name in again if name in levels})

    def recognise(self, rdd_id: int, name: str) -> None:
        """Let another leaf, such as the contents given to a user, stand for the same name.

        The oldest are forgotten: an application reads for as long as it runs.
        """
        with self._lock:
            self._given[rdd_id] = name
            while len(self._given) > MOST_GIVEN:
                self._given.popitem(last=False)

    @property
    def clock(self) -> JavaObject:
        """The leaf of the clock, which need not be there yet."""
        if CLOCK not in self._frames:
            self.add(CLOCK, COLUMNS)
        return self._frames[CLOCK]

    def name_of(self, leaf: JavaObject) -> str | None:
        number = leaf_number(leaf)
        return self._own.get(number) or self._given.get(number)

    @property
    def plans(self) -> Mapping[str, JavaObject]:
        return self._frames


def leaf_number(leaf: JavaObject) -> int:
    """The number by which a leaf is known again, whatever its columns are called then."""
    return int(leaf.rdd().id())


def parse(catalyst: Catalyst, text: str) -> JavaObject:
    """The unresolved plan of one SQL statement."""
    check_text(text)
    with resolving(()):
        return catalyst.session.sessionState().sqlParser().parsePlan(text)


def check_text(text: str) -> None:
    """Raise unless a statement can be sent to Spark."""
    if not is_text(text):
        raise StatementError(
            "the statement has half of a character pair (a lone surrogate) in it",
            detail=f"at position {next(i for i, c in enumerate(text) if not is_text(c))}",
        )


def resolve(
    catalyst: Catalyst,
    plan: JavaObject,
    scope: Mapping[str, JavaObject],
    known: Iterable[str] = (),
) -> DataFrame:
    """The DataFrame of an unresolved plan in which `scope` gives names their plans.

    `known` are the names an error should offer; those of `scope` when left out.
    """
    with resolving(list(known) or list(scope)):
        return with_instant(catalyst, catalyst.dataframe(scoped(catalyst, plan, scope)))


def with_instant(catalyst: Catalyst, frame: DataFrame) -> DataFrame:
    """A DataFrame that has the time of `clock.at_instant`, where it asks for the time."""
    plan = analysed_plan(frame)
    found = put_in_instant(catalyst, plan)
    return frame if found is plan else catalyst.dataframe(found)


def scoped(catalyst: Catalyst, plan: JavaObject, scope: Mapping[str, JavaObject]) -> JavaObject:
    """An unresolved plan as if its text began with WITH and the names of `scope`."""
    _refuse_options(str(plan.toString()), scope)
    alias = catalyst.module("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")
    relations = [
        catalyst.jvm.scala.Tuple3(name, alias.apply(name, leaf), catalyst.none())
        for name, leaf in scope.items()
    ]
    return catalyst.plan("UnresolvedWith")(plan, catalyst.seq(relations), False)


def _refuse_options(plan: str, scope: Mapping[str, JavaObject]) -> None:
    """Raise where a plan has `name WITH (option = value)` of a table or view of the database."""
    known = {name.lower() for name in scope}
    for name, options in _RELATION.findall(plan):
        given = [each for each in options.split(", ") if not each.startswith(_PRIVILEGES)]
        if name.lower() in known and "=" in options and given:
            raise StatementError(
                f"'{name}' cannot be read WITH ({', '.join(given)})",
                detail="a table or view of Rekindle has no options",
            )


@contextmanager
def resolving(known: Iterable[str]) -> Iterator[None]:
    """What Catalyst raises in the block is raised as an error of ours, which offers `known`."""
    try:
        yield
    except ParseException as error:
        raise StatementError(
            "the statement cannot be parsed", detail=str(error).strip(), hint="see the position"
        ) from error
    except AnalysisException as error:
        raise _explain(error, known) from error
    except PySparkException as error:
        # Constants are computed while a plan is read: 1/0 fails here.
        raise EvaluationError(
            "a constant of the statement cannot be computed; nothing was applied",
            detail=_said(str(error)),
        ) from error
    except Py4JJavaError as error:
        raise _inside(error) from error


def _inside(error: Py4JJavaError) -> StatementError:
    """The error for a fault inside Catalyst that has no condition."""
    said = str(error.java_exception.toString())
    if "StackOverflowError" in said:
        return StatementError(
            "the statement is nested too deeply for Spark to read",
            hint="split it, or give the driver a larger stack (-Xss)",
        )
    return StatementError("the query cannot be resolved", detail=_said(said))


def _said(text: str) -> str:
    """What Spark said, without its code of the state and its stack."""
    return re.split(r"\s*SQLSTATE|\n\s*at |\n\nJVM", text)[0].strip().rstrip(";")


def _explain(error: AnalysisException, known: Iterable[str]) -> RekindleError:
    condition = error.getCondition() or ""
    message = str(error).split("SQLSTATE")[0].strip().rstrip(";").replace(" for the table ``", "")
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        parameters: Any = error.getMessageParameters() or {}
        return _unknown(str(parameters.get("relationName", "")), list(known))
    if condition.startswith("INCOMPATIBLE_DATA_FOR_TABLE"):
        return RowError("a value does not fit its column", detail=message, hint="CAST the value")
    return StatementError("the query cannot be resolved", detail=message)


def _unknown(written: str, known: list[str]) -> UnknownNameError:
    """The error for a name as Spark writes it, each part between backticks."""
    parts = [unquoted(part) for part in re.findall(QUOTED, written)] or [""]
    error = unknown_name("table or view", ".".join(parts), [n for n in known if not is_hidden(n)])
    meant = [name for name in known if name.lower() == parts[-1].lower()]
    if len(parts) > 1 and meant:
        error.hint = f"a table or view has no schema before its name: write {meant[0]}"
    return error


def optimise(catalyst: Catalyst, leaves: Leaves, frame: DataFrame) -> JavaObject:
    """Catalyst's optimised plan, once nothing in it depends on when or where it runs.

    It reads the clock of the database where it asks for the time.
    """
    analysed = analysed_plan(frame)
    _refuse_volatile(analysed)
    try:
        if asks_for_time(analysed):
            analysed = read_clock(catalyst, analysed, leaves.clock)
        return catalyst.optimised(analysed)
    except Py4JJavaError as error:
        raise StatementError(
            "the query cannot be optimised", detail=str(error.java_exception)
        ) from error
    except PySparkException as error:
        raise EvaluationError(
            "a constant of the query cannot be computed; nothing was applied",
            detail=_said(str(error)),
        ) from error


def _may_sample(plan: JavaObject) -> bool:
    """May a plan have some of its rows by chance? False is certain: its text has every node.

    A text that a setting of the session has cut says nothing.
    """
    text = str(plan.toString())
    return "Sample" in text or "more characters" in text


def _refuse_volatile(plan: JavaObject) -> None:
    determined = plan.deterministic() and not has_pattern(plan, "CURRENT_LIKE")
    if determined and not _may_sample(plan):
        return
    classes = classes_of_plan(plan)
    for name, words in VOLATILE.items():
        if name in classes:
            raise UndeterminedError(
                f"{words} cannot stand in a materialized view",
                detail="its value is not determined by the rows of the tables",
                hint="store the value in a table's column and read it from there",
            )
