"""Distinct rows as groups.

    δ(t) = γ[all columns](t)

Catalyst leaves a `Distinct` where it has taken a correlated subquery apart, and has an aggregate
for any other.
"""

from __future__ import annotations

from rekindle.catalyst.jvm import Catalyst, JavaObject, child_of, simple_name, with_children_of
from rekindle.catalyst.rules import apply_everywhere


def replace_distincts(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """An equal plan without distincts."""
    return apply_everywhere(_at_root, catalyst, plan)


def _at_root(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    if simple_name(plan) != "Distinct":
        return plan
    child = child_of(plan)
    columns = child.output()
    grouped = catalyst.plan("Aggregate")(columns, columns, child, catalyst.none())
    return with_children_of(grouped, plan)
