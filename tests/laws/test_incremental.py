"""The incremental version of an operator (DBSP §3)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.groups import is_bilinear, is_linear
from rekindle.algebra.streams import (
    agree,
    delay,
    differentiate,
    fix,
    incremental,
    incremental_function,
    integrate,
    is_time_invariant,
)

from .strategies import (
    HORIZON,
    STREAMS,
    ZSETS,
    Binary,
    Changes,
    Unary,
    add_streams,
    bilinear_operators,
    binary_operators,
    changes,
    compose,
    counterexample,
    join,
    law,
    lifted_distinct,
    lifted_join,
    linear_operators,
    negate_stream,
    operators,
    same_stream,
    square,
)


@law
@given(operators, changes)
def test_proposition_3_2_inversion(operator: Unary, stream: Changes) -> None:
    def cumulative(q: Unary) -> Unary:
        return lambda s: integrate(q(differentiate(s)))

    assert agree(cumulative(incremental(operator))(stream), operator(stream), HORIZON)
    assert agree(incremental(cumulative(operator))(stream), operator(stream), HORIZON)


@law
@given(changes, changes)
def test_proposition_3_2_invariance_of_plus(a: Changes, b: Changes) -> None:
    assert agree(incremental(add_streams)(a, b), a + b, HORIZON)


@law
@given(st.sampled_from([delay, negate_stream, integrate, differentiate]), changes)
def test_proposition_3_2_invariance_of_delay_minus_i_and_d(
    operator: Unary, stream: Changes
) -> None:
    assert agree(incremental(operator)(stream), operator(stream), HORIZON)


@law
@given(operators, changes)
def test_proposition_3_2_push_and_pull(operator: Unary, stream: Changes) -> None:
    change = incremental(operator)
    assert agree(operator(integrate(stream)), integrate(change(stream)), HORIZON)
    assert agree(differentiate(operator(stream)), change(differentiate(stream)), HORIZON)


@law
@given(operators, operators, changes)
def test_proposition_3_2_chain(outer: Unary, inner: Unary, stream: Changes) -> None:
    at_once = incremental(compose(outer, inner))(stream)
    assert agree(at_once, incremental(outer)(incremental(inner)(stream)), HORIZON)


@law
@given(binary_operators, operators, operators, changes, changes)
def test_proposition_3_2_chain_with_two_inputs(
    outer: Binary, left: Unary, right: Unary, a: Changes, b: Changes
) -> None:
    def whole(s: Changes, t: Changes) -> Changes:
        return outer(left(s), right(t))

    by_parts = incremental(outer)(incremental(left)(a), incremental(right)(b))
    assert agree(incremental(whole)(a, b), by_parts, HORIZON)


@law
@given(operators, operators, changes)
def test_proposition_3_2_add(first: Unary, second: Unary, stream: Changes) -> None:
    def both(s: Changes) -> Changes:
        return first(s) + second(s)

    sum_of_changes = incremental(first)(stream) + incremental(second)(stream)
    assert agree(incremental(both)(stream), sum_of_changes, HORIZON)


@law
@given(binary_operators, changes)
def test_proposition_3_2_cycle(operator: Binary, stream: Changes) -> None:
    def loop(body: Binary) -> Unary:
        return lambda s: fix(lambda alpha: body(s, delay(alpha)), ZSETS)

    assert agree(incremental(loop(operator))(stream), loop(incremental(operator))(stream), 5)


@law
@given(linear_operators, changes, changes)
def test_theorem_3_3_linear(operator: Unary, a: Changes, b: Changes) -> None:
    assert is_linear(operator, STREAMS, STREAMS, a, b, same=same_stream)
    assert is_time_invariant(operator, a, until=HORIZON)
    assert agree(incremental(operator)(a), operator(a), HORIZON)


@law
@given(bilinear_operators, changes, changes, changes, changes)
def test_theorem_3_4_premises(
    operator: Binary, a: Changes, b: Changes, c: Changes, d: Changes
) -> None:
    assert is_bilinear(operator, STREAMS, STREAMS, STREAMS, (a, b), (c, d), same=same_stream)
    assert is_time_invariant(operator, a, c, until=HORIZON)


@law
@given(bilinear_operators, changes, changes)
def test_theorem_3_4_bilinear_with_three_terms(times: Binary, a: Changes, b: Changes) -> None:
    three = times(a, b) + times(delay(integrate(a)), b) + times(a, delay(integrate(b)))
    assert agree(incremental(times)(a, b), three, HORIZON)


@law
@given(bilinear_operators, changes, changes)
def test_theorem_3_4_bilinear_with_two_terms(times: Binary, a: Changes, b: Changes) -> None:
    two = times(integrate(a), b) + times(a, delay(integrate(b)))
    assert agree(incremental(times)(a, b), two, HORIZON)


@law
@given(changes, changes)
def test_the_incremental_version_of_a_function_lifts_it_first(a: Changes, b: Changes) -> None:
    assert agree(incremental_function(join, ZSETS)(a, b), incremental(lifted_join)(a, b), HORIZON)
    diagonal = incremental(lifted_join)(a, a)
    assert agree(incremental_function(square, ZSETS)(a), diagonal, HORIZON)


def test_control_a_bilinear_rule_without_the_product_of_changes_is_caught() -> None:
    def forgetful(a: Changes, b: Changes) -> Changes:
        return lifted_join(delay(integrate(a)), b) + lifted_join(a, delay(integrate(b)))

    counterexample(
        st.tuples(changes, changes),
        lambda ab: agree(incremental(lifted_join)(*ab), forgetful(*ab), HORIZON),
    )


def test_control_a_bilinear_rule_that_counts_the_product_twice_is_caught() -> None:
    def greedy(a: Changes, b: Changes) -> Changes:
        return lifted_join(integrate(a), b) + lifted_join(a, integrate(b))

    counterexample(
        st.tuples(changes, changes),
        lambda ab: agree(incremental(lifted_join)(*ab), greedy(*ab), HORIZON),
    )


def test_control_distinct_is_not_its_own_incremental_version() -> None:
    counterexample(
        changes,
        lambda stream: agree(
            incremental(lifted_distinct)(stream), lifted_distinct(stream), HORIZON
        ),
    )
