"""Plans as text, for views that are given as DataFrames.

Java writes most plans. The nodes that run a Python function of a group's rows it does not, so an
aggregate stands in for each: by the same keys, with the function and its columns as results.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from rekindle.frontends.spark_sql.jvm import Catalyst, JavaObject, items, simple_name

GROUP_MAPS = ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow")
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
        if simple_name(node) not in GROUP_MAPS:
            return None
        named = catalyst.named(node.functionExpr(), _MARK + simple_name(node))
        results = catalyst.seq([named, *items(node.output())])
        child = _storable(catalyst, node.child())
        return catalyst.plan("Aggregate")(
            node.groupingAttributes(), results, child, catalyst.none()
        )

    return catalyst.transform(plan, change)


def _restored(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    def change(node: JavaObject) -> JavaObject | None:
        if simple_name(node) != "Aggregate" or not items(node.aggregateExpressions()):
            return None
        named, *results = items(node.aggregateExpressions())
        if not str(named.name()).startswith(_MARK):
            return None
        build = catalyst.plan(str(named.name())[len(_MARK) :])
        child = _restored(catalyst, node.child())
        return build(node.groupingExpressions(), named.child(), catalyst.seq(results), child)

    return catalyst.transform(plan, change)
