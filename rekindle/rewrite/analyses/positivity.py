"""Which terms denote bags: no row has a negative weight (Definition 4.2).

Tables and views are bags, and an operator that is itself positive maps bags to bags. A set is a
bag too, whatever it was made from: distinct(a − b) is positive although a − b is not.
"""

from __future__ import annotations

from rekindle.calculus.terms import Positivity, Term
from rekindle.calculus.walks import visited
from rekindle.rewrite.analyses.setness import is_set


def is_positive(term: Term) -> bool:
    """No row of the term's value has a negative weight, if the sources hold bags.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Distinct, Negate, Source
    >>> t = Source("t", Schema.of(x="int"))
    >>> is_positive(t), is_positive(Negate(t)), is_positive(Distinct(Negate(t)))
    (True, False, True)
    """
    return all(
        node.positivity is Positivity.POSITIVE or is_set(node) for node in visited(term, _inputs)
    )


def _inputs(term: Term) -> tuple[Term, ...]:
    """The inputs that must be bags for the term to be one."""
    return () if is_set(term) else term.children
