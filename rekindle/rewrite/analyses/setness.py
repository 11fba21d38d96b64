"""Which terms denote sets: every row present has weight one (Definition 4.1).

The facts hold whatever the sources contain. `distinct` gives a set by definition. An aggregate
gives one row for each key, and the keys are columns of that row. A filter keeps weights; a join
multiplies them, and 1 · 1 = 1. Maps and unions add weights, so nothing is known of them.
"""

from __future__ import annotations

from rekindle.calculus.bodies import Measures
from rekindle.calculus.terms import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    PerGroup,
    SemiJoin,
    Term,
    Triggered,
)
from rekindle.calculus.walks import visited


def is_set(term: Term) -> bool:
    """No row of the term's value weighs anything but one.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Source
    >>> t = Source("t", Schema.of(x="int"))
    >>> is_set(t), is_set(Distinct(t))
    (False, True)
    """
    return all(_is_set(node) is not False for node in visited(term, _inputs))


def _is_set(term: Term) -> bool | None:
    """Does the operator give a set whatever its inputs are, never for certain, or if they are?"""
    match term:
        case Distinct() | Aggregate() | PerGroup(body=Measures()):
            return True
        case SemiJoin() | Triggered() | Filter() | Join():
            return None
        case _:
            return False


def _inputs(term: Term) -> tuple[Term, ...]:
    """The inputs that must be sets for the term to be one."""
    match term:
        case SemiJoin():
            return (term.left,)
        case Triggered():
            return (term.meaning,)
        case Filter() | Join():
            return term.children
        case _:
            return ()
