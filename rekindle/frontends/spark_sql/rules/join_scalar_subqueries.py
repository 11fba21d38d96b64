"""Scalar subqueries as joins.

Catalyst turns a correlated scalar subquery into a join and leaves an uncorrelated one inside the
expression. Here it becomes a join too: the expression's rows beside the subquery's one row. Every
row of the outer query then follows a change of that one value, as it must.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    children_of,
    id_of,
    items,
    option,
    simple_name,
    without_alias,
)
from rekindle.catalyst.refusals import unsupported
from rekindle.catalyst.rules import Rule, apply_everywhere
from rekindle.frontends.spark_sql.analyse import Leaves
from rekindle.frontends.spark_sql.clock import CLOCK

_PLANS = "org.apache.spark.sql.catalyst.plans"


_RULES = (
    "org.apache.spark.sql.catalyst.optimizer.PushPredicateThroughJoin",
    "org.apache.spark.sql.catalyst.optimizer.ColumnPruning",
)
"""What the optimiser would have done to the joins, had they been there: a changed value meets
only the rows and columns that a comparison with it is about."""


def join_scalar_subqueries(leaves: Leaves | None) -> Rule:
    """The rule, which knows the clock by its leaf where there are any."""

    def join_scalar_subqueries(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
        """An equal plan with the scalar subqueries of all its nodes as joins, optimised as such.

        Those inside of subqueries are joined in another round.
        """
        if plan.subqueriesAll().isEmpty():
            return plan
        joined = apply_everywhere(partial(_at_root, leaves), catalyst, plan)
        if joined is plan:
            return plan
        for rule in _RULES:
            joined = catalyst.module(rule).apply(joined)
        return joined

    return join_scalar_subqueries


def _at_root(leaves: Leaves | None, catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """An equal plan whose root has no scalar subquery in its expressions."""
    if plan.subqueries().isEmpty():
        return plan
    kind = simple_name(plan)
    found: list[JavaObject] = []
    for expression in items(plan.expressions()):
        _collect(expression, found)
    if not found:
        return plan
    if kind == "Aggregate" and (above := _with_results_above(catalyst, plan)) is not None:
        return apply_everywhere(partial(_at_root, leaves), catalyst, above)
    if kind == "Join":
        left, replaced = _beside(catalyst, leaves, plan.left(), found)
        condition = catalyst.some(_replace(catalyst, plan.condition().get(), replaced))
        joined = catalyst.plan("Join")(left, plan.right(), plan.joinType(), condition, plan.hint())
        return _project(catalyst, items(plan.output()), joined)
    child, replaced = _beside(catalyst, leaves, plan.child(), found)
    match kind:
        case "Filter":
            condition = _replace(catalyst, plan.condition(), replaced)
            filtered = catalyst.plan("Filter")(condition, child)
            return _project(catalyst, items(plan.output()), filtered)
        case "Project":
            return _project(
                catalyst,
                [_replace(catalyst, e, replaced) for e in items(plan.projectList())],
                child,
            )
        case "Aggregate":
            groups, results = (
                catalyst.seq(_replace(catalyst, e, replaced) for e in items(expressions))
                for expressions in (plan.groupingExpressions(), plan.aggregateExpressions())
            )
            return catalyst.plan("Aggregate")(groups, results, child, plan.hint())
    return plan


def _with_results_above(catalyst: Catalyst, plan: JavaObject) -> JavaObject | None:
    """An aggregate whose results have subqueries beside its calls, as a projection of one that has
    none there: the subquery's row is beside the groups, not beside their rows."""
    named: list[tuple[JavaObject, JavaObject]] = []
    for i, key in enumerate(items(plan.groupingExpressions())):
        is_column = simple_name(key) == "AttributeReference"
        named.append((key, key if is_column else catalyst.named(key, f"key{i}")))

    def cut(node: JavaObject) -> JavaObject | None:
        for known, column in named:
            if known.semanticEquals(node):
                return column.toAttribute()
        if simple_name(node) != "AggregateExpression":
            return None
        named.append((node, catalyst.named(node, f"measure{len(named)}")))
        return named[-1][1].toAttribute()

    results = []
    for result in items(plan.aggregateExpressions()):
        above = catalyst.transform(without_alias(result), cut)
        results.append(catalyst.alias(above, result.name(), result.exprId()))
    found: list[JavaObject] = []
    for result in results:
        _collect(result, found)
    if not found:
        return None
    below = catalyst.plan("Aggregate")(
        plan.groupingExpressions(),
        catalyst.seq(column for _, column in named),
        plan.child(),
        plan.hint(),
    )
    return _project(catalyst, results, below)


