"""Every step of algorithm 4.6 keeps the meaning: D ∘ ↑Q ∘ I, at every transaction.

The right side is `recompute`, which evaluates the original term anew each time; the left side
runs the circuit as it is after each step. Wrong laws planted in place of right ones must be caught.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import find, given, settings

from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows
from rekindle.calculus.scalars import Column
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Distinct,
    Join,
    Linearity,
    Measure,
    Term,
)
from rekindle.incremental.laws.eliminate_distincts import eliminate_distincts
from rekindle.incremental.laws.lift import lift
from rekindle.incremental.pipeline import STEPS, Step, derive, intermediate_streams
from rekindle.incremental.reference import recompute, run
from rekindle.incremental.stream import (
    Apply,
    Delay,
    Differentiate,
    Incremental,
    Integrate,
    Stream,
    Sum,
    Update,
)
from rekindle.incremental.traversal import nodes, transform
from tests.calculus.strategies import LENGTH, QUICK, R, S, terms, transactions

Changes = dict[str, list[Rows]]
X = Column(0, "int")
COUNT = Measure("n", AggregateFunction.COUNT, (), "int", False)


@given(terms(), transactions())
@settings(max_examples=150, deadline=None)
def test_the_circuit_after_every_step_gives_the_changes_of_the_view(
    term: Term, changes: Changes
) -> None:
    expected = recompute(term, changes, LENGTH)
    for name, stream in intermediate_streams(term):
        assert run(stream, changes, LENGTH) == expected, name
    assert run(derive(term), changes, LENGTH) == expected


@given(terms(3), transactions())
@settings(max_examples=60, deadline=None)
def test_the_lifted_circuit_gives_the_view(term: Term, changes: Changes) -> None:
    states = {
        name: [_total(batches[: time + 1]) for time in range(LENGTH)]
        for name, batches in changes.items()
    }
    views = run(lift(eliminate_distincts(term)), states, LENGTH)
    totals = recompute(term, changes, LENGTH)
    assert views == [_total(totals[: time + 1]) for time in range(LENGTH)]


def _total(batches: list[Rows]) -> Rows:
    return sum(batches, ZSet.of({}))


@given(terms())
@settings(max_examples=100, deadline=None)
def test_a_derived_circuit_computes_on_changes_only(term: Term) -> None:
    for node in nodes(derive(term)):
        assert not isinstance(node, Differentiate | Incremental)
        if isinstance(node, Apply):
            assert node.operator.linearity in (Linearity.LINEAR, Linearity.BILINEAR)
            if node.operator.linearity is Linearity.LINEAR:
                assert not any(isinstance(i, Integrate | Delay) for i in node.inputs)
        if isinstance(node, Update):
            assert node.operator.linearity is Linearity.PER_KEY


def test_a_self_join_counts_new_pairs_once() -> None:
    term = Join(R, R, (X,), (X,))
    changes: Changes = {"r": [ZSet.of({(1, 1): 2}), ZSet.of({(1, 2): 1}), ZSet.of({(1, 1): -1})]}
    assert run(derive(term), changes, 3) == recompute(term, changes, 3)
    assert _total(run(derive(term), changes, 3)).weight((1, 1, 1, 1)) == 1


def test_an_aggregate_without_keys_has_a_row_from_the_first_transaction_on() -> None:
    changes: Changes = {"r": [ZSet.of({}), ZSet.of({}), ZSet.of({(1, 1): 2})]}
    assert run(derive(Aggregate(R, (), (COUNT,))), changes, 3) == [
        ZSet.of({(0,): 1}),
        ZSet.of({}),
        ZSet.of({(0,): -1, (2,): 1}),
    ]


def test_a_long_chain_of_joins_stays_small() -> None:
    term: Term = R
    for _ in range(60):
        term = Distinct(Join(term, S, (X,), (X,)))
    # With 2⁶⁰ leaves as a tree, this ends only if every walk treats the circuit as a graph.
    assert len(nodes(derive(term))) < 1000


# --- negative controls --------------------------------------------------------------------------


def _replacing(linearity: Linearity, law: Callable[[Incremental], Stream]) -> Step:
    def simplify(node: Stream) -> Stream:
        if isinstance(node, Incremental) and node.operator.linearity is linearity:
            return law(node)
        return node

    return lambda stream: transform(stream, simplify)


def _delays_both(node: Incremental) -> Stream:
    a, b = node.inputs
    return Sum(
        (
            Apply(node.operator, (Delay(Integrate(a)), b)),
            Apply(node.operator, (a, Delay(Integrate(b)))),
        )
    )


def _delays_neither(node: Incremental) -> Stream:
    a, b = node.inputs
    return Sum((Apply(node.operator, (Integrate(a), b)), Apply(node.operator, (a, Integrate(b)))))


def _forgets_the_past(node: Incremental) -> Stream:
    return Apply(node.operator, node.inputs)


def _reads_the_present(node: Incremental) -> Stream:
    (change,) = node.inputs
    return Update(node.operator, Integrate(change), change)


BY_NAME = {step.__name__: step for step in STEPS}


@pytest.mark.parametrize(
    ("replaced", "wrong", "term"),
    [
        (
            "simplify_bilinear",
            _replacing(Linearity.BILINEAR, _delays_both),
            Join(R, S, (X,), (X,)),
        ),
        (
            "simplify_bilinear",
            _replacing(Linearity.BILINEAR, _delays_neither),
            Join(R, S, (X,), (X,)),
        ),
        (
            "simplify_bilinear",
            _replacing(Linearity.BILINEAR, _delays_neither),
            Join(R, R, (X,), (X,)),
        ),
        ("simplify_per_key", _replacing(Linearity.PER_KEY, _forgets_the_past), Distinct(R)),
        ("simplify_per_key", _replacing(Linearity.PER_KEY, _reads_the_present), Distinct(R)),
        (
            "simplify_per_key",
            _replacing(Linearity.PER_KEY, _forgets_the_past),
            Aggregate(R, (("k", X),), (COUNT,)),
        ),
        (
            "simplify_per_key",
            _replacing(Linearity.PER_KEY, _reads_the_present),
            Aggregate(R, (("k", X),), (COUNT,)),
        ),
    ],
)
def test_a_planted_wrong_law_is_caught(replaced: str, wrong: Step, term: Term) -> None:
    steps = tuple(wrong if step is BY_NAME[replaced] else step for step in STEPS)

    stream = intermediate_streams(term, steps)[-1][1]

    def fails(changes: Changes) -> bool:
        return run(stream, changes, LENGTH) != recompute(term, changes, LENGTH)

    find(transactions(), fails, settings=QUICK)
