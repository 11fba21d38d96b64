"""Values of a ring that a user sums in, kept as bytes.

A value of a ring of `rekindle.algebra` is kept plain (`algebra/plain.py`) and never read in another
way; one of a ring that a user wrote is pickled, and read only for views that are trusted. Zero is
always the empty string, whatever the ring's zero looks like, so a value
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

from rekindle.algebra import plain
from rekindle.algebra.groups import Group, total
from rekindle.algebra.ring_sums import load_group
from rekindle.errors import CorruptionError, EvaluationError
from rekindle.traces.arrays import Booleans, Int64s
from rekindle.traces.values import Columns

ABSENT = b""


@dataclass(frozen=True, slots=True)
class RingValues:
    """One binary column of values of the group that the bytes `group` stand for."""

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
        return self._bytes(total(_ring(self.group), map(self._value, present)))

    def _bytes(self, value: Any) -> bytes:
        if value == _ring(self.group).zero:
            return ABSENT
        if not plain.is_plain(self.group):
            return pickle.dumps(value)
        written = plain.dumps(value)
        if written is None:
            raise EvaluationError(
                f"a value of the ring {_ring(self.group)!r} cannot be stored",
                detail=f"it holds something that is no number, text or date: {str(value)[:200]}",
                hint="lift rows to such values, or sum in a ring of your own",
            )
        return written

    def _value(self, data: bytes) -> Any:
        if data == ABSENT:
            return _ring(self.group).zero
        if not plain.is_plain(self.group):
            return pickle.loads(data)
        try:
            return plain.loads(data)
        except ValueError as error:
            raise CorruptionError(
                "a stored value is none of its ring",
                detail=str(error)[:200],
                hint="DROP the view that sums in the ring, and create it again",
            ) from error


@lru_cache(maxsize=256)
def _ring(group: bytes) -> Group[Any]:
    found: Group[Any] = load_group(group)
    return found
