"""Sums of doubles without rounding: every finite double is an integer times a power of two.

A double-double accumulator is not a ring: its addition is not associative, so merging runs in
another order changes the sum, and inserting 1e300 next to 1.0 and deleting it again loses the 1.0.
Here a sum is a sparse integer in base 2^32 with balanced digits in [-2^31, 2^31), stored as one
list column of packed (place, digit) pairs, lowest place first, zero digits left out. The form is
unique, so zero is the empty list and deletions leave no residue. Ordinary data needs two to four
digits a sum.

NaN and the infinities are counted, at places of their own below the numeric ones, so that deleting
an infinity restores the finite sum.

A `Terms` is an unreduced sum: digits (any int64 up to 2^32 in size) at (row, place). Everything
(lifting, products, scaling, reducing) makes terms, and `collect` is the one place that adds them
and propagates carries. The count of terms of one row must stay below 2^30.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rekindle.traces.arrays import Booleans, Doubles, Int64s, single_chunk
from rekindle.traces.threads import each
from rekindle.traces.values import Columns, check_weights

_BITS = 32
_MASK = 2**_BITS - 1
_HALF = 2 ** (_BITS - 1)
_MANTISSA = 53
_NAN, _PLUS_INFINITY, _MINUS_INFINITY = 0, 2, 4  # each with a carry place above it
FIRST = 8
LOWEST = -72 * _BITS  # below the last bit of a product of two subnormals
PLACES = 168
_HIGHEST_POWER = (PLACES - FIRST - 4) * _BITS + LOWEST
_LOWEST_POWER = LOWEST + 8 * _BITS
_DENSE_LIMIT = 2**22
_DIGITS_FOR_TWO_DOUBLES = 5
_ALIGNED_DIGITS = 4
_BLOCK_ROWS = 2**16
"""So many rows at a time stay near the processor."""

Matrix = npt.NDArray[np.float64]


class Terms(NamedTuple):
    """Digits to be added at (row, place); rows and places may repeat."""

    row: Int64s
    place: Int64s
    digit: Int64s


@dataclass(frozen=True, slots=True)
class SparseIntegers:
    """What all groups of sparse integers have in common, whatever their places mean."""

    name: str

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(self.name, pa.list_(pa.int64())),)

    def zeros(self, rows: int) -> Columns:
        return (collect(rows, []),)

    def reduce(self, columns: Columns, starts: Int64s) -> Columns:
        offsets, packed = _packed(columns[0])
        counts = np.diff(np.append(offsets[starts], offsets[-1]))
        return (collect(len(starts), [_unpacked(packed, counts)]),)

    def is_zero(self, columns: Columns) -> Booleans:
        offsets, _ = _packed(columns[0])
        mask: Booleans = np.diff(offsets) == 0
        return mask

    def negate(self, columns: Columns) -> Columns:
        terms = entries(columns[0])
        return (collect(len(columns[0]), [terms._replace(digit=-terms.digit)]),)


@dataclass(frozen=True, slots=True)
class ExactDouble(SparseIntegers):
    """The ring of exact sums of doubles, one list<int64> column."""

    def lift(self, x: Doubles, weights: Int64s) -> Columns:
        """Each x times its weight."""

        def block(start: int) -> Any:
            part = slice(start, start + _BLOCK_ROWS)
            return collect(len(x[part]), of_doubles(x[part], weights[part]))

        if len(x) <= _BLOCK_ROWS:
            return (block(0),)
        return (pa.concat_arrays(each(block, range(0, len(x), _BLOCK_ROWS), together=True)),)

    def lift_product(self, x: Doubles, y: Doubles, weights: Int64s) -> Columns:
        """Each x * y times its weight; exact, so it neither overflows nor underflows."""
        return (collect(len(x), of_products(x, y, weights)),)

    def lift_power(self, x: Doubles, power: int, weights: Int64s) -> Columns:
        """Each x to the power of 3 or 4 times its weight; exact within the range of the places."""
        return (collect(len(x), of_powers(x, power, weights)),)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "exact_double", "name": self.name}


def entries(column: Any) -> Terms:
    """The stored digits of a column of sums."""
    offsets, packed = _packed(column)
    return _unpacked(packed, np.diff(offsets))


def of_doubles(x: Doubles, weights: Int64s) -> list[Terms]:
    """x * weight, row by row."""
    check_weights(weights)
    finite = np.isfinite(x)
    mantissa, exponent = _decompose(np.where(finite, x, 0.0))
    terms = _weighted(np.arange(len(x)), mantissa, exponent, weights)
    return terms if finite.all() else [*terms, *_specials(x, weights)]


def decomposed(x: Doubles) -> list[Terms]:
    """Finite doubles, row by row."""
    mantissa, exponent = _decompose(x)
    return _placed(np.arange(len(x)), mantissa, exponent)


def of_products(x: Doubles, y: Doubles, weights: Int64s) -> list[Terms]:
    """x * y * weight, row by row, from the partial products of 27-bit halves."""
    check_weights(weights)
    finite = np.isfinite(x) & np.isfinite(y)
    (x_mantissa, x_exponent), (y_mantissa, y_exponent) = (
        _decompose(np.where(finite, factor, 0.0)) for factor in (x, y)
    )
    terms = _products(np.arange(len(x)), x_mantissa, y_mantissa, x_exponent + y_exponent, weights)
    if finite.all():
        return terms
    with np.errstate(invalid="ignore", over="ignore"):
        return [*terms, *_specials(np.where(finite, 0.0, x * y), weights)]


def of_powers(x: Doubles, power: int, weights: Int64s) -> list[Terms]:
    """x ** 3 or x ** 4 times the weight, row by row, from the two doubles that are x ** 2.

    What is too small for the lowest place is zero, and what is too large for the highest is NaN:
    both are a thousand binary places beyond the range of doubles.
    """
    check_weights(weights)
    fraction, exponents = np.frexp(np.where(np.isfinite(x), x, 0.0))
    exponent = power * exponents.astype(np.int64)
    high, low = two_product(fraction, fraction)
    factors = [(fraction, high), (fraction, low)]
    if power == 4:
        factors = [(high, high), (high, low), (high, low), (low, low)]
    large = ~np.isfinite(x) | (exponent > _HIGHEST_POWER)
    row = np.flatnonzero(~large & (exponent > _LOWEST_POWER))
    terms = []
    for factor in factors:
        (a, a_exponent), (b, b_exponent) = (_decompose(part[row]) for part in factor)
        places = exponent[row] + a_exponent + b_exponent
        terms += _products(row, a, b, places, weights[row])
    return [*terms, *_specials(np.where(large, np.nan, 0.0), weights)]


def of_sums(x: Matrix, weights: Int64s, starts: Int64s) -> list[Terms]:
    """The weighted rows of a matrix, added up in segments; a row of terms for each element.

    The numbers of a column are of similar size as a rule. Aligned to the largest of them they are
    three digits each, and digits of one place add up as integers. What does not fit into these is
    added one by one.
    """
    check_weights(weights)
    width = x.shape[1]
    finite = np.isfinite(x)
    exponents = np.frexp(np.where(finite, x, 0.0))[1].astype(np.int64)
    exponents[~finite | (x == 0.0)] = LOWEST
    first = (exponents.max(axis=0) - LOWEST) // _BITS
    unit = first * _BITS + LOWEST
    fits = finite & (exponents - _MANTISSA >= unit - (_ALIGNED_DIGITS - 1) * _BITS)
    rest = np.ldexp(np.where(fits, x, 0.0), -unit.astype(np.int32))
    elements = np.arange(len(starts) * width)
    terms: list[Terms] = []
    for turn in range(_ALIGNED_DIGITS):
        digits = np.trunc(rest)
        rest = np.ldexp(rest - digits, _BITS)
        product = digits.astype(np.int64) * weights[:, None]
        for offset, half in enumerate((product & _MASK, product >> _BITS)):
            added = np.add.reduceat(half, starts, axis=0).reshape(-1)
            place = np.tile(FIRST + first - turn + offset, len(starts))
            terms.append(Terms(elements, place, added & _MASK))
            terms.append(Terms(elements, place + 1, added >> _BITS))
    row, column = np.nonzero(~fits & (x != 0.0))
    if len(row):
        element = (np.searchsorted(starts, row, side="right") - 1) * width + column
        terms += [
            part._replace(row=element[part.row])
            for part in of_doubles(x[row, column], weights[row])
        ]
    return terms


def scaled(terms: Terms, factor: Doubles, weight: int) -> list[Terms]:
    """Finite sums times the finite `factor[row]` times a small `weight`.

    What falls below the lowest place is left out.
    """
    mantissa, exponents = _decompose(factor)
    row, digit = terms.row, terms.digit
    exponent = (terms.place - FIRST) * _BITS + LOWEST + exponents[row]
    if (exponent < LOWEST).any():
        kept = exponent >= LOWEST
        row, digit, exponent = row[kept], digit[kept], exponent[kept]
    weights = np.full(len(row), weight, dtype=np.int64)
    return _products(row, digit, mantissa[row], exponent, weights)


def collect(rows: int, terms: Iterable[Terms]) -> Any:
    """The canonical sums of `rows` rows: terms added, carries propagated, zeros left out."""
    parts = list(terms)
    if not parts:
        return _lists(np.zeros(rows + 1, dtype=np.int32), np.zeros(0, dtype=np.int64))
    row, place, digit = (
        parts[0]
        if len(parts) == 1
        else (np.concatenate(column) for column in zip(*parts, strict=True))
    )
    # One place more than is used, for a carry.
    present = np.bincount(place, minlength=int(place.max(initial=0)) + 2) > 0
    present[1:] |= present[:-1]
    places = np.flatnonzero(present)
    width = len(places)
    if rows * width > _DENSE_LIMIT and rows > 1:
        half = rows // 2
        first = row < half
        return pa.concat_arrays(
            [
                collect(half, [Terms(row[first], place[first], digit[first])]),
                collect(rows - half, [Terms(row[~first] - half, place[~first], digit[~first])]),
            ]
        )
    column_of = np.cumsum(present) - 1
    # Rows of a power of two of columns, so that positions split by shifts and not by divisions.
    bits = (width - 1).bit_length() if width else 0
    flat = np.zeros(rows << bits, dtype=np.int64)
    np.add.at(flat, (row << bits) + column_of[place], digit)
    _propagate_carries(flat.reshape(rows, 1 << bits), places)
    used = np.flatnonzero(flat)
    offsets = np.zeros(rows + 1, dtype=np.int32)
    np.cumsum(np.bincount(used >> bits, minlength=rows), out=offsets[1:])
    places = np.append(places, np.zeros((1 << bits) - width, dtype=np.int64))
    packed = (places[used & ((1 << bits) - 1)] << _BITS) | (flat[used] & _MASK)
    return _lists(offsets, packed)


def nearest(column: Any) -> tuple[Doubles, Doubles]:
    """Each sum as a double and the double nearest to the rest; NaN or ±inf where those count."""
    offsets, packed = _packed(column)
    rows = len(offsets) - 1
    head, rest, tail, lost = (np.zeros(rows) for _ in range(4))
    if not len(packed):
        return head, rest
    ends, lengths = offsets[1:], np.diff(offsets)
    top = packed[np.where(lengths > 0, ends - 1, 0)] >> _BITS
    with np.errstate(all="ignore"):
        for depth in range(min(1 + _DIGITS_FOR_TWO_DOUBLES, int(lengths.max()))):
            entry = packed[np.where(lengths > depth, ends - 1 - depth, 0)]
            place = entry >> _BITS
            numeric = (lengths > depth) & (place >= FIRST)
            digit = np.where(numeric, entry.astype(np.int32), 0).astype(np.float64)
            # Relative to the top digit, so that the top may stand above the range of doubles.
            term = np.ldexp(digit, _exponents((place - top) * _BITS))
            head, error = _two_sum(head, term)
            rest, error = _two_sum(rest, error)
            tail += error
            lost = np.where((lost == 0.0) & (term == 0.0), digit, lost)
        head, rest = _two_sum(head, rest)
        rest, tail = _two_sum(rest, tail)
        head, rest = _two_sum(head, rest)
        head, rest = _halfway(head, rest, np.where(tail == 0.0, lost, tail))
        scale = _exponents((top - FIRST) * _BITS + LOWEST)
        head, rest = np.ldexp(head, scale), np.ldexp(rest, scale)
    special = specials(column)
    if special is not None:
        head = np.where(special == 0.0, head, special)
        rest = np.where(special == 0.0, rest, 0.0)
    return head, rest


def _halfway(head: Doubles, rest: Doubles, tail: Doubles) -> tuple[Doubles, Doubles]:
    """The double nearest to the sum of three, and the rest, where `head` and `rest` add up to it.

    Halfway between two doubles the even one was taken; what is further down may say otherwise.
    """
    other = np.nextafter(head, np.where(rest > 0.0, np.inf, -np.inf))
    beyond = (other - head == 2.0 * rest) & (np.sign(tail) == np.sign(rest)) & (rest != 0.0)
    return np.where(beyond, other, head), np.where(beyond, -rest, rest)


def specials(column: Any) -> Doubles | None:
    """NaN, inf or -inf where a row's sum is one, 0.0 elsewhere; None when no row's is."""
    row, place, _ = entries(column)
    mask = place < FIRST
    if not mask.any():
        return None
    row, place = row[mask], place[mask]
    total = np.zeros(len(column))
    with np.errstate(invalid="ignore"):
        for kind, value in ((_PLUS_INFINITY, np.inf), (_MINUS_INFINITY, -np.inf), (_NAN, np.nan)):
            counted = np.zeros(len(total), dtype=bool)
            counted[row[(place | 1) == (kind | 1)]] = True
            total = np.where(counted, total + value, total)
    return total


def _packed(column: Any) -> tuple[Int64s, Int64s]:
    lists = single_chunk(column)
    offsets = lists.offsets.to_numpy(zero_copy_only=True).astype(np.int64)
    packed = lists.values.to_numpy(zero_copy_only=True)[offsets[0] : offsets[-1]]
    return offsets - offsets[0], packed


def _unpacked(packed: Int64s, counts: Int64s) -> Terms:
    row = np.repeat(np.arange(len(counts)), counts)
    return Terms(row, packed >> _BITS, packed.astype(np.int32).astype(np.int64))


def _lists(offsets: Any, packed: Int64s) -> Any:
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(packed))


def _exponents(values: Int64s) -> Any:
    return np.clip(values, -10_000, 10_000).astype(np.int32)


def two_product(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    """a * b and its rounding error, by Dekker's splitting; NaN where a part overflows."""
    product = a * b
    (a_high, a_low), (b_high, b_low) = (_split(factor) for factor in (a, b))
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _split(x: Doubles) -> tuple[Doubles, Doubles]:
    scaled_up = x * 134217729.0
    high = scaled_up - (scaled_up - x)
    return high, x - high


