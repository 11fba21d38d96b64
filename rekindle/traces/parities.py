"""Words of bits under exclusive or, 64 of the group of two elements side by side.

Every word is its own negative, and a row counts by whether its weight is odd: what was deleted as
often as it was inserted is gone, as in any other ring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import Booleans, Int64s, integers
from rekindle.traces.values import Columns


@dataclass(frozen=True, slots=True)
class Parities:
    """One int64 column, added by exclusive or."""

    name: str

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(self.name, pa.int64()),)

    def zeros(self, rows: int) -> Columns:
        return (pa.array(np.zeros(rows, dtype=np.int64)),)

    def reduce(self, columns: Columns, starts: Int64s) -> Columns:
        return (pa.array(np.bitwise_xor.reduceat(integers(columns[0]), starts)),)

    def is_zero(self, columns: Columns) -> Booleans:
        mask: Booleans = integers(columns[0]) == 0
        return mask

    def negate(self, columns: Columns) -> Columns:
        return (columns[0],)

    def lift(self, words: Int64s, weights: Int64s) -> Columns:
        """Each word as often as its weight says."""
        return (pa.array(words * (weights & 1)),)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "parities", "name": self.name}
