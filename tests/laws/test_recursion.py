"""Entering and leaving streams with δ₀ and ∫, and recursive queries (DBSP §5)."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS, is_linear
from rekindle.algebra.relational import distinct, equi_join
from rekindle.algebra.streams import (
    DivergenceError,
    Stream,
    delay,
    delta0,
    differentiate,
    fix,
    integral,
    integrate,
    lift2,
)
from rekindle.algebra.zset import ZSet, ZSetGroup

from .strategies import STREAMS, ZSETS, Rows, law, same_stream, zsets

Edge: TypeAlias = tuple[int, int]
EDGES: ZSetGroup[Edge, int] = ZSetGroup(INTEGERS)
NODES = 5

edge_sets = st.sets(st.tuples(*[st.integers(0, NODES - 1)] * 2), max_size=8)


def closure(edges: ZSet[Edge, int]) -> ZSet[Edge, int]:
    """The circuit of algorithm 5.3 for path = edge ∪ edge ⋈ path."""

    def step(edge: ZSet[Edge, int], path: ZSet[Edge, int]) -> ZSet[Edge, int]:
        longer = equi_join(edge, path, lambda a: a[1], lambda b: b[0], lambda a, b: (a[0], b[1]))
        return distinct(edge + longer)

    constant = integrate(delta0(edges, EDGES))
    paths = fix(lambda path: lift2(step, EDGES)(constant, delay(path)), EDGES)
    return integral(differentiate(paths), bound=NODES + 2)


def reachable(edges: set[Edge]) -> set[Edge]:
    """The transitive closure by Warshall's method, as an oracle."""
    paths = set(edges)
    for middle in range(NODES):
        into = {a for a, b in paths if b == middle}
        out = {b for a, b in paths if a == middle}
        paths |= {(a, b) for a in into for b in out}
    return paths


@law
@given(zsets, zsets)
def test_section_5_delta0_is_linear_and_integral_undoes_it(a: Rows, b: Rows) -> None:
    assert is_linear(lambda v: delta0(v, ZSETS), ZSETS, STREAMS, a, b, same=same_stream)
    assert integral(delta0(a, ZSETS), bound=2) == a


@law
@given(st.lists(st.integers(-3, 3), max_size=6))
def test_section_5_integral_sums_past_short_pauses(values: list[int]) -> None:
    stream = Stream.from_list(values, INTEGERS)
    assert integral(stream, bound=20, quiet=7) == sum(values)


@law
@given(edge_sets)
def test_theorem_5_4_recursion_computes_the_least_fixed_point(edges: set[Edge]) -> None:
    assert closure(ZSet.from_rows(edges)) == ZSet.from_rows(reachable(edges))


def test_an_integral_that_does_not_settle_is_reported() -> None:
    ones = Stream(lambda time: 1, INTEGERS)
    with pytest.raises(DivergenceError, match="did not become zero within 10 steps"):
        integral(ones, bound=10)


def test_control_an_integral_stops_at_the_first_pause_unless_told_otherwise() -> None:
    stream = Stream.from_list([1, 0, 2], INTEGERS)
    assert integral(stream, bound=10) == 1
    assert integral(stream, bound=10, quiet=2) == 3


def test_control_pauses_apart_from_each_other_do_not_add_up() -> None:
    stream = Stream.from_list([1, 0, 2, 0, 3], INTEGERS)
    assert integral(stream, bound=10, quiet=2) == 6
