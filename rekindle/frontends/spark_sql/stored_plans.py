"""Plans as text, for views that are given as DataFrames.

Java writes most plans. The nodes that run a Python function of a group's rows it does not, so an
aggregate stands in for each: by the same keys, with the function and its columns as results. Those
of two tables are an aggregate of their product.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from rekindle.frontends.spark_sql.jvm import Catalyst, JavaObject, items, simple_name

GROUP_MAPS = ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow")
COGROUP_MAPS = ("FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow")
_PLANS = "org.apache.spark.sql.catalyst.plans"
_MARK = "rekindle.group map."


def plans_to_text(catalyst: Catalyst, plans: Sequence[JavaObject]) -> str:
    """Plans as a text; read back at once, since Java writes subqueries that it cannot read."""
    written = catalyst.serialise([_storable(catalyst, plan) for plan in plans])
    catalyst.deserialise(written)
    return base64.b64encode(written).decode()


def plans_from_text(catalyst: Catalyst, text: str) -> list[JavaObject]:
    plans = catalyst.deserialise(base64.b64decode(text))
    return [_restored(catalyst, plan) for plan in plans]


def _storable(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    def change(node: JavaObject) -> JavaObject | None:
        kind = simple_name(node)
        if kind not in (*GROUP_MAPS, *COGROUP_MAPS):
            return None
        named = catalyst.named(node.functionExpr(), _MARK + kind)
        results = catalyst.seq([named, *items(node.output())])
        child, *others = (_storable(catalyst, child) for child in items(node.children()))
        if others:
            keys = catalyst.seq(items(child.output())[: node.leftGroupingLen()])
            inner, hint = (
                catalyst.module(f"{_PLANS}.Inner"),
                catalyst.module(f"{_PLANS}.logical.JoinHint"),
            )
            child = catalyst.plan("Join")(child, *others, inner, catalyst.none(), hint.NONE())
        else:
            keys = node.groupingAttributes()
        return catalyst.plan("Aggregate")(keys, results, child, catalyst.none())

    return catalyst.transform(plan, change)


def _restored(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    def change(node: JavaObject) -> JavaObject | None:
        if simple_name(node) != "Aggregate" or not items(node.aggregateExpressions()):
            return None
        named, *results = items(node.aggregateExpressions())
        if not str(named.name()).startswith(_MARK):
            return None
        kind = str(named.name())[len(_MARK) :]
        build, function, given = catalyst.plan(kind), named.child(), catalyst.seq(results)
        keys, child = node.groupingExpressions(), _restored(catalyst, node.child())
        if kind in GROUP_MAPS:
            return build(keys, function, given, child)
        return build(keys.length(), keys.length(), function, given, child.left(), child.right())

    return catalyst.transform(plan, change)
