"""Soufflé's functors and comparisons, on Python values."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tests.external.souffle_syntax import NotApplicable

Value = Any
WORD = 1 << 32
_MALFORMED = re.compile(r"\{[^\d,]|\[[^\]]*$")


def cast(value: Value, kind: str) -> Value:
    """A value as a column of a kind holds it."""
    match kind:
        case "float":
            return float(value)
        case "unsigned":
            return value % WORD
    return value


def numbers(first: Value, end: Value, step: Value = None) -> Iterator[Value]:
    """Soufflé's `range`: without a step it goes towards the end by one."""
    step = (1 if first <= end else -1) if step is None else step
    while first < end if step > 0 else first > end:
        yield first
        first += step


def matches(pattern: str, text: str) -> bool:
    """Does the pattern match all of the text?"""
    if _MALFORMED.search(pattern):
        raise NotApplicable("a malformed regular expression, which is an error in Spark")
    return re.fullmatch(pattern.replace("[:digit:]", "0-9"), text) is not None


def apply(name: str, taken: str, kind: str, values: Sequence[Value]) -> Value:
    """A functor: of arguments of one kind, with a result of one kind."""
    if any(value is None for value in values):
        return None
    if name not in _FUNCTORS:
        raise NotApplicable(f"the functor {name}")
    if name == "to_string" and taken == "float":
        return f"{values[0]:f}"
    if name == "/" and taken == "float":
        return values[0] / values[1]
    found = _FUNCTORS[name](*values)
    return found % WORD if kind == "unsigned" else found


def _divided(a: Value, b: Value) -> Value:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


COMPARE: dict[str, Callable[[Value, Value], bool]] = {
    "=": lambda a, b: bool(a == b),
    "!=": lambda a, b: bool(a != b),
    "<": lambda a, b: bool(a < b),
    "<=": lambda a, b: bool(a <= b),
    ">": lambda a, b: bool(a > b),
    ">=": lambda a, b: bool(a >= b),
}
_FUNCTORS: dict[str, Callable[..., Value]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": _divided,
    "%": lambda a, b: a - b * _divided(a, b),
    "^": lambda a, b: a**b,
    "neg": lambda a: -a,
    "band": lambda a, b: a & b,
    "bor": lambda a, b: a | b,
    "bxor": lambda a, b: a ^ b,
    "bnot": lambda a: ~a,
    "lnot": lambda a: int(not a),
    "land": lambda a, b: int(bool(a) and bool(b)),
    "lor": lambda a, b: int(bool(a) or bool(b)),
    "min": min,
    "max": max,
    "cat": lambda *parts: "".join(parts),
    "strlen": len,
    "substr": lambda text, start, length: text[start : start + length],
    "to_string": str,
    "to_number": lambda value: math.trunc(float(value)),
    "to_unsigned": lambda value: math.trunc(float(value)),
    "to_float": float,
}
