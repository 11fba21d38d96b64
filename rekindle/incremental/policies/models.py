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
    squares: Matrix
    """Σxᵢ², about zero: what the rounding of a sum is relative to."""


def _moments(cofactor: Cofactor[N], names: Sequence[str]) -> _Moments:
    if len(names) != len(cofactor.sums):
        raise DefinitionError(
            f"a cofactor of {len(cofactor.sums)} features is given {len(names)} names",
            detail=", ".join(names),
        )
    n = cofactor.count
    if n <= 0:
        raise DefinitionError("there are no rows to learn from")
    size = len(names)
    scatter = np.zeros((size, size))
    for i, row in enumerate(cofactor.products):
        for j, product in enumerate(row[: i + 1]):
            about = _about_means(product, cofactor.sums[i], cofactor.sums[j], n)
            scatter[i, j] = scatter[j, i] = about
    means = np.array([float(value / n) for value in cofactor.sums])
    squares = np.array([float(cofactor.products[i][i]) for i in range(size)])
    return _Moments(float(n), means, scatter, squares)


def _about_means(product: N, one: N, other: N, n: N) -> float:
    """Σxy − Σx·Σy/n, rounded once. As whole numbers: fractions would be reduced at each step."""
    p, q = product.as_integer_ratio()
    a, b = one.as_integer_ratio()
    c, d = other.as_integer_ratio()
    rows, parts = n.as_integer_ratio()
    common = b * d * rows
    return (p * common - q * a * c * parts) / (q * common)


def linear_model(
    cofactor: Cofactor[N],
    names: Sequence[str],
    label: str,
    penalty: float = 0.0,
    rounding: float = 0.0,
) -> LinearModel:
    """The regression of the label on all other features; a ridge where there is a penalty.

    The entries of the cofactor are exact to within the share `rounding` of the sums of squares. Of
    features that determine each other, as far as that can be told, the smallest coefficients in the
    sense of least squares are taken.

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
    right = moments.scatter[rest, at]
    if penalty > 0:
        slopes = _solved_ridge(squares + penalty * np.eye(len(rest)), right)
    else:
        slopes = _solved(squares, right, rounding * moments.squares[rest])
    intercept = float(moments.means[at] - slopes @ moments.means[rest])
    named = zip((names[i] for i in rest), map(float, slopes), strict=True)
    total = float(moments.scatter[at, at])
    left = total - 2 * slopes @ right + slopes @ squares @ slopes
    constant = total <= max(1e-300, rounding * moments.squares[at])
    r2 = None if constant else float(1 - left / total)
    return LinearModel({INTERCEPT: intercept, **dict(named)}, r2)


def _solved_ridge(matrix: Matrix, right: Matrix) -> Matrix:
    scale = np.sqrt(np.diag(matrix))
    solution: Matrix = np.linalg.solve(matrix / np.outer(scale, scale), right / scale)
    return solution / scale


def _solved(matrix: Matrix, right: Matrix, blur: Matrix) -> Matrix:
    """The least-squares solution of least norm, where entry i, j is known to √(blurᵢ·blurⱼ).

    It is found on features of unit variance, since units may differ by magnitudes. A direction in
    which the features vary by no more than rounding is not followed; what it adds to the norm of
    the solution in the features' own units is taken off.
    """
    varies = np.diag(matrix) > 4 * blur
    scale = np.sqrt(np.where(varies, np.diag(matrix), 1.0))
    unit = np.where(np.outer(varies, varies), matrix, 0.0) / np.outer(scale, scale)
    lengths, directions = np.linalg.eigh(unit)
    noise = 4 * (np.abs(directions).T @ np.sqrt(blur * varies / scale**2)) ** 2
    followed = lengths > len(lengths) * np.finfo(float).eps * lengths.max(initial=0.0) + noise
    along = directions[:, followed]
    solution: Matrix = along @ ((along.T @ (right / scale)) / lengths[followed]) / scale
    free = directions[:, ~followed] / scale[:, None]
    return solution - free @ np.linalg.lstsq(free, solution)[0]


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
