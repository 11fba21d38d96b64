"""Arrays whose order says nothing: what collect_list and collect_set give, of rows in any order.

A view and its recomputation may have such an array in two orders, and are equal for all that. What
is computed from one, such as its first element, is not looked at: it is not determined by the rows.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rekindle.calculus.walks import fold
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    analysed_plan,
    children_of,
    id_of,
    items,
    simple_name,
    without_alias,
)
from rekindle.columns import column_name
from rekindle.frontends.spark_sql.collecting_groups import COLLECTING, collects

_NAMED = {
    "Project": "projectList",
    "Aggregate": "aggregateExpressions",
    "Window": "windowExpressions",
}
"""Where the nodes that compute columns have them."""


def unordered_columns(catalyst: Catalyst, frame: DataFrame) -> list[int]:
    """The places of the columns that are such arrays, whose elements can be put into an order."""
    analysed = analysed_plan(frame)
    if not collects(analysed):
        return []
    plan = catalyst.optimised(analysed)
    found = fold(plan, children_of, _unordered)
    ordering = catalyst.module("org.apache.spark.sql.catalyst.expressions.RowOrdering")
    return [
        place
        for place, column in enumerate(items(plan.output()))
        if id_of(column) in found and ordering.isOrderable(column.dataType())
    ]


def in_order(frame: DataFrame, places: list[int]) -> DataFrame:
    """The frame with the arrays in some columns in the order of their elements."""
    names = [column_name(i) for i in range(len(frame.columns))]
    named = frame.toDF(*names)
    return named.select(
        *(F.sort_array(n).alias(n) if i in places else n for i, n in enumerate(names))
    )


def _unordered(node: JavaObject, below: tuple[set[int], ...]) -> set[int]:
    """The columns of a node that are such arrays."""
    found = set().union(*below)
    kind = simple_name(node)
    if kind in _NAMED:
        for named in items(getattr(node, _NAMED[kind])()):
            bare = without_alias(named)
            is_column = simple_name(bare) == "AttributeReference"
            if (is_column and id_of(bare) in found) or _collects(bare):
                found.add(id_of(named))
    elif kind == "Union":
        output = items(node.output())
        for child in children_of(node):
            for column, shown in zip(items(child.output()), output, strict=True):
                if id_of(column) in found:
                    found.add(id_of(shown))
    return found


def _collects(expression: JavaObject) -> bool:
    """Is it what rows collect that come in no order?"""
    if simple_name(expression) == "WindowExpression":
        if items(expression.windowSpec().orderSpec()):
            return False
        expression = expression.windowFunction()
    if simple_name(expression) != "AggregateExpression":
        return False
    return simple_name(expression.aggregateFunction()) in COLLECTING
