"""A query whose ties are decided as its view decides them, for Spark to recompute.

Where an order leaves rows level, Spark takes any of them and the view always the same ones
(`ordering`). Here a view's optimised plan gets the view's own order: then Spark has no choice left
either. What stays open are functions that pick rows from RANGE frames, whose order cannot be given
to Spark apart from their frame.
"""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.calculus.terms import Distance
from rekindle.catalyst.jvm import Catalyst, JavaObject, items, simple_name
from rekindle.catalyst.numbering import in_order
from rekindle.catalyst.table_functions import over_partitions, partitions
from rekindle.frontends.spark_sql.ordering import ties_of, total_order


def decided(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """An optimised plan in which limits and windows order their rows as the view does."""
    kind = simple_name(plan)
    if kind in ("GlobalLimit", "Offset"):
        return _limited(catalyst, plan)
    if kind == "LocalLimit":
        # One that stands alone only spares Spark work, and may drop what the view would take.
        return decided(catalyst, plan.child())
    children = items(plan.children())
    if children:
        plan = plan.withNewChildren(catalyst.seq(decided(catalyst, child) for child in children))
    match kind:
        case "Window":
            return _window(catalyst, plan)
        case "FlatMapGroupsInPandas" | "FlatMapGroupsInArrow":
            keys = len(items(plan.groupingAttributes()))
            return _group_map(catalyst, plan, [keys])
        case "FlatMapCoGroupsInPandas" | "FlatMapCoGroupsInArrow":
            return _group_map(catalyst, plan, [plan.leftGroupingLen(), plan.rightGroupingLen()])
        case "BatchEvalPythonUDTF" | "ArrowEvalPythonUDTF":
            return _table_map(catalyst, plan)
        case "WindowGroupLimit" if simple_name(plan.rankLikeFunction()) == "RowNumber":
            return catalyst.plan("WindowGroupLimit")(
                plan.partitionSpec(),
                catalyst.seq(_total(catalyst, plan)),
                plan.rankLikeFunction(),
                plan.limit(),
                plan.child(),
            )
    return plan


def _limited(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """Limits over rows in a total order."""
    child = plan.child()
    match simple_name(child):
        case "GlobalLimit" | "LocalLimit" | "Offset":
            below = _limited(catalyst, child)
        case "Project" if simple_name(child.child()) == "Sort":
            below = child.withNewChildren(catalyst.seq([_sorted(catalyst, child.child())]))
        case _:
            below = _sorted(catalyst, child)
    return plan.withNewChildren(catalyst.seq([below]))


def _sorted(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    order: list[JavaObject] = []
    if simple_name(plan) == "Sort":
        order, plan = items(plan.order()), plan.child()
    rows = decided(catalyst, plan)
    total = total_order(catalyst, order, items(rows.output()))
    return catalyst.plan("Sort")(catalyst.seq(total), True, rows, catalyst.none())


def _window(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """Functions for which level rows are one keep their order, the others have the total one."""
    groups: dict[bool, list[JavaObject]] = {}
    for named in items(plan.windowExpressions()):
        groups.setdefault(_tells_apart(named), []).append(named)
    if True not in groups:
        return plan
    columns = plan.output()
    rows = plan.child()
    orders = {False: items(plan.orderSpec()), True: _total(catalyst, plan)}
    for apart, functions in groups.items():
        rows = catalyst.plan("Window")(
            catalyst.seq(functions),
            plan.partitionSpec(),
            catalyst.seq(orders[apart]),
            rows,
            plan.hint(),
        )
    return catalyst.plan("Project")(columns, rows)


def _group_map(catalyst: Catalyst, plan: JavaObject, keys: Sequence[int]) -> JavaObject:
    """A function of groups, by so many first columns, whose rows the others order."""
    given = []
    for child, length in zip(items(plan.children()), keys, strict=True):
        columns = items(child.output())
        order = total_order(catalyst, (), columns[length:])
        rows = in_order(catalyst, columns[:length], order, child)
        given.append(catalyst.plan("Project")(catalyst.seq(columns), rows))
    return plan.withNewChildren(catalyst.seq(given))


def _table_map(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """A table function of partitions whose rows the remaining columns order."""
    parted = partitions(plan)
    if parted is None:
        return plan
    order = total_order(catalyst, parted.order, items(parted.rows.output()))
    rows = in_order(catalyst, parted.keys, order, parted.rows)
    results = items(plan.resultAttrs())
    given = over_partitions(catalyst, plan.udtf(), results, parted.columns, rows)
    return catalyst.plan("Project")(catalyst.seq(results), given)


def _tells_apart(named: JavaObject) -> bool:
    """Does a window function, or the one inside an expression, tell level rows apart?"""
    found: list[JavaObject] = []

    def collect(node: JavaObject) -> None:
        if simple_name(node) == "WindowExpression":
            found.append(node)
        for child in items(node.children()):
            collect(child)

    collect(named.child())
    return any(ties_of(each) is Distance.ROWS for each in found)


def _total(catalyst: Catalyst, plan: JavaObject) -> list[JavaObject]:
    return total_order(catalyst, items(plan.orderSpec()), items(plan.child().output()))
