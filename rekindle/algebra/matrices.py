"""Square matrices over a ring, which are a ring whose product does not commute.

A chain of matrices is a join of relations A[x, y] with values in the ring of the entries; as
values of rows, whole matrices are the plainest test that callers keep the order of their factors.

F-IVM (matrix chain multiplication).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from rekindle.algebra.groups import Ring, total

V = TypeVar("V")
Matrix: TypeAlias = tuple[tuple[V, ...], ...]
"""Rows of equal length."""


@dataclass(frozen=True, slots=True)
class MatrixRing(Generic[V]):
    """The n × n matrices with entries in a ring.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> ring = MatrixRing(2, INTEGERS)
    >>> ring.multiply(((1, 2), (3, 4)), ((0, 1), (1, 0)))
    ((2, 1), (4, 3))
    """

    size: int
    entries: Ring[V]

    @property
    def zero(self) -> Matrix[V]:
        return ((self.entries.zero,) * self.size,) * self.size

    @property
    def one(self) -> Matrix[V]:
        zero, one = self.entries.zero, self.entries.one
        places = range(self.size)
        return tuple(tuple(one if i == j else zero for j in places) for i in places)

    def add(self, left: Matrix[V], right: Matrix[V], /) -> Matrix[V]:
        return tuple(
            tuple(map(self.entries.add, row, other)) for row, other in zip(left, right, strict=True)
        )

    def negate(self, value: Matrix[V], /) -> Matrix[V]:
        return tuple(tuple(map(self.entries.negate, row)) for row in value)

    def multiply(self, left: Matrix[V], right: Matrix[V], /) -> Matrix[V]:
        columns = tuple(zip(*right, strict=True))
        return tuple(tuple(self._inner(row, column) for column in columns) for row in left)

    def _inner(self, row: tuple[V, ...], column: tuple[V, ...]) -> V:
        return total(self.entries, map(self.entries.multiply, row, column))
