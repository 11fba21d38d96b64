"""One distinct at the end is enough: distinct(Q(distinct(i))) = distinct(Q(i)).

Proposition 4.5, for positive i and Q a filter, map, flatmap, addition, join or product. Of a
positive input, each of these tells the outer distinct only which rows occur: whether a row of
Q(i) has a weight above zero depends on which rows of i have one, and not on how large it is. Such
functions compose, so the rule looks below the outer distinct through any number of them.

Every input of such an operator must be positive, not only the one whose distinct goes: with
i[x] = 2 and b[x] = −1, distinct(distinct(i) + b) is empty and distinct(i + b) is not.
"""

from __future__ import annotations

from rekindle.calculus.terms import (
    Distinct,
    Filter,
    FlatMap,
    Join,
    Map,
    Term,
    UnionAll,
    over,
)
from rekindle.calculus.walks import fold
from rekindle.rewrite.analyses.positivity import positive_parts


def drop_inner_distincts(term: Term) -> Term:
    """A distinct whose input has no distincts that it makes superfluous.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Source
    >>> t = Source("t", Schema.of(x="int"))
    >>> drop_inner_distincts(Distinct(UnionAll((Distinct(t), t)))) == Distinct(UnionAll((t, t)))
    True
    """
    match term:
        case Distinct(child):
            return over(term, (_with_any_weights(child),))
        case _:
            return term


def _with_any_weights(term: Term) -> Term:
    """A term with the same rows of positive weight."""
    positive = positive_parts(term)

    def looked_through(node: Term) -> tuple[Term, ...]:
        """The inputs of a node of which it only matters which rows they have."""
        match node:
            case Distinct() | Filter() | Map() | FlatMap() | UnionAll() | Join() if all(
                id(child) in positive for child in node.children
            ):
                return node.children
            case _:
                return ()

    return fold(term, looked_through, _without_distinct)


def _without_distinct(term: Term, inputs: tuple[Term, ...]) -> Term:
    if not inputs:
        return term
    return inputs[0] if isinstance(term, Distinct) else over(term, inputs)
