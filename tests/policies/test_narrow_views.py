"""Cyclic joins: views no wider than a relation, with the same results as recomputation."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from rekindle.algebra.groups import INTEGERS
from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows
from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Aggregate, AggregateFunction, Join, Measure, Source, Term
from rekindle.incremental.pipeline import derive
from rekindle.incremental.policies.choice import Policy, Sizes, choose
from rekindle.incremental.policies.deltas import Deltas, has_wide_parts, narrow_deltas
from rekindle.incremental.policies.hypergraph import Hypergraph
from rekindle.incremental.policies.narrow_views import follow_narrow_views
from rekindle.incremental.policies.trees import View
from rekindle.incremental.policies.view_tree import factorise
from rekindle.incremental.reference import recompute, run
from tests.policies.arithmetic import PYTHON
from tests.policies.strategies import (
    LENGTH,
    SNOWFLAKE,
    SQUARE,
    TRIANGLE,
    Shape,
    chain,
    join_terms,
    star,
    transactions,
)
from tests.policies.test_state import kept_rows

COUNT = Measure("n", AggregateFunction.COUNT, (), "bigint", nullable=False)
TAILED = Shape("tailed", 4, ((1, 0, 0, 1), (2, 0, 1, 1), (2, 1, 0, 0), (3, 0, 1, 0)))


@given(join_terms((TRIANGLE, SQUARE, TAILED)), transactions())
@settings(max_examples=60, deadline=None)
def test_every_step_gives_what_recomputation_gives(
    term: Aggregate, changes: dict[str, list[Rows]]
) -> None:
    """Three tables at once, joined with themselves and each other, NULLs, deletes, emptied."""
    found = follow_narrow_views(term, PYTHON)
    (decision,) = found.decisions
    assert isinstance(decision.outcome, Deltas), decision
    assert found.term.schema == term.schema
    assert run(derive(found.term), changes, LENGTH) == recompute(term, changes, LENGTH)


@given(join_terms((star(4), chain(4), SNOWFLAKE)))
@settings(max_examples=10, deadline=None)
def test_acyclic_joins_follow_their_tree(term: Aggregate) -> None:
    found = follow_narrow_views(term, PYTHON)
    assert isinstance(found.decisions[0].outcome, View)
    assert found.term == factorise(term, PYTHON).term


CYCLES = {
    "triangle": Hypergraph.of("", R="A B", S="B C", T="C A"),
    "square": Hypergraph.of("", R="A B", S="B C", T="C D", U="D A"),
    "with tails": Hypergraph.of("", R="A B", S="B C", T="C A", U="A D", V="C E"),
    "two triangles": Hypergraph.of("", R="A B", S="B C", T="C A", U="C D", V="D A"),
    "grouped": Hypergraph.of("B", R="A B", S="B C", T="C A"),
}


@pytest.mark.parametrize("name", CYCLES)
def test_a_view_is_covered_by_one_of_its_relations(name: str) -> None:
    query = CYCLES[name]
    assert has_wide_parts(query)
    variables = {r.name: set(r.variables) for r in query.relations}
    for maintained in narrow_deltas(query).parts:
        part = maintained.part
        assert any(set(part.key) <= variables[each] for each in part.relations), str(part)


@pytest.mark.parametrize(
    "query",
    [
        Hypergraph.of("A", R="A B", S="B C", T="C D"),
        Hypergraph.of("A D", R="A B", S="B C", T="C D"),
        Hypergraph.of("", R="A B C", S="A B", T="B C", U="C A"),
        Hypergraph.of("", R="A B", S="C D", T="D E"),
    ],
)
def test_acyclic_joins_have_no_wide_parts(query: Hypergraph) -> None:
    assert not has_wide_parts(query)


def triangle() -> Aggregate:
    """SELECT count(*) FROM e p JOIN e q ON p.b = q.a JOIN e r ON q.b = r.a AND r.b = p.a."""
    edges = Source("e", Schema.of(a="int", b="int"))
    a, b = Column(0, "int"), Column(1, "int")
    paths = Join(edges, edges, (b,), (a,))
    return Aggregate(Join(paths, edges, (Column(3, "int"), a), (a, b)), (), (COUNT,))


def test_a_hub_does_not_make_the_state_quadratic() -> None:
    """All edges meet in one place: 50 in and 50 out, which are 2,500 paths and one triangle."""
    pairs = [*((i, 0) for i in range(1, 51)), *((0, i) for i in range(51, 101)), (51, 1)]
    edges: Rows = ZSet(((pair, 1) for pair in pairs), INTEGERS)

    def most(term: Term) -> int:
        changes = {"e": [edges]}
        assert run(derive(term), changes, 1) == recompute(triangle(), changes, 1)
        return max(kept_rows(term, {"e": edges}))

    assert most(triangle()) >= 2_500
    assert most(factorise(triangle(), PYTHON).term) >= 2_500
    assert most(follow_narrow_views(triangle(), PYTHON).term) == len(pairs)


def test_the_estimate_is_that_of_narrow_views() -> None:
    sizes = Sizes({"R": 1_000, "S": 1_000, "T": 1_000}, {("R", "B"): 10, ("S", "B"): 10})
    choice = choose(CYCLES["triangle"], sizes)
    assert choice.rows(Policy.VIEW_TREE) <= 3_001 < choice.rows(Policy.FIRST_ORDER)
