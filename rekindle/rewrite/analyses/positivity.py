"""Which terms denote bags: no row has a negative weight (Definition 4.2).

Tables and views are bags, and an operator that is itself positive maps bags to bags. A set is a
bag too, whatever it was made from: distinct(a − b) is positive although a − b is not.
"""

from __future__ import annotations

from rekindle.calculus.terms import Positivity, Term
from rekindle.calculus.walks import fold
from rekindle.rewrite.analyses.setness import is_set


def is_positive(term: Term) -> bool:
    """No row of the term's value has a negative weight, if the sources hold bags.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Distinct, Negate, Source
    >>> t = Source("t", Schema.of(x="int"))
    >>> is_positive(t), is_positive(Negate(t)), is_positive(Distinct(Negate(t)))
    (True, False, True)
    """
    return id(term) in positive_parts(term)


def positive_parts(term: Term) -> set[int]:
    """The identities of a term's nodes that are positive, found by one walk."""
    found: set[int] = set()

    def judge(node: Term, inputs: tuple[bool, ...]) -> bool:
        positive = is_set(node) or (node.positivity is Positivity.POSITIVE and all(inputs))
        if positive:
            found.add(id(node))
        return positive

    fold(term, lambda node: node.children, judge)
    return found