def _two_sum(a: Doubles, b: Doubles) -> tuple[Doubles, Doubles]:
    total = a + b
    shift = total - a
    return total, (a - (total - shift)) + (b - shift)


def _decompose(x: Doubles) -> tuple[Int64s, Int64s]:
    """x == mantissa * 2**exponent, with an integer mantissa of at most 53 bits."""
    fraction, exponent = np.frexp(x)
    return (fraction * 2.0**_MANTISSA).astype(np.int64), exponent.astype(np.int64) - _MANTISSA


def _products(row: Int64s, x: Int64s, y: Int64s, exponent: Int64s, weights: Int64s) -> list[Terms]:
    """x * y * 2**exponent * weight for integers of at most 53 bits."""
    x_high, x_low = x >> 27, x & (2**27 - 1)
    y_high, y_low = y >> 27, y & (2**27 - 1)
    return [
        *_weighted(row, x_low * y_low, exponent, weights),
        *_weighted(row, x_high * y_low + x_low * y_high, exponent + 27, weights),
        *_weighted(row, x_high * y_high, exponent + 54, weights),
    ]


def _weighted(row: Int64s, mantissa: Int64s, exponent: Int64s, weights: Int64s) -> list[Terms]:
    """mantissa * weight * 2**exponent, for mantissas below 2^60 and weights below 2^31."""
    largest = float(np.abs(weights).max()) if len(weights) else 0.0
    if largest * (float(np.abs(mantissa).max()) if len(mantissa) else 0.0) < 2.0**62:
        return _placed(row, mantissa * weights, exponent)
    return [
        *_placed(row, (mantissa & _MASK) * weights, exponent),
        *_placed(row, (mantissa >> _BITS) * weights, exponent + _BITS),
    ]


