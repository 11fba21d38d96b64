"""Aggregates over strings with a collation.

A collation takes different texts for one: 'a' and 'A' are one group under UTF8_LCASE, and Spark
shows the text of whichever row it met first. Here rows are grouped by the collation's key, a binary
that is equal for texts that are level and ordered as they are, and the group shows the least of its
texts by their bytes: a function of the rows that are in the group now, never of one that has left.
In the same way the minimum is the least by the key, and of level texts the least by bytes.

    γ[s; m] = γ[key(s); m, min(bytes(s))]        min(s) = min_by(s, (key(s), bytes(s)))
"""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    is_collated,
    items,
    option,
    simple_name,
    with_children_of,
)
from rekindle.catalyst.rules import apply_everywhere

_AGGREGATES = "org.apache.spark.sql.catalyst.expressions.aggregate"
_BY = {"Min": "MinBy", "Max": "MaxBy"}


def group_by_collation_keys(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """An equal plan whose aggregates group, count and compare by collation keys."""
    return apply_everywhere(_at_root, catalyst, plan)


def _at_root(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    if simple_name(plan) != "Aggregate":
        return plan
    groupings = items(plan.groupingExpressions())
    results = items(plan.aggregateExpressions())
    collated = [g for g in groupings if is_collated(g.dataType())]
    changed = [_result(catalyst, result, collated) for result in results]
    if not collated and all(new is old for new, old in zip(changed, results, strict=True)):
        return plan
    keys = [catalyst.collation_key(_bare(grouping)) for grouping in groupings]
    keyed = catalyst.plan("Aggregate")(
        catalyst.seq(keys), catalyst.seq(changed), plan.child(), plan.hint()
    )
    return with_children_of(keyed, plan)


def _result(catalyst: Catalyst, result: JavaObject, collated: Sequence[JavaObject]) -> JavaObject:
    """A result column over keys, under its own name and id."""
    touched = False

    def change(node: JavaObject) -> JavaObject | None:
        nonlocal touched
        if simple_name(node) == "AggregateExpression":
            compared = _compared(catalyst, node)
            touched = touched or compared is not node
            return compared
        if any(_bare(grouping).semanticEquals(node) for grouping in collated):
            touched = True
            return _shown(catalyst, node)
        return None

    expression = catalyst.transform(_bare(result), change)
    return catalyst.alias(expression, result.name(), result.exprId()) if touched else result


def _shown(catalyst: Catalyst, key: JavaObject) -> JavaObject:
    """The text that stands for a group."""
    function = catalyst.class_(f"{_AGGREGATES}.Min")(catalyst.without_collation(key))
    return catalyst.cast(catalyst.call(function), key.dataType())


def _compared(catalyst: Catalyst, call: JavaObject) -> JavaObject:
    """An aggregate function that compares by keys what it compares; itself if that is nothing."""
    function = call.aggregateFunction()
    arguments = items(function.children())
    if not any(is_collated(argument.dataType()) for argument in arguments):
        return call
    kind = simple_name(function)
    if kind == "Count" and call.isDistinct():
        keys = [catalyst.collation_key(argument) for argument in arguments]
        return call.withNewChildren(
            catalyst.seq([function.withNewChildren(catalyst.seq(keys)), *_filter(call)])
        )
    if kind in _BY:
        (value,) = arguments
        by = catalyst.class_(f"{_AGGREGATES}.{_BY[kind]}")(value, _order(catalyst, value))
        return call.withNewChildren(catalyst.seq([by, *_filter(call)]))
    return call


def _filter(call: JavaObject) -> list[JavaObject]:
    condition = option(call.filter())
    return [] if condition is None else [condition]


def _order(catalyst: Catalyst, value: JavaObject) -> JavaObject:
    """What orders texts as their collation does, and level ones by their bytes; NULL for NULL."""
    parts = [
        catalyst.literal("'key'"),
        catalyst.expression("KnownNotNull")(catalyst.collation_key(value)),
        catalyst.literal("'bytes'"),
        catalyst.without_collation(value),
    ]
    both = catalyst.expression("CreateNamedStruct")(catalyst.seq(parts))
    absent = catalyst.expression("IsNull")(value)
    return catalyst.expression("If")(absent, catalyst.null(both.dataType()), both)


def _bare(expression: JavaObject) -> JavaObject:
    return expression.child() if simple_name(expression) == "Alias" else expression
