"""Models from a cofactor value: what regression and principal components need is in its sums.

A cofactor holds n, Σxᵢ and Σxᵢxⱼ of a relation that may be a join which is never computed. The
sums of squares about the means, n·Σxᵢxⱼ − Σxᵢ·Σxⱼ, are formed in the ring's own scalars, so over
the rationals nothing cancels; only then do floating point numbers begin.

Ridge regression minimises Σ(y − a − b·x)² + penalty·|b|²; the intercept is not penalised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import isclose
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rekindle.algebra.cofactor import Cofactor
from rekindle.errors import DefinitionError, unknown_name

N = TypeVar("N", Fraction, int, float)
Matrix: TypeAlias = NDArray[np.float64]

INTERCEPT = "intercept"


@dataclass(frozen=True, slots=True)
class LinearModel:
    """Coefficients by feature with the intercept, and the share of the variance they explain.

    `r2` is None where the label is the same in all rows.
    """

    coefficients: dict[str, float]
    r2: float | None


@dataclass(frozen=True, slots=True)
class PrincipalComponents:
    """Directions of decreasing variance, one a row, about the means of the features."""

    means: dict[str, float]
    directions: Matrix
    variances: Matrix


@dataclass(frozen=True, slots=True)
class _Moments:
    """The number of rows, the means, and the sums of products about the means."""

    count: float
    means: Matrix
    scatter: Matrix


def _moments(cofactor: Cofactor[N], names: Sequence[str]) -> _Moments:
    if len(names) != len(cofactor.sums):
        raise DefinitionError(
            f"a cofactor of {len(cofactor.sums)} features is given {len(names)} names",
            detail=", ".join(names),
        )
    n = cofactor.count
    if n <= 0:
        raise DefinitionError("there are no rows to learn from")
    sums, products = cofactor.sums, cofactor.products
    places = range(len(sums))
    scatter = [
        [float((n * products[i][j] - sums[i] * sums[j]) / n) for j in places] for i in places
    ]
    means = np.array([float(value / n) for value in sums])
    return _Moments(float(n), means, np.array(scatter).reshape(len(sums), len(sums)))


def linear_model(
    cofactor: Cofactor[N], names: Sequence[str], label: str, penalty: float = 0.0
) -> LinearModel:
    """The regression of the label on all other features; a ridge where there is a penalty.

    >>> from rekindle.algebra.cofactor import CofactorRing
    >>> from rekindle.algebra.groups import RATIONALS
    >>> ring = CofactorRing(2, RATIONALS)
    >>> rows = [(1, 3), (2, 5), (3, 7)]
    >>> lifted = [ring.multiply(ring.lift(0, Fraction(x)), ring.lift(1, Fraction(y)))
    ...           for x, y in rows]
    >>> total = ring.add(ring.add(lifted[0], lifted[1]), lifted[2])
    >>> model = linear_model(total, ["x", "y"], "y")
    >>> {name: round(value, 9) for name, value in model.coefficients.items()}, model.r2
    ({'intercept': 1.0, 'x': 2.0}, 1.0)
    """
    if label not in names:
        raise unknown_name("feature", label, names)
    if penalty < 0:
        raise DefinitionError(f"the penalty {penalty} of a ridge regression is negative")
    moments = _moments(cofactor, names)
    at = list(names).index(label)
    rest = [i for i in range(len(names)) if i != at]
    squares = moments.scatter[np.ix_(rest, rest)]
    slopes = _solved(squares + penalty * np.eye(len(rest)), moments.scatter[rest, at])
    intercept = float(moments.means[at] - slopes @ moments.means[rest])
    named = zip((names[i] for i in rest), map(float, slopes), strict=True)
    total = float(moments.scatter[at, at])
    left = total - 2 * slopes @ moments.scatter[rest, at] + slopes @ squares @ slopes
    r2 = None if isclose(total, 0.0, abs_tol=1e-300) else float(1 - left / total)
    return LinearModel({INTERCEPT: intercept, **dict(named)}, r2)


def _solved(matrix: Matrix, right: Matrix) -> Matrix:
    """The least-squares solution, on features of unit variance: units may differ by magnitudes.

    Of features that determine each other the solution of least norm is taken.
    """
    scale = np.sqrt(np.diag(matrix))
    scale[scale == 0.0] = 1.0
    solution: Matrix = np.linalg.lstsq(matrix / np.outer(scale, scale), right / scale)[0]
    return solution / scale


def principal_components(cofactor: Cofactor[N], names: Sequence[str]) -> PrincipalComponents:
    """The principal components of the features, of their covariance over n − 1."""
    moments = _moments(cofactor, names)
    covariance = moments.scatter / max(1.0, moments.count - 1)
    variances, vectors = np.linalg.eigh(covariance)
    # eigh gives variances in rising order and vectors as columns; a direction's sign is free, so
    # its largest entry is made positive.
    directions = vectors.T[::-1]
    largest = np.abs(directions).argmax(axis=1)
    signs = np.sign(directions[np.arange(len(directions)), largest])
    return PrincipalComponents(
        dict(zip(names, map(float, moments.means), strict=True)),
        directions * signs[:, None],
        np.maximum(variances[::-1], 0.0),
    )
