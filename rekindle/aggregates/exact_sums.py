"""Products of doubles multiplied out and added without rounding (`algebra.exact_sums`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator
from rekindle.aggregates.base import Buffers, LinearAggregate, Members, Use
from rekindle.algebra.exact_sums import ROUNDED, ExactSum
from rekindle.algebra.real_products import RealProducts
from rekindle.traces.arrays import Int64s
from rekindle.traces.exact_double import collect
from rekindle.traces.exact_product import (
    ExactProduct,
    factors_of,
    multiplied,
    rounded,
    weighted,
    with_sign,
)
from rekindle.traces.values import Columns, ValueColumns


class ExactSums(LinearAggregate):
    """The sum of signed products that the use's `ExactSum` says; it counts no rows."""

    tag = "exact_sum"
    is_mergeable = True

    def total(self, use: Use, members: Members) -> tuple[Any, ...]:
        exact = _sum(use).total([(arguments, weight) for arguments, weight, _ in members])
        return (exact if any(exact.counts) or exact.total else None,)

    def result(self, use: Use, value: tuple[Any, ...]) -> Any:
        return _sum(use).finished(value[0] or RealProducts().zero)

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return SumExactly(inputs, _sum(use))


def _sum(use: Use) -> ExactSum:
    assert isinstance(use.finish, ExactSum)
    return use.finish


@dataclass(frozen=True, slots=True)
class SumExactly:
    """Σ ±p of lists of factors. Buffer: the double nearest to it, or a list of one factor.

    It counts no rows: what it adds up is a product of numbers of rows already.
    """

    inputs: tuple[str, ...]
    sum: ExactSum

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.float64() if self.sum.gives == ROUNDED else pa.list_(pa.float64()),)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (ExactProduct(f"{prefix}_sum"),)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return self.total(inputs, weights, np.arange(len(weights)))

    def total(self, inputs: Sequence[Any], weights: Int64s, starts: Int64s) -> list[Columns]:
        """The sum of the rows of each segment."""
        segment = np.zeros(len(weights), dtype=np.int64)
        segment[starts[1:]] = 1
        segment = np.cumsum(segment)
        terms = [
            part._replace(row=segment[part.row])
            for column, sign in zip(inputs, self.sum.signs, strict=True)
            for part in weighted(with_sign(multiplied(column), sign), weights)
        ]
        return [(collect(len(starts), terms),)]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        (column,) = values[0]
        if self.sum.gives == ROUNDED:
            return [pa.array(rounded(column), from_pandas=False)]
        return [factors_of(column)]
