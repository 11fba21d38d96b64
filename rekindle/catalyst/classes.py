"""Which classes a plan or an expression of Catalyst is made of, in as few round trips as it takes.

The JSON form of a tree names them all at once. The hazard: it writes an ELSE twice, as a field and
as a child, so that a CASE that is n times nested in ELSEs has a JSON form of 2ⁿ nodes. Such trees
are walked instead.
"""

from __future__ import annotations

import re

from rekindle.calculus.walks import visited
from rekindle.catalyst.jvm import (
    JavaObject,
    asked,
    children_of,
    has_case,
    has_long_json,
    items,
    simple_name,
)

_CLASS = re.compile(r'"class":"[\w.$]*?(\w+)\$?"')


def classes_of(expression: JavaObject) -> set[str]:
    """The names of the classes of an expression and of all that is inside it."""
    if has_long_json(expression):
        return {simple_name(node) for node in visited(expression, children_of)}
    return set(_CLASS.findall(str(expression.toJSON())))


def classes_of_plan(plan: JavaObject) -> set[str]:
    """The names of the classes of a plan, its expressions and its subqueries.

    The first time this takes some tens of milliseconds, however small the plan is.
    """
    found: set[str] = asked(plan, "classes", lambda: _classes_of_plan(plan))
    return found


def _classes_of_plan(plan: JavaObject) -> set[str]:
    if not has_case(plan):
        return set(_CLASS.findall(str(plan.toJSON())))
    found: set[str] = set()
    for whole in (plan, *items(plan.subqueriesAll())):
        for node in visited(whole, children_of):
            found.add(simple_name(node))
            found.update(*map(classes_of, items(node.expressions())))
    return found
