"""The text form of AGCA, which parses back to an equal query (the grammar is in `parse`).

Comparisons inside products and sums stand in parentheses, as the paper writes them; other
parentheses appear only where the reading needs them.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import assert_never

from rekindle.frontends.agca.ast import (
    Aggregate,
    Atom,
    Call,
    Comparison,
    Constant,
    Expression,
    MapAccess,
    Negation,
    Plus,
    Product,
    Query,
    Truth,
    Value,
    Variable,
)

RELATION = re.compile(r"(?!Sum\b)[A-Z]\w*")
_SUM, _PRODUCT, _FACTOR = range(3)


def written(expression: Expression) -> str:
    """The text of a formula or term.

    >>> from rekindle.frontends.agca.parse import parse_formula
    >>> written(parse_formula("((R(x))) * (x<3)"))
    'R(x) * (x < 3)'
    """
    return _written(expression, _SUM)


def written_query(query: Query) -> str:
    """The text of a query, group variables in brackets.

    >>> written_query(Query("q", ("a",), Constant(1)))
    'q[a] = 1'
    """
    return f"{query.name}[{', '.join(query.group)}] = {written(query.term)}"


def written_value(value: Value) -> str:
    """A number as itself or as a fraction, a string in quotes."""
    if isinstance(value, str):
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    return str(Fraction(value))


def _written(expression: Expression, level: int) -> str:
    """The text where an operator of `level` may stand without parentheses."""
    match expression:
        case Plus(left, Negation(right)):
            return _enclosed(f"{_sum(left)} - {_written(right, _PRODUCT)}", level > _SUM)
        case Plus(left, right):
            return _enclosed(f"{_sum(left)} + {_written(right, _PRODUCT)}", level > _SUM)
        case Product(left, right):
            text = f"{_written(left, _PRODUCT)} * {_written(right, _FACTOR)}"
            return _enclosed(text, level > _PRODUCT)
        case Comparison(left, operator, right):
            text = f"{_written(left, _SUM)} {operator.value} {_written(right, _SUM)}"
            return text if level == _SUM else f"({text})"
        case Negation(Constant() as operand):
            return f"-({_written(operand, _SUM)})"
        case Negation(operand):
            return f"-{_written(operand, _FACTOR)}"
        case Truth(value):
            return "true" if value else "false"
        case Atom(relation, variables):
            return f"{_relation(relation)}({', '.join(variables)})"
        case Variable(name):
            return name
        case Constant(value):
            return written_value(value)
        case Call(function, arguments):
            return f"{function}({', '.join(map(written, arguments))})"
        case Aggregate(value, body):
            return f"Sum({written(value)}, {written(body)})"
        case MapAccess(name, keys):
            return f"{name}[{', '.join(keys)}]"
        case _:
            assert_never(expression)


def _sum(left: Expression) -> str:
    """The left side of + and −, where a bare comparison would swallow the rest."""
    return _written(left, _PRODUCT if isinstance(left, Comparison) else _SUM)


def _enclosed(text: str, needed: bool) -> str:
    return f"({text})" if needed else text


def _relation(name: str) -> str:
    return name if RELATION.fullmatch(name) else f"`{name}`"
