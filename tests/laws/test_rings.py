"""The rings that rows take values from satisfy their laws, and zero means zero in every part."""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import inf, nan
from random import Random

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.algebra.cofactor import (
    Cofactor,
    CofactorRing,
    Entry,
    categorical_ring,
    category,
    quantity,
)
from rekindle.algebra.doubles import CompensatedDoubles, Double, close, exactly
from rekindle.algebra.groups import (
    INTEGERS,
    RATIONALS,
    ProductRing,
    is_commutative,
    is_ring,
    is_semiring,
    subtract,
    total,
)
from rekindle.algebra.matrices import Matrix, MatrixRing
from rekindle.algebra.real_products import Kind, RealProduct, RealProducts
from rekindle.algebra.relations import RelationRing, Tuple
from rekindle.algebra.tropical import Extended, MaxPlus, MinPlus
from rekindle.algebra.zset import FiniteMap, ZSet

from .strategies import counterexample, law

small = st.integers(-3, 3)
fractions = st.fractions(-3, 3, max_denominator=4)
columns = st.sampled_from("abc")
tuples = st.dictionaries(columns, st.integers(0, 1), max_size=3).map(Tuple)
relations = st.dictionaries(tuples, small, max_size=4).map(ZSet.of)
weighted = st.dictionaries(tuples, fractions, max_size=2).map(lambda d: ZSet.of(d, RATIONALS))
RELATIONS = RelationRing(INTEGERS)

Relation = ZSet[Tuple, int]


@law
@given(relations, relations, relations)
def test_proposition_3_4_relations_are_a_commutative_ring(
    a: Relation, b: Relation, c: Relation
) -> None:
    assert is_ring(RELATIONS, a, b, c)
    assert is_commutative(RELATIONS.multiply, a, b)


@settings(law, max_examples=50)
@given(*[st.dictionaries(tuples, st.tuples(small, fractions), max_size=3)] * 3)
def test_relations_over_any_ring_are_a_ring(
    a: dict[Tuple, tuple[int, Fraction]],
    b: dict[Tuple, tuple[int, Fraction]],
    c: dict[Tuple, tuple[int, Fraction]],
) -> None:
    weights = ProductRing(INTEGERS, RATIONALS)
    ring = RelationRing(weights)
    assert is_ring(ring, ZSet.of(a, weights), ZSet.of(b, weights), ZSet.of(c, weights))


def test_example_3_3_of_the_ring_of_databases() -> None:
    r = ZSet.of({Tuple(A=1): -1, Tuple(A=2, B=3): 2})
    s = ZSet.of({Tuple(C=5): 2})
    t = ZSet.of({Tuple(B=3, C=5): 1, Tuple(B=4, C=6): -3})
    assert RELATIONS.multiply(r, s + t) == ZSet.of(
        {
            Tuple(A=1, C=5): -2,
            Tuple(A=1, B=3, C=5): -1,
            Tuple(A=1, B=4, C=6): 3,
            Tuple(A=2, B=3, C=5): 6,
        }
    )


def test_relations_have_zero_divisors() -> None:
    left, right = ZSet.of({Tuple(a=0): 1}), ZSet.of({Tuple(a=1): 1})
    assert RELATIONS.multiply(left, right) == RELATIONS.zero


MATRICES = MatrixRing(2, INTEGERS)
matrices = st.tuples(*[st.tuples(small, small)] * 2)


@law
@given(matrices, matrices, matrices)
def test_matrices_are_a_ring(a: Matrix[int], b: Matrix[int], c: Matrix[int]) -> None:
    assert is_ring(MATRICES, a, b, c)
    assert np.array_equal(np.array(MATRICES.multiply(a, b)), np.array(a) @ np.array(b))


def test_control_matrices_do_not_commute() -> None:
    counterexample(st.tuples(matrices, matrices), lambda ab: is_commutative(MATRICES.multiply, *ab))


REAL_PRODUCTS = RealProducts()
counts = st.tuples(*[small] * len(Kind))
real_products = st.builds(RealProduct, fractions, counts)
doubles = st.sampled_from((0.0, -0.0, 1.5, -2.0, inf, -inf, nan))


@law
@given(real_products, real_products, real_products)
def test_real_products_are_a_commutative_ring(
    a: RealProduct, b: RealProduct, c: RealProduct
) -> None:
    assert is_ring(REAL_PRODUCTS, a, b, c)
    assert is_commutative(REAL_PRODUCTS.multiply, a, b)


