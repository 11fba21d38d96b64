"""Types of the calculus: A, B ::= 1 | 𝔻 | A × B | B^A, every one of them a commutative group.

A ground type 𝔻 brings its group. The groups of the others follow from it, so that a change of a
pair or of a function is a pair or a function again (`terms.zero_of`, `plus_of`, `minus_of`).

Lupei, chapter 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from rekindle.algebra.groups import INTEGERS, Group
from rekindle.algebra.zset import ZSet, ZSetGroup


@dataclass(frozen=True, slots=True)
class Unit:
    """1: the type of one value, written ()."""

    def __str__(self) -> str:
        return "1"


@dataclass(frozen=True, slots=True)
class Ground:
    """𝔻: a primitive type, whose values are those of a commutative group."""

    name: str
    group: Group[Any]

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Product:
    """A × B: pairs.

    >>> print(Product(INTEGER, Product(UNIT, INTEGER)))
    ℤ × (1 × ℤ)
    """

    first: Type
    second: Type

    def __str__(self) -> str:
        return f"{_within(self.first)} × {_within(self.second)}"


@dataclass(frozen=True, slots=True)
class Function:
    """B^A: functions from A to B, as values.

    >>> print(Function(Product(INTEGER, INTEGER), BAG))
    Bag^(ℤ × ℤ)
    """

    argument: Type
    result: Type

    def __str__(self) -> str:
        return f"{_within(self.result)}^{_within(self.argument)}"


Type: TypeAlias = Unit | Ground | Product | Function


def _within(type_: Type) -> str:
    return f"({type_})" if isinstance(type_, Product | Function) else str(type_)


def twice(type_: Type) -> Product:
    """A × A: a value and its change.

    >>> print(twice(INTEGER))
    ℤ × ℤ
    """
    return Product(type_, type_)


BagOfIntegers: TypeAlias = ZSet[int, int]
_BAGS: ZSetGroup[int, int] = ZSetGroup(INTEGERS)

UNIT = Unit()
INTEGER = Ground("ℤ", INTEGERS)
BAG = Ground("Bag", _BAGS)
