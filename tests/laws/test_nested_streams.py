"""Streams of streams, and recursive queries made incremental (DBSP §6)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.relational import filter_rows
from rekindle.algebra.streams import (
    Stream,
    StreamGroup,
    agree,
    delay,
    delta0,
    differentiate,
    fix,
    fix_nested,
    integral,
    integrate,
    lift,
    lift2,
)
from rekindle.algebra.zset import ZSet

from .strategies import HORIZON, STREAMS, ZSETS, Binary, Changes, binary_operators, changes, law
from .test_recursion import EDGES, NODES, Edge, closure, edge_sets, reachable

INNER = 4
Nested = Stream[Changes]

nested = st.lists(changes, max_size=4).map(lambda rows: Stream.from_list(rows, STREAMS))
later = lift(delay, STREAMS)


def same_nested(one: Nested, other: Nested) -> bool:
    return all(agree(one[time], other[time], until=HORIZON) for time in range(INNER))


@law
@given(nested, nested)
def test_proposition_6_1_a_lifted_delay_is_strict_in_its_second_dimension(
    one: Nested, other: Nested
) -> None:
    """What it gives at inner time t depends on inner times before t alone."""
    for outer in range(INNER):
        for inner in range(HORIZON):
            cut = Stream(
                lambda time, outer=outer, inner=inner: (  # type: ignore[misc]
                    Stream(lambda t: one[time][t] if t < inner else other[time][t], ZSETS)
                ),
                STREAMS,
            )
            assert later(cut)[outer][inner] == later(one)[outer][inner]


@law
@given(nested, binary_operators)
def test_proposition_6_2_a_cycle_is_lifted_by_lifting_its_operators(
    inputs: Nested, operator: Binary
) -> None:
    def cycle(stream: Changes) -> Changes:
        return fix(lambda loop: operator(stream, delay(loop)), ZSETS)

    whole = lift(cycle, STREAMS)(inputs)
    apart = fix_nested(lambda loop: lift2(operator, STREAMS)(inputs, later(loop)), ZSETS)
    assert same_nested(whole, apart)


@law
@given(st.lists(edge_sets, min_size=1, max_size=4))
def test_circuit_6_1_gives_the_changes_of_a_recursive_query(states: list[set[Edge]]) -> None:
    """The lifted cycle between δ₀ and ∫, differentiated, against the closure of every state."""
    tables = Stream.from_list([ZSet.from_rows(edges) for edges in states], EDGES)
    edges = differentiate(tables)
    rows = StreamGroup(EDGES)
    entered = lift(lambda value: integrate(delta0(value, EDGES)), rows)(integrate(edges))
    step = lift2(lift2(_step, EDGES), rows)
    paths = fix_nested(lambda loop: step(entered, lift(delay, rows)(loop)), EDGES)
    left = lift(lambda s: integral(differentiate(s), bound=NODES + 2), EDGES)(paths)
    found = differentiate(left).take(len(states))
    expected = differentiate(lift(closure, EDGES)(tables)).take(len(states))
    assert found == expected


@law
@given(st.lists(edge_sets, min_size=1, max_size=3))
def test_a_cycle_inside_a_cycle_comes_to_its_end_at_every_iteration(
    states: list[set[Edge]],
) -> None:
    """Three times: transactions, rounds that each cut a vertex out of all cycles, and closures."""
    tables = Stream.from_list([ZSet.from_rows(edges) for edges in states], EDGES)
    found = differentiate(lift(_cut, EDGES)(tables)).take(len(states))
    expected = [ZSet.from_rows(_cut_naively(edges)) for edges in states]
    assert found == differentiate(Stream.from_list(expected, EDGES)).take(len(states))


def _cut(edges: ZSet[Edge, int]) -> ZSet[Edge, int]:
    """The edges that rounds cut: a cycle of rounds around the lifted cycle of closures."""
    rows = StreamGroup(EDGES)
    step = lift2(lift2(_step, EDGES), rows)

    def round_(cut: Changes) -> Changes:
        left = lift(lambda gone: edges - gone, EDGES)(delay(cut))
        entered = lift(lambda value: integrate(delta0(value, EDGES)), rows)(left)
        paths = fix_nested(lambda loop: step(entered, lift(delay, rows)(loop)), EDGES)
        ends = lift(lambda s: integral(differentiate(s), bound=NODES + 2), EDGES)(paths)

        def more(gone: ZSet[Edge, int], path: ZSet[Edge, int]) -> ZSet[Edge, int]:
            last = max((a for (a, b), _ in path if a == b), default=None)
            return gone + filter_rows(edges - gone, lambda edge: edge[0] == last)

        return lift2(more, EDGES)(delay(cut), ends)

    return integral(differentiate(fix(round_, EDGES)), bound=NODES + 2)


def _cut_naively(edges: set[Edge]) -> set[Edge]:
    left = set(edges)
    while loops := {a for a, b in reachable(left) if a == b}:
        left = {edge for edge in left if edge[0] != max(loops)}
    return edges - left


def _step(edge: ZSet[Edge, int], path: ZSet[Edge, int]) -> ZSet[Edge, int]:
    from rekindle.algebra.relational import distinct, equi_join

    longer = equi_join(edge, path, lambda a: a[1], lambda b: b[0], lambda a, b: (a[0], b[1]))
    return distinct(edge + longer)