@law
@given(st.lists(st.tuples(doubles, doubles), min_size=1, max_size=3))
def test_a_sum_of_real_products_is_the_sum_of_the_doubles(rows: list[tuple[float, float]]) -> None:
    """None of these products is rounded, so adding them up as doubles is the sum."""
    ring = REAL_PRODUCTS
    products = [ring.multiply(ring.of(x), ring.of(y)) for x, y in rows]
    rounded, expected = total(ring, products).rounded, sum(x * y for x, y in rows)
    assert rounded == expected or (rounded != rounded and expected != expected)


COFACTORS = CofactorRing(2, RATIONALS)


def cofactors(scalars: st.SearchStrategy[Fraction]) -> st.SearchStrategy[Cofactor[Fraction]]:
    """Any symmetric triple, not only those that some relation has."""
    return st.builds(
        lambda count, x, y, xx, xy, yy: Cofactor(count, (x, y), ((xx, xy), (xy, yy))),
        *[scalars] * 6,
    )


triples = cofactors(fractions)


@settings(law, max_examples=50)
@given(triples, triples, triples)
def test_cofactors_are_a_commutative_ring(
    a: Cofactor[Fraction], b: Cofactor[Fraction], c: Cofactor[Fraction]
) -> None:
    assert is_ring(COFACTORS, a, b, c)
    assert is_commutative(COFACTORS.multiply, a, b)


CATEGORICAL = categorical_ring(2)
categorical_triples = st.builds(
    lambda count, x, y, xx, xy, yy: Cofactor(count, (x, y), ((xx, xy), (xy, yy))), *[weighted] * 6
)


@settings(law, max_examples=30)
@given(categorical_triples, categorical_triples, categorical_triples)
def test_categorical_cofactors_are_a_commutative_ring(
    a: Cofactor[Entry], b: Cofactor[Entry], c: Cofactor[Entry]
) -> None:
    assert is_ring(CATEGORICAL, a, b, c)
    assert is_commutative(CATEGORICAL.multiply, a, b)


pairs = st.lists(st.tuples(st.integers(0, 2), small), max_size=5)


@law
@given(pairs, pairs)
def test_the_cofactor_of_a_join_needs_no_join(
    left: list[tuple[int, int]], right: list[tuple[int, int]]
) -> None:
    """R(k, x) ⋈ S(k, y): the sum over k of two payloads against XᵀX of the joined rows."""

    def payload(rows: list[tuple[int, int]], key: int, feature: int) -> Cofactor[Fraction]:
        lifted = [COFACTORS.lift(feature, Fraction(value)) for k, value in rows if k == key]
        return total(COFACTORS, lifted)

    keys = range(3)
    found = total(
        COFACTORS, [COFACTORS.multiply(payload(left, k, 0), payload(right, k, 1)) for k in keys]
    )
    joined = [(x, y) for (k, x), (other, y) in product(left, right) if k == other]
    design = np.array([(1, x, y) for x, y in joined], dtype=int).reshape(-1, 3)
    gram = design.T @ design
    assert found.count == gram[0, 0]
    assert list(found.sums) == list(gram[0, 1:])
    assert [list(row) for row in found.products] == gram[1:, 1:].tolist()


cities = st.lists(st.tuples(st.sampled_from(["Oslo", "Rome", "Kyiv"]), small), max_size=6)


@law
@given(cities)
def test_categories_are_one_hot_inside_the_ring(rows: list[tuple[str, int]]) -> None:
    found = total(
        CATEGORICAL,
        [
            CATEGORICAL.multiply(
                CATEGORICAL.lift(0, category("city", city)), CATEGORICAL.lift(1, quantity(x))
            )
            for city, x in rows
        ],
    )
    names = ["Oslo", "Rome", "Kyiv"]
    encoded = np.array([[city == name for name in names] for city, _ in rows], dtype=int)
    encoded = encoded.reshape(-1, 3)
    numbers = np.array([x for _, x in rows], dtype=int)
    for place, name in enumerate(names):
        row = Tuple(city=name)
        assert found.sums[0].weight(row) == encoded[:, place].sum()
        assert found.products[0][0].weight(row) == encoded[:, place] @ encoded[:, place]
        assert found.products[0][1].weight(row) == encoded[:, place] @ numbers
    assert found.sums[0].support() == {Tuple(city=city) for city, _ in rows}


