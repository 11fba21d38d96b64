"""Words of bits under exclusive or, 64 of the group of two elements side by side.

Every word is its own negative, and a row counts by whether its weight is odd: what was deleted as
often as it was inserted is gone, as in any other ring.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import Int64s, integers
from rekindle.traces.values import Columns, Words


@dataclass(frozen=True, slots=True)
class Parities(Words):
    """One int64 column, added by exclusive or."""

    def reduce(self, columns: Columns, starts: Int64s) -> Columns:
        return (pa.array(np.bitwise_xor.reduceat(integers(columns[0]), starts)),)

    def negate(self, columns: Columns) -> Columns:
        return (columns[0],)

    def lift(self, words: Int64s, weights: Int64s) -> Columns:
        """Each word as often as its weight says."""
        return (pa.array(words * (weights & 1)),)

    def to_json(self) -> dict[str, Any]:
        return {"kind": "parities", "name": self.name}
