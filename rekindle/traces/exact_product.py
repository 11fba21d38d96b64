"""Exact sums of products of doubles in columns: the ring of `algebra.real_products`.

A value is a sparse integer like those of `exact_double`, with places for the number of products of
each kind below those of the sum (`algebra.exact_sums`). The places of the sum reach as far as a
product of `MOST_FACTORS` doubles does, up or down, so nothing is rounded, overflows or vanishes.

Products are made of sparse digits, pair by pair: a double has two or three, an ordinary sum about
as many.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rekindle.algebra.exact_sums import BITS, FIRST, LOWEST, NUMBER, SUM, WHOLE
from rekindle.algebra.real_products import TIMES, Kind
from rekindle.traces.arrays import Booleans, Doubles, Int64s, ranges, single_chunk
from rekindle.traces.exact_double import FIRST as FIRST_OF_DOUBLES
from rekindle.traces.exact_double import LOWEST as LOWEST_OF_DOUBLES
from rekindle.traces.exact_double import (
    SparseIntegers,
    Terms,
    collect,
    decomposed,
    entries,
    nearest,
)
from rekindle.traces.values import check_weights

_MASK = 2**BITS - 1
_UNIT = FIRST - LOWEST // BITS
"""The place of the number one."""
_FURTHER = _UNIT - (FIRST_OF_DOUBLES - LOWEST_OF_DOUBLES // BITS)
"""So many places are below those of a sum of doubles."""
_KINDS = len(Kind)

Counts = npt.NDArray[np.int64]
"""A row for each value, a column for each kind."""


@dataclass(frozen=True, slots=True)
class ExactProduct(SparseIntegers):
    """The ring of exact sums of products, one list<int64> column."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": "exact_product", "name": self.name}


def multiplied(column: Any) -> Any:
    """The value of each list of factors, or of each double; NULL is zero."""
    lists = single_chunk(column)
    rows = len(lists)
    if not pa.types.is_list(lists.type):
        here = np.flatnonzero(lists.is_valid().to_numpy(zero_copy_only=False))
        x = lists.drop_null().to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
        return collect(rows, _of_doubles(here, x))
    flat = lists.values.to_numpy(zero_copy_only=False)
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    at, ends = offsets[:-1].copy(), offsets[1:]
    present = lists.is_valid().to_numpy(zero_copy_only=False)
    found: Any = None
    while (live := present & (at < ends)).any():
        factor = collect(rows, _factors(flat, at, present, live))
        found = factor if found is None else _times(found, factor)
        here = np.flatnonzero(live)
        at[here] += _lengths(flat, at[here])
    return collect(rows, []) if found is None else found


def weighted(column: Any, weights: Int64s) -> list[Terms]:
    """Each value so many times."""
    check_weights(weights)
    row, place, digit = entries(column)
    return _split(row, place, digit * weights[row])


def with_sign(column: Any, sign: int) -> Any:
    """The values times 1.0 or −1.0: not their inverses, of which there would be −1 products."""
    if sign > 0:
        return column
    rows = len(column)
    minus = collect(rows, _of_doubles(np.arange(rows), np.full(rows, -1.0)))
    return _times(column, minus)


def factors_of(column: Any) -> Any:
    """Each value as a list of one factor."""
    lists = single_chunk(column)
    offsets = lists.offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    lengths = np.diff(offsets)
    rows = len(lengths)
    starts = (offsets[:-1] - offsets[0]) + 2 * np.arange(rows)
    flat = np.empty(int(lengths.sum()) + 2 * rows)
    flat[starts] = SUM
    flat[starts + 1] = lengths
    packed = lists.values.to_numpy(zero_copy_only=False)[offsets[0] : offsets[-1]]
    flat[ranges(starts + 2, lengths)] = packed
    ends = np.append(starts, len(flat)).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(ends), pa.array(flat))


def rounded(column: Any) -> Doubles:
    """The double nearest to each value; NaN and the infinities as IEEE adds them."""
    rows = len(column)
    row, place, digit = entries(column)
    # What is below the places of a sum of doubles is far below the least double.
    numeric = place >= FIRST_OF_DOUBLES + _FURTHER
    terms = Terms(row[numeric], place[numeric] - _FURTHER, digit[numeric])
    total = nearest(collect(rows, [terms]))[0]
    counts = _counts(column)
    special = (Kind.NAN, Kind.PLUS_INFINITY, Kind.MINUS_INFINITY)
    nan, plus, minus = (counts[:, kind] != 0 for kind in special)
    total[plus] = np.inf
    total[minus] = -np.inf
    total[nan | (plus & minus)] = np.nan
    return total


