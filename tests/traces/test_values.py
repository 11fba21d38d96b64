"""Ring values against Python's integers and fractions."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.errors import EvaluationError
from rekindle.traces import ExactDouble, Weight, WideInteger
from rekindle.traces.exact_double import collect, entries, nearest, scaled
from rekindle.traces.values import limbs_of_decimal128, limbs_of_int64

int64s = st.integers(-(2**63), 2**63 - 1)
weights = st.one_of(st.integers(-3, 3), st.integers(-(2**31) + 1, 2**31 - 1))
finite = st.floats(allow_nan=False, allow_infinity=False)
EXACT = ExactDouble("e")


def starts_of(lengths: list[int]) -> np.ndarray:
    return np.cumsum([0, *lengths[:-1]])


def segments(items: list, lengths: list[int]) -> list[list]:
    bounds = [*starts_of(lengths), sum(lengths)]
    return [items[a:b] for a, b in pairwise(bounds)]


@st.composite
def segmented(draw: st.DrawFn, element: st.SearchStrategy) -> tuple[list, list[int]]:
    lengths = draw(st.lists(st.integers(1, 6), min_size=1, max_size=6))
    size = sum(lengths)
    return draw(st.lists(element, min_size=size, max_size=size)), lengths


def wide(columns: list) -> list[int]:
    limbs = [column.to_pylist() for column in columns]
    for limb in limbs[:-1]:
        assert all(0 <= digit < 2**32 for digit in limb)
    return [
        sum(digit << (32 * i) for i, digit in enumerate(row)) for row in zip(*limbs, strict=True)
    ]


def exact(column: pa.Array) -> list[Fraction]:
    total = [Fraction(0)] * len(column)
    for row, place, digit in zip(*entries(column), strict=True):
        assert place >= 8 and digit
        total[row] += Fraction(int(digit)) * Fraction(2) ** (32 * (int(place) - 8) - 72 * 32)
    return total


@given(segmented(st.tuples(int64s, weights)))
def test_wide_integers_add_exactly(case: tuple[list, list[int]]) -> None:
    rows, lengths = case
    ring = WideInteger("v", 2)
    values = np.array([value for value, _ in rows], dtype=np.int64)
    factors = np.array([weight for _, weight in rows], dtype=np.int64)
    lifted = ring.lift(limbs_of_int64(values), factors)
    assert wide(lifted) == [value * weight for value, weight in rows]
    total = ring.reduce(lifted, starts_of(lengths))
    expected = [sum(v * w for v, w in part) for part in segments(rows, lengths)]
    assert wide(total) == expected
    assert wide(ring.negate(total)) == [-value for value in expected]
    assert ring.is_zero(total).tolist() == [value == 0 for value in expected]


@given(st.lists(st.tuples(st.integers(-(10**38) + 1, 10**38 - 1), weights), min_size=1))
def test_decimals_add_exactly(rows: list[tuple[int, int]]) -> None:
    ring = WideInteger("v", 4)
    column = pa.array([Decimal(0), *(Decimal(value) for value, _ in rows)], pa.decimal128(38, 0))
    factors = np.array([weight for _, weight in rows], dtype=np.int64)
    lifted = ring.lift(limbs_of_decimal128(column.slice(1)), factors)
    assert wide(lifted) == [value * weight for value, weight in rows]
    assert wide(ring.reduce(lifted, np.array([0]))) == [sum(v * w for v, w in rows)]


@given(segmented(st.tuples(finite, weights)))
def test_doubles_add_exactly(case: tuple[list, list[int]]) -> None:
    rows, lengths = case
    x = np.array([value for value, _ in rows])
    factors = np.array([weight for _, weight in rows], dtype=np.int64)
    lifted = EXACT.lift(x, factors)
    assert exact(lifted[0]) == [Fraction(value) * weight for value, weight in rows]
    total = EXACT.reduce(lifted, starts_of(lengths))
    expected = [sum(Fraction(v) * w for v, w in part) for part in segments(rows, lengths)]
    assert exact(total[0]) == expected
    assert exact(EXACT.negate(total)[0]) == [-value for value in expected]
    assert EXACT.is_zero(total).tolist() == [value == 0 for value in expected]
    # The canonical form does not depend on how the sum was bracketed.
    half = len(rows) // 2
    if half:
        pieces = EXACT.reduce(lifted, np.array([0, half]))
        whole = EXACT.reduce(lifted, np.array([0]))
        assert EXACT.reduce(pieces, np.array([0]))[0].equals(whole[0])


@given(st.lists(st.tuples(finite, finite, weights), min_size=1, max_size=20))
def test_products_are_exact(rows: list[tuple[float, float, int]]) -> None:
    x, y = (np.array([row[i] for row in rows]) for i in range(2))
    factors = np.array([row[2] for row in rows], dtype=np.int64)
    lifted = EXACT.lift_product(x, y, factors)[0]
    assert exact(lifted) == [Fraction(a) * Fraction(b) * w for a, b, w in rows]
    sums = EXACT.lift(x, factors)[0]
    assert exact(collect(len(x), scaled(entries(sums), y, -2))) == [
        Fraction(a) * w * Fraction(b) * -2 for a, b, w in rows
    ]


@given(st.lists(finite, min_size=1, max_size=12))
def test_nearest_is_the_rounded_sum(x: list[float]) -> None:
    total = EXACT.reduce(EXACT.lift(np.array(x), np.ones(len(x), np.int64)), np.array([0]))[0]
    expected = sum(map(Fraction, x))
    head, rest = nearest(total)
    try:
        rounded = float(expected)
    except OverflowError:
        rounded = math.inf if expected > 0 else -math.inf
    assert head[0] == pytest.approx(rounded, rel=2**-52, abs=5e-324)
    if math.isfinite(head[0]) and abs(rounded) > 1e-250:
        error = abs(Fraction(head[0]) + Fraction(rest[0]) - expected)
        assert error <= abs(expected) * Fraction(1, 2**100)
    if math.isfinite(rounded) and Fraction(rounded) == expected:
        assert head[0] == rounded


@given(
    st.integers(2**52, 2**53 - 1),
    st.integers(-200, 200),
    st.sampled_from((1, -1)),
    st.sampled_from((0, 1, -1)),
    st.integers(-1074, 700),
)
def test_what_is_far_below_decides_halfway(
    mantissa: int, power: int, side: int, sign: int, far: int
) -> None:
    """Halfway between two doubles, and a little more or less."""
    base = math.ldexp(mantissa, power)
    half = math.ulp(base) / 2
    x = [base, side * half, sign * math.ldexp(1.0, min(far, math.frexp(half)[1] - 2))]
    total = EXACT.reduce(EXACT.lift(np.array(x), np.ones(3, np.int64)), np.array([0]))[0]
    head, rest = nearest(total)
    assert head[0] == float(sum(map(Fraction, x)))
    error = abs(Fraction(head[0]) + Fraction(rest[0]) - sum(map(Fraction, x)))
    assert error <= Fraction(base) / 2**100


@pytest.mark.parametrize(
    ("x", "total"),
    [
        ([1e300, 1.0, -1e300], 1.0),
        ([0.1] * 10, 1.0),
        ([math.inf, 1.0], math.inf),
        ([math.inf, -math.inf], math.nan),
        ([math.nan, 1.0], math.nan),
        ([-math.inf], -math.inf),
        ([1.7e308, 1.7e308, -1.7e308], 1.7e308),
        ([5e-324, 5e-324], 1e-323),
        ([-0.0], 0.0),
    ],
)
def test_special_sums(x: list[float], total: float) -> None:
    lifted = EXACT.lift(np.array(x), np.ones(len(x), np.int64))
    summed = EXACT.reduce(lifted, np.array([0]))
    np.testing.assert_equal(nearest(summed[0])[0][0], total)
    undone = [pa.concat_arrays([summed[0], EXACT.negate(summed)[0]])]
    assert EXACT.is_zero(EXACT.reduce(undone, np.array([0]))).all()


def test_deleting_an_infinity_restores_the_sum() -> None:
    x = np.array([2.5, math.inf, math.nan, math.inf, math.nan])
    lifted = EXACT.lift(x, np.array([1, 1, 1, -1, -1]))
    assert nearest(EXACT.reduce(lifted, np.array([0]))[0])[0].tolist() == [2.5]


def test_wide_ranges_are_collected_in_halves(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.ldexp(np.random.default_rng(1).standard_normal(500), np.arange(-250, 250) * 4)
    ones = np.ones(len(x), np.int64)
    whole = EXACT.lift(x, ones)[0]
    monkeypatch.setattr("rekindle.traces.exact_double._DENSE_LIMIT", 100)
    assert EXACT.lift(x, ones)[0].equals(whole)


def test_zero_looks_at_every_component() -> None:
    assert WideInteger("v", 2).is_zero([pa.array([0, 0]), pa.array([0, 1])]).tolist() == [
        True,
        False,
    ]
    assert Weight().is_zero([pa.array([0, 1])]).tolist() == [True, False]


def test_a_huge_multiplicity_is_refused() -> None:
    with pytest.raises(EvaluationError, match="multiplicity"):
        EXACT.lift(np.array([1.0]), np.array([2**31]))


def test_many_numbers_are_lifted_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    x = np.array([0.1, -3e300, float("nan"), 0.0, 5e-324, float("inf"), 7.25, -0.1, 1e16, 2.0])
    weights = np.arange(-5, 5)
    (whole,) = EXACT.lift(x, weights)
    monkeypatch.setattr("rekindle.traces.exact_double._BLOCK_ROWS", 3)
    assert EXACT.lift(x, weights)[0].equals(whole)
