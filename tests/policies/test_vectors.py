"""A vector of sums over a join means its products summed one by one, at every transaction."""

from __future__ import annotations

from itertools import combinations_with_replacement

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.aggregates.polynomials import SumPolynomials
from rekindle.algebra.polynomials import Monomial, Polynomials
from rekindle.calculus.interpreter import Rows
from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.terms import Aggregate, Join, Map, Term
from rekindle.incremental.pipeline import derive
from rekindle.incremental.policies.vectors import Product, _directly, summed
from rekindle.incremental.reference import recompute, run
from rekindle.traces.exact_vector import ExactVector
from tests.policies.arithmetic import PYTHON, _zero_if_null
from tests.policies.strategies import (
    LENGTH,
    SHAPES,
    SOURCES,
    Shape,
    chain,
    column,
    joined,
    star,
    transactions,
)


def rows_of(shape: Shape) -> tuple[Term, int]:
    """The last column of each leaf, without NULLs, then the second one of the first leaf."""
    leaves = tuple(SOURCES[i % len(SOURCES)] for i in range(shape.leaves))
    outputs: list[tuple[str, Scalar]] = [
        (f"x{i}", _zero_if_null(column(i, 2), "double")) for i in range(shape.leaves)
    ]
    return Map(joined(shape, leaves), (*outputs, ("k", column(0, 1)))), shape.leaves


def products_of(width: int, degree: int) -> list[Product]:
    return [p for d in range(degree + 1) for p in combinations_with_replacement(range(width), d)]


@given(st.sampled_from(SHAPES), st.booleans(), st.integers(1, 3), transactions())
@settings(max_examples=80, deadline=None)
def test_a_tree_of_vectors_gives_the_changes_of_the_sums(
    shape: Shape, keyed: bool, degree: int, changes: dict[str, list[Rows]]
) -> None:
    rows, width = rows_of(shape)
    keys = (("k", Column(width, "int")),) if keyed else ()
    products = products_of(min(width, 3), degree)
    tree = summed(rows, keys, products, PYTHON)
    assert aggregates_above_sources(tree) > 1
    plain = _directly(rows, keys, products)
    assert run(derive(tree), changes, LENGTH) == recompute(plain, changes, LENGTH)


def aggregates_above_sources(term: Term) -> int:
    """How many aggregates the rows of a source go through at most."""
    below = max(map(aggregates_above_sources, term.children), default=0)
    return below + isinstance(term, Aggregate)


def test_a_star_keeps_vectors_and_not_their_products() -> None:
    """Of four leaves with one column each: a view has (x, x²), the result all 15 products."""
    rows, width = rows_of(star(4))
    tree = summed(rows, (), products_of(width, 2), PYTHON)
    assert sorted(_widths(tree)) == [2, 2, 2, 2, 15]


@pytest.mark.parametrize(
    ("shape", "joins"),
    [(star(2), 0), (star(6), 0), (chain(3), 1)],
    ids=["star of two", "star of six", "chain"],
)
def test_views_by_the_same_variables_are_one_group(shape: Shape, joins: int) -> None:
    rows, width = rows_of(shape)
    tree = summed(rows, (), products_of(width, 2), PYTHON)
    assert _joins(tree) == joins


def _joins(term: Term) -> int:
    return isinstance(term, Join) + sum(map(_joins, term.children))


def _widths(term: Term) -> list[int]:
    own = (
        [len(m.finish.monomials) for m in term.measures if isinstance(m.finish, Polynomials)]
        if isinstance(term, Aggregate)
        else []
    )
    return own + [width for child in term.children for width in _widths(child)]


@given(
    st.lists(
        st.tuples(
            st.integers(-3, 3),
            st.floats(-1e6, 1e6),
            st.lists(st.floats(-9, 9), min_size=2, max_size=2),
        ),
        min_size=1,
        max_size=6,
    )
)
@settings(max_examples=100, deadline=None)
def test_the_accumulator_adds_products_exactly(rows: list[tuple[int, float, list[float]]]) -> None:
    monomials: tuple[Monomial, ...] = (
        (),
        ((0, None),),
        ((0, None), (0, None)),
        ((0, None), (1, 1)),
    )
    sums = SumPolynomials(("x0", "x1"), Polynomials(monomials))
    (ring,) = sums.values("a")
    weights = np.array([w for w, _, _ in rows] + [-w for w, _, _ in rows], dtype=np.int64)
    numbers = pa.array([x for _, x, _ in rows] * 2, pa.float64())
    vectors = pa.array([v for _, _, v in rows] * 2, pa.list_(pa.float64()))
    (lifted,) = sums.lift([numbers, vectors], weights)
    half = np.array([0, len(rows)])
    first, second = sums.buffers([ring.reduce(lifted, half)])[0].to_pylist()
    expected = [
        np.sum([w * np.prod([x if e is None else v[e] for _, e in m]) for w, x, v in rows])
        for m in monomials
    ]
    assert np.allclose(first, expected, rtol=1e-12, atol=1e-6)
    assert np.allclose(first, -np.array(second), rtol=0, atol=0)
    assert ring.is_zero(ring.reduce(lifted, np.array([0]))).all()


@given(
    st.lists(st.tuples(st.integers(-3, 3), st.floats(), st.floats(-1e9, 1e9)), min_size=1),
    st.data(),
)
@settings(max_examples=200, deadline=None)
def test_rows_added_up_at_once_are_rows_added_one_by_one(
    rows: list[tuple[int, float, float]], data: st.DataObject
) -> None:
    ring = ExactVector("a", 2)
    weights = np.array([w for w, _, _ in rows], dtype=np.int64)
    matrix = np.array([[x, y] for _, x, y in rows])
    cuts = data.draw(st.sets(st.integers(1, len(rows) - 1)) if len(rows) > 1 else st.just(set()))
    starts = np.array([0, *sorted(cuts)], dtype=np.int64)
    expected = ring.reduce(ring.lift(matrix, weights), starts)
    assert ring.total(matrix, weights, starts)[0].equals(expected[0])
