"""Which rows of an integral nobody can look at any more: those below a bound.

An integral may have several readers, each of which has one or more columns whose bounds keep it
from looking at rows below them. A row goes if it is below some bound of every reader. NULL is below
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import Booleans


@dataclass(frozen=True, slots=True)
class Below:
    """Rows whose value in a column, or in a field of a struct, is less than a bound.

    Values are whole numbers, or times, which are compared as the numbers that stand for them.
    """

    column: str
    field: int
    """The field's place; negative for the column itself."""
    bound: int

    def rows(self, table: Any) -> Booleans:
        """Which rows these are."""
        values = table.column(self.column)
        if self.field >= 0:
            values = pc.struct_field(values, [self.field])
        if pa.types.is_date32(values.type):
            values = values.cast(pa.int32())
        below = pc.less(values.cast(pa.int64()), pa.scalar(self.bound, pa.int64()))
        return np.asarray(pc.fill_null(below, False).to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class Sieve:
    """For each reader of an integral the rows that it does not look at."""

    readers: tuple[tuple[Below, ...], ...]

    def left(self, table: Any) -> Any:
        """The rows of an arranged table that somebody may look at."""
        going = np.ones(len(table), dtype=bool)
        for reader in self.readers:
            unread = np.zeros(len(table), dtype=bool)
            for below in reader:
                unread |= below.rows(table)
            going &= unread
            if not going.any():
                return table
        return table.filter(pa.array(~going))


def sieve_of(readers: Sequence[Sequence[Below]]) -> Sieve | None:
    """The sieve of some readers; None if one of them may look at every row."""
    if not readers or not all(readers):
        return None
    return Sieve(tuple(map(tuple, readers)))
