"""Vectors of exact sums of doubles, one list column for all the elements.

A vector is a sparse integer like the sums of `exact_double`, whose places are those of one element
after those of another. There is room for a carry above each element, so none reaches the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rekindle.traces.arrays import Doubles, Int64s
from rekindle.traces.exact_double import (
    PLACES,
    Matrix,
    SparseIntegers,
    Terms,
    collect,
    entries,
    nearest,
    of_doubles,
    of_sums,
)
from rekindle.traces.values import Columns


@dataclass(frozen=True, slots=True)
class ExactVector(SparseIntegers):
    """The ring of vectors of exact sums, one list<int64> column."""

    width: int

    def lift(self, x: Matrix, weights: Int64s) -> Columns:
        """Each row of a matrix times its weight."""
        terms = of_doubles(np.ascontiguousarray(x).reshape(-1), np.repeat(weights, self.width))
        return (collect(len(x), map(self._side_by_side, terms)),)

    def total(self, x: Matrix, weights: Int64s, starts: Int64s) -> Columns:
        """The sum of the weighted rows of each segment, as `reduce` of `lift` gives it."""
        return (collect(len(starts), map(self._side_by_side, of_sums(x, weights, starts))),)

    def nearest(self, column: Any) -> Doubles:
        """The doubles nearest to the elements, a row of a matrix for each vector."""
        row, place, digit = entries(column)
        each = Terms(row * self.width + place // PLACES, place % PLACES, digit)
        flat = collect(len(column) * self.width, [each])
        found: Doubles = nearest(flat)[0].reshape(len(column), self.width)
        return found

    def _side_by_side(self, terms: Terms) -> Terms:
        row, place, digit = terms
        return Terms(row // self.width, row % self.width * PLACES + place, digit)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "exact_vector", "name": self.name, "width": self.width}
