"""Two negations cancel: −(−x) = x.

Negation is the inverse of a group. Beyond the work it saves, the law makes more terms visibly
positive, and positivity is a premise of other rules.
"""

from __future__ import annotations

from rekindle.calculus.terms import Negate, Term


def cancel_negations(term: Term) -> Term:
    """The input of a negated negation.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Source
    >>> t = Source("t", Schema.of(x="int"))
    >>> cancel_negations(Negate(Negate(t))) == t
    True
    """
    match term:
        case Negate(Negate(child)):
            return child
        case _:
            return term
