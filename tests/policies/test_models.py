"""Models from cofactors against numpy on the rows themselves."""

from __future__ import annotations

from fractions import Fraction
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rekindle.algebra.cofactor import Cofactor, CofactorRing
from rekindle.algebra.groups import RATIONALS
from rekindle.errors import DefinitionError, UnknownNameError
from rekindle.incremental.policies.models import (
    Matrix,
    linear_model,
    principal_components,
)

NAMES = ("a", "b", "y")
RING = CofactorRing(len(NAMES), RATIONALS)


def cofactor(rows: Matrix) -> Cofactor[Fraction]:
    """The sum over rows of the product of what their features lift to."""
    lifted = [
        reduce(RING.multiply, (RING.lift(i, Fraction(value)) for i, value in enumerate(row)))
        for row in rows
    ]
    return reduce(RING.add, lifted, RING.zero)


def sample(seed: int, count: int = 40) -> Matrix:
    generator = np.random.default_rng(seed)
    features = generator.normal(size=(count, 2)) * (1.0, 50.0) + (3.0, -700.0)
    label = 2.0 + features @ (1.5, -0.25) + generator.normal(size=count)
    return np.column_stack([features, label])


@given(st.integers(0, 2**32 - 1))
@settings(max_examples=20, deadline=None)
def test_least_squares(seed: int) -> None:
    rows = sample(seed)
    model = linear_model(cofactor(rows), NAMES, "y")
    design = np.column_stack([np.ones(len(rows)), rows[:, :2]])
    expected, residual, *_ = np.linalg.lstsq(design, rows[:, 2])
    assert list(model.coefficients) == ["intercept", "a", "b"]
    np.testing.assert_allclose(list(model.coefficients.values()), expected, rtol=1e-8)
    total = ((rows[:, 2] - rows[:, 2].mean()) ** 2).sum()
    assert model.r2 == pytest.approx(1 - residual[0] / total)


@given(st.integers(0, 2**32 - 1), st.sampled_from((0.1, 1.0, 100.0)))
@settings(max_examples=20, deadline=None)
def test_a_ridge_is_least_squares_with_rows_for_the_penalty(seed: int, penalty: float) -> None:
    rows = sample(seed)
    model = linear_model(cofactor(rows), NAMES, "y", penalty)
    centred = rows - rows.mean(axis=0)
    design = np.vstack([centred[:, :2], np.sqrt(penalty) * np.eye(2)])
    expected, *_ = np.linalg.lstsq(design, np.append(centred[:, 2], [0.0, 0.0]))
    found = [model.coefficients[name] for name in ("a", "b")]
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    intercept = rows[:, 2].mean() - expected @ rows[:, :2].mean(axis=0)
    assert model.coefficients["intercept"] == pytest.approx(intercept)


def test_the_label_may_be_any_feature() -> None:
    rows = sample(1)
    model = linear_model(cofactor(rows), NAMES, "a")
    design = np.column_stack([np.ones(len(rows)), rows[:, 1:]])
    expected, *_ = np.linalg.lstsq(design, rows[:, 0])
    np.testing.assert_allclose(list(model.coefficients.values()), expected, rtol=1e-6)


def test_exact_sums_keep_small_differences_of_large_numbers() -> None:
    """In floating point, 10⁹ + i squared loses what sets the rows apart."""
    rows = np.array([(1e9 + i, 0.0, 3.0 * i) for i in range(5)])
    model = linear_model(cofactor(rows), NAMES, "y")
    assert model.coefficients["a"] == pytest.approx(3.0, rel=1e-12)
    assert model.coefficients["b"] == 0.0
    assert model.r2 == pytest.approx(1.0)


def test_features_that_determine_each_other_share_the_effect() -> None:
    rows = np.array([(float(i), 2.0 * i, 5.0 * i) for i in range(4)])
    model = linear_model(cofactor(rows), NAMES, "y")
    assert model.coefficients["a"] + 2 * model.coefficients["b"] == pytest.approx(5.0)


def test_a_constant_label_has_no_r2() -> None:
    model = linear_model(cofactor(np.array([(1.0, 2.0, 7.0), (2.0, 1.0, 7.0)])), NAMES, "y")
    assert model.r2 is None
    assert model.coefficients["intercept"] == pytest.approx(7.0)


def test_principal_components() -> None:
    rows = sample(2)
    found = principal_components(cofactor(rows), NAMES)
    covariance = np.cov(rows, rowvar=False)
    np.testing.assert_allclose(found.variances, np.linalg.eigvalsh(covariance)[::-1], rtol=1e-6)
    for direction, variance in zip(found.directions, found.variances, strict=True):
        np.testing.assert_allclose(covariance @ direction, variance * direction, atol=1e-6)
    np.testing.assert_allclose(found.directions @ found.directions.T, np.eye(3), atol=1e-12)
    np.testing.assert_allclose(list(found.means.values()), rows.mean(axis=0))


def test_what_cannot_be_learned_is_refused() -> None:
    with pytest.raises(DefinitionError, match="no rows"):
        linear_model(cofactor(np.empty((0, 3))), NAMES, "y")
    with pytest.raises(UnknownNameError, match="unknown feature 'z'"):
        linear_model(cofactor(sample(0)), NAMES, "z")
    with pytest.raises(DefinitionError, match="given 2 names"):
        linear_model(cofactor(sample(0)), NAMES[:2], "b")
    with pytest.raises(DefinitionError, match="negative"):
        linear_model(cofactor(sample(0)), NAMES, "y", -1.0)
