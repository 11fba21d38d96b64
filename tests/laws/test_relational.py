"""The relational operators on Z-sets and the elimination of distinct (DBSP §4)."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product as pairs_of

from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.groups import is_bilinear, is_linear
from rekindle.algebra.relational import (
    distinct,
    distinct_change,
    equi_join,
    filter_rows,
    flat_map,
    map_rows,
    negate,
    product,
    union_all,
)
from rekindle.algebra.streams import agree, delay, incremental_function, integrate, lift2
from rekindle.algebra.zset import ZSet, ZSetGroup

from .strategies import (
    DOMAIN,
    HORIZON,
    ZSETS,
    Changes,
    Rows,
    Table,
    changes,
    counterexample,
    join,
    law,
    positive_zsets,
    tables,
    zsets,
)

PAIRS: ZSetGroup[tuple[int, int], int] = ZSetGroup(ZSETS.ring)


def linear_functions(table: Table) -> tuple[Callable[[Rows], Rows], ...]:
    return (
        lambda zset: filter_rows(zset, table.holds),
        lambda zset: map_rows(zset, table),
        lambda zset: flat_map(zset, lambda row: range(table(row))),
        negate,
    )


def pair_join(left: Rows, right: Rows, table: Table) -> ZSet[tuple[int, int], int]:
    return equi_join(left, right, table, lambda row: row, lambda a, b: (a, b))


@law
@given(tables, zsets, zsets)
def test_filter_map_flat_map_and_negate_are_linear(table: Table, a: Rows, b: Rows) -> None:
    for function in linear_functions(table):
        assert is_linear(function, ZSETS, ZSETS, a, b)


@law
@given(tables, zsets, zsets, zsets, zsets)
def test_product_and_join_are_bilinear(table: Table, a: Rows, b: Rows, c: Rows, d: Rows) -> None:
    assert is_bilinear(product, ZSETS, ZSETS, PAIRS, (a, b), (c, d))
    assert is_bilinear(
        lambda left, right: pair_join(left, right, table), ZSETS, ZSETS, PAIRS, (a, b), (c, d)
    )


@law
@given(tables, positive_zsets, positive_zsets)
def test_relational_operators_are_positive(table: Table, a: Rows, b: Rows) -> None:
    assert all(f(a).is_positive() for f in linear_functions(table) if f is not negate)
    assert union_all(a, b).is_positive()
    assert product(a, b).is_positive()
    assert join(a, b).is_positive()


@law
@given(tables, zsets, zsets)
def test_join_is_a_filtered_product(table: Table, a: Rows, b: Rows) -> None:
    matching = filter_rows(product(a, b), lambda pair: table(pair[0]) == pair[1])
    assert pair_join(a, b, table) == matching


@law
@given(zsets)
def test_definition_4_3_distinct_is_the_set_of_positive_rows(a: Rows) -> None:
    assert distinct(a).is_set()
    assert distinct(a).is_positive()
    assert distinct(distinct(a)) == distinct(a)
    assert all((distinct(a).weight(row) == 1) == (a.weight(row) > 0) for row in range(DOMAIN))


@law
@given(tables, positive_zsets, positive_zsets)
def test_proposition_4_4_distinct_commutes_with_filter_join_and_product(
    table: Table, a: Rows, b: Rows
) -> None:
    assert filter_rows(distinct(a), table.holds) == distinct(filter_rows(a, table.holds))
    assert product(distinct(a), distinct(b)) == distinct(product(a, b))
    assert pair_join(distinct(a), distinct(b), table) == distinct(pair_join(a, b, table))


@law
@given(tables, positive_zsets, positive_zsets)
def test_proposition_4_5_an_inner_distinct_is_redundant(table: Table, a: Rows, b: Rows) -> None:
    x, y = distinct(a), distinct(b)
    assert distinct(filter_rows(x, table.holds)) == distinct(filter_rows(a, table.holds))
    assert distinct(map_rows(x, table)) == distinct(map_rows(a, table))
    assert distinct(x + y) == distinct(a + b)
    assert distinct(product(x, y)) == distinct(product(a, b))
    assert distinct(join(x, y)) == distinct(join(a, b))


@law
@given(zsets, zsets)
def test_proposition_4_7_h_is_the_change_of_distinct(integral: Rows, change: Rows) -> None:
    result = distinct_change(integral, change)
    assert result == distinct(integral + change) - distinct(integral)
    assert result.support() <= change.support()


@law
@given(changes)
def test_proposition_4_7_incremental_distinct(stream: Changes) -> None:
    circuit = lift2(distinct_change, ZSETS)(delay(integrate(stream)), stream)
    assert agree(incremental_function(distinct, ZSETS)(stream), circuit, HORIZON)


def test_control_proposition_4_4_needs_positive_inputs() -> None:
    # Two negative weights multiply to a positive one.
    a = ZSet.of({0: -1})
    assert product(distinct(a), distinct(a)) != distinct(product(a, a))
    counterexample(
        st.tuples(zsets, zsets),
        lambda ab: product(*map(distinct, ab)) == distinct(product(*ab)),
    )


def test_control_proposition_4_5_needs_positive_inputs() -> None:
    # A deletion cancels an insertion after the projection, unless distinct dropped it before.
    counterexample(
        st.tuples(tables, zsets),
        lambda case: (
            distinct(map_rows(distinct(case[1]), case[0])) == distinct(map_rows(case[1], case[0]))
        ),
    )


def test_control_distinct_does_not_commute_with_projection() -> None:
    # Even on positive inputs: proposition 4.5 keeps the outer distinct for a reason.
    counterexample(
        st.tuples(tables, positive_zsets),
        lambda case: map_rows(distinct(case[1]), case[0]) == distinct(map_rows(case[1], case[0])),
    )


def test_control_h_at_the_new_integral_is_caught() -> None:
    wrong = lift2(distinct_change, ZSETS)
    counterexample(
        changes,
        lambda stream: agree(
            incremental_function(distinct, ZSETS)(stream),
            wrong(integrate(stream), stream),
            HORIZON,
        ),
    )


def test_h_agrees_with_the_table_of_signs() -> None:
    for before, change in pairs_of(range(-2, 3), repeat=2):
        expected = (before <= 0 < before + change) - (before + change <= 0 < before)
        h = distinct_change(ZSet.of({0: before}), ZSet.of({0: change}))
        assert h.weight(0) == expected
