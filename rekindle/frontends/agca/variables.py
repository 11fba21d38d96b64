"""Bound and safe variables: which variables have a value where.

A variable is bound when the surroundings give its value, as group variables and the arguments of
an update are. A formula makes more variables safe: those of its atoms, and either side of x = y
once the other is known. With B the bound variables,

    safe(R(x, ...))  = {x, ...} ∪ B          safe(φ * ψ) = safe of ψ given safe(φ)
    safe(x = y)      = B ∪ {x, y} if x ∈ B or y ∈ B, else B
    safe(φ + ψ)      = safe(φ) ∩ safe(ψ)     safe(-φ)    = safe(φ)

and inside Sum(t, φ) the safe variables of φ are bound in t. The order of factors matters: values
pass from left to right. A variable that only one side of a sum makes safe is no error until
something needs its value.

There are no binders: a variable of an aggregate's body that is not bound there is the aggregate's
own, even if the same name is in use beside it (`renaming.rename_apart` makes that visible).

Section 4 (figure 1).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from rekindle.errors import DefinitionError
from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    Formula,
    MapAccess,
    Negation,
    Plus,
    Product,
    Query,
    Term,
    Truth,
    Variable,
    parts,
)
from rekindle.frontends.agca.text import written

Names = frozenset[str]


def occurring(expression: Expression) -> tuple[str, ...]:
    """vars(e): every variable in the text, in the order of first occurrence.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> occurring(parse_term("Sum(x, R(y, x))"))
    ('x', 'y')
    """
    return tuple(dict.fromkeys(_names(expression)))


def _names(expression: Expression) -> Iterator[str]:
    match expression:
        case Variable(name):
            yield name
        case Atom(_, names) | MapAccess(_, names):
            yield from names
        case _:
            for part in parts(expression):
                yield from _names(part)


def safe(formula: Formula, bound: Names) -> Names:
    """safe_B(φ): the variables that have a value after the formula, given the bound ones.

    >>> from rekindle.frontends.agca.parse import parse_formula
    >>> sorted(safe(parse_formula("(R(x, z) + (y = z)) * (z = w)"), frozenset("y")))
    ['w', 'y', 'z']
    """
    match formula:
        case Atom(_, variables):
            return bound | frozenset(variables)
        case Product(left, right):
            return safe(right, safe(left, bound))
        case Plus(left, right):
            return safe(left, bound) & safe(right, bound)
        case Negation(operand):
            return safe(operand, bound)
        case Comparison():
            equated = formula.equated
            binds = equated is not None and not bound.isdisjoint(equated)
            return bound | frozenset(equated) if equated is not None and binds else bound
        case Truth():
            return bound
        case _:
            assert_never(formula)


def check_query(query: Query) -> None:
    """Raises unless every variable of the query is safe, the group's being bound."""
    repeated = sorted({name for name in query.group if query.group.count(name) > 1})
    if repeated:
        raise DefinitionError(
            f"the group of '{query.name}' names '{repeated[0]}' twice",
            detail=f"in: {query.name}[{', '.join(query.group)}]",
            hint="name each group variable once",
        )
    check_term(query.term, frozenset(query.group))


def check_formula(formula: Formula, bound: Names) -> None:
    """Raises unless every variable of the formula has a value where one is needed."""
    match formula:
        case Product(left, right):
            check_formula(left, bound)
            check_formula(right, safe(left, bound))
        case Plus(left, right):
            check_formula(left, bound)
            check_formula(right, bound)
        case Negation(operand):
            check_formula(operand, bound)
        case Comparison(left, _, right):
            if formula.equated is None or bound.isdisjoint(formula.equated):
                _check(left, bound, formula)
                _check(right, bound, formula)
        case Atom() | Truth():
            pass
        case _:
            assert_never(formula)


def check_term(term: Term, bound: Names) -> None:
    """Raises unless every variable of the term has a value where one is needed."""
    _check(term, bound, term)


def _check(term: Term, bound: Names, place: Expression) -> None:
    match term:
        case Variable(name):
            _check_bound((name,), bound, place)
        case MapAccess(_, keys):
            _check_bound(keys, bound, place)
        case Aggregate(value, body):
            check_formula(body, bound)
            _check(value, safe(body, bound), term)
        case Product(left, right) | Plus(left, right):
            _check(left, bound, place)
            _check(right, bound, place)
        case Negation(operand):
            _check(operand, bound, place)
        case Call(_, arguments):
            for argument in arguments:
                _check(argument, bound, place)
        case Constant():
            pass
        case _:
            assert_never(term)


def _check_bound(names: Iterable[str], bound: Names, place: Expression) -> None:
    for name in names:
        if name not in bound:
            raise _unsafe(name, bound, place)


def _unsafe(name: str, bound: Names, place: Expression) -> DefinitionError:
    known = ", ".join(sorted(bound)) if bound else "none"
    return DefinitionError(
        f"variable '{name}' has no value",
        detail=f"in: {written(place)}; variables that have one there: {known}",
        hint=f"put a relation with '{name}' to the left of its use, or make it a group variable",
    )
