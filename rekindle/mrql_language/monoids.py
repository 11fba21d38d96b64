"""Monoids: how two results are merged into the result over both inputs.

    ⊎         bag union                         ++    list append
    + * ∧ ∨   on numbers and booleans           min, max
    ⊕ × ⊗     componentwise, on tuples
    ↑⊕        full outer join of bags of (key, value), values of one key merged by ⊕   (equation 2)
    □         what does not change: merges with its equal, and with nothing else
    a name    a monoid of the user, by `aggregation`

A bag under ↑⊕ has at most one pair for a key; `reduce(↑⊕, X)` is what makes one from any bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TypeAlias

from rekindle.errors import EvaluationError
from rekindle.mrql_language.arithmetic import add, multiply
from rekindle.mrql_language.values import Bag, List, Value, compare


@dataclass(frozen=True, slots=True)
class Basic:
    """A monoid on basic types or collections, by its symbol."""

    symbol: str

    def __str__(self) -> str:
        return self.symbol if self.symbol in ("⊎", "++", "min", "max") else f"({self.symbol})"


@dataclass(frozen=True, slots=True)
class User:
    """A monoid given by `aggregation`: its name, and what its text says."""

    name: str
    plus: Callable[[Value, Value], Value] = field(compare=False, repr=False)
    start: Value = field(compare=False)
    function: object = field(compare=False, repr=False, default=None)
    """The same as `plus`, as a term."""

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Times:
    """⊕ × ⊗ × ..."""

    parts: tuple[Monoid, ...]

    def __str__(self) -> str:
        return "×".join(
            f"({part})" if isinstance(part, Times) else str(part) for part in self.parts
        )


@dataclass(frozen=True, slots=True)
class Grouped:
    """↑⊕"""

    of: Monoid

    def __str__(self) -> str:
        return f"↑[{self.of}]"


@dataclass(frozen=True, slots=True)
class Invariant:
    """□"""

    def __str__(self) -> str:
        return "□"


Monoid: TypeAlias = Basic | User | Times | Grouped | Invariant

UNION = Basic("⊎")
APPEND = Basic("++")
SUM = Basic("+")
PRODUCT = Basic("*")
MIN = Basic("min")
MAX = Basic("max")
AND = Basic("∧")
OR = Basic("∨")
INVARIANT = Invariant()

_MERGES: dict[str, Callable[[Value, Value], Value]] = {
    "⊎": lambda x, y: Bag((*x, *y)),
    "++": lambda x, y: List((*x, *y)),
    "+": add,
    "*": multiply,
    "min": lambda x, y: x if compare(x, y) <= 0 else y,
    "max": lambda x, y: x if compare(x, y) >= 0 else y,
    "∧": lambda x, y: x and y,
    "∨": lambda x, y: x or y,
}
_ZEROS: dict[str, Value] = {
    "⊎": Bag(),
    "++": List(),
    "+": 0,
    "*": 1,
    "min": float("inf"),
    "max": float("-inf"),
    "∧": True,
    "∨": False,
}


def zero(monoid: Monoid) -> Value:
    """What changes nothing when it is merged; □ has none."""
    match monoid:
        case Basic():
            return _ZEROS[monoid.symbol]
        case User():
            return monoid.start
        case Times():
            return tuple(zero(part) for part in monoid.parts)
        case Grouped():
            return Bag()
        case Invariant():
            raise EvaluationError("□ has no zero")


def merge(monoid: Monoid, left: Value, right: Value) -> Value:
    """`left ⊗ right`"""
    match monoid:
        case Basic():
            return _MERGES[monoid.symbol](left, right)
        case User():
            return monoid.plus(left, right)
        case Times():
            return tuple(
                merge(part, x, y) for part, x, y in zip(monoid.parts, left, right, strict=True)
            )
        case Grouped():
            return merge_all(monoid, (*left, *right))
        case Invariant():
            if left != right:
                raise EvaluationError(
                    "a value that is taken as invariant has changed",
                    detail=f"{left!r} became {right!r}",
                    hint="a join of two streams is merged by □ only while it is one-to-many "
                    "and what is joined arrives together",
                )
            return left


def merge_all(monoid: Monoid, values: Iterable[Value]) -> Value:
    """`reduce(⊗, X)`: for ↑⊕, one pair for a key with the merge of the key's values."""
    if isinstance(monoid, Grouped):
        merged: dict[Value, Value] = {}
        for key, value in values:
            merged[key] = merge(monoid.of, merged[key], value) if key in merged else value
        return Bag(merged.items())
    if monoid == UNION:
        return Bag(element for part in values for element in part)
    found, first = None, True
    for value in values:
        found, first = (value if first else merge(monoid, found, value)), False
    return zero(monoid) if first else found
