"""The rules, their order, and their use to a fixed point.

A rule is a law read from left to right at the root of a term; `rewrite` offers every subterm to
every rule until none applies. The order matters for speed and for one choice: inner distincts are
dropped before outer ones collapse, so that what remains is one distinct at the end of a chain
rather than one at each beginning. It ends, since every rule removes a node or moves a distinct up.

The schema of a term is its type. A rule that changed it would corrupt every reader of the view,
so it is compared at both ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rekindle.calculus.terms import Term, over
from rekindle.calculus.walks import fold
from rekindle.errors import ROUNDS, defect, restless
from rekindle.rewrite.rules.cancel_negations import cancel_negations
from rekindle.rewrite.rules.collapse_distincts import collapse_distincts
from rekindle.rewrite.rules.drop_inner_distincts import drop_inner_distincts
from rekindle.rewrite.rules.flatten_unions import flatten_unions
from rekindle.rewrite.rules.pull_distincts import pull_distincts

Rule: TypeAlias = Callable[[Term], Term]

RULES: tuple[Rule, ...] = (
    cancel_negations,  # first: it makes more terms visibly positive
    flatten_unions,
    drop_inner_distincts,
    collapse_distincts,
    pull_distincts,  # last: it brings distincts to where the two above find them next time round
)


def apply_everywhere(rule: Rule, term: Term) -> Term:
    """The term with the rule applied once at each of its nodes, the inputs of a node first."""

    def applied(node: Term, children: tuple[Term, ...]) -> Term:
        return rule(over(node, children))

    return fold(term, lambda node: node.children, applied)


def rewrite(term: Term, rules: tuple[Rule, ...] = RULES) -> Term:
    """An equal term, of the same schema, to which no rule applies.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Distinct, Source, UnionAll
    >>> t = Source("t", Schema.of(x="int"))
    >>> rewrite(Distinct(UnionAll((Distinct(Distinct(t)),)))) == Distinct(t)
    True
    """
    # What no rule applies to stays the same object: `==` of terms would walk down both.
    current = term
    for _ in range(ROUNDS):
        previous, changing = current, ""
        for rule in rules:
            before, current = current, apply_everywhere(rule, current)
            if current is not before:
                changing = rule.__name__
            if current.schema != term.schema:
                raise defect(
                    f"the rule {rule.__name__} changed the schema of a term",
                    f"{term.schema} became {current.schema}",
                )
        if current is previous:
            return current
    raise restless("a term", changing)