def test_a_value_with_count_zero_and_other_sums_is_not_zero() -> None:
    came, went = COFACTORS.lift(0, Fraction(3)), COFACTORS.lift(0, Fraction(5))
    change = subtract(COFACTORS, came, went)
    assert change.count == 0
    kept = FiniteMap([("group", came), ("group", COFACTORS.negate(went))], COFACTORS)
    assert kept["group"] == change and len(kept) == 1
    gone = FiniteMap([("group", came), ("group", COFACTORS.negate(came))], COFACTORS)
    assert len(gone) == 0


@law
@given(triples)
def test_zero_is_zero_in_every_part(value: Cofactor[Fraction]) -> None:
    parts = [value.count, *value.sums, *(each for row in value.products for each in row)]
    assert (value != COFACTORS.zero) == any(parts)


def test_control_a_zero_test_of_the_count_alone_is_caught() -> None:
    counterexample(triples, lambda value: (value.count == 0) == (value == COFACTORS.zero))


DOUBLES = CompensatedDoubles()
decimals = st.integers(-(10**6), 10**6).map(lambda tenths: tenths / 10)
doubles = decimals.map(Double)


@law
@given(doubles, doubles, doubles)
def test_doubles_are_a_ring_up_to_rounding(a: Double, b: Double, c: Double) -> None:
    scale = max(1, *(abs(int(value.high)) for value in (a, b, c))) ** 3
    assert is_ring(DOUBLES, a, b, c, lambda x, y: close(x, y, scale * 2.0**-100))


@law
@given(st.lists(decimals, max_size=20), st.randoms(use_true_random=False))
def test_inserted_and_deleted_doubles_leave_nothing(values: list[float], random: Random) -> None:
    changes = [Double(value) for value in values] + [Double(-value) for value in values]
    random.shuffle(changes)
    state = DOUBLES.zero
    for change in changes:
        state = DOUBLES.add(state, change)
    assert state == DOUBLES.zero


@law
@given(doubles, doubles)
def test_sums_and_products_of_doubles_are_exact_here(a: Double, b: Double) -> None:
    assert exactly(DOUBLES.add(a, b)) == exactly(a) + exactly(b)
    assert exactly(DOUBLES.multiply(a, b)) == exactly(a) * exactly(b)


def test_a_double_is_zero_only_if_both_parts_are() -> None:
    kept = FiniteMap([("a", Double(0.0, 1e-20))], DOUBLES)
    assert len(kept) == 1


def test_control_plain_doubles_leave_a_residue() -> None:
    counterexample(
        st.lists(decimals, min_size=3, max_size=3),
        lambda v: v[0] + v[1] + v[2] - v[0] - v[1] - v[2] == 0,
    )


def test_control_doubles_far_apart_are_no_ring() -> None:
    """Two doubles are kept whatever their sizes; the third is rounded away."""
    huge, large, one = Double(1e300), Double(1e150), Double(1.0)
    state = DOUBLES.add(DOUBLES.add(huge, large), one)
    left = DOUBLES.add(DOUBLES.add(state, DOUBLES.negate(huge)), DOUBLES.negate(large))
    assert left != one


extended = fractions | st.integers(-3, 3)
SEMIRINGS = (MinPlus(), MaxPlus())


@law
@given(*[extended | st.just(inf)] * 3)
def test_costs_are_a_semiring(a: Extended, b: Extended, c: Extended) -> None:
    assert is_semiring(MinPlus(), a, b, c)


@law
@given(*[extended | st.just(-inf)] * 3)
def test_gains_are_a_semiring(a: Extended, b: Extended, c: Extended) -> None:
    assert is_semiring(MaxPlus(), a, b, c)


@law
@given(extended, extended)
def test_a_semiring_has_no_inverses(a: Extended, b: Extended) -> None:
    for semiring in SEMIRINGS:
        assert semiring.add(a, b) != semiring.zero
        assert not hasattr(semiring, "negate")


@law
@given(fractions, fractions, fractions)
def test_a_ring_is_a_semiring(a: Fraction, b: Fraction, c: Fraction) -> None:
    assert is_semiring(RATIONALS, a, b, c)
