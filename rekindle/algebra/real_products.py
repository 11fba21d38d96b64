"""The ring in which sums of products of doubles are exact, NaN and the infinities included.

A double is a number, an infinity or NaN. What becomes of a product of doubles that are multiplied
without rounding depends on the *kind* of each factor, and kinds multiply like signs do:

    ·     NaN   +∞    −∞    0     +     −
    +∞    NaN   +∞    −∞    NaN   +∞    −∞
    0     NaN   NaN   NaN   0     0     0
    −     NaN   −∞    +∞    0     −     +          and so on: `TIMES`

So a value is the sum of the products that are numbers, and how many products there are of each
kind. Both are linear in every factor: a value is an element of ℚ × ℤ[kinds], a product of two
rings, and what is added in one piece is taken back in any others. What the sum is as a double is
asked once, at the end (`rounded`): NaN if a product is, or if there are infinities of both signs.

Zeros and signs are counted since an infinity may come on the other side of a join: ∞·0 is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from fractions import Fraction
from typing import NamedTuple, TypeAlias

Counts: TypeAlias = tuple[int, ...]


class Kind(IntEnum):
    """What a product is, as far as infinities are concerned."""

    NAN = 0
    PLUS_INFINITY = 1
    MINUS_INFINITY = 2
    ZERO = 3
    POSITIVE = 4
    NEGATIVE = 5


_EXAMPLES = (math.nan, math.inf, -math.inf, 0.0, 1.0, -1.0)


def kind_of(x: float) -> Kind:
    """The kind of a double.

    >>> kind_of(-0.0).name, kind_of(-2.5).name
    ('ZERO', 'NEGATIVE')
    """
    if math.isnan(x):
        return Kind.NAN
    if math.isinf(x):
        return Kind.PLUS_INFINITY if x > 0 else Kind.MINUS_INFINITY
    return Kind.ZERO if x == 0 else Kind.POSITIVE if x > 0 else Kind.NEGATIVE


TIMES: tuple[tuple[Kind, ...], ...] = tuple(
    tuple(kind_of(one * other) for other in _EXAMPLES) for one in _EXAMPLES
)
"""The kind of a product, by the kinds of its factors."""


class RealProduct(NamedTuple):
    """The sum of the products that are numbers, and the number of products of each kind."""

    total: Fraction
    counts: Counts

    @property
    def rounded(self) -> float:
        """The double nearest to the sum of all products.

        >>> ring = RealProducts()
        >>> ring.add(ring.of(1e308), ring.of(1e308)).rounded, ring.of(0.5).rounded
        (inf, 0.5)
        """
        plus, minus = self.counts[Kind.PLUS_INFINITY], self.counts[Kind.MINUS_INFINITY]
        if self.counts[Kind.NAN] or (plus and minus):
            return math.nan
        if plus or minus:
            return math.inf if plus else -math.inf
        try:
            return float(self.total)
        except OverflowError:
            return math.inf if self.total > 0 else -math.inf


@dataclass(frozen=True, slots=True)
class RealProducts:
    """The ring of sums of products of doubles.

    >>> ring = RealProducts()
    >>> ring.multiply(ring.of(0.0), ring.of(math.inf)).rounded
    nan
    >>> big = ring.multiply(ring.of(1e200), ring.of(1e200))
    >>> ring.multiply(big, ring.of(1e-300)).rounded
    1e+100
    """

    @property
    def zero(self) -> RealProduct:
        return RealProduct(Fraction(0), (0,) * len(Kind))

    @property
    def one(self) -> RealProduct:
        return self.of(1.0)

    def of(self, x: float) -> RealProduct:
        """A double as a product of one factor."""
        kind = kind_of(x)
        finite = Fraction(x) if math.isfinite(x) else Fraction(0)
        return RealProduct(finite, tuple(int(each is kind) for each in Kind))

    def times(self, value: RealProduct, count: int) -> RealProduct:
        """A value, so many times."""
        return RealProduct(value.total * count, tuple(n * count for n in value.counts))

    def add(self, left: RealProduct, right: RealProduct, /) -> RealProduct:
        counts = zip(left.counts, right.counts, strict=True)
        return RealProduct(left.total + right.total, tuple(a + b for a, b in counts))

    def negate(self, value: RealProduct, /) -> RealProduct:
        return self.times(value, -1)

    def multiply(self, left: RealProduct, right: RealProduct, /) -> RealProduct:
        return RealProduct(left.total * right.total, _convolved(left.counts, right.counts))


def _convolved(left: Sequence[int], right: Sequence[int]) -> Counts:
    counts = [0] * len(Kind)
    for one, row in enumerate(TIMES):
        for other, kind in enumerate(row):
            counts[kind] += left[one] * right[other]
    return tuple(counts)
