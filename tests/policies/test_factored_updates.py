"""A change that comes as a product of vectors adds what the product written out would add."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows, evaluate
from rekindle.calculus.scalars import Call, Column, Evaluable
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Join,
    Measure,
    Source,
    Term,
)
from rekindle.incremental.policies.factored_updates import (
    FactoredView,
    Matrix,
    fed,
    followed,
    with_factors,
)
from rekindle.incremental.policies.joins import Refusal
from tests.policies.arithmetic import PYTHON
from tests.policies.strategies import Draw

MATRIX = Matrix(0, 1, 2)
COLUMNS = Schema(tuple(Field(name, "bigint", nullable=False) for name in "ijv"))


def chain(length: int, name: str = "a") -> Aggregate:
    """SELECT a0.i, an.j, sum(a0.v * ... * an.v) over matrices that are multiplied."""
    term: Term = Source(f"{name}0", COLUMNS)
    for number in range(1, length):
        last = Column(3 * number - 2, "bigint", False)
        term = Join(
            term, Source(f"{name}{number}", COLUMNS), (last,), (Column(0, "bigint", False),)
        )
    product: Evaluable = Column(2, "bigint", False)
    for number in range(1, length):
        product = Call("multiply", (product, Column(3 * number + 2, "bigint", False)), "bigint")
    total = Measure("v", AggregateFunction.SUM, (product,), "bigint")
    keys = (("i", Column(0, "bigint", False)), ("j", Column(3 * length - 2, "bigint", False)))
    return Aggregate(term, keys, (total,))


def made(term: Term) -> FactoredView:
    found = fed(term, "feed", PYTHON)
    assert isinstance(found, FactoredView), found
    return found


def entries(values: Mapping[tuple[int, int], int]) -> Rows:
    return ZSet((((i, j, v), 1) for (i, j), v in values.items()), INTEGERS)


def vector(values: list[list[int]]) -> Rows:
    return ZSet(
        (((t, i, x), 1) for t, each in enumerate(values) for i, x in enumerate(each)), INTEGERS
    )


def sums(rows: Rows) -> dict[tuple[Any, ...], int]:
    """The sum of each group, from rows of keys, count and sum."""
    return {row[:2]: row[-1] for row, _ in rows if row[-1]}


@st.composite
def cases(draw: Draw) -> tuple[int, int, dict[str, Rows], list[list[int]], list[list[int]]]:
    """A chain, the matrix that changes, all matrices, and the vectors of the change."""
    length, size = draw(st.integers(2, 4)), draw(st.integers(1, 3))
    numbers = st.integers(-3, 3)
    matrices = {
        f"a{n}": entries({(i, j): draw(numbers) for i in range(size) for j in range(size)})
        for n in range(length)
    }
    vectors = st.lists(numbers, min_size=size, max_size=size)
    rank = draw(st.integers(1, 3))
    u, v = ([draw(vectors) for _ in range(rank)] for _ in range(2))
    return length, draw(st.integers(0, length - 1)), matrices, u, v


@given(cases())
@settings(max_examples=100, deadline=None)
def test_a_factored_change_adds_what_the_plain_one_adds(
    case: tuple[int, int, dict[str, Rows], list[list[int]], list[list[int]]],
) -> None:
    length, changed, matrices, u, v = case
    name = f"a{changed}"
    term = chain(length)
    found = made(term)
    factored = with_factors(found.contributions, name, MATRIX, PYTHON)
    assert isinstance(factored, Aggregate)
    given_ = {**matrices, f"{name}·u": vector(u), f"{name}·v": vector(v)}
    added = sums(evaluate(followed(factored, PYTHON), given_))

    after = {
        (i, j): value + sum(x[i] * y[j] for x, y in zip(u, v, strict=True))
        for (i, j, value), _ in matrices[name]
    }
    before = sums(evaluate(term, matrices))
    expected = sums(evaluate(term, {**matrices, name: entries(after)}))
    keys = before.keys() | expected.keys() | added.keys()
    assert all(before.get(k, 0) + added.get(k, 0) == expected.get(k, 0) for k in keys)


@given(cases())
@settings(max_examples=50, deadline=None)
def test_vectors_with_their_zeros_count_the_rows_that_arrive(
    case: tuple[int, int, dict[str, Rows], list[list[int]], list[list[int]]],
) -> None:
    """Each product has every row and column, so every joined row is counted once by each."""
    length, changed, matrices, u, v = case
    name = f"a{changed}"
    found = made(chain(length))
    factored = with_factors(found.contributions, name, MATRIX, PYTHON)
    assert isinstance(factored, Aggregate)
    given_ = {**matrices, f"{name}·u": vector(u), f"{name}·v": vector(v)}
    size = len(u[0])
    arriving = {
        (i, j): sum(x[i] * y[j] for x, y in zip(u, v, strict=True))
        for i in range(size)
        for j in range(size)
    }
    plain = evaluate(found.contributions, {**matrices, name: entries(arriving)})
    assert {(i, j, n * len(u), x) for (i, j, n, x), _ in plain} == {
        row for row, _ in evaluate(followed(factored, PYTHON), given_)
    }


@given(st.sets(st.integers(0, 3)), st.sets(st.integers(0, 3)), st.integers(0, 9))
def test_a_product_of_two_sets_adds_what_its_pairs_add(
    rows: set[int], columns: set[int], seed: int
) -> None:
    """Σ a.v·c.v over a(i, j) ⋈ b(j, k) ⋈ c(k, l), where b has no values."""
    pairs = Source("b", Schema(COLUMNS.fields[:2]))
    first = Column(0, "bigint", False)
    left = Join(Source("a", COLUMNS), pairs, (Column(1, "bigint", False),), (first,))
    both = Join(left, Source("c", COLUMNS), (Column(4, "bigint", False),), (first,))
    value = Call("multiply", (Column(2, "bigint", False), Column(7, "bigint", False)), "bigint")
    keys = (("i", first), ("l", Column(6, "bigint", False)))
    total = Measure("v", AggregateFunction.SUM, (value,), "bigint")
    found = made(Aggregate(both, keys, (total,)))
    factored = with_factors(found.contributions, "b", Matrix(0, 1, None), PYTHON)
    assert isinstance(factored, Aggregate)
    square = entries({(i, j): (i * 5 + j * 3 + seed) % 7 - 3 for i in range(4) for j in range(4)})
    tables: dict[str, Rows] = {"a": square, "c": square}
    written = ZSet((((i, j), 1) for i in rows for j in columns), INTEGERS)
    sides = {
        f"b·{mark}": ZSet((((0, i), 1) for i in side), INTEGERS)
        for mark, side in (("u", rows), ("v", columns))
    }
    plain = evaluate(found.contributions, {**tables, "b": written})
    assert evaluate(followed(factored, PYTHON), {**tables, **sides}) == plain


def test_contributions_of_both_signs_make_the_view() -> None:
    """The view over its feed is the query, while rows come and leave."""
    term = chain(2)
    found = made(term)
    fixed = entries({(0, 0): 2, (1, 0): 5})
    one, other = entries({(0, 0): 3, (0, 1): -1}), entries({(0, 0): 4, (1, 1): 1})
    fed_rows: Rows = ZSet([], INTEGERS)
    for plus, minus, now in ((one, None, one), (other, one, other), (None, other, None)):
        for change, sign in ((plus, 1), (minus, -1)):
            if change is None:
                continue
            added = evaluate(followed(found.contributions, PYTHON), {"a0": change, "a1": fixed})
            for row, _ in added:
                *keys, count, total = row
                fed_rows = fed_rows + ZSet([((*keys, total), sign)], INTEGERS)
                fed_rows = fed_rows + ZSet([((*keys, 0), sign * (count - 1))], INTEGERS)
        tables = {"a0": now or ZSet([], INTEGERS), "a1": fixed}
        assert evaluate(found.term, {"feed": fed_rows}) == evaluate(term, tables)


def _widest(term: Term, contents: Mapping[str, Rows]) -> int:
    """The rows of the largest join inside a term."""

    def joins(node: Term) -> Iterator[int]:
        if isinstance(node, Join):
            yield sum(weight for _, weight in evaluate(node, contents))
        for child in node.children:
            yield from joins(child)

    return max(joins(term))


def test_no_join_of_a_factored_change_has_more_rows_than_a_matrix() -> None:
    size = 6
    square = entries({(i, j): i + j + 1 for i in range(size) for j in range(size)})
    found = made(chain(3))
    matrices = {f"a{n}": square for n in range(3)}
    factored = with_factors(found.contributions, "a1", MATRIX, PYTHON)
    assert isinstance(factored, Aggregate)
    ones = vector([[1] * size])
    given_ = {**matrices, "a1·u": ones, "a1·v": ones}
    assert _widest(followed(factored, PYTHON), given_) == size**2
    assert _widest(followed(found.contributions, PYTHON), matrices) == size**3


@pytest.mark.parametrize(
    ("term", "reason"),
    [
        (Source("a", COLUMNS), "not an aggregate"),
        (Aggregate(chain(2).child, (), chain(2).measures), "not an aggregate by keys"),
        (Aggregate(chain(2).child, chain(2).keys, chain(2).measures * 2), "one sum"),
        (
            Aggregate(
                chain(2).child,
                chain(2).keys,
                (Measure("v", AggregateFunction.SUM, (Column(2, "bigint"),), "bigint"),),
            ),
            "may be NULL",
        ),
    ],
)
def test_what_is_no_sum_of_products_is_refused(term: Term, reason: str) -> None:
    found = fed(term, "feed", PYTHON)
    assert isinstance(found, Refusal)
    assert reason in found.reason


@pytest.mark.parametrize("shape", ["square", "sum", "index"])
def test_what_is_not_linear_in_a_matrix_takes_no_factors(shape: str) -> None:
    """u·vᵀ in the place of b is wrong in a·b², in a + b and in a·b·i."""
    a, b, index = (Column(place, "bigint", False) for place in (2, 5, 3))
    argument = {
        "square": Call("multiply", (Call("multiply", (a, b), "bigint"), b), "bigint"),
        "sum": Call("add", (a, b), "bigint"),
        "index": Call("multiply", (Call("multiply", (a, b), "bigint"), index), "bigint"),
    }[shape]
    total = Measure("v", AggregateFunction.SUM, (argument,), "bigint")
    found = made(Aggregate(chain(2).child, chain(2).keys, (total,)))
    refused = with_factors(found.contributions, "a1", MATRIX, PYTHON)
    assert isinstance(refused, Refusal)
    assert "once into each product" in refused.reason


def test_a_matrix_times_itself_is_refused() -> None:
    a = Source("a", COLUMNS)
    square = Join(a, a, (Column(1, "bigint", False),), (Column(0, "bigint", False),))
    term = chain(2)
    found = fed(Aggregate(square, term.keys, term.measures), "feed", PYTHON)
    assert isinstance(found, Refusal)
    assert "reads 'a' twice" in found.reason
