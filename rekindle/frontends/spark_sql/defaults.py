"""DEFAULT among the values of an INSERT: the column's default, which is NULL in every table here.

It stands alone as a value of VALUES or as a column of the outermost SELECT; a column of the query
that is called so is that column.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from rekindle.catalyst.jvm import Catalyst, JavaObject, items, simple_name
from rekindle.errors import StatementError

_AROUND = ("GlobalLimit", "LocalLimit", "Offset", "Sort", "SubqueryAlias", "UnresolvedWith")
"""What may stand around the SELECT whose columns become the table's."""


def with_defaults(
    catalyst: Catalyst, query: JavaObject, resolve: Callable[[JavaObject], DataFrame]
) -> DataFrame:
    """The rows of an INSERT's query."""
    values = _replaced(catalyst, query, "UnresolvedInlineTable")
    selected = _replaced(catalyst, values, "Project")
    if selected is values:
        return resolve(values)
    try:
        return resolve(values)
    except StatementError:
        return resolve(selected)


def _replaced(catalyst: Catalyst, query: JavaObject, kind: str) -> JavaObject:
    """The query with NULL for DEFAULT in the node of that kind that gives its columns."""
    found = simple_name(query)
    if found == "UnresolvedInlineTable" == kind:
        rows = [items(row) for row in items(query.rows())]
        if not any(_is_default(value) for row in rows for value in row):
            return query
        null = catalyst.literal("NULL")
        made = [catalyst.seq(null if _is_default(v) else v for v in row) for row in rows]
        return catalyst.class_("org.apache.spark.sql.catalyst.analysis.UnresolvedInlineTable")(
            query.names(), catalyst.seq(made)
        )
    if found == "Project" == kind:
        columns = items(query.projectList())
        if not any(map(_is_default, columns)):
            return query
        made = [
            catalyst.named(catalyst.literal("NULL"), "default") if _is_default(each) else each
            for each in columns
        ]
        return catalyst.plan("Project")(catalyst.seq(made), query.child())
    if found in _AROUND:
        (child,) = items(query.children())
        inner = _replaced(catalyst, child, kind)
        return query if inner is child else query.withNewChildren(catalyst.seq([inner]))
    return query


def _is_default(expression: JavaObject) -> bool:
    if simple_name(expression) == "UnresolvedAlias":
        expression = expression.child()
    if simple_name(expression) != "UnresolvedAttribute":
        return False
    parts = [str(part) for part in items(expression.nameParts())]
    return len(parts) == 1 and parts[0].upper() == "DEFAULT"
