"""Categorical cofactors against scikit-learn on the one-hot encoded rows."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import reduce
from itertools import combinations, product
from random import Random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LinearRegression
from sklearn.metrics import mutual_info_score
from sklearn.preprocessing import OneHotEncoder

from rekindle.algebra.cofactor import Cofactor, Entry, categorical_ring, category, quantity
from rekindle.algebra.groups import subtract, total
from rekindle.errors import DefinitionError
from rekindle.incremental.policies.categories import (
    maximum_spanning_tree,
    one_hot,
    pairwise_information,
)
from rekindle.incremental.policies.models import linear_model

NAMES = ("colour", "x", "sold", "y")
CATEGORICAL = ("colour", "sold")
RING = categorical_ring(len(NAMES))

Sample = tuple[str, int, bool, int]
samples = st.tuples(
    st.sampled_from(["red", "green", "blue", "white"]),
    st.integers(-5, 5),
    st.booleans(),
    st.integers(-50, 50),
)


def lifted(row: Sample) -> Cofactor[Entry]:
    """One row: the product of what its columns lift to."""
    values = [
        category(name, value) if name in CATEGORICAL else quantity(int(value))
        for name, value in zip(NAMES, row, strict=True)
    ]
    return reduce(RING.multiply, (RING.lift(i, value) for i, value in enumerate(values)))


def expected(rows: list[Sample]) -> dict[str, float]:
    encoder = OneHotEncoder(drop="first", sparse_output=False)
    flags = encoder.fit_transform(np.array([(r[0], r[2]) for r in rows], dtype=object))
    design = np.column_stack([flags, [r[1] for r in rows]])
    model = LinearRegression().fit(design, [r[3] for r in rows])
    names = [
        f"{name}={str(value).lower()}"
        for name, values in zip(CATEGORICAL, encoder.categories_, strict=True)
        for value in values[1:]
    ]
    return {"intercept": model.intercept_, **dict(zip([*names, "x"], model.coef_, strict=True))}


@settings(max_examples=60)
@given(st.lists(samples, min_size=1, max_size=25))
def test_one_hot_regression_is_that_of_scikit_learn(rows: list[Sample]) -> None:
    """Also where columns determine each other: the coefficients of least norm are taken."""
    encoded = one_hot(total(RING, map(lifted, rows)), NAMES, CATEGORICAL)
    found = linear_model(encoded.cofactor, encoded.names, "y")
    assert found.coefficients == pytest.approx(expected(rows), rel=1e-6, abs=1e-6)


def test_values_come_and_go() -> None:
    random = Random(7)
    kept: list[Sample] = []
    state = RING.zero
    for step in range(30):
        for _ in range(random.randrange(4)):
            row = (
                random.choice(["red", "green", "blue", "black"][: step // 8 + 1]),
                random.randrange(9),
                random.random() < 0.5,
                random.randrange(100),
            )
            kept.append(row)
            state = RING.add(state, lifted(row))
        while kept and (random.random() < 0.4 or len(kept) > 12):
            gone = kept.pop(random.randrange(len(kept)))
            state = subtract(RING, state, lifted(gone))
        encoded = one_hot(state, NAMES, CATEGORICAL)
        assert encoded.levels["colour"] == tuple(sorted({row[0] for row in kept}))
        if kept:
            found = linear_model(encoded.cofactor, encoded.names, "y", rounding=2.0**-48)
            assert found.coefficients == pytest.approx(expected(kept), rel=1e-6, abs=1e-6)
    while kept:
        state = subtract(RING, state, lifted(kept.pop()))
    assert state == RING.zero


def test_an_encoded_cofactor_is_the_gram_matrix() -> None:
    rows: list[Sample] = [("red", 2, True, 5), ("blue", 3, False, 7), ("red", 4, True, 1)]
    found = one_hot(total(RING, map(lifted, rows)), NAMES, CATEGORICAL)
    assert found.names == ("colour=red", "x", "sold=true", "y")
    design = np.array([(r[0] == "red", r[1], r[2], r[3]) for r in rows], dtype=int)
    assert found.cofactor.count == 3
    assert list(found.cofactor.sums) == design.sum(axis=0).tolist()
    assert [list(row) for row in found.cofactor.products] == (design.T @ design).tolist()


def test_rounded_sums_of_a_constant_are_a_constant() -> None:
    """The variance of 0.1, from sums of doubles, is not quite zero."""
    rows = [(0.1 + 1e5, i, 3.0 * i) for i in range(1, 30)]
    gram = [[Fraction(sum(r[i] * r[j] for r in rows)) for j in range(3)] for i in range(3)]
    sums = tuple(Fraction(sum(r[i] for r in rows)) for i in range(3))
    cofactor = Cofactor(Fraction(len(rows)), sums, tuple(map(tuple, gram)))
    found = linear_model(cofactor, ("c", "x", "y"), "y", rounding=2.0**-48)
    assert found.coefficients == pytest.approx({"intercept": 0.0, "c": 0.0, "x": 3.0}, abs=1e-6)


def test_a_category_of_one_value_leaves_the_mean() -> None:
    ring = categorical_ring(2)
    rows = [
        ring.multiply(ring.lift(0, category("c", "a")), ring.lift(1, quantity(y))) for y in (1, 3)
    ]
    encoded = one_hot(total(ring, rows), ("c", "y"), ("c",))
    assert linear_model(encoded.cofactor, encoded.names, "y").coefficients == {"intercept": 2.0}


LETTERS = ("a", "b", "c", "d")
words = st.lists(st.tuples(*[st.integers(0, 2)] * len(LETTERS)), min_size=1, max_size=30)


def counted(rows: list[tuple[int, ...]]) -> Cofactor[Entry]:
    ring = categorical_ring(len(LETTERS))
    each = [
        reduce(ring.multiply, (ring.lift(i, category(LETTERS[i], v)) for i, v in enumerate(row)))
        for row in rows
    ]
    return total(ring, each)


@settings(max_examples=50)
@given(words)
def test_mutual_information_is_that_of_scikit_learn(rows: list[tuple[int, ...]]) -> None:
    found = pairwise_information(counted(rows), LETTERS, LETTERS)
    assert list(found) == list(combinations(LETTERS, 2))
    for (one, other), information in found.items():
        i, j = LETTERS.index(one), LETTERS.index(other)
        score = mutual_info_score([row[i] for row in rows], [row[j] for row in rows])
        assert information == pytest.approx(score, abs=1e-12)


@settings(max_examples=50)
@given(st.lists(st.integers(0, 9), min_size=6, max_size=6))
def test_no_spanning_tree_is_heavier(weights: list[int]) -> None:
    edges = dict(zip(combinations(LETTERS, 2), map(float, weights), strict=True))

    def spans(chosen: tuple[tuple[str, str], ...]) -> bool:
        reached = {LETTERS[0]}
        for _, (one, other) in product(LETTERS, chosen):
            if {one, other} & reached:
                reached |= {one, other}
        return len(reached) == len(LETTERS)

    best = max(sum(edges[e] for e in tree) for tree in combinations(edges, 3) if spans(tree))
    found = maximum_spanning_tree(edges)
    assert spans(tuple((one, other) for one, other, _ in found)) and len(found) == 3
    assert sum(weight for *_, weight in found) == best


def test_a_chain_of_copies_is_found() -> None:
    """b is a noisy copy of a, c one of b, d one of c: the tree is that chain."""
    random = Random(3)
    rows = []
    for _ in range(400):
        row = [random.randrange(3)]
        for _ in range(3):
            row.append(row[-1] if random.random() < 0.7 else random.randrange(3))
        rows.append(tuple(row))
    tree = maximum_spanning_tree(pairwise_information(counted(rows), LETTERS, LETTERS))
    assert Counter((a, b) for a, b, _ in tree) == Counter([("a", "b"), ("b", "c"), ("c", "d")])


def test_no_rows_have_no_information() -> None:
    with pytest.raises(DefinitionError, match="no rows"):
        pairwise_information(counted([]), LETTERS, LETTERS)
