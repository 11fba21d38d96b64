"""Minimum and maximum as addition: semirings, which cannot delete.

In (ℝ ∪ {∞}, min, ∞, +, 0) a product adds and a sum takes the least, so the value of a join's
result is the cost of its cheapest derivation; the other takes the greatest. They serve queries
over data that only grows, such as shortest paths.

They are no rings: min has no inverse, for nothing brings min(a, b) back to ∞. A deletion therefore
cannot be a negative value, `FiniteMap` does not take them (it asks for a group), and a minimum
under deletions is maintained per key instead, from an ordered trace.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import inf
from typing import TypeAlias

Extended: TypeAlias = Fraction | int | float
"""A number, or ±∞."""


@dataclass(frozen=True, slots=True)
class MinPlus:
    """The semiring of costs: + is min, × is addition, 0 is ∞, 1 is 0.

    >>> costs = MinPlus()
    >>> costs.add(3, costs.multiply(1, 1))
    2
    """

    @property
    def zero(self) -> Extended:
        return inf

    @property
    def one(self) -> Extended:
        return 0

    def add(self, left: Extended, right: Extended, /) -> Extended:
        return min(left, right)

    def multiply(self, left: Extended, right: Extended, /) -> Extended:
        return inf if inf in (left, right) else left + right


@dataclass(frozen=True, slots=True)
class MaxPlus:
    """The semiring of gains: + is max, × is addition, 0 is −∞, 1 is 0.

    >>> MaxPlus().add(3, 5)
    5
    """

    @property
    def zero(self) -> Extended:
        return -inf

    @property
    def one(self) -> Extended:
        return 0

    def add(self, left: Extended, right: Extended, /) -> Extended:
        return max(left, right)

    def multiply(self, left: Extended, right: Extended, /) -> Extended:
        return -inf if -inf in (left, right) else left + right
