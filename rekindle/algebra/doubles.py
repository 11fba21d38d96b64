"""Floating-point numbers whose sums carry their rounding errors along.

A value is the unevaluated sum of two doubles, the second holding what the first had to round
away: about 106 bits. Inserting and deleting doubles of ordinary size in any order then comes back
to exactly 0, where plain doubles leave a residue that a zero test takes for a row.

It is a ring up to rounding only. Negation is exact and a + (−a) is 0, but a pair has room for two
magnitudes: 1e300 and 1e150 together swallow a 1.0, so addition is not associative. The laws hold
for `close`, not for ==. Where no error is allowed, use `RATIONALS`; what Spark's doubles are
summed with on files is exact (`rekindle.traces.exact_double`).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

_SPLITTER = 2.0**27 + 1.0


class Double(NamedTuple):
    """high + low, where high is the sum rounded to a double."""

    high: float
    low: float = 0.0


@dataclass(frozen=True, slots=True)
class CompensatedDoubles:
    """Pairs of doubles under compensated addition and multiplication.

    >>> ring = CompensatedDoubles()
    >>> total = ring.add(ring.add(Double(1e16), Double(1.0)), Double(-1e16))
    >>> total, 1e16 + 1.0 - 1e16
    (Double(high=1.0, low=0.0), 0.0)
    """

    @property
    def zero(self) -> Double:
        return Double(0.0)

    @property
    def one(self) -> Double:
        return Double(1.0)

    def add(self, left: Double, right: Double, /) -> Double:
        high, error = _two_sum(left.high, right.high)
        low, rest = _two_sum(left.low, right.low)
        high, error = _fast_two_sum(high, error + low)
        return Double(*_fast_two_sum(high, error + rest))

    def negate(self, value: Double, /) -> Double:
        return Double(-value.high, -value.low)

    def multiply(self, left: Double, right: Double, /) -> Double:
        high, error = _two_product(left.high, right.high)
        cross = left.high * right.low + left.low * right.high
        return Double(*_fast_two_sum(high, error + cross))


def close(left: Double, right: Double, tolerance: float = 1e-15) -> bool:
    """The values differ by at most the tolerance, compared without rounding.

    >>> close(Double(1.0), Double(1.0, 1e-20)), close(Double(1.0), Double(1.1))
    (True, False)
    """
    return abs(exactly(left) - exactly(right)) <= Fraction(tolerance)


def exactly(value: Double) -> Fraction:
    """The number that the pair stands for.

    >>> exactly(Double(0.5, 0.25))
    Fraction(3, 4)
    """
    return Fraction(value.high) + Fraction(value.low)


def _two_sum(left: float, right: float) -> tuple[float, float]:
    """The rounded sum and its error, which is a double (Knuth)."""
    rounded = left + right
    shift = rounded - left
    return rounded, (left - (rounded - shift)) + (right - shift)


def _fast_two_sum(large: float, small: float) -> tuple[float, float]:
    """The same when |large| ≥ |small| (Dekker)."""
    rounded = large + small
    return rounded, small - (rounded - large)


def _two_product(left: float, right: float) -> tuple[float, float]:
    """The rounded product and its error (Veltkamp, Dekker); beyond 1e290 the split overflows."""
    rounded = left * right
    left_high, left_low = _split(left)
    right_high, right_low = _split(right)
    error = left_high * right_high - rounded
    error += left_high * right_low + left_low * right_high
    return rounded, error + left_low * right_low


def _split(value: float) -> tuple[float, float]:
    scaled = _SPLITTER * value
    high = scaled - (scaled - value)
    return high, value - high
