"""Joins of relations with streams, and windows (DBSP §7.5)."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS, is_bilinear, total
from rekindle.algebra.relational import filter_rows
from rekindle.algebra.streams import (
    Stream,
    agree,
    delay,
    fix,
    incremental,
    integrate,
    is_causal,
    is_time_invariant,
    lift2,
    splice,
)

from .strategies import (
    BATCHES,
    HORIZON,
    STREAMS,
    ZSETS,
    Changes,
    Rows,
    changes,
    counterexample,
    join,
    law,
    lifted_join,
    relation_to_stream_join,
    same_stream,
)

clock_values = st.lists(st.integers(0, 6), min_size=BATCHES, max_size=BATCHES)


def held(values: list[int]) -> Stream[int]:
    """A clock that shows the given times and then stops at the last one."""
    return Stream(lambda time: values[min(time, len(values) - 1)], INTEGERS)


monotone_clocks = clock_values.map(sorted).map(held)
any_clocks = clock_values.map(held)


def window(width: int) -> Callable[[Changes, Stream[int]], Changes]:
    """↑W: keeps the rows, which are their own timestamps, at most `width` behind the clock."""

    def prune(zset: Rows, now: int) -> Rows:
        return filter_rows(zset, lambda row: row >= now - width)

    return lift2(prune, ZSETS)


def window_outside(events: Changes, clock: Stream[int], width: int) -> Changes:
    """W(I(s), θ): remembers every event."""
    return window(width)(integrate(events), clock)


def window_inside(events: Changes, clock: Stream[int], width: int) -> Changes:
    """fix α. W(s + z⁻¹(α), θ): remembers the window alone."""
    prune = window(width)
    return fix(lambda kept: prune(events + delay(kept), clock), ZSETS)


@law
@given(changes, changes)
def test_section_7_5_events_meet_the_relation_of_their_time(
    relation: Changes, events: Changes
) -> None:
    result = relation_to_stream_join(relation, events)
    for time in range(HORIZON):
        state = total(ZSETS, relation.take(time + 1))
        assert result[time] == join(state, events[time])


@law
@given(changes, changes, changes, st.integers(0, HORIZON - 1))
def test_section_7_5_past_events_are_discarded(
    relation: Changes, events: Changes, past: Changes, time: int
) -> None:
    rewritten = splice(past, events, time)
    expected = relation_to_stream_join(relation, events)[time]
    assert relation_to_stream_join(relation, rewritten)[time] == expected


@law
@given(changes, changes, changes, changes)
def test_section_7_5_relation_to_stream_join_is_bilinear_ti_and_causal(
    a: Changes, b: Changes, c: Changes, d: Changes
) -> None:
    join_ = relation_to_stream_join
    assert is_bilinear(join_, STREAMS, STREAMS, STREAMS, (a, b), (c, d), same=same_stream)
    assert is_time_invariant(join_, a, c, until=HORIZON)
    assert is_causal(lambda relation: join_(relation, c), a, b, HORIZON)
    assert is_causal(lambda events: join_(a, events), c, d, HORIZON)


@law
@given(changes, changes)
def test_section_7_5_incremental_join_is_two_relation_to_stream_joins(
    a: Changes, b: Changes
) -> None:
    forward = relation_to_stream_join(a, b)
    backward = lifted_join(a, delay(integrate(b)))
    assert agree(incremental(lifted_join)(a, b), forward + backward, HORIZON)


@law
@given(changes, monotone_clocks, st.integers(0, 3))
def test_section_7_5_a_window_moves_inside_integration(
    events: Changes, clock: Stream[int], width: int
) -> None:
    outside = window_outside(events, clock, width)
    assert agree(outside, window_inside(events, clock, width), HORIZON)


@law
@given(changes, monotone_clocks, st.integers(0, 3))
def test_section_7_5_the_inner_window_keeps_no_expired_row(
    events: Changes, clock: Stream[int], width: int
) -> None:
    kept = window_inside(events, clock, width)
    for time in range(HORIZON):
        assert all(row >= clock[time] - width for row in kept[time].support())


def test_control_a_window_needs_a_monotone_clock() -> None:
    counterexample(
        st.tuples(changes, any_clocks),
        lambda case: agree(window_outside(*case, width=1), window_inside(*case, width=1), HORIZON),
    )


def test_control_a_join_with_the_previous_relation_is_caught() -> None:
    def late(relation: Changes, events: Changes) -> Changes:
        return lifted_join(delay(integrate(relation)), events)

    counterexample(
        st.tuples(changes, changes),
        lambda ab: agree(relation_to_stream_join(*ab), late(*ab), HORIZON),
    )
