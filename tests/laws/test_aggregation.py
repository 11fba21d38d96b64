"""Aggregation, grouping and flatmap (DBSP §7.2 to §7.4)."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.groups import INTEGERS, RATIONALS, is_linear
from rekindle.algebra.relational import (
    aggregate,
    change_ring,
    count,
    flatten,
    group_by,
    makeset,
    map_rows,
    weighted_sum,
)
from rekindle.algebra.streams import (
    agree,
    incremental,
    incremental_function,
    integrate,
    lift,
)
from rekindle.algebra.zset import IndexedZSet, ZSet, ZSetGroup

from .strategies import (
    HORIZON,
    INDEXED,
    ZSETS,
    Changes,
    Rows,
    Table,
    changes,
    counterexample,
    law,
    positive_zsets,
    tables,
    zsets,
)

PAIRS: ZSetGroup[tuple[int, int], int] = ZSetGroup(INTEGERS)


def group_counts(zset: Rows, key: Table) -> ZSet[tuple[int, int], int]:
    return aggregate(group_by(zset, key), lambda k, rows: makeset((k, count(rows))), PAIRS)


def row_count(zset: Rows) -> int:
    return count(zset)


def least(zset: Rows) -> int:
    return min((row for row, weight in zset if weight > 0), default=0)


@law
@given(tables, zsets, zsets)
def test_section_7_2_count_and_sum_are_linear(value: Table, a: Rows, b: Rows) -> None:
    assert is_linear(row_count, ZSETS, INTEGERS, a, b)
    assert is_linear(lambda zset: weighted_sum(zset, value), ZSETS, INTEGERS, a, b)


@law
@given(tables, positive_zsets)
def test_section_7_2_count_and_sum_see_every_duplicate(value: Table, a: Rows) -> None:
    bag = [row for row, weight in a for _ in range(weight)]
    assert count(a) == len(bag)
    assert weighted_sum(a, value) == sum(map(value, bag))


@law
@given(tables, zsets)
def test_section_7_2_sums_move_along_a_ring_homomorphism(value: Table, a: Rows) -> None:
    rational = change_ring(a, Fraction, RATIONALS)
    halves = weighted_sum(rational, lambda row: Fraction(value(row), 2))
    assert 2 * halves == weighted_sum(a, value)


@law
@given(tables, tables, changes)
def test_section_7_2_the_sum_query_needs_integrals_at_makeset_only(
    column: Table, value: Table, stream: Changes
) -> None:
    def query(zset: Rows) -> Rows:
        return makeset(weighted_sum(map_rows(zset, column), value))

    def project(zset: Rows) -> Rows:
        return map_rows(zset, column)

    def add_up(zset: Rows) -> int:
        return weighted_sum(zset, value)

    summed = lift(add_up, INTEGERS)(lift(project, ZSETS)(stream))
    circuit = incremental(lift(makeset, ZSETS))(summed)
    assert agree(incremental_function(query, ZSETS)(stream), circuit, HORIZON)


@law
@given(changes)
def test_section_7_2_incremental_makeset_replaces_the_old_value(stream: Changes) -> None:
    counts = lift(row_count, INTEGERS)(stream)
    states = integrate(counts).take(HORIZON)
    change = incremental(lift(makeset, ZSETS))(counts)
    assert change[0] == makeset(states[0])
    for time in range(1, HORIZON):
        assert change[time] == makeset(states[time]) - makeset(states[time - 1])


@law
@given(tables, zsets, zsets)
def test_section_7_3_grouping_is_linear(key: Table, a: Rows, b: Rows) -> None:
    assert is_linear(lambda zset: group_by(zset, key), ZSETS, INDEXED, a, b)


@law
@given(tables, changes)
def test_section_7_3_grouping_is_its_own_incremental_version(key: Table, stream: Changes) -> None:
    def split(zset: Rows) -> IndexedZSet[int, int, int]:
        return group_by(zset, key)

    grouping = lift(split, INDEXED)
    assert agree(incremental(grouping)(stream), grouping(stream), HORIZON)


@law
@given(tables, zsets)
def test_section_7_3_a_grouping_holds_the_rows_of_its_key(key: Table, a: Rows) -> None:
    indexed = group_by(a, key)
    assert indexed.support() == {key(row) for row in a.support()}
    assert all(key(row) == k for k, rows in indexed for row, _ in rows)


@law
@given(tables, tables, zsets, zsets)
def test_section_7_4_flatmap_is_linear(key: Table, other: Table, a: Rows, b: Rows) -> None:
    assert is_linear(flatten, INDEXED, PAIRS, group_by(a, key), group_by(b, other))


@law
@given(tables, zsets)
def test_section_7_4_flatmap_undoes_grouping(key: Table, a: Rows) -> None:
    pairs = flatten(group_by(a, key))
    assert pairs == map_rows(a, lambda row: (key(row), row))
    assert map_rows(pairs, lambda pair: pair[1]) == a


@law
@given(tables, zsets, zsets)
def test_section_7_4_aggregation_with_a_linear_function_is_linear(
    key: Table, a: Rows, b: Rows
) -> None:
    def weighted_count(zset: Rows) -> int:
        return aggregate(group_by(zset, key), lambda k, rows: k * count(rows), INTEGERS)

    assert is_linear(weighted_count, ZSETS, INTEGERS, a, b)


def test_section_7_4_group_by_count_of_the_paper() -> None:
    people = ZSet.of({"joe": 1, "anne": -1})
    counts: ZSet[tuple[str, int], int] = aggregate(
        group_by(people, lambda name: name[0]),
        lambda k, rows: makeset((k, count(rows))),
        ZSetGroup(INTEGERS),
    )
    assert counts == ZSet.from_rows([("j", 1), ("a", -1)])


@law
@given(tables, changes)
def test_section_7_4_group_by_count_changes_only_the_touched_keys(
    key: Table, stream: Changes
) -> None:
    def query(zset: Rows) -> ZSet[tuple[int, int], int]:
        return group_counts(zset, key)

    result = incremental_function(query, PAIRS)(stream)
    for time in range(HORIZON):
        touched = group_by(stream[time], key).support()
        assert {k for k, _ in result[time].support()} <= touched


@law
@given(tables, zsets)
def test_section_7_4_an_emptied_group_leaves_no_row(key: Table, a: Rows) -> None:
    assert group_counts(a - a, key) == PAIRS.zero
    assert group_counts(a, key).is_set()


def test_control_min_is_not_linear() -> None:
    counterexample(st.tuples(zsets, zsets), lambda ab: is_linear(least, ZSETS, INTEGERS, *ab))


def test_control_group_by_count_is_not_linear() -> None:
    counterexample(
        st.tuples(tables, zsets, zsets),
        lambda case: is_linear(
            lambda zset: group_counts(zset, case[0]), ZSETS, PAIRS, case[1], case[2]
        ),
    )


def test_control_makeset_applied_to_changes_is_caught() -> None:
    def query(zset: Rows) -> Rows:
        return makeset(count(zset))

    operator = lift(query, ZSETS)
    counterexample(
        changes,
        lambda stream: agree(incremental(operator)(stream), operator(stream), HORIZON),
    )
