"""Exact sums of products of doubles as an aggregate, and how a column holds such a sum.

A column of a row holds a *product that is not multiplied out*: a list of factors, one after the
other. To multiply two of them is to append one list to the other, which any evaluator of scalars
can do. The aggregate multiplies the factors of each row, adds the rows up in the ring of
`algebra.real_products`, and gives either a list with the one factor that the sum is, for the next
product, or the double nearest to the sum.

    number x      1, x
    whole n       2, n ÷ 2³², n mod 2³²         times n: so many rows
    sum           3, k, and k digits            zero if there is none

A digit d at a place p is p·2³² + (d mod 2³²), a whole number that a double holds. Places 2i and
2i + 1 have the number of products of the kind i in base 2³²; those from `FIRST` on have the sum,
as a whole number times 2^`LOWEST`. Digits are balanced, −2³¹ ≤ d < 2³¹, so the form is unique.

A product of `MOST_FACTORS` doubles is above `LOWEST` whatever they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from rekindle.algebra.real_products import Kind, RealProduct, RealProducts

FACTORS = "ARRAY<DOUBLE>"
"""The type of a product that is not multiplied out."""
ROUNDED = "double"
NUMBER, WHOLE, SUM = 1.0, 2.0, 3.0
BITS = 32
FIRST = 16
MOST_FACTORS = 24
LOWEST = -816 * BITS
"""The last bit of a double is that of 2^-1074."""

_BASE = 2**BITS
_RING = RealProducts()


@dataclass(frozen=True, slots=True)
class ExactSum:
    """Σ ±p over rows, with a sign for each argument p; `gives` a double, or a factor.

    >>> ExactSum((1, -1), ROUNDED).total([(((1.0, 0.5), (1.0, 0.75)), 1)]).rounded
    -0.25
    """

    signs: tuple[int, ...]
    gives: str

    @property
    def text(self) -> str:
        return f"exact{''.join('+' if sign > 0 else '-' for sign in self.signs)}:{self.gives}"

    def total(self, rows: Sequence[tuple[Sequence[Any], int]]) -> RealProduct:
        """The sum over rows, each so many times, of one product for each sign.

        A double is a product too, and NULL is zero.
        """
        value = _RING.zero
        for row, weight in rows:
            for sign, argument in zip(self.signs, row, strict=True):
                if argument is not None:
                    factors = (NUMBER, argument) if isinstance(argument, float) else argument
                    product = _RING.multiply(_RING.of(sign), multiplied(factors))
                    value = _RING.add(value, _RING.times(product, weight))
        return value

    def finished(self, value: RealProduct) -> Any:
        """What the aggregate gives for a sum."""
        return value.rounded if self.gives == ROUNDED else written(value)


def multiplied(factors: Sequence[float]) -> RealProduct:
    """The product that a list of factors is.

    >>> multiplied((1.0, 2.5, 2.0, 0.0, 3.0)).rounded
    7.5
    """
    value = _RING.one
    for factor in _read(factors):
        value = _RING.multiply(value, factor)
    return value


def written(value: RealProduct) -> tuple[float, ...]:
    """A sum as a list of one factor.

    >>> multiplied(written(multiplied((1.0, -0.1)))) == multiplied((1.0, -0.1))
    True
    """
    # The denominator is a power of two: a double is a whole number times one.
    further = 1 - LOWEST - value.total.denominator.bit_length()
    if further < 0:
        raise ValueError(f"a product of more than {MOST_FACTORS} doubles")
    entries = [
        (2 * kind + place, digit)
        for kind in Kind
        for place, digit in enumerate(_digits(value.counts[kind]))
    ]
    first, shift = FIRST + further // BITS, further % BITS
    digits = _digits(value.total.numerator << shift)
    entries += [(first + place, digit) for place, digit in enumerate(digits)]
    packed = [float(place * _BASE + digit % _BASE) for place, digit in entries if digit]
    return (SUM, float(len(packed)), *packed)


def _read(factors: Sequence[float]) -> Iterator[RealProduct]:
    place = 0
    while place < len(factors):
        tag = factors[place]
        if tag == NUMBER:
            yield _RING.of(factors[place + 1])
            place += 2
        elif tag == WHOLE:
            yield _RING.times(_RING.one, int(factors[place + 1]) * _BASE + int(factors[place + 2]))
            place += 3
        else:
            end = place + 2 + int(factors[place + 1])
            yield _sum(factors[place + 2 : end])
            place = end


def _sum(packed: Sequence[float]) -> RealProduct:
    counts = [0] * len(Kind)
    total = Fraction(0)
    for entry in packed:
        place, digit = divmod(int(entry), _BASE)
        digit -= _BASE if digit >= _BASE // 2 else 0
        if place < FIRST:
            counts[place // 2] += digit << (BITS * (place % 2))
        else:
            power = BITS * (place - FIRST) + LOWEST
            total += Fraction(digit << max(power, 0), 1 << max(-power, 0))
    return RealProduct(total, tuple(counts))


def _digits(number: int) -> Iterator[int]:
    """Balanced digits in base 2³², the lowest first."""
    while number:
        digit = (number + _BASE // 2) % _BASE - _BASE // 2
        yield digit
        number = (number - digit) >> BITS
