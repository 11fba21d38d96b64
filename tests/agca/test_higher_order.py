"""The policy `higher_order` keeps and gives what the paper's compiler does."""

from __future__ import annotations

from collections import Counter
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.algebra.zset import ZSet
from rekindle.calculus.interpreter import Rows
from rekindle.frontends.agca.ast import Atom, within
from rekindle.frontends.agca.parse import parse_query
from rekindle.incremental.pipeline import derive
from rekindle.incremental.policies.deltas import higher_order_deltas
from rekindle.incremental.policies.hypergraph import Hypergraph
from rekindle.incremental.reference import run
from tests.agca.reference.compile import compile_query
from tests.agca.reference.delta import Sign
from tests.agca.reference.run import Machine
from tests.policies.test_higher_order import r_s_t, triggered

Kept: TypeAlias = set[tuple[frozenset[str], frozenset[str]]]
"""The relations and the key of each view."""


def kept_by_the_policy(query: Hypergraph) -> Kept:
    parts = [maintained.part for maintained in higher_order_deltas(query).parts]
    return {(frozenset(part.relations), frozenset(part.key)) for part in parts}


def kept_by_the_compiler(query: Hypergraph) -> Kept:
    """The maps of the program for the count of the join's rows."""
    body = " * ".join(f"{r.name}({', '.join(r.variables)})" for r in query.relations)
    schema = {relation.name: relation.variables for relation in query.relations}
    text = f"q[{', '.join(query.free)}] = Sum(1, {body})"
    return {
        (
            frozenset(part.relation for part in within(kept.query.term) if isinstance(part, Atom)),
            frozenset(kept.query.group),
        )
        for kept in compile_query(parse_query(text), schema).maps
    }


CHAINS = [
    Hypergraph.of("a", R="a b", S="b c", T="c d"),
    Hypergraph.of("", R="a b", S="b c", T="c d", U="d e"),
    Hypergraph.of("", R="a b", S="b c", T="c a"),
]
STARS = [
    Hypergraph.of("", R="x a", S="x b", T="x c"),
    Hypergraph.of("x", R="x a", S="x b", T="b c", U="b d"),
]


@pytest.mark.parametrize("query", CHAINS, ids=str)
def test_along_a_chain_the_parts_are_the_maps_of_the_program(query: Hypergraph) -> None:
    assert kept_by_the_policy(query) == kept_by_the_compiler(query)


@pytest.mark.parametrize("query", STARS, ids=str)
def test_in_a_star_the_policy_takes_more_products_apart(query: Hypergraph) -> None:
    """The compiler keeps a map for relations that meet only in variables that are bound."""
    ours = {relations for relations, _ in kept_by_the_policy(query)}
    assert ours < {relations for relations, _ in kept_by_the_compiler(query)}


@st.composite
def updates(draw: st.DrawFn) -> list[tuple[Sign, str, tuple[int, int]]]:
    """Tuples that come, and some that are there and go."""
    there: Counter[tuple[str, tuple[int, int]]] = Counter()
    found = []
    for _ in range(draw(st.integers(1, 12))):
        present = sorted(there.elements())
        if present and draw(st.integers(0, 2)) == 0:
            name, row = draw(st.sampled_from(present))
            there[name, row] -= 1
            found.append((Sign.MINUS, name, row))
        else:
            name = draw(st.sampled_from("rst"))
            row = draw(st.integers(0, 1)), draw(st.integers(0, 1)) + (name == "t")
            there[name, row] += 1
            found.append((Sign.PLUS, name, row))
    return found


@given(updates())
@settings(max_examples=40, deadline=None)
def test_the_triggers_give_what_the_program_writes(
    stream: list[tuple[Sign, str, tuple[int, int]]],
) -> None:
    query = parse_query("q[a] = Sum(d, R(a, b) * S(b, c) * T(c, d))")
    schema = {"R": ["a", "b"], "S": ["b", "c"], "T": ["c", "d"]}
    machine = Machine(compile_query(query, schema))
    changes: dict[str, list[Rows]] = {
        name: [
            ZSet.of({row: 1 if sign is Sign.PLUS else -1} if name == changed else {})
            for sign, changed, row in stream
        ]
        for name in "rst"
    }
    view: Rows = ZSet.of({})
    steps = run(derive(triggered(r_s_t()).term), changes, len(stream))
    for (sign, name, row), change in zip(stream, steps, strict=True):
        machine.apply(sign, name.upper(), row)
        view = view + change
        assert {(a,): q for (a, q), _ in view} == machine.contents("q")
