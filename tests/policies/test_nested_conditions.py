"""Conditions that compare with a nested aggregate: the part that has them stays first order.

SELECT r.x, sum(r.z * t.z) FROM r JOIN t ON r.x = t.x WHERE r.y < (SELECT sum(s.z) FROM s)
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.calculus.interpreter import Rows
from rekindle.calculus.scalars import Call, Column, Evaluable
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Filter,
    Join,
    Map,
    Measure,
    Term,
    Triggered,
)
from rekindle.incremental.pipeline import derive
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.decisions import Factorised
from rekindle.incremental.policies.deltas import Deltas
from rekindle.incremental.policies.factored_updates import fed
from rekindle.incremental.policies.higher_order import follow_deltas
from rekindle.incremental.policies.joins import JoinQuery, Refusal, recognise, recognise_around
from rekindle.incremental.policies.view_tree import factorise
from rekindle.incremental.reference import recompute, run
from tests.policies.arithmetic import PYTHON
from tests.policies.strategies import LENGTH, R, S, T, transactions

X, Y, Z = (Column(i, "int") for i in range(3))
INNER = Measure("s", AggregateFunction.SUM, (Z,), "bigint")
COUNT = Measure("n", AggregateFunction.COUNT, (), "bigint", nullable=False)


def less(left: Column, right: Column) -> Evaluable:
    return Call("less", (left, right), "boolean")


def product(left: int, right: int) -> Measure:
    both = Call("multiply", (Column(left, "int"), Column(right, "int")), "int")
    return Measure("v", AggregateFunction.SUM, (both,), "bigint")


def small(source: Term = S) -> Term:
    """r where y < (SELECT sum(z) FROM s)."""
    pairs = Join(R, Aggregate(source, (), (INNER,)), (), ())
    return Filter(pairs, less(Y, Column(3, "bigint")))


def correlated(source: Term = S) -> Term:
    """r where y < (SELECT sum(z) FROM s WHERE s.x = r.x)."""
    by = Aggregate(source, (("x", X),), (INNER,))
    return Join(R, by, (X,), (X,), less(Y, Column(4, "bigint")))


def with_t(part: Term) -> Aggregate:
    """The part joined with t by x."""
    pairs = Join(part, T, (X,), (X,))
    width = len(part.schema)
    return Aggregate(pairs, (("x", X),), (product(2, width + 2), COUNT))


JOINED = Map(
    Join(S, T, (Y,), (Y,)),
    (("x", X), ("y", Column(4, "int")), ("z", Column(5, "int"))),
)
"""s ⋈ t, as rows like those of s."""
QUERIES = {
    "one for all": with_t(small()),
    "one for each key": with_t(correlated()),
    "over a join": with_t(small(JOINED)),
    "over a join, for each key": with_t(correlated(JOINED)),
    "over the same table": with_t(correlated(R)),
    "two of them": with_t(
        Map(
            Filter(
                Join(correlated(), Aggregate(T, (), (INNER,)), (), ()), less(Z, Column(5, "bigint"))
            ),
            tuple((n, c) for n, c in zip("xyz", (X, Y, Z), strict=True)),
        )
    ),
}
POLICIES: list[Callable[[Term, Arithmetic], Factorised]] = [follow_deltas, factorise]


@pytest.mark.parametrize("policy", POLICIES)
@given(query=st.sampled_from(list(QUERIES)), changes=transactions())
@settings(max_examples=60, deadline=None)
def test_every_step_gives_what_recomputation_gives(
    policy: Callable[[Term, Arithmetic], Factorised], query: str, changes: dict[str, list[Rows]]
) -> None:
    term = QUERIES[query]
    found = policy(term, PYTHON)
    outcome = found.decisions[-1]
    assert not isinstance(outcome.outcome, Refusal), outcome
    assert len(outcome.fused) == 1
    assert run(derive(found.term), changes, LENGTH) == recompute(term, changes, LENGTH)


def test_the_part_without_the_condition_has_its_triggers() -> None:
    found = follow_deltas(QUERIES["one for each key"], PYTHON)
    assert isinstance(found.term, Triggered)
    inner, outer = found.decisions
    assert isinstance(inner.outcome, Refusal) and isinstance(outer.outcome, Deltas)
    text = str(outer)
    assert "M(part1, t)[x] += Δpart1 · M(t)[x] + Δt · M(part1)[x]′" in text
    assert "where part1 is the join of r, s, first order: the condition" in text


def test_a_join_in_the_condition_has_triggers_of_its_own() -> None:
    inner, outer = follow_deltas(QUERIES["over a join"], PYTHON).decisions
    assert isinstance(inner.outcome, Deltas) and isinstance(outer.outcome, Deltas)


@pytest.mark.parametrize("part", [small(), correlated()])
def test_a_query_that_is_all_condition_falls_back(part: Term) -> None:
    term = Aggregate(part, (), (Measure("v", AggregateFunction.SUM, (Z,), "bigint"),))
    found = follow_deltas(term, PYTHON)
    assert found.term == term
    assert found.has_nested and not found.is_followed
    assert "together" in found.refusals[-1]


def test_a_plain_condition_on_two_tables_is_not_called_nested() -> None:
    pairs = Filter(Join(R, S, (X,), (X,)), less(Y, Column(4, "int")))
    found = follow_deltas(Aggregate(pairs, (), (COUNT,)), PYTHON)
    assert not found.has_nested and not found.is_followed
    around = follow_deltas(with_t(pairs), PYTHON)
    assert around.is_followed and len(around.decisions[-1].fused) == 1


def test_what_needs_linearity_in_every_table_is_still_refused() -> None:
    """A fused leaf is not linear in the tables below it."""
    term = QUERIES["one for all"]
    assert isinstance(recognise(term, PYTHON), Refusal)
    assert isinstance(recognise_around(term, PYTHON), JoinQuery)
    alone = Aggregate(term.child, term.keys, term.measures[:1])
    assert isinstance(fed(alone, "feed", PYTHON), Refusal)
