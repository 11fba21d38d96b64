"""Second moments: variance, standard deviation, covariance, correlation.

Kept are the exact sums n, Σx, Σx² (and Σy, Σxy, Σy²), linear in the input. Spark's buffers
are means and central moments. The textbook difference Σx² - (Σx)²/n cancels; where doubled
precision is not enough for it, the sums are first shifted, exactly, by the rounded means c, d:

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

from rekindle.aggregates.accumulators import Accumulator, counted, doubles, valid_rows
from rekindle.aggregates.base import Buffers, LinearAggregate, SparkForm, Use, called
from rekindle.aggregates.sums import quotient
from rekindle.traces.arrays import Doubles, Int64s, integers, take
from rekindle.traces.exact_double import (
    ExactDouble,
    collect,
    entries,
    nearest,
    of_products,
    scaled,
    specials,
    two_product,
)
from rekindle.traces.values import Columns, ValueColumns, Weight

_EXACT = ExactDouble("")


class SecondMoments(LinearAggregate):
    """n, Σx, Σx²: the population variance, or NULL when n = 0."""

    tag = "moments"
    calls = called("VariancePop", "VarianceSamp", "StddevPop", "StddevSamp", "RegrReplacement")
    sums = 2

    def lifted(self, *arguments: Any) -> tuple[Any, ...]:
        (x,) = arguments
        return (x, x * x)

    def finished(self, count: int, *sums: Any) -> Any:
        x, xx = sums
        return quotient(xx, count) - quotient(x, count) ** 2 if count else None

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return Moments(inputs)


# Of y and x in this order, from a covariance and a variance of the same x.
_LINE = SparkForm(arguments=(1, 0), buffers=(0, 1, 2, 3, 0, 1, 4))


class SecondComoments(LinearAggregate):
    """n, Σx, Σy, Σx², Σxy, Σy²: the population covariance, or NULL when n = 0."""

    tag = "comoments"
    calls = called("CovPopulation", "CovSample", "Corr", "RegrSXY", "RegrR2") | called(
        "RegrSlope", "RegrIntercept", form=_LINE
    )
    sums = 5

    def lifted(self, *arguments: Any) -> tuple[Any, ...]:
        x, y = arguments
        return (x, y, x * x, x * y, y * y)

    def finished(self, count: int, *sums: Any) -> Any:
        x, y, _, xy, _ = sums
        if not count:
            return None
        return quotient(xy, count) - quotient(x, count) * quotient(y, count)

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return Comoments(inputs)


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
        x = sum_of(values[1][0], count)
        return [
            pa.array(count.astype(np.float64)),
            pa.array(x.mean),
            pa.array(spread(values[2][0], x, count)),
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
        x, y = sum_of(values[1][0], count), sum_of(values[2][0], count)
        products = (
            _central_product(values[3][0], x, y, count),
            spread(values[4][0], x, count),
            spread(values[5][0], y, count),
        )
        numbers = (count.astype(np.float64), x.mean, y.mean, *products)
        return [pa.array(number) for number in numbers]


class Sum(NamedTuple):
    """An exact sum, the two doubles nearest to it, and the mean; NaN or inf where it has none."""

    exact: Any
    head: Doubles
    rest: Doubles
    mean: Doubles


def sum_of(exact: Any, count: Int64s) -> Sum:
    head, rest = nearest(exact)
    with np.errstate(all="ignore"):
        mean = np.where(count == 0, 0.0, head / np.maximum(count, 1))
    if specials(exact) is not None:
        mean = np.where(np.isfinite(mean), mean, np.nan)
    return Sum(exact, head, rest, mean)


def _central_product(products: Any, x: Sum, y: Sum, count: Int64s) -> Doubles:
    """Σ(x-x̄)(y-ȳ): in doubled precision, or by exact shifting where that cancels too much."""
    with np.errstate(all="ignore"):
        number = np.maximum(count, 1).astype(np.float64)
        head, rest = nearest(products)
        square, square_rest = two_product(x.head, y.head)
        square_rest += x.head * y.rest + x.rest * y.head
        quotient = square / number
        back, back_rest = two_product(quotient, number)
        quotient_rest = (square - back - back_rest + square_rest) / number
        difference = head - quotient
        # The rounding error of that difference, by Knuth's exact sum.
        shift = difference - head
        error = (head - (difference - shift)) - (quotient + shift)
        result = difference + (error + rest - quotient_rest)
        size = np.maximum(np.abs(head), np.abs(quotient))
        accurate = (np.abs(result) >= size * 2.0**-40) & (size > 1e-250) & (size < 1e250)
    defined = np.isfinite(x.mean) & np.isfinite(y.mean)
    result = np.where(defined, np.where(count > 1, result, 0.0), np.nan)
    cancelled = np.flatnonzero(defined & (count > 1) & ~accurate)
    if len(cancelled):
        result[cancelled] = _shifted_product(products, x, y, count, cancelled)
    return result


def _shifted_product(products: Any, x: Sum, y: Sum, count: Int64s, chosen: Int64s) -> Doubles:
    rows, count = len(chosen), count[chosen]
    x_sums, y_sums = take(x.exact, chosen), take(y.exact, chosen)
    x_point, y_point = x.mean[chosen], y.mean[chosen]
    one = np.ones(rows)
    x_offset, y_offset = (
        nearest(collect(rows, [entries(sums), *of_products(point, one, -count)]))[0]
        for sums, point in ((x_sums, x_point), (y_sums, y_point))
    )
    shifted = collect(
        rows,
        [
            entries(take(products, chosen)),
            *scaled(entries(x_sums), y_point, -1),
            *scaled(entries(y_sums), x_point, -1),
            *of_products(x_point, y_point, count),
        ],
    )
    with np.errstate(all="ignore"):
        return nearest(shifted)[0] - x_offset * y_offset / count


def spread(squares: Any, x: Sum, count: Int64s) -> Doubles:
    """Σ(x-x̄)², never below zero; NaN stays NaN."""
    return np.maximum(_central_product(squares, x, x, count), 0.0)
