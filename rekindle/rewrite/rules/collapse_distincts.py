"""A set needs no distinct: isset(x) ⇒ distinct(x) = x.

The cases that occur are distinct(distinct(x)), distinct over an aggregate, whose keys are part of
each row, and filters and joins of those. An incremental distinct keeps the integral of its input,
so each one that goes is a copy of the data less.
"""

from __future__ import annotations

from rekindle.calculus.terms import Distinct, Term
from rekindle.rewrite.analyses.setness import is_set


def collapse_distincts(term: Term) -> Term:
    """A set without the distinct over it.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Source
    >>> t = Source("t", Schema.of(x="int"))
    >>> collapse_distincts(Distinct(Distinct(t))) == Distinct(t)
    True
    """
    match term:
        case Distinct(child) if is_set(child):
            return child
        case _:
            return term
