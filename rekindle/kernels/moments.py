"""Second moments: variance, standard deviation, covariance, correlation.

Kept are the exact sums n, Σx, Σx² (and Σy, Σxy, Σy²), which are linear in the input. Spark's buffers
are means and central moments. The textbook difference Σx² - (Σx)²/n cancels, so the sums are first
shifted, exactly, by the rounded mean c:

    Σ(x-c)(y-d) = Σxy - d·Σx - c·Σy + n·c·d            (exact)
    Σ(x-x̄)(y-ȳ) = Σ(x-c)(y-d) - Σ(x-c)·Σ(y-d) / n      (a tiny correction)

Groups with a NaN or an infinity among their values have NaN moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rekindle.kernels.accumulators import counted, doubles, valid_rows
from rekindle.traces.arrays import Doubles, Int64s, integers
from rekindle.traces.exact_double import (
    ExactDouble,
    collect,
    entries,
    finite_entries,
    nearest,
    of_products,
    scaled,
    specials,
)
from rekindle.traces.values import Columns, ValueColumns, Weight

_EXACT = ExactDouble("")


@dataclass(frozen=True, slots=True)
class Moments:
    """var and stddev. Buffers: n, avg, m2, all double; 0 for a group without non-NULL inputs."""

    inputs: tuple[str, ...]

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.float64(),) * 3

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (
            Weight(f"{prefix}_count"),
            ExactDouble(f"{prefix}_x"),
            ExactDouble(f"{prefix}_xx"),
        )

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        count = counted(valid_rows(inputs), weights)
        x = doubles(inputs[0])
        return [(pa.array(count),), _EXACT.lift(x, count), _EXACT.lift_product(x, x, count)]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        count = integers(values[0][0])
        x = _centre(values[1][0], count)
        return [
            pa.array(count.astype(np.float64)),
            pa.array(x.mean),
            pa.array(_spread(values[2][0], x, count)),
        ]


@dataclass(frozen=True, slots=True)
class Comoments:
    """covar and corr of two inputs; rows with a NULL in either are skipped.

    Buffers: n, xAvg, yAvg, ck, xMk, yMk, all double; a covariance uses the first four.
    """

    inputs: tuple[str, ...]

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.float64(),) * 6

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        sums = (ExactDouble(f"{prefix}_{name}") for name in ("x", "y", "xy", "xx", "yy"))
        return (Weight(f"{prefix}_count"), *sums)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        count = counted(valid_rows(inputs), weights)
        x, y = doubles(inputs[0]), doubles(inputs[1])
        return [
            (pa.array(count),),
            _EXACT.lift(x, count),
            _EXACT.lift(y, count),
            _EXACT.lift_product(x, y, count),
            _EXACT.lift_product(x, x, count),
            _EXACT.lift_product(y, y, count),
        ]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        count = integers(values[0][0])
        x, y = _centre(values[1][0], count), _centre(values[2][0], count)
        products = (
            _central_product(values[3][0], x, y, count),
            _spread(values[4][0], x, count),
            _spread(values[5][0], y, count),
        )
        numbers = (count.astype(np.float64), x.mean, y.mean, *products)
        return [pa.array(number) for number in numbers]


class _Centre(NamedTuple):
    """A sum and the point it is shifted by; `mean` is the point, or NaN where it has none."""

    sums: Any
    point: Doubles
    mean: Doubles
    offset: Doubles


def _centre(sums: Any, count: Int64s) -> _Centre:
    with np.errstate(all="ignore"):
        total = nearest(sums)[0]
        mean = np.where(count == 0, 0.0, total / np.where(count == 0, 1, count))
    if specials(sums) is not None:
        mean = np.where(np.isfinite(mean), mean, np.nan)
    point = np.where(np.isfinite(mean), mean, 0.0)
    one = np.ones(len(point))
    shifted = collect(len(point), [entries(sums), *of_products(point, one, -count)])
    return _Centre(sums, point, mean, nearest(shifted)[0])


def _central_product(products: Any, x: _Centre, y: _Centre, count: Int64s) -> Doubles:
    rows = len(count)
    shifted = collect(
        rows,
        [
            entries(products),
            *scaled(finite_entries(x.sums), y.point, -1),
            *scaled(finite_entries(y.sums), x.point, -1),
            *of_products(x.point, y.point, count),
        ],
    )
    with np.errstate(all="ignore"):
        correction = x.offset * y.offset / np.where(count == 0, 1, count)
        result = nearest(shifted)[0] - correction
        defined = np.isfinite(x.mean) & np.isfinite(y.mean)
    return np.where(defined, result, np.nan)


def _spread(squares: Any, x: _Centre, count: Int64s) -> Doubles:
    """Σ(x-x̄)², never below zero; NaN stays NaN."""
    return np.maximum(_central_product(squares, x, x, count), 0.0)
