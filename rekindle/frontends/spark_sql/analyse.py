"""From SQL text or a DataFrame to Catalyst's optimised plan over opaque leaves.

A table is, to Catalyst, a `LogicalRDD` of no rows with the table's columns: the optimiser can
neither fold it nor look inside, and it is recognised afterwards by the identity of its RDD. SQL
text is resolved in the user's own session, so registered functions work; the database's names are
brought into scope as if the text began with a WITH clause, which keeps the session's catalog
untouched.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterable, Mapping
from typing import Any

from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from rekindle.errors import StatementError, UndeterminedError, UnknownNameError, unknown_name
from rekindle.frontends.names import QUOTED, unquoted
from rekindle.frontends.spark_sql.jvm import Catalyst, JavaObject

VOLATILE = {
    "CurrentTimestamp": "current_timestamp()",
    "Now": "now()",
    "CurrentDate": "current_date()",
    "CurrentTime": "current_time()",
    "LocalTimestamp": "localtimestamp()",
    "CurrentUser": "current_user()",
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


# PySpark prints every analysis error as a structured log line too; ours carry what it says.
logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)


class Leaves:
    """The opaque leaf of each table and view, and the way back from a leaf to its name."""

    def __init__(self, catalyst: Catalyst) -> None:
        self._catalyst = catalyst
        self._frames: dict[str, JavaObject] = {}
        self._names: dict[int, str] = {}
        self._schemas: dict[str, StructType] = {}

    def add(self, name: str, schema: StructType) -> None:
        """Make `name` known, with no rows."""
        session = self._catalyst.session
        spark_context = self._catalyst.spark.sparkContext
        rdd = spark_context._jsc.emptyRDD().rdd()
        frame = session.internalCreateDataFrame(rdd, session.parseDataType(schema.json()), False)
        self._frames[name] = frame.queryExecution().analyzed()
        self._names[rdd.id()] = name
        self._schemas[name] = schema

    def schema(self, name: str) -> StructType:
        return self._schemas[name]

    def remove(self, name: str) -> None:
        self._frames.pop(name, None)
        self._names = {rdd: known for rdd, known in self._names.items() if known != name}

    def recognise(self, rdd_id: int, name: str) -> None:
        """Let another leaf, such as the contents given to a user, stand for the same name."""
        self._names[rdd_id] = name

    def name_of(self, leaf: JavaObject) -> str | None:
        return self._names.get(leaf.rdd().id())

    @property
    def plans(self) -> Mapping[str, JavaObject]:
        return self._frames


def parse(catalyst: Catalyst, text: str) -> JavaObject:
    """The unresolved plan of one SQL statement."""
    try:
        return catalyst.session.sessionState().sqlParser().parsePlan(text)
    except ParseException as error:
        raise StatementError(
            "the statement cannot be parsed", detail=str(error).strip(), hint="see the position"
        ) from error
    except Py4JJavaError as error:
        said = str(error.java_exception.getClass().getName())
        raise StatementError(
            "the statement cannot be parsed", detail=f"the parser ended in {said}"
        ) from error


def resolve(
    catalyst: Catalyst,
    plan: JavaObject,
    scope: Mapping[str, JavaObject],
    known: Iterable[str] = (),
) -> DataFrame:
    """The DataFrame of an unresolved plan in which `scope` gives names their plans.

    `known` are the names an error should offer; those of `scope` when left out.
    """
    alias = catalyst.module("org.apache.spark.sql.catalyst.plans.logical.SubqueryAlias")
    relations = [
        catalyst.jvm.scala.Tuple3(name, alias.apply(name, leaf), catalyst.none())
        for name, leaf in scope.items()
    ]
    scoped = catalyst.plan("UnresolvedWith")(plan, catalyst.seq(relations), False)
    try:
        return catalyst.dataframe(scoped)
    except AnalysisException as error:
        raise _explain(error, list(known) or list(scope)) from error
    except Py4JJavaError as error:
        raise StatementError(
            "the query cannot be resolved", detail=str(error.java_exception.getMessage())
        ) from error


def _explain(error: AnalysisException, known: Iterable[str]) -> Exception:
    condition = error.getCondition() or ""
    message = str(error).split("SQLSTATE")[0].strip().rstrip(";")
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        parameters: Any = error.getMessageParameters() or {}
        return _unknown(str(parameters.get("relationName", "")), list(known))
    return StatementError("the query cannot be resolved", detail=message)


def _unknown(written: str, known: list[str]) -> UnknownNameError:
    """The error for a name as Spark writes it, each part between backticks."""
    parts = [unquoted(part) for part in re.findall(QUOTED, written)]
    error = unknown_name("table or view", ".".join(parts), known)
    meant = [name for name in known if name.lower() == parts[-1].lower()]
    if len(parts) > 1 and meant:
        error.hint = f"a table or view has no schema before its name: write {meant[0]}"
    return error


def optimise(catalyst: Catalyst, frame: DataFrame) -> JavaObject:
    """Catalyst's optimised plan, once nothing in it depends on when or where it runs."""
    analysed = frame._jdf.queryExecution().analyzed()
    _refuse_volatile(json.loads(analysed.toJSON()))
    try:
        return catalyst.optimised(analysed)
    except Py4JJavaError as error:
        raise StatementError(
            "the query cannot be optimised", detail=str(error.java_exception)
        ) from error


def _refuse_volatile(node: Any) -> None:
    if isinstance(node, dict):
        name = str(node.get("class", "")).rsplit(".", 1)[-1]
        if name in VOLATILE:
            raise UndeterminedError(
                f"{VOLATILE[name]} cannot stand in a materialized view",
                detail="its value is not determined by the rows of the tables",
                hint="store the value in a table's column and read it from there",
            )
        for child in node.values():
            _refuse_volatile(child)
    elif isinstance(node, list):
        for child in node:
            _refuse_volatile(child)
