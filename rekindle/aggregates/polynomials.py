"""Sums of many products at once, a vector (`algebra.polynomials`), multiplied as matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator, valid_rows
from rekindle.aggregates.base import (
    Buffers,
    Exactness,
    LinearAggregate,
    Members,
    Use,
    added_up,
)
from rekindle.algebra.polynomials import Polynomials
from rekindle.traces.arrays import Int64s, single_chunk, take
from rekindle.traces.consolidate import key_starts
from rekindle.traces.exact_double import Matrix
from rekindle.traces.exact_vector import ExactVector
from rekindle.traces.values import Columns, ValueColumns


class PolynomialSums(LinearAggregate):
    """The vector of sums that the use's `Polynomials` says."""

    tag = "polynomials"
    exactness = Exactness.ROUNDED_PRODUCTS

    def total(self, use: Use, members: Members) -> tuple[Any, ...]:
        polynomials = _polynomials(use)
        return added_up(lambda *row: polynomials.products(row), len(polynomials.monomials), members)

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        return SumPolynomials(inputs, _polynomials(use))


def _polynomials(use: Use) -> Polynomials:
    assert isinstance(use.finish, Polynomials)
    return use.finish


@dataclass(frozen=True)
class SumPolynomials:
    """Sums of products of numbers and elements of vectors. Buffer: the vector of them.

    A product is rounded, once for each of its factors but the first; the sum of the products is
    exact. A row with a NULL among its arguments adds nothing.
    """

    inputs: tuple[str, ...]
    polynomials: Polynomials

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (pa.list_(pa.float64()),)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (self._ring(prefix),)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        return self.total(inputs, weights, np.arange(len(weights)))

    def total(self, inputs: Sequence[Any], weights: Int64s, starts: Int64s) -> list[Columns]:
        """The sum of the rows of each segment, as if they were lifted and added."""
        ring = self._ring("")
        valid = valid_rows(inputs)
        if valid is None:
            return [ring.total(self._products(inputs, len(weights)), weights, starts)]
        kept = np.flatnonzero(valid)
        if not len(kept):
            return [ring.zeros(len(starts))]
        segment = np.searchsorted(starts, kept, side="right") - 1
        first = key_starts(segment)
        some = [take(column, kept) for column in inputs]
        found = ring.total(self._products(some, len(kept)), weights[kept], first)
        return [_spread(ring, found, segment[first], len(starts))]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        matrix = self._ring("").nearest(values[0][0])
        rows, width = matrix.shape
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(width)
        return [pa.ListArray.from_arrays(pa.array(offsets), pa.array(matrix.reshape(-1)))]

    def _ring(self, name: str) -> ExactVector:
        return ExactVector(name, len(self.polynomials.monomials))

    def _products(self, inputs: Sequence[Any], rows: int) -> Matrix:
        """The products, a row of a matrix for each row."""
        given = [_matrix(single_chunk(column), rows) for column in inputs]
        # The factor that stands for none is a column of ones, before all others.
        base = np.concatenate([np.ones((rows, 1)), *given], axis=1)
        first = np.cumsum([1, *(matrix.shape[1] for matrix in given)])
        found: Matrix = np.ones((rows, len(self.polynomials.monomials)))
        with np.errstate(over="ignore", invalid="ignore"):
            for turn in self._turns:
                places = [0 if f is None else int(first[f[0]]) + (f[1] or 0) for f in turn]
                found = found * base[:, places]
        return found

    @cached_property
    def _turns(self) -> list[list[tuple[int, int | None] | None]]:
        """The first factors of all products, the second ones, and so on."""
        monomials = self.polynomials.monomials
        most = max(map(len, monomials), default=0)
        return [[m[i] if i < len(m) else None for m in monomials] for i in range(most)]


def _spread(ring: ExactVector, columns: Columns, places: Int64s, rows: int) -> Columns:
    """Vectors at their places among so many, all others zero."""
    (given,) = columns
    row = np.full(rows, len(given))
    row[places] = np.arange(len(given))
    return (take(pa.concat_arrays([given, *ring.zeros(1)]), row),)


def _matrix(column: Any, rows: int) -> npt.NDArray[np.float64]:
    """Numbers as one column, vectors as many; none is NULL."""
    if pa.types.is_list(column.type):
        found: Matrix = column.flatten().to_numpy(zero_copy_only=False)
        return found.reshape(rows, len(found) // max(1, rows))
    numbers: Matrix = column.to_numpy(zero_copy_only=False).astype(np.float64, copy=False)
    return numbers.reshape(rows, 1)
