"""Scalar functions that the calculus itself has words for, with SQL's three truth values.

Any other is a `ScalarFunction` with its Spark text. `strict` gives NULL for NULL, as nearly all of
Spark's functions do.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rekindle.nested.terms import Apply, KeyConstant, KeyTerm, ScalarFunction
from rekindle.nested.types import BOOLEAN, Scalar


def strict(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is NULL where an argument is."""

    def computed(*arguments: Any) -> Any:
        return None if None in arguments else function(*arguments)

    return computed


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


EQUAL = ScalarFunction("{0} = {1}", BOOLEAN, strict(operator.eq))
SAME = ScalarFunction("{0} <=> {1}", BOOLEAN, operator.eq)
DIFFERENT = ScalarFunction("{0} <> {1}", BOOLEAN, strict(operator.ne))
LESS = ScalarFunction("{0} < {1}", BOOLEAN, strict(operator.lt))
GREATER = ScalarFunction("{0} > {1}", BOOLEAN, strict(operator.gt))
AND = ScalarFunction("{0} AND {1}", BOOLEAN, _and)
OR = ScalarFunction("{0} OR {1}", BOOLEAN, _or)
NOT = ScalarFunction("NOT {0}", BOOLEAN, strict(operator.not_))


def equal(left: KeyTerm, right: KeyTerm) -> Apply:
    """left = right; NULL, hence no match, where one of them is NULL."""
    return Apply(EQUAL, (left, right))


def different(left: KeyTerm, right: KeyTerm) -> Apply:
    return Apply(DIFFERENT, (left, right))


def less(left: KeyTerm, right: KeyTerm) -> Apply:
    return Apply(LESS, (left, right))


def greater(left: KeyTerm, right: KeyTerm) -> Apply:
    return Apply(GREATER, (left, right))


def both(left: KeyTerm, right: KeyTerm) -> Apply:
    return Apply(AND, (left, right))


def either(left: KeyTerm, right: KeyTerm) -> Apply:
    return Apply(OR, (left, right))


def number(value: int) -> KeyConstant:
    return KeyConstant(value, Scalar("bigint"))


def text(value: str) -> KeyConstant:
    return KeyConstant(value, Scalar("string"))
