"""Plans as text, for views that are given as DataFrames.

Java writes most plans. Some nodes it does not write or cannot read: those that run a Python
function of a group's rows, set operations and lateral joins. An aggregate stands in for each. What
the node says besides its columns is the first result, and two children are the sides of a join.

    FlatMapGroups(f, keys, columns, t)       Aggregate(keys, [f, columns], t)
    FlatMapCoGroups(f, keys, columns, t, u)  Aggregate(keys, [f, columns], t ⋈ u)
    Intersect(t, u, all)                     Aggregate([], [all], t ⋈ u)
    LateralJoin(t, u of outer, how, if)      Aggregate(outer, [true], t ⋈ u by how, if)
"""

from __future__ import annotations

import base64
from collections.abc import Sequence

from rekindle.catalyst.jvm import Catalyst, JavaObject, items, simple_name
from rekindle.catalyst.stored_functions import read_trusted
from rekindle.shapes import ShapeError

GROUP_MAPS = ("FlatMapGroupsInPandas", "FlatMapGroupsInArrow")
COGROUP_MAPS = ("FlatMapCoGroupsInPandas", "FlatMapCoGroupsInArrow")
_SET_OPERATIONS = ("Intersect", "Except")
_KINDS = (*GROUP_MAPS, *COGROUP_MAPS, *_SET_OPERATIONS, "LateralJoin")
_PLANS = "org.apache.spark.sql.catalyst.plans"
_MARK = "rekindle.node."


def plans_to_text(catalyst: Catalyst, plans: Sequence[JavaObject]) -> str:
    """Storable plans as a text; read back at once, since Java writes subqueries that it cannot
    read."""
    written = catalyst.serialise(plans)
    catalyst.deserialise(written)
    return base64.b64encode(written).decode()


def plans_from_text(catalyst: Catalyst, text: str) -> list[JavaObject]:
    """The storable plans that a text stands for."""
    return read_trusted(catalyst, base64.b64decode(text))


def storable(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """The plan with aggregates in place of what Java does not write; its leaves are the same."""

    def change(node: JavaObject) -> JavaObject | None:
        match simple_name(node):
            case kind if kind in GROUP_MAPS:
                said, results = node.functionExpr(), items(node.output())
                keys, child = items(node.groupingAttributes()), storable(catalyst, node.child())
            case kind if kind in COGROUP_MAPS:
                said, results = node.functionExpr(), items(node.output())
                keys = items(node.left().output())[: node.leftGroupingLen()]
                child = product(node.left(), node.right())
            case kind if kind in _SET_OPERATIONS:
                said, results, keys = catalyst.literal(str(bool(node.isAll()))), [], []
                child = product(node.left(), node.right())
            case "LateralJoin" as kind:
                said, results, keys = catalyst.literal("true"), [], items(node.right().outerAttrs())
                child = joined(node.left(), node.right().plan(), node.joinType(), node.condition())
            case _:
                return None
        named = catalyst.named(said, _MARK + kind)
        given = catalyst.seq([named, *results])
        return catalyst.plan("Aggregate")(catalyst.seq(keys), given, child, catalyst.none())

    def product(left: JavaObject, right: JavaObject) -> JavaObject:
        return joined(left, right, catalyst.module(f"{_PLANS}.Inner"), catalyst.none())

    def joined(
        left: JavaObject, right: JavaObject, how: JavaObject, condition: JavaObject
    ) -> JavaObject:
        no_hint = catalyst.module(f"{_PLANS}.logical.JoinHint").NONE()
        sides = storable(catalyst, left), storable(catalyst, right)
        return catalyst.plan("Join")(*sides, how, condition, no_hint)

    return catalyst.transform(plan, change)


def restored(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """The plan that a storable one stands for."""

    def change(node: JavaObject) -> JavaObject | None:
        if simple_name(node) != "Aggregate" or not items(node.aggregateExpressions()):
            return None
        named, *results = items(node.aggregateExpressions())
        if not str(named.name()).startswith(_MARK):
            return None
        kind = str(named.name())[len(_MARK) :]
        if kind not in _KINDS:
            raise ShapeError(f"no node of a plan is called '{kind[:40]}'")
        build, said, given = catalyst.plan(kind), named.child(), catalyst.seq(results)
        keys, child = node.groupingExpressions(), restored(catalyst, node.child())
        if kind in GROUP_MAPS:
            return build(keys, said, given, child)
        left, right = child.left(), child.right()
        if kind in COGROUP_MAPS:
            return build(keys.length(), keys.length(), said, given, left, right)
        if kind in _SET_OPERATIONS:
            return build(left, right, said.value())
        none, nothing = catalyst.none(), catalyst.seq(())
        subquery = catalyst.expression("LateralSubquery")
        inner = subquery(right, keys, catalyst.identifier(), nothing, none)
        return build(left, inner, child.joinType(), child.condition())

    return catalyst.transform(plan, change)
