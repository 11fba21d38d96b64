"""Streams, fixed points, I and D (DBSP §2)."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS, is_linear
from rekindle.algebra.streams import (
    Stream,
    StrictnessError,
    agree,
    delay,
    differentiate,
    fix,
    integrate,
    is_causal,
    is_strict,
    is_time_invariant,
    lift,
)

from .strategies import (
    HORIZON,
    STREAMS,
    ZSETS,
    Binary,
    Changes,
    Table,
    Unary,
    binary_operators,
    changes,
    counterexample,
    integer_streams,
    law,
    lifted_distinct,
    linear_operators,
    operators,
    same_stream,
    tables,
    with_marker,
)


@law
@given(st.lists(st.integers(0, 3), min_size=1), tables, tables)
def test_proposition_2_4_lifting_distributes_over_composition(
    values: list[int], f: Table, g: Table
) -> None:
    def composed(value: int) -> int:
        return f(g(value))

    stream = Stream(lambda time: values[time % len(values)], INTEGERS)
    at_once = lift(composed, INTEGERS)(stream)
    one_by_one = lift(f, INTEGERS)(lift(g, INTEGERS)(stream))
    assert agree(at_once, one_by_one, HORIZON)


@law
@given(operators, changes, changes)
def test_operators_are_causal(operator: Unary, stream: Changes, other: Changes) -> None:
    assert is_causal(operator, stream, other, HORIZON)


@law
@given(operators, changes, changes)
def test_a_delay_makes_an_operator_strict(operator: Unary, stream: Changes, other: Changes) -> None:
    assert is_strict(delay, stream, other, HORIZON)
    assert is_strict(lambda s: operator(delay(s)), stream, other, HORIZON)


@law
@given(binary_operators, changes)
def test_proposition_2_9_a_strict_operator_has_a_fixed_point(
    operator: Binary, stream: Changes
) -> None:
    def strict(alpha: Changes) -> Changes:
        return operator(stream, delay(alpha))

    solution = fix(strict, ZSETS)
    assert agree(solution, strict(solution), 5)


@law
@given(binary_operators, changes, changes)
def test_proposition_2_9_the_fixed_point_is_unique(
    operator: Binary, stream: Changes, start: Changes
) -> None:
    # Applying F once more settles one more value, wherever the iteration starts; a second
    # solution would be a start that never moves.
    def strict(alpha: Changes) -> Changes:
        return operator(stream, delay(alpha))

    solution, approximation = fix(strict, ZSETS), start
    for settled in range(5):
        assert agree(approximation, solution, settled)
        approximation = strict(approximation)


@law
@given(binary_operators, changes, changes)
def test_lemma_2_10_feedback_through_a_delay_is_causal(
    operator: Binary, stream: Changes, other: Changes
) -> None:
    def feedback(s: Changes) -> Changes:
        return fix(lambda alpha: operator(s, delay(alpha)), ZSETS)

    assert is_causal(feedback, stream, other, 4)


@law
@given(linear_operators, changes, changes)
def test_proposition_2_14_feedback_around_a_linear_operator_is_linear(
    operator: Unary, a: Changes, b: Changes
) -> None:
    def feedback(s: Changes) -> Changes:
        return fix(lambda alpha: operator(s + delay(alpha)), ZSETS)

    solution = feedback(a)
    assert agree(solution, operator(a + delay(solution)), HORIZON)
    assert is_linear(feedback, STREAMS, STREAMS, a, b, same=same_stream)
    assert is_time_invariant(feedback, a, until=HORIZON)


@law
@given(changes, changes)
def test_proposition_2_16_differentiation_is_causal_and_lti(a: Changes, b: Changes) -> None:
    assert is_causal(differentiate, a, b, HORIZON)
    assert is_linear(differentiate, STREAMS, STREAMS, a, b, same=same_stream)
    assert is_time_invariant(differentiate, a, until=HORIZON)


@law
@given(integer_streams)
def test_proposition_2_18_integration_is_the_running_sum(stream: Stream[int]) -> None:
    values = stream.take(HORIZON)
    sums = [sum(values[: time + 1]) for time in range(HORIZON)]
    assert integrate(stream).take(HORIZON) == sums


@law
@given(changes, changes)
def test_proposition_2_19_integration_is_causal_and_lti(a: Changes, b: Changes) -> None:
    assert is_causal(integrate, a, b, HORIZON)
    assert is_linear(integrate, STREAMS, STREAMS, a, b, same=same_stream)
    assert is_time_invariant(integrate, a, until=HORIZON)


@law
@given(changes)
def test_theorem_2_20_inversion(stream: Changes) -> None:
    assert agree(integrate(differentiate(stream)), stream, HORIZON)
    assert agree(differentiate(integrate(stream)), stream, HORIZON)


def test_a_long_feedback_loop_does_not_exhaust_the_stack() -> None:
    ones = Stream(lambda time: 1, INTEGERS)
    assert integrate(integrate(ones))[5000] == 5001 * 5002 // 2


def test_a_loop_without_a_delay_is_reported() -> None:
    loop = fix(lambda alpha: alpha + alpha, INTEGERS)
    for _ in range(2):
        with pytest.raises(StrictnessError, match="time 0 depends on itself"):
            loop.take(1)


def test_a_stream_has_no_negative_times() -> None:
    with pytest.raises(IndexError, match="starts at time 0"):
        Stream.from_list([1], INTEGERS)[-1]


def test_control_integration_is_not_strict() -> None:
    counterexample(st.tuples(changes, changes), lambda ab: is_strict(integrate, *ab, until=HORIZON))


def test_control_an_operator_that_looks_ahead_is_not_causal() -> None:
    def ahead(stream: Changes) -> Changes:
        return Stream(lambda time: stream[time + 1], stream.group)

    counterexample(st.tuples(changes, changes), lambda ab: is_causal(ahead, *ab, until=HORIZON))


def test_control_lifting_is_time_invariant_only_if_zero_maps_to_zero() -> None:
    operator = lift(with_marker, ZSETS)
    counterexample(changes, lambda stream: is_time_invariant(operator, stream, until=HORIZON))


def test_control_distinct_is_not_linear() -> None:
    counterexample(
        st.tuples(changes, changes),
        lambda ab: is_linear(lifted_distinct, STREAMS, STREAMS, *ab, same=same_stream),
    )
