"""Variable orders: checking, finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import permutations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rekindle.errors import DefinitionError
from rekindle.incremental.policies.hypergraph import Hypergraph, Relation
from rekindle.incremental.policies.orders import (
    EXHAUSTIVE_VARIABLES,
    VariableOrder,
    _eliminate,
    _exhaustive,
    _factors,
    _Step,
    check_order,
    complete_order,
    find_order,
)
from tests.policies.orders import parse_order

RUNNING = Hypergraph.of("", R="A B", S="A C E", T="C D")
TRIANGLE = Hypergraph.of("", R="A B", S="B C", T="C A")


def _eliminated(
    query: Hypergraph, turn: Sequence[str], sizes: Mapping[str, int]
) -> tuple[_Step, ...]:
    """The steps by which variables are eliminated in their turn."""
    factors, steps = _factors(query), []
    for variable in turn:
        if variable in query.local:
            continue
        step, factors = _eliminate(factors, variable, sizes)
        steps.append(step)
    return tuple(steps)


def width(order: VariableOrder, query: Hypergraph) -> int:
    """How many relations it takes to cover the largest join of a complete order."""
    bound = [path for path in order.paths() if path[-1] not in query.free]
    lowest_first = [path[-1] for path in sorted(bound, key=len, reverse=True)]
    return max((step.bag.relations for step in _eliminated(query, lowest_first, {})), default=1)


@pytest.mark.parametrize(
    ("text", "query", "message"),
    [
        ("A(B, C(D, E), F)", RUNNING, "names 'F'"),
        ("A(B, C(D, E, B))", RUNNING, "names 'B' twice"),
        ("A(B, C(D))", RUNNING, "leaves out 'E'"),
        ("A(B, C(D), E)", RUNNING, "the variables of 'S' are not on one path"),
        ("A(B, C)", Hypergraph.of("C", R="A B", S="A C"), "the grouping variable 'C' stands under"),
    ],
)
def test_an_order_that_does_not_fit_is_refused(text: str, query: Hypergraph, message: str) -> None:
    with pytest.raises(DefinitionError, match=message):
        check_order(parse_order(text), query)


def test_local_variables_may_be_left_out() -> None:
    assert str(complete_order(parse_order("A(C)"), RUNNING)) == "A(C(E, D), B)"


@pytest.mark.parametrize(
    ("query", "order", "cost"),
    [
        (Hypergraph.of("", R="X A", S="X B", T="X C"), "X(A, B, C)", 1),
        (Hypergraph.of("", R="A B", S="B C", T="C D"), "B(C(D), A)", 1),
        (TRIANGLE, "A(B(C))", 2),
        (Hypergraph.of("A", R="A B", S="B C"), "A(B(C))", 1),
        (Hypergraph.of("A C", R="A B", S="B C"), "A(C(B))", 2),
        (Hypergraph.of("", R="A", S="B"), "A, B", 1),
    ],
)
def test_the_best_order(query: Hypergraph, order: str, cost: int) -> None:
    found = find_order(query)
    check_order(found, query)
    assert width(found, query) == cost
    assert str(found) == order


def test_sizes_decide_between_orders_of_one_width() -> None:
    square = Hypergraph.of("", R="A B", S="B C", T="C D", U="D A")
    found = find_order(square, {"R": 10, "S": 10, "T": 10_000, "U": 10_000})
    # Summed out first, B costs a join of the two small relations; D one of the large ones.
    turns = {path[-1]: len(path) for path in found.paths()}
    assert turns["B"] > turns["D"]


def test_a_long_chain_is_ordered_greedily() -> None:
    count = EXHAUSTIVE_VARIABLES + 5
    names = [f"X{i}" for i in range(count + 1)]
    chain = Hypergraph(tuple(Relation(f"R{i}", (names[i], names[i + 1])) for i in range(count)), ())
    found = find_order(chain)
    check_order(found, chain)
    assert width(found, chain) <= 2


@st.composite
def hypergraphs(draw: st.DrawFn) -> Hypergraph:
    """Any join of up to five relations over up to seven variables."""
    names = "ABCDEFG"
    subsets = st.lists(st.sampled_from(names), max_size=3, unique=True).map(tuple)
    found = draw(st.lists(subsets, min_size=1, max_size=5))
    relations = tuple(Relation(f"R{i}", variables) for i, variables in enumerate(found))
    known = sorted({v for relation in relations for v in relation.variables})
    free = draw(st.lists(st.sampled_from(known), max_size=3, unique=True)) if known else []
    return Hypergraph(relations, tuple(free))


@given(hypergraphs(), st.lists(st.sampled_from((1, 10, 1000)), min_size=5, max_size=5))
@settings(max_examples=60, deadline=None)
def test_sets_of_variables_find_what_sequences_would(query: Hypergraph, rows: list[int]) -> None:
    sizes = {f"R{i}": count for i, count in enumerate(rows)}
    shared = [v for v in query.variables if v not in query.free and v not in query.local]
    assume(len(shared) <= 5)

    def cost(steps: Sequence[_Step]) -> int:
        return sum(step.bag.rows for step in steps)

    every = (cost(_eliminated(query, turn, sizes)) for turn in permutations(shared))
    assert cost(_exhaustive(query, shared, sizes)) == min(every)


@given(hypergraphs())
@settings(max_examples=100, deadline=None)
def test_every_found_order_is_one(query: Hypergraph) -> None:
    check_order(find_order(query), query)