def _lengths(flat: Doubles, at: Int64s) -> Int64s:
    """How long the factors are that begin at some places."""
    tags = flat[at]
    further = flat[np.minimum(at + 1, len(flat) - 1)]
    found: Int64s = np.select(
        [tags == NUMBER, tags == WHOLE], [2, 3], 2 + np.where(tags == SUM, further, 0)
    ).astype(np.int64)
    return found


def _factors(flat: Doubles, at: Int64s, present: Booleans, live: Booleans) -> list[Terms]:
    """The factor that begins in each row at its place, and one where there is no more."""
    tags = np.where(live, flat[np.minimum(at, len(flat) - 1)], 0.0)
    terms: list[Terms] = []
    row = np.flatnonzero(present & ~live)
    if len(row):
        terms += _of_doubles(row, np.ones(len(row)))
    row = np.flatnonzero(tags == NUMBER)
    if len(row):
        terms += _of_doubles(row, flat[at[row] + 1])
    row = np.flatnonzero(tags == WHOLE)
    if len(row):
        high, low = (flat[at[row] + i].astype(np.int64) for i in (1, 2))
        for place in (_UNIT, 2 * Kind.POSITIVE):
            terms.append(Terms(row, np.full(len(row), place), low))
            terms.append(Terms(row, np.full(len(row), place + 1), high))
    row = np.flatnonzero(tags == SUM)
    if len(row):
        lengths = flat[at[row] + 1].astype(np.int64)
        packed = flat[ranges(at[row] + 2, lengths)].astype(np.int64)
        digits = packed.astype(np.int32).astype(np.int64)
        terms.append(Terms(np.repeat(row, lengths), packed >> BITS, digits))
    return terms


def _of_doubles(row: Int64s, x: Doubles) -> list[Terms]:
    """Doubles as values, at some rows."""
    terms = [
        part._replace(row=row[part.row], place=part.place + _FURTHER)
        for part in decomposed(np.where(np.isfinite(x), x, 0.0))
    ]
    tests = {
        Kind.NAN: np.isnan(x),
        Kind.PLUS_INFINITY: x == np.inf,
        Kind.MINUS_INFINITY: x == -np.inf,
        Kind.ZERO: x == 0.0,
        Kind.POSITIVE: np.isfinite(x) & (x > 0.0),
        Kind.NEGATIVE: np.isfinite(x) & (x < 0.0),
    }
    for kind, test in tests.items():
        if test.any():
            count = int(test.sum())
            terms.append(Terms(row[test], np.full(count, 2 * kind), np.ones(count, dtype=np.int64)))
    return terms


def _times(left: Any, right: Any) -> Any:
    """The product of two values in each row."""
    rows = len(left)
    ours, theirs = (_numeric(column) for column in (left, right))
    lengths = np.bincount(theirs.row, minlength=rows)
    starts = np.cumsum(lengths) - lengths
    each = lengths[ours.row]
    one = np.repeat(np.arange(len(ours.row)), each)
    other = ranges(starts[ours.row], each)
    place = ours.place[one] + theirs.place[other] - _UNIT
    terms = _split(ours.row[one], place, ours.digit[one] * theirs.digit[other])
    return collect(rows, [*terms, *_of_counts(_convolved(_counts(left), _counts(right)))])


def _numeric(column: Any) -> Terms:
    row, place, digit = entries(column)
    mask = place >= FIRST
    return Terms(row[mask], place[mask], digit[mask])


def _counts(column: Any) -> Counts:
    row, place, digit = entries(column)
    mask = place < FIRST
    row, place, digit = row[mask], place[mask], digit[mask]
    found = np.zeros((len(column), FIRST // 2), dtype=np.int64)
    np.add.at(found, (row, place >> 1), digit << (BITS * (place & 1)))
    return found[:, :_KINDS]


def _convolved(left: Counts, right: Counts) -> Counts:
    found = np.zeros_like(left)
    ours, theirs = ([k for k in Kind if side[:, k].any()] for side in (left, right))
    for one in ours:
        for other in theirs:
            found[:, TIMES[one][other]] += left[:, one] * right[:, other]
    return found


def _of_counts(counts: Counts) -> list[Terms]:
    row, kind = np.nonzero(counts)
    return _split(row, 2 * kind, counts[row, kind])


def _split(row: Int64s, place: Int64s, product: Int64s) -> list[Terms]:
    """Products of digits as two digits each."""
    return [Terms(row, place, product & _MASK), Terms(row, place + 1, product >> BITS)]
