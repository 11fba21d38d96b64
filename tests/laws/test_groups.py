"""The structures of the algebra satisfy their laws (DBSP §2.2, §4.1, proposition 2.11)."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from rekindle.algebra.groups import (
    INTEGERS,
    RATIONALS,
    ProductRing,
    is_group,
    is_homomorphism,
    is_ring,
    subtract,
    total,
)
from rekindle.algebra.relational import change_ring, group_by
from rekindle.algebra.zset import ZSet, ZSetGroup

from .strategies import (
    INDEXED,
    STREAMS,
    ZSETS,
    Changes,
    Rows,
    Table,
    changes,
    counterexample,
    law,
    rows,
    same_stream,
    tables,
    zsets,
)

integers = st.integers(-9, 9)
fractions = st.fractions(-3, 3, max_denominator=6)
PAIRS = ProductRing(INTEGERS, RATIONALS)
pairs = st.tuples(integers, fractions)


@law
@given(integers, integers, integers)
def test_integers_are_a_ring(a: int, b: int, c: int) -> None:
    assert is_ring(INTEGERS, a, b, c)


@law
@given(fractions, fractions, fractions)
def test_rationals_are_a_ring(a: Fraction, b: Fraction, c: Fraction) -> None:
    assert is_ring(RATIONALS, a, b, c)


@law
@given(pairs, pairs, pairs)
def test_a_product_of_rings_is_a_ring(
    a: tuple[int, Fraction], b: tuple[int, Fraction], c: tuple[int, Fraction]
) -> None:
    assert is_ring(PAIRS, a, b, c)


@law
@given(zsets, zsets, zsets)
def test_zsets_are_a_group(a: Rows, b: Rows, c: Rows) -> None:
    assert is_group(ZSETS, a, b, c)
    assert subtract(ZSETS, a, b) == a - b


@law
@given(*[st.dictionaries(rows, pairs)] * 3)
def test_zsets_over_any_ring_are_a_group(
    a: dict[int, tuple[int, Fraction]],
    b: dict[int, tuple[int, Fraction]],
    c: dict[int, tuple[int, Fraction]],
) -> None:
    group: ZSetGroup[int, tuple[int, Fraction]] = ZSetGroup(PAIRS)
    assert is_group(group, ZSet.of(a, PAIRS), ZSet.of(b, PAIRS), ZSet.of(c, PAIRS))


@law
@given(tables, zsets, zsets, zsets)
def test_indexed_zsets_are_a_group(key: Table, a: Rows, b: Rows, c: Rows) -> None:
    assert is_group(INDEXED, group_by(a, key), group_by(b, key), group_by(c, key))


@law
@given(changes, changes, changes)
def test_proposition_2_11_streams_are_a_group(a: Changes, b: Changes, c: Changes) -> None:
    assert is_group(STREAMS, a, b, c, same=same_stream)


@law
@given(st.lists(zsets))
def test_a_total_adds_from_left_to_right(values: list[Rows]) -> None:
    expected = ZSETS.zero
    for value in values:
        expected = expected + value
    assert total(ZSETS, values) == expected


@law
@given(zsets)
def test_no_row_of_weight_zero_is_kept(a: Rows) -> None:
    assert all(weight != 0 for _, weight in a)
    assert not (a - a).support()
    assert hash(a + a - a) == hash(a)


def test_a_weight_with_one_zero_component_is_kept() -> None:
    ring = ProductRing(INTEGERS, INTEGERS)
    assert ZSet.of({"row": (0, 5)}, ring).weight("row") == (0, 5)


@law
@given(zsets, zsets)
def test_a_ring_homomorphism_of_weights_is_one_of_zsets(a: Rows, b: Rows) -> None:
    rationals: ZSetGroup[int, Fraction] = ZSetGroup(RATIONALS)
    assert is_homomorphism(
        lambda zset: change_ring(zset, Fraction, RATIONALS), ZSETS, rationals, a, b
    )


def test_control_floats_are_not_a_group() -> None:
    counterexample(
        st.tuples(*[st.floats(-1e9, 1e9, allow_nan=False)] * 3),
        lambda abc: (abc[0] + abc[1]) + abc[2] == abc[0] + (abc[1] + abc[2]),
    )