def _placed(row: Int64s, mantissa: Int64s, exponent: Int64s) -> list[Terms]:
    """mantissa * 2**exponent as three digits, for any int64 mantissa."""
    position = exponent - LOWEST
    place, shift = FIRST + (position >> 5), position & 31
    low = (mantissa & _MASK) << shift
    high = ((mantissa >> _BITS) << shift) + (low >> _BITS)
    digits = (low & _MASK, high & _MASK, high >> _BITS)
    terms = []
    for offset, digit in enumerate(digits):
        used = digit != 0
        if used.all():
            terms.append(Terms(row, place + offset, digit))
        elif used.any():
            terms.append(Terms(row[used], place[used] + offset, digit[used]))
    return terms


def _specials(x: Doubles, weights: Int64s) -> list[Terms]:
    terms = []
    for kind, mask in (
        (_NAN, np.isnan(x)),
        (_PLUS_INFINITY, x == np.inf),
        (_MINUS_INFINITY, x == -np.inf),
    ):
        row = np.flatnonzero(mask)
        if len(row):
            terms.append(Terms(row, np.full(len(row), kind, dtype=np.int64), weights[row]))
    return terms


def _propagate_carries(digits: Any, places: Int64s) -> None:
    """Balance every digit; the place above a used one is always among `places`."""
    for position in range(len(places) - 1):
        carry = (digits[:, position] + _HALF) >> _BITS
        if carry.any():
            digits[:, position] -= carry << _BITS
            digits[:, position + 1] += carry