def _collect(expression: JavaObject, found: list[JavaObject]) -> None:
    for node in visited(expression, _outside_subqueries):
        if simple_name(node) != "ScalarSubquery":
            continue
        if node.isCorrelated():
            raise unsupported("a correlated subquery that Spark does not take apart", node)
        if not any(known.semanticEquals(node) for known in found):
            found.append(node)


def _outside_subqueries(node: JavaObject) -> Sequence[JavaObject]:
    return () if simple_name(node) == "ScalarSubquery" else children_of(node)


def _beside(
    catalyst: Catalyst,
    leaves: Leaves | None,
    child: JavaObject,
    subqueries: Sequence[JavaObject],
) -> tuple[JavaObject, list[tuple[JavaObject, JavaObject]]]:
    """The child joined with the one row of each subquery, and the column that each became.

    What several ask the clock for is one row: then a column that is compared with two of them has
    its range by one join.
    """
    hint = catalyst.module(f"{_PLANS}.logical.JoinHint").NONE()
    times = [each for each in subqueries if _is_of_clock(leaves, each.plan())]
    others = [each for each in subqueries if each not in times]
    replaced = [(each, each.plan().output().head()) for each in subqueries]
    if times:
        inner = catalyst.module(f"{_PLANS}.Inner")
        one = _one_row(catalyst, [each.plan() for each in times])
        child = catalyst.plan("Join")(child, one, inner, catalyst.none(), hint)
    for subquery in others:
        kind = catalyst.module(f"{_PLANS}.{_join_type(subquery.plan())}")
        child = catalyst.plan("Join")(child, subquery.plan(), kind, catalyst.none(), hint)
    return child, replaced


def _is_of_clock(leaves: Leaves | None, plan: JavaObject) -> bool:
    """Is a plan what is computed of the clock's one row?"""
    if leaves is None or simple_name(plan) != "Project":
        return False
    below = plan.child()
    return simple_name(below) == "LogicalRDD" and leaves.name_of(below) == CLOCK


def _one_row(catalyst: Catalyst, projections: Sequence[JavaObject]) -> JavaObject:
    """The columns of several projections of the clock as one of them."""
    leaf = projections[0].child()
    columns = []
    for projection in projections:
        moved = zip(items(projection.child().output()), items(leaf.output()), strict=True)
        attributes = {id_of(theirs): ours for theirs, ours in moved}
        columns += [catalyst.rebased(each, attributes) for each in items(projection.projectList())]
    return _project(catalyst, columns, leaf)


def _join_type(plan: JavaObject) -> str:
    """One row for certain, at most one, or possibly several, which is an error."""
    bottom = plan
    while simple_name(bottom) == "Project":
        bottom = bottom.child()
    if simple_name(bottom) == "Aggregate" and not items(bottom.groupingExpressions()):
        return "Inner"
    most = option(plan.maxRows())
    return "LeftOuter" if most is not None and int(most) <= 1 else "LeftSingle"


def _replace(
    catalyst: Catalyst, expression: JavaObject, replaced: Sequence[tuple[JavaObject, JavaObject]]
) -> JavaObject:
    def change(node: JavaObject) -> JavaObject | None:
        if simple_name(node) != "ScalarSubquery":
            return None
        return next(column for known, column in replaced if known.semanticEquals(node))

    return catalyst.transform(expression, change)


def _project(catalyst: Catalyst, columns: Sequence[JavaObject], plan: JavaObject) -> JavaObject:
    return catalyst.plan("Project")(catalyst.seq(columns), plan)
