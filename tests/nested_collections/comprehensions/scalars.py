"""A few expressions of Spark SQL, computed in Python: what random comprehensions are made of.

Numbers, texts, {n} for arguments, + - *, comparisons, AND, OR, NOT, IS NULL, coalesce; with three
truth values.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any

_TOKEN = re.compile(r"\s*(\{\d+\}|\d+|'[^']*'|<=>|<=|>=|<>|[-+*=<>(),]|[A-Za-z_]+)")
_COMPARE = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    ">": operator.gt,
    "<=": operator.le,
    ">=": operator.ge,
}


def evaluator(template: str) -> Callable[..., Any]:
    """The function that a template of Spark SQL says."""
    tokens = _TOKEN.findall(template)
    assert "".join(tokens).replace(" ", "") == re.sub(r"\s", "", template), template

    def computed(*arguments: Any) -> Any:
        return _Reader(tokens, arguments).disjunction()

    return computed


class _Reader:
    def __init__(self, tokens: list[str], arguments: tuple[Any, ...]) -> None:
        self._tokens = list(tokens)
        self._arguments = arguments

    def _takes(self, *words: str) -> str | None:
        if self._tokens and self._tokens[0].lower() in words:
            return self._tokens.pop(0).lower()
        return None

    def disjunction(self) -> Any:
        found = self._conjunction()
        while self._takes("or"):
            found = _or(found, self._conjunction())
        return found

    def _conjunction(self) -> Any:
        found = self._negation()
        while self._takes("and"):
            other = self._negation()
            found = False if found is False or other is False else _strict(bool)(found and other)
        return found

    def _negation(self) -> Any:
        if self._takes("not"):
            return _strict(operator.not_)(self._negation())
        return self._comparison()

    def _comparison(self) -> Any:
        left = self._sum()
        if self._takes("<=>"):
            return left == self._sum()
        sign = self._takes(*_COMPARE)
        if sign is not None:
            return _strict(_COMPARE[sign])(left, self._sum())
        if self._takes("is"):
            negated = self._takes("not")
            assert self._takes("null")
            return (left is None) != bool(negated)
        return left

    def _sum(self) -> Any:
        found = self._product()
        while sign := self._takes("+", "-"):
            apply = operator.add if sign == "+" else operator.sub
            found = _strict(apply)(found, self._product())
        return found

    def _product(self) -> Any:
        found = self._atom()
        while self._takes("*"):
            found = _strict(operator.mul)(found, self._atom())
        return found

    def _atom(self) -> Any:
        token = self._tokens.pop(0)
        if token == "(":
            found = self.disjunction()
            assert self._takes(")")
            return found
        if token.startswith("{"):
            return self._arguments[int(token[1:-1])]
        if token.lower() == "coalesce":
            assert self._takes("(")
            found = self.disjunction()
            assert self._takes(",")
            other = self.disjunction()
            assert self._takes(")")
            return other if found is None else found
        if token.lower() in ("true", "false", "null"):
            return {"true": True, "false": False}.get(token.lower())
        return token[1:-1] if token.startswith("'") else int(token)


def _or(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else bool(left or right)


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *given: None if None in given else function(*given)
