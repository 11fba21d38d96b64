"""The first rows of groups in an order, on Arrow columns.

For types that Arrow orders as Spark does (`rekindle.spark.vectors`) there is no need to ask Spark.
A column of any type becomes the ranks of its values, so that one sort of integers puts all rows of
all groups in their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import Int64s, single_chunk

Codes = npt.NDArray[np.uint64]


class Direction(Enum):
    """Which values come first."""

    ASCENDING = "ascending"
    DESCENDING = "descending"


class Missing(Enum):
    """Where NULLs come."""

    FIRST = "first"
    LAST = "last"


class Level(Enum):
    """What becomes of rows that an order leaves level."""

    APART = "row_number()"
    TOGETHER = "rank()"


@dataclass(frozen=True, slots=True)
class Sorted:
    """A column that rows are ordered by."""

    position: int
    direction: Direction
    nulls: Missing


@dataclass(frozen=True, slots=True)
class Top:
    """The rows of each moment and group whose place in an order is above `offset`, up to `last`."""

    keys: tuple[int, ...]
    order: tuple[Sorted, ...]
    level: Level
    offset: int
    last: int

    def run(self, rows: Any) -> Any:
        """Of a table of the moment and columns those rows; the moment is their weight."""
        columns = [single_chunk(column) for column in rows.columns]
        groups = [_codes(columns[i]) for i in (0, *(1 + key for key in self.keys))]
        values = [_codes(columns[1 + s.position], s.direction, s.nulls) for s in self.order]
        sorted_ = np.lexsort([*reversed(values), *reversed(groups)])
        begun = _begins([codes[sorted_] for codes in groups])
        place = np.arange(len(sorted_))
        if self.level is Level.TOGETHER:
            place = _begins([codes[sorted_] for codes in (*groups, *values)])
        number = place - begun + 1
        return rows.take(pa.array(sorted_[(number > self.offset) & (number <= self.last)]))


def _codes(
    column: Any, direction: Direction = Direction.ASCENDING, nulls: Missing = Missing.FIRST
) -> Codes:
    """Numbers in the order of the values, the same for equal ones."""
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    found: Codes = pc.rank(column, direction.value, tiebreaker="dense").to_numpy()
    if nulls is Missing.FIRST and column.null_count:
        # Ranks begin with 1, and NULLs have the last one.
        found = np.where(column.is_null().to_numpy(zero_copy_only=False), np.uint64(0), found)
    return found


def _begins(codes: Sequence[Codes]) -> Int64s:
    """For each row of some sorted columns, the first row that is equal to it in all of them."""
    size = len(codes[0])
    differs = np.zeros(size, dtype=bool)
    for column in codes:
        differs[1:] |= column[1:] != column[:-1]
    begins: Int64s = np.maximum.accumulate(np.where(differs, np.arange(size), 0))
    return begins
