"""DML as Catalyst means it: commands that it has analysed, and rows in a table's own columns.

Catalyst analyses INSERT, UPDATE, DELETE and MERGE over the database's names as it would over any
table, so names, defaults, stars and types are resolved by Spark's rules and refused for Spark's
reasons; it runs nothing. What its rules for tables that can be rewritten do next is asked of them
directly: an assignment, also one to a field of a struct at any depth, becomes a value of the whole
column, two that contradict each other are refused (`updated`, `inserted`), and the rows of a query
are put into the table's columns under the policy of store assignment (`fitting`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    analysed_plan,
    items,
    simple_name,
    without_alias,
)
from rekindle.frontends.spark_sql.analyse import resolving, scoped

_ANALYSIS = "org.apache.spark.sql.catalyst.analysis"


def command(
    catalyst: Catalyst,
    plan: JavaObject,
    scope: Mapping[str, JavaObject],
    known: Iterable[str] = (),
) -> JavaObject:
    """An UPDATE, DELETE or MERGE with every name resolved, and not run."""
    modes = catalyst.class_("org.apache.spark.sql.execution.CommandExecutionMode")
    with resolving(list(known) or list(scope)):
        execution = catalyst.session.sessionState().executePlan(
            scoped(catalyst, plan, scope), modes.withName("SKIP")
        )
        return execution.analyzed()


def frame(catalyst: Catalyst, plan: JavaObject) -> DataFrame:
    """The DataFrame of a plan whose names are resolved."""
    with resolving(()):
        return catalyst.dataframe(plan)


def updated(catalyst: Catalyst, table: JavaObject, update: JavaObject) -> list[JavaObject]:
    """The value of every column of `table` after an UPDATE, or after an update of a MERGE."""
    from_star = simple_name(update) == "UpdateAction" and update.fromStar()
    given = catalyst.seq(_unconverted(catalyst, each) for each in items(update.assignments()))
    with resolving(()):
        aligned = _alignment(catalyst).alignUpdateAssignments(
            _columns(catalyst, table), given, from_star, False
        )
    return [without_alias(each.value()) for each in items(aligned)]


def inserted(catalyst: Catalyst, table: JavaObject, insert: JavaObject) -> list[JavaObject]:
    """The value of every column of `table` in a row that a MERGE inserts."""
    given = catalyst.seq(_unconverted(catalyst, each) for each in items(insert.assignments()))
    with resolving(()):
        aligned = _alignment(catalyst).alignInsertAssignments(
            _columns(catalyst, table), given, False
        )
    return [without_alias(each.value()) for each in items(aligned)]


def fitting(
    catalyst: Catalyst, table: str, columns: Sequence[tuple[str, str]], rows: DataFrame
) -> DataFrame:
    """The rows in columns of the given names and types, by place; fields of structs too."""
    return _fitted(catalyst, table, columns, rows, "by place")


def fitting_names(
    catalyst: Catalyst, table: str, columns: Sequence[tuple[str, str]], rows: DataFrame
) -> DataFrame:
    """The rows in columns of the given names and types, by name; fields of structs too."""
    return _fitted(catalyst, table, columns, rows, "by name")


def _fitted(
    catalyst: Catalyst, table: str, columns: Sequence[tuple[str, str]], rows: DataFrame, way: str
) -> DataFrame:
    resolver = catalyst.module(f"{_ANALYSIS}.TableOutputResolver")
    fill = getattr(resolver, "resolveOutputColumns$default$6")()
    expected = catalyst.seq(catalyst.attribute(name, type_) for name, type_ in columns)
    query = analysed_plan(rows)
    settings = catalyst.session.sessionState().conf()
    with resolving(()):
        return catalyst.dataframe(
            resolver.resolveOutputColumns(table, expected, query, way == "by name", settings, fill)
        )


def _alignment(catalyst: Catalyst) -> JavaObject:
    return catalyst.module(f"{_ANALYSIS}.AssignmentUtils")


def _columns(catalyst: Catalyst, table: JavaObject) -> JavaObject:
    """The columns of a plan as they are assigned to: NOT NULL and lengths are checked later."""
    bare = catalyst.module("org.apache.spark.sql.types.Metadata").empty()
    return catalyst.seq(
        each.withNullability(True).withMetadata(bare) for each in items(table.output())
    )


def _unconverted(catalyst: Catalyst, assignment: JavaObject) -> JavaObject:
    """An assignment whose value is what the user wrote.

    To a table that Catalyst cannot rewrite it fits values at once by a cast, which would let any
    text into a number and take fields of a struct by their places.
    """
    mark = catalyst.module("org.apache.spark.sql.catalyst.expressions.Cast").BY_TABLE_INSERTION()
    value = assignment.value()
    while True:
        kind = simple_name(value)
        if kind == "AssertNotNull" or (kind == "Cast" and value.getTagValue(mark).isDefined()):
            value = value.child()
            continue
        return catalyst.plan("Assignment")(assignment.key(), value)
