"""Moments of third and fourth order: skewness and kurtosis.

Kept are the exact sums n, Σx, Σx², Σx³, Σx⁴, linear in the input. Spark's buffers are the mean and
central moments. The sums are shifted by the rounded mean c, exactly, one degree after the other:

    Tₖ = Σ(x-c)ᵏ = Σⱼ (k over j) (-c)ᵏ⁻ʲ Σxʲ                                (exact)
    Σ(x-x̄)³ = T₃ - 3δT₂ + 2nδ³,   Σ(x-x̄)⁴ = T₄ - 4δT₃ + 6δ²T₂ - 3nδ⁴     with δ = T₁/n, tiny

Groups with a NaN or an infinity among their values have NaN moments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator, counted, doubles, valid_rows
from rekindle.aggregates.base import Buffers, LinearAggregate, Use, called
from rekindle.aggregates.moments import spread, sum_of
from rekindle.traces.arrays import Doubles, Int64s, integers, take
from rekindle.traces.exact_double import (
    ExactDouble,
    collect,
    entries,
    nearest,
    of_doubles,
    scaled,
    specials,
)
from rekindle.traces.values import Columns, ValueColumns, Weight

_EXACT = ExactDouble("")
_SMALLEST = 2.0**-500
"""A mean below is not worth shifting by: third powers are below the range of doubles."""


class FourthMoments(LinearAggregate):
    """n, Σx, Σx², Σx³, Σx⁴; which quotient of them is wanted, the use's own last step says."""

    tag = "higher_moments"
    calls = called("Skewness", "Kurtosis")
    sums = 4

    def lifted(self, *arguments: Any) -> tuple[Any, ...]:
        (x,) = arguments
        return (x, x**2, x**3, x**4)

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return HigherMoments(inputs)


@dataclass(frozen=True, slots=True)
class HigherMoments:
    """Buffers: n, avg, m2, m3, m4, all double; 0 for a group without non-NULL inputs."""

    inputs: tuple[str, ...]

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.float64(),) * 5

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        sums = (ExactDouble(f"{prefix}_{name}") for name in ("x", "xx", "xxx", "xxxx"))
        return (Weight(f"{prefix}_count"), *sums)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        count = counted(valid_rows(inputs), weights)
        x = doubles(inputs[0])
        return [
            (pa.array(count),),
            _EXACT.lift(x, count),
            _EXACT.lift_product(x, x, count),
            _EXACT.lift_power(x, 3, count),
            _EXACT.lift_power(x, 4, count),
        ]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        count = integers(values[0][0])
        sums = [columns[0] for columns in values[1:]]
        x = sum_of(sums[0], count)
        moments = (spread(sums[1], x, count), *_central(sums, x.mean, count))
        return [pa.array(number) for number in (count.astype(np.float64), x.mean, *moments)]


def _central(sums: Sequence[Any], mean: Doubles, count: Int64s) -> tuple[Doubles, Doubles]:
    """Σ(x-x̄)³ and Σ(x-x̄)⁴ from the sums of the first four powers of x."""
    defined = count > 1
    for total in sums[:-1]:
        special = specials(total)
        if special is not None:
            defined &= special == 0.0
    third, fourth = np.where(count > 1, np.nan, 0.0), np.where(count > 1, np.nan, 0.0)
    rows = np.flatnonzero(defined)
    if len(rows):
        count = count[rows]
        t1, t2, t3, t4 = _shifted([take(total, rows) for total in sums], mean[rows], count)
        with np.errstate(all="ignore"):
            offset = t1 / count
            third[rows] = t3 - 3 * offset * t2 + 2 * count * offset**3
            fourth[rows] = t4 - 4 * offset * t3 + 6 * offset**2 * t2 - 3 * count * offset**4
    return third, fourth


def _shifted(sums: Sequence[Any], mean: Doubles, count: Int64s) -> list[Doubles]:
    """Σ(x-c)ᵏ for every degree k of the sums, exact but for the last rounding.

    Only the last of them may be NaN, since only that one is never scaled.
    """
    rows = len(count)
    point = np.where(np.abs(mean) < _SMALLEST, 0.0, mean)
    # Element j is the sum of the j-th powers times the power of -c that brings it to the degree.
    raised = [collect(rows, of_doubles(np.ones(rows), count))]
    found = []
    for degree, total in enumerate(sums, start=1):
        raised = [collect(rows, scaled(entries(part), point, -1)) for part in raised] + [total]
        terms = [
            part._replace(digit=part.digit * comb(degree, j))
            for j, part in enumerate(map(entries, raised))
        ]
        found.append(nearest(collect(rows, terms))[0])
    return found
