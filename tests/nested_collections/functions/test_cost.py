"""Definitions 2 and 3, theorem 13 in both of its readings, and corollary 4.3.1."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rekindle.nested.functions.cost import (
    at_most,
    below,
    bottom,
    cost,
    cost_of_higher_delta,
    larger,
    order_that_is_constant,
)
from rekindle.nested.functions.delta import delta
from rekindle.nested.functions.primitives import EFFICIENT, PRIMITIVES, TIMES
from rekindle.nested.functions.terms import Compose, Curry, Defined, Identity, Pair, Term
from rekindle.nested.functions.types import INTEGER, Type
from tests.nested_collections.functions.strategies import (
    costs,
    drawn,
    grounds,
    law,
    smaller_costs,
    terms,
    types,
)

strict = {"primitives": EFFICIENT}


@law
@given(st.data(), types)
def test_definitions_2_and_3(data: st.DataObject, type_: Type) -> None:
    """1° is below everything, and the larger of two costs that are comparable is one of them."""
    one = data.draw(costs(type_))
    less = data.draw(smaller_costs(type_, one))
    samples = drawn(data, costs)
    assert at_most(type_, bottom(type_), one, samples)
    assume(at_most(type_, less, one, samples))
    assert at_most(type_, larger(type_, less, one), one, samples)
    assert at_most(type_, one, larger(type_, less, one), samples)


@law
@given(st.data(), types, types)
def test_theorem_13_no_delta_costs_more(data: st.DataObject, source: Type, target: Type) -> None:
    """cost(δ(h))(ε, εΔ) ≤ cost(h)(ε), where εΔ ≤ ε."""
    h = data.draw(terms(source, target))
    given_ = data.draw(costs(source))
    change = data.draw(smaller_costs(source, given_))
    found = cost(delta(h), (given_, change))
    assert at_most(target, found, cost(h, given_), drawn(data, costs))


@law
@given(st.data(), types, types)
def test_theorem_13_every_delta_costs_less(data: st.DataObject, source: Type, target: Type) -> None:
    """cost(δ(h))(ε, εΔ) ≺ cost(h)(ε), where εΔ ≺ ε and the primitives are efficient."""
    h = data.draw(terms(source, target, **strict))
    given_ = data.draw(costs(source, **strict))
    change = data.draw(smaller_costs(source, given_, by=1))
    found = cost(delta(h), (given_, change))
    assert below(target, found, cost(h, given_), drawn(data, costs, **strict))


def is_efficient(primitive: Defined, data: st.DataObject) -> bool:
    given_ = data.draw(costs(primitive.takes, **strict))
    change = data.draw(smaller_costs(primitive.takes, given_, by=1))
    found = cost(delta(primitive), (given_, change))
    return below(primitive.gives, found, cost(primitive, given_), drawn(data, costs, **strict))


@pytest.mark.parametrize("primitive", EFFICIENT, ids=lambda primitive: primitive.name)
@given(data=st.data())
def test_efficient_primitives_are(primitive: Defined, data: st.DataObject) -> None:
    assert is_efficient(primitive, data)


ANEW = [primitive for primitive in PRIMITIVES if primitive not in EFFICIENT]


@pytest.mark.parametrize("primitive", ANEW, ids=lambda p: p.name)
def test_what_is_computed_anew_passes_the_weak_reading_only(primitive: Defined) -> None:
    found, before = cost(delta(primitive), (5, 2)), cost(primitive, 5)
    assert at_most(primitive.gives, found, before, lambda type_: [])
    assert not below(primitive.gives, found, before, lambda type_: [])


def test_a_product_that_costs_n_times_m_is_not_efficient() -> None:
    """Cost n · m pays n for a product with zero: theorem 13 and its corollary fail strictly."""
    naive = replace(TIMES, cost=lambda sizes: sizes[0] * sizes[1])
    assert not below(INTEGER, cost(delta(naive), ((5, 1), (2, 1))), 5, lambda type_: [])
    curried = cost(delta(Curry(naive)), (5, 2))
    assert not below(Curry(naive).target, curried, cost(Curry(naive), 5), lambda type_: [1])
    assert at_most(Curry(naive).target, curried, cost(Curry(naive), 5), lambda type_: [1, 2])
    assert order_that_is_constant(naive, (5, 7), lambda type_: [], limit=4) is None
    assert order_that_is_constant(TIMES, (5, 7), lambda type_: [], limit=4) == 1


@settings(law, max_examples=60)
@given(st.data(), grounds, types)
def test_corollary_4_3_1_some_delta_is_constant(
    data: st.DataObject, source: Type, target: Type
) -> None:
    """cost(Δⁿh)(ε)(1°)…(1°) = 1° for some n, after costs that fall with each."""
    h = data.draw(terms(source, target, 2, **strict))
    given_ = data.draw(costs(source, **strict))
    samples = drawn(data, costs, **strict)
    assert order_that_is_constant(h, given_, samples, limit=3) is not None
    first, second = (cost_of_higher_delta(h, order, given_, bottom(source)) for order in (0, 1))
    assert below(target, second, first, samples)


def power(exponent: int) -> Term:
    """x ↦ x^exponent."""
    x = Identity(INTEGER)
    return x if exponent == 1 else Compose(TIMES, Pair(x, power(exponent - 1)))


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_the_delta_of_the_degree_costs_the_same_for_any_input(degree: int) -> None:
    """Changes of one row: Δⁿh still depends on the input for n < degree, and no longer from it."""

    def found(order: int, size: int) -> int:
        spent = cost_of_higher_delta(power(degree), order, size, 2)
        assert isinstance(spent, int)
        return spent

    assert all(found(order, 10) < found(order, 1000) for order in range(degree))
    assert found(degree, 10) == found(degree, 1000)
    falling = [found(order, 1000) for order in range(degree + 2)]
    assert falling == sorted(falling, reverse=True) and falling[-1] == 1
