"""The cofactor ring: what a least-squares regression needs to know about a relation.

A value is a triple of a count, the sums of the features, and the sums of the products of two
features, (COUNT, SUM(Xᵢ), SUM(Xᵢ·Xⱼ)). For the union of two relations the triples add. For their
join, where each feature comes from one side,

    a * b = (cₐc_b, c_b sₐ + cₐ s_b, c_b Qₐ + cₐ Q_b + sₐ s_bᵀ + s_b sₐᵀ)

so the matrix XᵀX of a join is found without the join, and is maintained under its updates.

The scalars come from any ring whose product commutes. Over the rationals features are numbers.
Over the ring of relations they may be categories as well: the value x of a category is the
relation {⟨column: x⟩ ↦ 1}, and the entry of two categories is the relation of the pairs that
occur, with their counts. That is one-hot encoding inside the ring, and sparse: a category that
does not occur has no entry. A number is then the relation {⟨⟩ ↦ x}.

A triple is zero when all of its parts are: a count of 0 says nothing about the sums, as when rows
with equal counts and different features come and go.

F-IVM (linear regression ring).
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from fractions import Fraction
from typing import Generic, TypeAlias, TypeVar

from rekindle.algebra.groups import RATIONALS, Ring, total
from rekindle.algebra.matrices import Matrix, MatrixRing
from rekindle.algebra.relations import RelationRing, Tuple
from rekindle.algebra.zset import ZSet

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Cofactor(Generic[V]):
    """(count, sums, products): products is a symmetric matrix."""

    count: V
    sums: tuple[V, ...]
    products: Matrix[V]


@dataclass(frozen=True, slots=True)
class CofactorRing(Generic[V]):
    """Cofactors of a number of features over a commutative ring of scalars.

    >>> ring = CofactorRing(2, RATIONALS)
    >>> row = ring.multiply(ring.lift(0, Fraction(3)), ring.lift(1, Fraction(5)))
    >>> [int(each) for each in row.sums], int(row.products[0][1])
    ([3, 5], 15)
    """

    features: int
    scalars: Ring[V]

    @property
    def zero(self) -> Cofactor[V]:
        return self._of_count(self.scalars.zero)

    @property
    def one(self) -> Cofactor[V]:
        return self._of_count(self.scalars.one)

    def lift(self, feature: int, value: V) -> Cofactor[V]:
        """g(x): one row whose feature has this value, the other features unknown to it."""
        one = self.one
        zero = self.scalars.zero
        places = range(self.features)
        square = self.scalars.multiply(value, value)
        return Cofactor(
            one.count,
            tuple(value if i == feature else zero for i in places),
            tuple(tuple(square if i == j == feature else zero for j in places) for i in places),
        )

    def add(self, left: Cofactor[V], right: Cofactor[V], /) -> Cofactor[V]:
        return Cofactor(
            self.scalars.add(left.count, right.count),
            tuple(map(self.scalars.add, left.sums, right.sums)),
            self._matrices.add(left.products, right.products),
        )

    def negate(self, value: Cofactor[V], /) -> Cofactor[V]:
        return Cofactor(
            self.scalars.negate(value.count),
            tuple(map(self.scalars.negate, value.sums)),
            self._matrices.negate(value.products),
        )

    def multiply(self, left: Cofactor[V], right: Cofactor[V], /) -> Cofactor[V]:
        add, times = self.scalars.add, self.scalars.multiply
        places = range(self.features)

        def product(i: int, j: int) -> V:
            terms = [
                times(right.count, left.products[i][j]),
                times(left.count, right.products[i][j]),
                times(left.sums[i], right.sums[j]),
                times(right.sums[i], left.sums[j]),
            ]
            return total(self.scalars, terms)

        return Cofactor(
            times(left.count, right.count),
            tuple(
                add(times(right.count, left.sums[i]), times(left.count, right.sums[i]))
                for i in places
            ),
            tuple(tuple(product(i, j) for j in places) for i in places),
        )

    @property
    def _matrices(self) -> MatrixRing[V]:
        return MatrixRing(self.features, self.scalars)

    def _of_count(self, count: V) -> Cofactor[V]:
        return Cofactor(count, (self.scalars.zero,) * self.features, self._matrices.zero)


Entry: TypeAlias = ZSet[Tuple, Fraction]
"""A scalar of the categorical variant: a relation of the categories that occur together."""

CATEGORIES = RelationRing(RATIONALS)


def categorical_ring(features: int) -> CofactorRing[Entry]:
    """The cofactor ring whose features are numbers or categories.

    >>> ring = categorical_ring(2)
    >>> row = ring.multiply(ring.lift(0, category("city", "Oslo")), ring.lift(1, quantity(5)))
    >>> row.products[0][1]
    ZSet({<city: 'Oslo'>: Fraction(5, 1)})
    """
    return CofactorRing(features, CATEGORIES)


def category(column: str, value: Hashable) -> Entry:
    """A value of a categorical feature; the column names the feature."""
    return CATEGORIES.singleton(Tuple({column: value}))


def quantity(value: Fraction | int) -> Entry:
    """A value of a numerical feature in the categorical variant."""
    return ZSet(((Tuple(), Fraction(value)),), RATIONALS)
