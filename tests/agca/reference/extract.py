"""Extract: the aggregates of a term that read the database, replaced by accesses of maps.

What is left depends on the update and on maps alone. A map's keys are the variables that are
bound where the aggregate stood and occur in it.

Section 7.2 (extraction of aggregates).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias, assert_never

from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Call,
    Constant,
    MapAccess,
    Negation,
    Plus,
    Product,
    Term,
    Variable,
    within,
)
from rekindle.frontends.agca.variables import Names, occurring, safe

Keeper: TypeAlias = Callable[[Aggregate, tuple[str, ...]], str]
"""Gives the map that holds an aggregate by these keys its name."""


def is_constraints_only(aggregate: Aggregate) -> bool:
    """The body has comparisons only: the aggregate is an `if`."""
    return not any(isinstance(part, Atom) for part in within(aggregate.body))


def extract(term: Term, bound: Names, keeper: Keeper) -> Term:
    """The term with each outermost aggregate over atoms replaced by an access of its map."""
    match term:
        case Aggregate(value, body) if is_constraints_only(term):
            return Aggregate(extract(value, safe(body, bound), keeper), body)
        case Aggregate():
            keys = tuple(name for name in occurring(term) if name in bound)
            return MapAccess(keeper(term, keys), keys)
        case Product(left, right):
            return Product(extract(left, bound, keeper), extract(right, bound, keeper))
        case Plus(left, right):
            return Plus(extract(left, bound, keeper), extract(right, bound, keeper))
        case Negation(operand):
            return Negation(extract(operand, bound, keeper))
        case Call(function, arguments):
            return Call(function, tuple(extract(each, bound, keeper) for each in arguments))
        case Variable() | Constant() | MapAccess():
            return term
        case _:
            assert_never(term)


def accesses(term: Term) -> Iterator[MapAccess]:
    """The map accesses of a term, from left to right."""
    return (part for part in within(term) if isinstance(part, MapAccess))
