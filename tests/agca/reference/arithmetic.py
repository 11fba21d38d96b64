"""Values and what can be done with them: the ring ℚ, comparisons and the built-in functions.

Numbers are exact. Strings can be compared with strings; an order between a string and a number,
or arithmetic with a string, is an error of the query.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from math import floor
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from rekindle.errors import EvaluationError, unknown_name
from rekindle.frontends.agca.ast import Operator, Value
from rekindle.frontends.agca.text import written_value

Number = Fraction | int


def _divide(left: Number, right: Number) -> Number:
    """left / right, and 0 where right is 0, so that it is total."""
    return Fraction(left) / right if right else 0


FUNCTIONS: Mapping[str, Callable[..., Number]] = {
    "abs": abs,
    "divide": _divide,
    "floor": floor,
    "greatest": max,
    "least": min,
}
"""The built-in functions f; constants are written as such."""

_COMPARE: Mapping[Operator, Callable[[Any, Any], bool]] = {
    Operator.EQUAL: eq,
    Operator.UNEQUAL: ne,
    Operator.LESS: lt,
    Operator.AT_MOST: le,
    Operator.GREATER: gt,
    Operator.AT_LEAST: ge,
}


def number(value: Value) -> Number:
    """The value, which must be a number."""
    if isinstance(value, str):
        raise EvaluationError(
            f"{written_value(value)} is not a number",
            hint="strings can be compared, not added or multiplied",
        )
    return value


def compare(left: Value, operator: Operator, right: Value) -> bool:
    """left θ right.

    >>> compare("UK", Operator.EQUAL, "US"), compare(1, Operator.LESS, 2)
    (False, True)
    """
    ordered = operator not in (Operator.EQUAL, Operator.UNEQUAL)
    if ordered and isinstance(left, str) != isinstance(right, str):
        raise EvaluationError(
            f"{written_value(left)} {operator.value} {written_value(right)} has no answer",
            hint="compare numbers with numbers and strings with strings",
        )
    return _COMPARE[operator](left, right)


def call(function: str, arguments: Sequence[Value]) -> Number:
    """f(v, ...).

    >>> call("greatest", [1, 3])
    3
    """
    if function not in FUNCTIONS:
        raise unknown_name("function", function, FUNCTIONS)
    try:
        return FUNCTIONS[function](*map(number, arguments))
    except TypeError as error:
        shown = ", ".join(map(written_value, arguments))
        raise EvaluationError(f"{function}({shown}) has no value", detail=str(error)) from None
