"""Other names for variables, with the meaning kept.

AGCA has no binders: a variable of an aggregate's body that is not bound there is the aggregate's
own, even if the same name is in use beside it. `rename_apart` gives such variables names that
occur nowhere else. After that a name means the same thing everywhere, so factors may change
places, aggregates may be taken apart, and `substitute` cannot capture.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any, TypeVar, assert_never

from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Formula,
    MapAccess,
    Negation,
    Plus,
    Product,
    Term,
    Truth,
    Variable,
)
from rekindle.frontends.agca.variables import Names, safe

E = TypeVar("E", bound="Formula | Term")


def fresh(name: str, taken: Iterable[str]) -> str:
    """The name itself if it is free, else its stem with the first number that is free.

    >>> fresh("cid", {"cid"}), fresh("n", {"m"})
    ('cid2', 'n')
    """
    used = set(taken)
    stem = name.rstrip("'0123456789")
    numbered = (f"{stem}{number}" for number in count(2))
    return name if name not in used else next(new for new in numbered if new not in used)


def substitute(expression: E, names: Mapping[str, str]) -> E:
    """The expression with variables renamed everywhere; names must not be reused for locals.

    >>> from rekindle.frontends.agca.parse import parse_formula
    >>> substitute(parse_formula("R(x)"), {"x": "u"})
    Atom(relation='R', variables=('u',))
    """
    result: E = _substituted(expression, names)
    return result


def _substituted(expression: Any, names: Mapping[str, str]) -> Any:
    match expression:
        case Variable(name):
            return Variable(names.get(name, name))
        case Atom(relation, variables):
            return Atom(relation, tuple(names.get(name, name) for name in variables))
        case MapAccess(map_name, keys):
            return MapAccess(map_name, tuple(names.get(name, name) for name in keys))
        case Product(left, right):
            return Product(_substituted(left, names), _substituted(right, names))
        case Plus(left, right):
            return Plus(_substituted(left, names), _substituted(right, names))
        case Negation(operand):
            return Negation(_substituted(operand, names))
        case Comparison(left, operator, right):
            return Comparison(_substituted(left, names), operator, _substituted(right, names))
        case Call(function, arguments):
            return Call(function, tuple(_substituted(each, names) for each in arguments))
        case Aggregate(value, body):
            return Aggregate(_substituted(value, names), _substituted(body, names))
        case _:
            return expression


def rename_apart(term: Term, bound: Iterable[str]) -> Term:
    """The same term, in which no aggregate's own variable shares its name with anything else.

    >>> from rekindle.frontends.agca.parse import parse_term
    >>> from rekindle.frontends.agca.text import written
    >>> written(rename_apart(parse_term("Sum(1, R(x)) * Sum(x, S(x))"), ()))
    'Sum(1, R(x)) * Sum(x2, S(x2))'
    """
    scope = {name: name for name in bound}
    return _Renaming(set(scope)).term(term, scope)


def rename_formula_apart(formula: Formula, bound: Iterable[str]) -> Formula:
    """The same for the aggregates in a formula; its own variables, which its tuples have, stay.

    >>> from rekindle.frontends.agca.parse import parse_formula
    >>> from rekindle.frontends.agca.text import written
    >>> written(rename_formula_apart(parse_formula("(Sum(x, S(x)) = 0) * R(x)"), ()))
    '(Sum(x2, S(x2)) = 0) * R(x)'
    """
    level = {name: name for name in (*bound, *_introduced(formula))}
    return _Renaming(set(level)).formula(formula, level, frozenset(bound))


class _Renaming:
    """One pass; `taken` are the names that mean something already."""

    def __init__(self, taken: set[str]) -> None:
        self._taken = taken

    def term(self, term: Term, scope: Mapping[str, str]) -> Term:
        match term:
            case Variable() | MapAccess() | Constant():
                return substitute(term, scope)
            case Product(left, right):
                return Product(self.term(left, scope), self.term(right, scope))
            case Plus(left, right):
                return Plus(self.term(left, scope), self.term(right, scope))
            case Negation(operand):
                return Negation(self.term(operand, scope))
            case Call(function, arguments):
                return Call(function, tuple(self.term(each, scope) for each in arguments))
            case Aggregate(value, body):
                own = {name: self._claim(name) for name in _introduced(body) if name not in scope}
                level = {**scope, **own}
                known = safe(body, frozenset(scope))
                renamed = self.formula(body, level, frozenset(scope))
                return Aggregate(self.term(value, _only(level, known)), renamed)
            case _:
                assert_never(term)

    def formula(self, formula: Formula, level: Mapping[str, str], bound: Names) -> Formula:
        match formula:
            case Product(left, right):
                renamed = self.formula(left, level, bound)
                return Product(renamed, self.formula(right, level, safe(left, bound)))
            case Plus(left, right):
                return Plus(self.formula(left, level, bound), self.formula(right, level, bound))
            case Negation(operand):
                return Negation(self.formula(operand, level, bound))
            case Comparison(left, operator, right):
                if formula.equated is not None:
                    return substitute(formula, level)
                scope = _only(level, bound)
                return Comparison(self.term(left, scope), operator, self.term(right, scope))
            case Atom() | Truth():
                return substitute(formula, level)
            case _:
                assert_never(formula)

    def _claim(self, name: str) -> str:
        new = fresh(name, self._taken)
        self._taken.add(new)
        return new


def _only(level: Mapping[str, str], names: Names) -> dict[str, str]:
    return {name: new for name, new in level.items() if name in names}


def _introduced(formula: Formula) -> tuple[str, ...]:
    """The variables of the formula's atoms and equalities, not those of aggregates inside it."""
    match formula:
        case Atom(_, variables):
            return tuple(dict.fromkeys(variables))
        case Product(left, right) | Plus(left, right):
            return tuple(dict.fromkeys(_introduced(left) + _introduced(right)))
        case Negation(operand):
            return _introduced(operand)
        case Comparison():
            return formula.equated or ()
        case Truth():
            return ()
        case _:
            assert_never(formula)
