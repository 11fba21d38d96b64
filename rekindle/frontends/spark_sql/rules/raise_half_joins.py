"""Semi and anti joins that compare pairs, above the inner joins around them.

Catalyst pushes EXISTS and NOT EXISTS down to the table that they are about. With equal keys alone
that is well: what is kept of such a join are keys. One that also compares (`x.s <> y.s`) keeps the
pairs of the rows of its left side, so here it comes after the inner joins, when these and their
filters have left fewer rows. Both commute: whether a row is kept does not depend on its partners.
But rows that the semi join would have dropped reach what it is raised above, so that must not be
able to fail on them: columns and comparisons, nothing computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    children_of,
    id_of,
    items,
    operands,
    option,
    simple_name,
)
from rekindle.catalyst.rules import apply_everywhere

_INNER = ("Inner", "Cross")
_HALF = ("LeftSemi", "LeftAnti")
_EQUAL = ("EqualTo", "EqualNullSafe")
_HARMLESS = (
    *("AttributeReference", "Literal", "Alias", "And", "Or", "Not", "IsNull", "IsNotNull"),
    *(*_EQUAL, "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual"),
)
_PRUNING = "org.apache.spark.sql.catalyst.optimizer.ColumnPruning"


def raise_half_joins(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """An equal plan in which such joins stand above the inner joins that they stood under."""
    found = apply_everywhere(_at_root, catalyst, plan)
    return plan if found is plan else catalyst.module(_PRUNING).apply(found)


def _at_root(catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    condition = option(plan.condition()) if _is_join(plan, _INNER) else None
    if condition is None or not _is_harmless(condition):
        return plan
    left, right = (_lifted(catalyst, side) for side in (plan.left(), plan.right()))
    lifted = [*left[1], *right[1]]
    if not lifted:
        return plan
    joined = plan.withNewChildren(catalyst.seq([left[0], right[0]]))
    if any(_is_shown(half.right(), joined) for half in lifted):
        return plan
    for half in lifted:
        joined = half.withNewChildren(catalyst.seq([joined, half.right()]))
    return catalyst.plan("Project")(plan.output(), joined)


def _lifted(catalyst: Catalyst, plan: JavaObject) -> tuple[JavaObject, list[JavaObject]]:
    """A side of a join without the joins that can come later, and these, the innermost first."""
    if _is_join(plan, _HALF) and _compares(plan):
        below, lifted = _lifted(catalyst, plan.left())
        return below, [*lifted, plan]
    if simple_name(plan) != "Project" or not all(map(_is_harmless, items(plan.projectList()))):
        return plan, []
    below, lifted = _lifted(catalyst, plan.child())
    if not lifted:
        return plan, []
    shown = items(plan.projectList())
    known = {id_of(column) for column in shown}
    needed = [
        column
        for column in items(below.output())
        if id_of(column) not in known and _is_read(column, lifted)
    ]
    return catalyst.plan("Project")(catalyst.seq([*shown, *needed]), below), lifted


def _is_join(plan: JavaObject, kinds: Sequence[str]) -> bool:
    return simple_name(plan) == "Join" and simple_name(plan.joinType()) in kinds


def _is_harmless(expression: JavaObject) -> bool:
    return all(simple_name(node) in _HARMLESS for node in visited(expression, children_of))


def _compares(half: JavaObject) -> bool:
    """Has it equal keys, and beside them a condition on both sides?"""
    condition = option(half.condition())
    if condition is None:
        return False
    parts = operands(condition, "And")
    crossing = [part for part in parts if _crosses(part, half)]
    equal = [part for part in crossing if simple_name(part) in _EQUAL]
    return bool(equal) and len(crossing) > len(equal)


def _crosses(condition: JavaObject, half: JavaObject) -> bool:
    read = condition.references()
    return all(
        any(read.contains(column) for column in items(side.output()))
        for side in (half.left(), half.right())
    )


def _is_shown(hidden: JavaObject, plan: JavaObject) -> bool:
    """Are columns of a side that a semi join hides also columns of a plan?"""
    columns = {id_of(column) for column in items(plan.output())}
    return any(id_of(column) in columns for column in items(hidden.output()))


def _is_read(column: JavaObject, lifted: Sequence[JavaObject]) -> bool:
    return any(half.condition().get().references().contains(column) for half in lifted)
