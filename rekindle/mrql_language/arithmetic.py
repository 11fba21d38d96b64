"""Arithmetic and conversions on numbers that carry their width, as Java has them.

The wider of two numbers decides: short < int < long < float < double. Whole numbers wrap around,
divide towards zero and refuse to divide by zero; doubles divide to infinity or NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from rekindle.errors import EvaluationError
from rekindle.mrql_language.values import Bag, Float, List, Long, Short, Value, kind_of

_WIDTHS = {"short": 0, "int": 1, "long": 2, "float": 3, "double": 4}
_BITS = {"short": 16, "int": 32, "long": 64}
_MAKE: dict[str, Callable[[float], Value]] = {
    "short": Short,
    "int": int,
    "long": Long,
    "float": Float,
    "double": float,
}


def is_number(value: Value) -> bool:
    """Whether arithmetic is defined on a value."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def wrapped(kind: str, value: int) -> Value:
    """A whole number in the bits of its kind."""
    bits = _BITS[kind]
    return _MAKE[kind]((value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))


def _wider(left: Value, right: Value, name: str) -> str:
    if not (is_number(left) and is_number(right)):
        raise EvaluationError(f"'{name}' is not defined on {kind_of(left)} and {kind_of(right)}")
    return max(kind_of(left), kind_of(right), key=_WIDTHS.__getitem__)


def _whole_or(
    name: str, whole: Callable[[int, int], int], real: Callable[[float, float], float]
) -> Callable[[Value, Value], Value]:
    def apply(left: Value, right: Value) -> Value:
        kind = _wider(left, right, name)
        if kind in _BITS:
            return wrapped(kind, whole(int(left), int(right)))
        return _MAKE[kind](real(float(left), float(right)))

    return apply


def _divide(left: int, right: int) -> int:
    if right == 0:
        raise EvaluationError("division by zero", detail=f"{left} / 0")
    found = abs(left) // abs(right)
    return found if (left < 0) == (right < 0) else -found


def _remainder(left: int, right: int) -> int:
    return left - right * _divide(left, right)


def _divide_reals(left: float, right: float) -> float:
    if right != 0:
        return left / right
    if left == 0 or math.isnan(left):
        return math.nan
    return math.copysign(math.inf, left) * math.copysign(1, right)


_add_numbers = _whole_or("+", lambda x, y: x + y, lambda x, y: x + y)
subtract = _whole_or("-", lambda x, y: x - y, lambda x, y: x - y)
multiply = _whole_or("*", lambda x, y: x * y, lambda x, y: x * y)
divide = _whole_or("/", _divide, _divide_reals)
remainder = _whole_or(
    "mod", _remainder, lambda x, y: math.fmod(x, y) if y and not math.isinf(x) else math.nan
)


def add(left: Value, right: Value) -> Value:
    """Numbers are added, strings and collections put together; a bag and a list make a bag."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    if isinstance(left, Bag | List) and isinstance(right, Bag | List):
        both = (*left, *right)
        return List(both) if isinstance(left, List) and isinstance(right, List) else Bag(both)
    return _add_numbers(left, right)


def convert(kind: str, value: Value) -> Value:
    """A number as one of another kind: reals are cut towards zero and held in range."""
    if not is_number(value):
        raise EvaluationError(f"a {kind_of(value)} cannot become a {kind}")
    if kind not in _BITS:
        return _MAKE[kind](float(value))
    if not isinstance(value, float):
        return wrapped(kind, int(value))
    if math.isnan(value):
        return _MAKE[kind](0)
    bits = max(_BITS[kind], 32)
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return wrapped(kind, low if value <= low else high if value >= high else int(value))


def widest(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """The numbers among the elements of one collection, all of the widest kind among them."""
    if len(values) < 2 or not all(is_number(value) for value in values):
        return values
    kinds = {kind_of(value) for value in values}
    if len(kinds) == 1:
        return values
    kind = max(kinds, key=_WIDTHS.__getitem__)
    return tuple(convert(kind, value) for value in values)
