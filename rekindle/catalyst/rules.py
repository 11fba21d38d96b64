"""Rules on plans: each gives an equal plan, and they are applied in order until each is at rest.

A rule that has nothing to do gives back the plan that it got, the same object: plans are not
compared. It may not change the columns of a plan, by whose numbers all above it refer to them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from rekindle.calculus.walks import fold
from rekindle.catalyst.jvm import Catalyst, JavaObject, children_of, id_of, items, with_children
from rekindle.errors import ROUNDS, defect, restless

Rule: TypeAlias = Callable[[Catalyst, JavaObject], JavaObject]


def apply_everywhere(rule: Rule, catalyst: Catalyst, plan: JavaObject) -> JavaObject:
    """The plan with a rule applied once at each of its nodes, the children of a node first."""

    def applied(node: JavaObject, below: tuple[JavaObject, ...]) -> JavaObject:
        if any(new is not old for new, old in zip(below, children_of(node), strict=True)):
            node = with_children(catalyst, node, below)
        return rule(catalyst, node)

    return fold(plan, children_of, applied)


def rewrite(catalyst: Catalyst, plan: JavaObject, rules: Sequence[Rule]) -> JavaObject:
    """An equal plan with the same columns, to which none of the rules applied any more.

    Each in turn, until it has nothing to do: a rule does not make work for those before it.
    """
    for rule in rules:
        for _ in range(ROUNDS):
            before, plan = plan, rule(catalyst, plan)
            if plan is before:
                break
            _refuse_other_columns(rule, before, plan)
        else:
            raise restless("a plan of Spark", rule.__name__)
    return plan


def _refuse_other_columns(rule: Rule, before: JavaObject, after: JavaObject) -> None:
    if list(map(id_of, items(before.output()))) != list(map(id_of, items(after.output()))):
        raise defect(
            f"the rule {rule.__name__} changed the columns of a plan",
            f"{before.output()} became {after.output()}",
        )
