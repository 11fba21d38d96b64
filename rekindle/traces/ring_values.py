"""Values of a ring that a user defined, kept as bytes.

A value is pickled; zero is always the empty string, whatever the ring's zero looks like, so a value
is absent exactly when the whole of it is zero. Addition is Python's, one value at a time: this is
slow beside the other rings, but it touches the changed groups only.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.algebra.groups import Group, total
from rekindle.traces.arrays import Booleans, Int64s
from rekindle.traces.values import Columns

ABSENT = b""


@dataclass(frozen=True, slots=True)
class RingValues:
    """One binary column of values of the pickled group `group`."""

    name: str
    group: bytes

    @property
    def fields(self) -> tuple[pa.Field, ...]:
        return (pa.field(self.name, pa.binary()),)

    def zeros(self, rows: int) -> Columns:
        return (pa.array([ABSENT] * rows, pa.binary()),)

    def reduce(self, columns: Columns, starts: Int64s) -> Columns:
        values = columns[0].to_pylist()
        ends = [*starts[1:].tolist(), len(values)]
        segments = zip(starts.tolist(), ends, strict=True)
        return (pa.array([self._sum(values[a:b]) for a, b in segments], pa.binary()),)

    def is_zero(self, columns: Columns) -> Booleans:
        mask: Booleans = np.array([value == ABSENT for value in columns[0].to_pylist()], dtype=bool)
        return mask

    def negate(self, columns: Columns) -> Columns:
        negated = map(_ring(self.group).negate, self.decoded(columns))
        return self.encoded(negated)

    def to_json(self) -> dict[str, Any]:
        group = base64.b64encode(self.group).decode()
        return {"kind": "ring", "name": self.name, "group": group}

    def encoded(self, values: Iterable[Any]) -> Columns:
        """Values of the ring as a column."""
        return (pa.array([self._bytes(value) for value in values], pa.binary()),)

    def decoded(self, columns: Columns) -> list[Any]:
        """The values that a column holds."""
        return [self._value(data) for data in columns[0].to_pylist()]

    def _sum(self, segment: list[bytes]) -> bytes:
        present = [data for data in segment if data != ABSENT]
        if len(present) <= 1:
            return present[0] if present else ABSENT
        return self._bytes(total(_ring(self.group), map(pickle.loads, present)))

    def _bytes(self, value: Any) -> bytes:
        return ABSENT if value == _ring(self.group).zero else pickle.dumps(value)

    def _value(self, data: bytes) -> Any:
        return _ring(self.group).zero if data == ABSENT else pickle.loads(data)


@lru_cache(maxsize=256)
def _ring(group: bytes) -> Group[Any]:
    found: Group[Any] = pickle.loads(group)
    return found
