"""Sums of products of doubles in columns are those of the ring, whatever is taken back."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rekindle.aggregates.exact_sums import SumExactly
from rekindle.algebra.exact_sums import (
    FACTORS,
    MOST_FACTORS,
    NUMBER,
    ROUNDED,
    SUM,
    WHOLE,
    ExactSum,
    multiplied,
    written,
)
from rekindle.algebra.real_products import RealProduct, RealProducts
from rekindle.traces import exact_product

Factors: TypeAlias = tuple[float, ...]
Row: TypeAlias = tuple[Factors, Factors, int]
RING = RealProducts()
DOUBLES = st.one_of(
    st.sampled_from((0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 5e-324, 1.7e308, 1e16)),
    st.floats(),
    st.integers(-9, 9).map(float),
)


def number(x: float) -> Factors:
    return (NUMBER, x)


def whole(n: int) -> Factors:
    return (WHOLE, float(n >> 32), float(n & 0xFFFFFFFF))


def sums() -> st.SearchStrategy[Factors]:
    """Sums of products as factors, the empty one too."""
    products = st.lists(st.tuples(st.lists(DOUBLES, min_size=1, max_size=2), st.integers(-2, 3)))
    return products.map(lambda rows: written(_added(rows)))


def _added(rows: list[tuple[list[float], int]]) -> RealProduct:
    total = RING.zero
    for xs, weight in rows:
        product = multiplied([part for x in xs for part in number(x)])
        total = RING.add(total, RING.times(product, weight))
    return total


NOTHING = (SUM, 0.0)
FACTOR = st.one_of(DOUBLES.map(number), st.integers(0, 2**40).map(whole), sums(), st.just(NOTHING))
PRODUCTS = st.lists(FACTOR, min_size=1, max_size=3).map(lambda f: tuple(x for p in f for x in p))
ROWS = st.lists(st.tuples(PRODUCTS, PRODUCTS, st.integers(-3, 3)), min_size=1, max_size=6)


def column(lists: list[Factors]) -> Any:
    return pa.array([list(each) for each in lists], pa.list_(pa.float64()))


def same(one: float, other: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other))


@given(ROWS, st.tuples(st.sampled_from((1, -1)), st.sampled_from((1, -1))))
@settings(max_examples=300, deadline=None)
def test_columns_hold_the_sums_of_the_ring(rows: list[Row], signs: tuple[int, int]) -> None:
    assume(all(_is_countable(factors) for one, other, _ in rows for factors in (one, other)))
    assert agree(rows, signs)


def _is_countable(factors: Factors) -> bool:
    """Does it stand for as many rows as two digits can count?"""
    return all(abs(number) < 2**58 for number in multiplied(factors).counts)


def agree(rows: list[Row], signs: tuple[int, int]) -> bool:
    """Is the sum of some rows in columns the sum in the ring?"""
    expected = ExactSum(signs, ROUNDED).total([((one, other), n) for one, other, n in rows])
    inputs = [column([row[0] for row in rows]), column([row[1] for row in rows])]
    weights = np.array([row[2] for row in rows], dtype=np.int64)
    starts = np.array([0], dtype=np.int64)
    for gives in (FACTORS, ROUNDED):
        accumulator = SumExactly(("x0", "x1"), ExactSum(signs, gives))
        (found,) = accumulator.buffers(accumulator.total(inputs, weights, starts))[0].to_pylist()
        if gives == FACTORS and tuple(found) != written(expected):
            return False
        if gives == ROUNDED and not same(found, expected.rounded):
            return False
    return True


@given(ROWS, st.data())
@settings(max_examples=100, deadline=None)
def test_what_was_added_is_taken_back_in_other_pieces(rows: list[Row], data: st.DataObject) -> None:
    """Rows in one turn and rows of a value and the value of its rows, the other way round."""
    assume(all(_is_countable(factors) for one, other, _ in rows for factors in (one, other)))
    accumulator = SumExactly(("x0", "x1"), ExactSum((1, -1), FACTORS))
    (ring,) = accumulator.values("a")
    turn = data.draw(st.permutations(range(len(rows))))
    ones, others = ([row[i] for row in rows] for i in (0, 1))
    weights = np.array([row[2] for row in rows], dtype=np.int64)
    (added,) = accumulator.lift([column(ones), column(others)], weights)
    back = [written(multiplied(ones[i])) for i in turn], [others[i] for i in turn]
    (taken,) = accumulator.lift([column(back[0]), column(back[1])], -weights[list(turn)])
    both = [pa.concat_arrays([added[0], taken[0]])]
    assert ring.is_zero(ring.reduce(both, np.array([0]))).all()


def test_a_sum_is_rounded_once() -> None:
    """1e300·1e-300 beside products that are far larger, and cancel."""
    rows = [(number(1e200) + number(1e200), 1), (number(1e-300) + number(1e300), 1)]
    rows.append((number(1e200) + number(1e200), -1))
    accumulator = SumExactly(("x0",), ExactSum((1,), ROUNDED))
    weights = np.array([weight for _, weight in rows])
    found = accumulator.total([column([p for p, _ in rows])], weights, np.array([0]))
    exact = float(Fraction(1e-300) * Fraction(1e300))
    assert accumulator.buffers(found)[0].to_pylist() == [exact]


@pytest.mark.parametrize("x", [5e-324, -1.7e308])
def test_the_places_hold_as_many_factors_as_are_taken(x: float) -> None:
    product = number(x) * MOST_FACTORS
    found = exact_product.factors_of(exact_product.multiplied(column([product])))
    assert tuple(found.to_pylist()[0]) == written(multiplied(product))


def test_no_rows_and_no_list() -> None:
    nothing = pa.array([None, list(number(2.0))], pa.list_(pa.float64()))
    assert exact_product.rounded(exact_product.multiplied(nothing)).tolist() == [0.0, 2.0]
    empty = pa.array([], pa.list_(pa.float64()))
    assert len(exact_product.multiplied(empty)) == 0


# ---- negative controls -------------------------------------------------------------------------


PLANTED: list[Row] = [
    (number(0.1) + number(0.3), number(2.0), 1),
    (number(math.inf) + number(0.0), number(-1.0), 1),
]


def test_counts_that_are_left_out_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    assert agree(PLANTED, (1, -1))
    monkeypatch.setattr(exact_product, "_convolved", lambda left, right: np.zeros_like(left))
    assert not agree(PLANTED, (1, -1))


def test_low_digits_that_are_left_out_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    split = exact_product._split
    monkeypatch.setattr(exact_product, "_split", lambda r, p, d: split(r, p, d)[1:])
    assert not agree(PLANTED, (1, -1))
