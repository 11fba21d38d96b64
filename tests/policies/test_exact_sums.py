"""Sums over products of doubles: trees and triggers give the sum of the products, at every step."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.algebra import real_products
from rekindle.algebra.exact_sums import MOST_FACTORS, ROUNDED
from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows
from rekindle.calculus.scalars import Call, Column, Evaluable
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Aggregate, AggregateFunction, Measure, Source, Term
from rekindle.incremental.pipeline import derive
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.decisions import Factorised
from rekindle.incremental.policies.higher_order import follow_deltas
from rekindle.incremental.policies.joins import Refusal
from rekindle.incremental.policies.narrow_views import follow_narrow_views
from rekindle.incremental.policies.view_tree import factorise
from rekindle.incremental.reference import recompute, run
from tests.policies.arithmetic import EXACT, Appended, exact_sum
from tests.policies.strategies import (
    LENGTH,
    PLAIN_PRODUCT,
    TRIANGLE,
    WIDTH,
    Draw,
    Shape,
    chain,
    column,
    joined,
    star,
    transactions,
)

Policy: TypeAlias = Callable[[Term, Arithmetic], Factorised]
POLICIES: dict[str, Policy] = {
    "tree": factorise,
    "narrow": follow_narrow_views,
    "deltas": follow_deltas,
}
SHAPES = (star(2), star(3), chain(3), TRIANGLE, PLAIN_PRODUCT)
TABLES = tuple(Source(name, Schema.of(x="int", y="int", z="double")) for name in "rst")
COUNT = Measure("n", AggregateFunction.COUNT, (), "bigint", nullable=False)
Product: TypeAlias = tuple[int, ...]
"""The leaves whose doubles are multiplied; one may occur twice."""
Changes: TypeAlias = dict[str, list[Rows]]

SMALL = (0.0, -0.0, 0.5, -3.0, math.inf, -math.inf, math.nan)
"""Sums and products of these are never rounded."""
ANY = st.floats(allow_nan=False).flatmap(lambda x: st.sampled_from((x, -x, 1e16, math.nan, 0.1)))


def changes(doubles: st.SearchStrategy[float]) -> st.SearchStrategy[Changes]:
    """Streams of changes whose last column has doubles instead of 1, 2 and 3."""

    def replaced(pool: list[float], streams: Changes) -> Changes:
        values = dict(zip((1, 2, 3), pool, strict=True))
        return {name: [_with(values, rows) for rows in stream] for name, stream in streams.items()}

    return st.builds(replaced, st.lists(doubles, min_size=3, max_size=3), transactions())


def _with(values: dict[int, float], rows: Rows) -> Rows:
    pairs = [((x, y, None if z is None else values[z]), n) for (x, y, z), n in rows]  # type: ignore[misc, index]
    return ZSet(pairs, INTEGERS)


def double(leaf: int) -> Column:
    return Column(leaf * WIDTH + 2, "double")


def multiplied(product: Product) -> Evaluable:
    first, *rest = map(double, product)
    value: Evaluable = first
    for factor in rest:
        value = Call("multiply", (value, factor), "double")
    return value


@st.composite
def queries(draw: Draw) -> tuple[Shape, tuple[Source, ...], tuple[int, ...], Product, Product]:
    """A shape, its tables, the leaves that it is grouped by, a product and one to subtract."""
    shape = draw(st.sampled_from(SHAPES))
    tables = tuple(draw(st.sampled_from(TABLES)) for _ in range(shape.leaves))
    leaves = st.integers(0, shape.leaves - 1)
    # Not one leaf twice at the beginning: what is computed on one leaf is rounded as it stands.
    apart = st.lists(leaves, min_size=1, max_size=3, unique=True)
    around = st.permutations(range(shape.leaves)).map(lambda order: [*order[:2], order[0]])
    products = st.one_of(apart, apart, around).map(tuple)
    return shape, tables, tuple(draw(st.lists(leaves, max_size=1))), draw(products), draw(products)


def keys_of(grouped: tuple[int, ...]) -> tuple[tuple[str, Column], ...]:
    return tuple((f"k{leaf}", column(leaf, 1)) for leaf in grouped)


def shown(value: tuple[Any, ...]) -> Any:
    """A sum as rows can be compared by it: NaN is equal to NaN, −0.0 to 0.0."""
    count, total = value
    if not count:
        return None
    return "NaN" if math.isnan(total) else float(total) + 0.0


def followed(term: Term, policy: str) -> Term:
    found = POLICIES[policy](term, EXACT)
    assert found.is_followed and not found.refusals, found.decisions
    return found.term


@pytest.mark.parametrize("policy", POLICIES)
@given(queries(), changes(st.sampled_from(SMALL)))
@settings(max_examples=15, deadline=None)
def test_infinities_and_zeros_are_those_of_the_query(
    policy: str,
    query: tuple[Shape, tuple[Source, ...], tuple[int, ...], Product, Product],
    streams: Changes,
) -> None:
    """The query adds doubles row by row; none of these numbers is rounded on either way."""
    assert gives_what_the_query_gives(policy, query, streams)


def gives_what_the_query_gives(policy: str, query: Any, streams: Changes) -> bool:
    shape, tables, grouped, product, other = query
    arguments = (
        multiplied(product),
        Call("add", (multiplied(product), multiplied(other)), "double"),
    )
    sums = [
        Measure(f"v{i}", AggregateFunction.SUM, (each,), "double", text="shown", finish=shown)
        for i, each in enumerate(arguments)
    ]
    term = Aggregate(joined(shape, tables), keys_of(grouped), (*sums, COUNT))
    found = run(derive(followed(term, policy)), streams, LENGTH)
    return found == recompute(term, streams, LENGTH)


@pytest.mark.parametrize("policy", POLICIES)
@given(queries(), changes(ANY))
@settings(max_examples=15, deadline=None)
def test_numbers_of_any_size_are_added_without_rounding(
    policy: str,
    query: tuple[Shape, tuple[Source, ...], tuple[int, ...], Product, Product],
    streams: Changes,
) -> None:
    """Bit by bit what a fresh sum of the exact products is, after every step."""
    shape, tables, grouped, product, other = query
    both = Call("subtract", (multiplied(product), multiplied(other)), "double")
    total = Measure("v", AggregateFunction.SUM, (both,), "double", text="shown", finish=shown)
    plain = Aggregate(joined(shape, tables), keys_of(grouped), (total, COUNT))
    # A row that is NULL on one side of the difference adds nothing.
    needed = tuple(map(double, (*product, *other)))
    signed = [(1, _present(product, needed)), (-1, _present(other, needed))]
    exact = Aggregate(
        joined(shape, tables),
        keys_of(grouped),
        (exact_sum("v", signed, ROUNDED), Measure("m", AggregateFunction.COUNT, needed, "bigint")),
    )
    found = run(derive(followed(plain, policy)), streams, LENGTH)
    for step, wanted in zip(found, recompute(exact, streams, LENGTH), strict=True):
        rows = [((*row[:-2], shown((row[-1], row[-2]))), n) for row, n in wanted]
        assert ZSet([(row[:-1], n) for row, n in step], INTEGERS) == ZSet(rows, INTEGERS)


def _present(product: Product, needed: tuple[Column, ...]) -> Appended:
    """The product where no column is NULL."""
    ones = tuple(Call("not", (Call("is_null", (each,), "boolean"),), "bigint") for each in needed)
    return Appended((*map(double, product), *ones))


def test_what_is_taken_back_leaves_nothing() -> None:
    """What is added and taken back leaves no group and no rest, whatever was there meanwhile."""
    rows = [(i % 3, i % 2, (-1) ** i * 10.0 ** (i % 40 - 20)) for i in range(18)]
    steps = [ZSet([(row, 1) for row in rows[: 6 * i + 6]], INTEGERS) for i in range(3)]
    there = steps[0]
    stream = [there]
    for step in [*steps[1:], steps[0], steps[2]] * 2:
        stream.append(step - there)
        there = step
    stream.append(-there)
    term = Aggregate(
        joined(chain(3), TABLES),
        keys_of((0,)),
        (Measure("v", AggregateFunction.SUM, (multiplied((0, 1, 2)),), "double"),),
    )
    for policy in POLICIES:
        found = run(derive(followed(term, policy)), dict.fromkeys("rst", stream), len(stream))
        assert not len(sum(found, ZSet.of({})))
        again = [sum(found[: i + 1], ZSet.of({})) for i in (2, 4)]
        assert again[0] == again[1]


# ---- what is refused ---------------------------------------------------------------------------


@pytest.mark.parametrize("policy", POLICIES)
def test_a_product_with_a_sum_over_two_tables_is_refused(policy: str) -> None:
    """(2 − 1)·∞ is ∞ and 2·∞ − 1·∞ is NaN."""
    less = Call("subtract", (double(0), double(1)), "double")
    value = Call("multiply", (less, double(2)), "double")
    reason = _reason(value, policy)
    assert reason.startswith(value.text)
    assert "multiplies a sum over 'r' and 's' and 't' of the type double" in reason


@pytest.mark.parametrize("policy", POLICIES)
def test_what_is_no_product_is_refused_with_its_name(policy: str) -> None:
    value = Call("greatest", (double(0), double(2)), "double")
    reason = _reason(value, policy)
    assert reason == f"{value.text} reads 'r' and 't' together: it is no product, sum or difference"


def test_more_factors_than_a_sum_has_places_for_are_refused() -> None:
    product = (0, 1) * (MOST_FACTORS // 2)
    assert f"more than {MOST_FACTORS} factors" in _reason(multiplied((*product, 2)), "tree")
    term = Aggregate(joined(chain(3), TABLES), (), (_sum(multiplied(product)),))
    assert followed(term, "tree")


def _sum(value: Evaluable) -> Measure:
    return Measure("v", AggregateFunction.SUM, (value,), "double")


def _reason(value: Evaluable, policy: str) -> str:
    term = Aggregate(joined(chain(3), TABLES), (), (_sum(value),))
    (decision,) = POLICIES[policy](term, EXACT).decisions
    assert isinstance(decision.outcome, Refusal)
    return decision.outcome.reason


# ---- negative controls -------------------------------------------------------------------------


ONE_OF_EACH = (star(2), TABLES[:2], (), (0, 1), (0,))


def _row(z: float) -> list[Rows]:
    empty: Rows = ZSet.of({})
    return [ZSet([((0, 0, z), 1)], INTEGERS), *[empty] * (LENGTH - 1)]


@pytest.mark.parametrize("policy", POLICIES)
def test_infinities_that_are_not_counted_are_caught(
    policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    streams = {"r": _row(math.inf), "s": _row(0.0)}
    assert gives_what_the_query_gives(policy, ONE_OF_EACH, streams)
    monkeypatch.setattr(real_products, "_convolved", lambda left, right: left)
    assert not gives_what_the_query_gives(policy, ONE_OF_EACH, streams)
