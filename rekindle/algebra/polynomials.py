"""Sums of many products at once: the ring value of a regression, as one column.

A model over m columns needs the sums of about m²/2 products. As aggregates of their own these are
that many expressions to plan and columns to move; as one aggregate they are a vector. A factor of a
product is an argument that is a number, or an element of an argument that is such a vector, so a
vector of sums over one side of a join is multiplied with that over the other side.

    Σ (x, x·y) over rows, from the arguments x and y:  [[x], [x, y]]
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from math import prod
from typing import Any, TypeAlias

Factor: TypeAlias = tuple[int, int | None]
"""An argument, or one element of it."""
Monomial: TypeAlias = tuple[Factor, ...]
"""Factors that are multiplied; none of them gives 1."""


@dataclass(frozen=True, slots=True)
class Polynomials:
    """The products whose sums are the elements of a vector.

    >>> Polynomials((((0, None),), ((0, None), (1, 2)))).products([3, [5, 6, 7]])
    (3, 21)
    """

    monomials: tuple[Monomial, ...]

    @property
    def text(self) -> str:
        return f"polynomials:{sha256(repr(self.monomials).encode()).hexdigest()[:16]}"

    def products(self, arguments: Sequence[Any]) -> tuple[Any, ...]:
        """What one row adds."""
        return tuple(
            prod(arguments[i] if element is None else arguments[i][element] for i, element in each)
            for each in self.monomials
        )

    def __call__(self, value: Sequence[Any]) -> tuple[Any, ...]:
        """The vector, from the number of rows and the sums."""
        return tuple(value[1:])
