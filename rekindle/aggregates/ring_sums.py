"""Sums in a ring that a user defined (`algebra.ring_sums`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator
from rekindle.aggregates.base import Buffers, Exactness, LinearAggregate, Members, Use
from rekindle.algebra.ring_sums import RingSum, StoredSum
from rekindle.errors import DefinitionError, EvaluationError
from rekindle.traces.arrays import Int64s
from rekindle.traces.ring_values import RingValues
from rekindle.traces.values import Columns, ValueColumns


@runtime_checkable
class Carrying(Protocol):
    """A last step that has the text of a `StoredSum` with it."""

    @property
    def sum(self) -> str: ...


class RingSums(LinearAggregate):
    """finish(Σ lift(x, y...)), as the use's `RingSum` says, or the stored form of one."""

    tag = "ring"
    exactness = Exactness.AS_GIVEN

    def total(self, use: Use, members: Members) -> tuple[Any, ...]:
        function = _function(use)
        value = function.total([(arguments, weight) for arguments, weight, _ in members])
        return (value != function.group.zero, value)

    def result(self, use: Use, value: tuple[Any, ...]) -> Any:
        return _function(use).finish(value[1])

    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        if not isinstance(use.finish, Carrying):
            raise DefinitionError(f"the sum of '{use.name}' has no stored form")
        return SumInRing(inputs, StoredSum.parse(use.finish.sum), buffers[0])


def _function(use: Use) -> RingSum[Any]:
    if not isinstance(use.finish, RingSum):
        raise DefinitionError(f"the sum of '{use.name}' is one that only Spark can do")
    return use.finish


@dataclass(frozen=True, slots=True)
class SumInRing:
    """finish(Σ lift(x, y...)) over rows without a NULL. Buffer: the result."""

    inputs: tuple[str, ...]
    sum: StoredSum
    type: Any

    @property
    def buffer_types(self) -> tuple[Any, ...]:
        return (self.type,)

    def values(self, prefix: str) -> tuple[ValueColumns, ...]:
        return (self._values(prefix),)

    def lift(self, inputs: Sequence[Any], weights: Int64s) -> list[Columns]:
        function = self.sum.load()
        rows = zip(*(column.to_pylist() for column in inputs), strict=True)
        pairs = zip(rows, weights.tolist(), strict=True)
        with _explained("a row cannot be added to a ring sum"):
            return [self._values("").encoded(function.lifted(row, weight) for row, weight in pairs)]

    def buffers(self, values: Sequence[Columns]) -> list[Any]:
        finish = self.sum.load().finish
        with _explained(f"the last step of a ring sum gives no {self.type}"):
            found = [finish(value) for value in self._values("").decoded(values[0])]
            return [pa.array(found, self.type)]

    def _values(self, prefix: str) -> RingValues:
        return RingValues(f"{prefix}_ring", self.sum.group)


@contextmanager
def _explained(what: str) -> Iterator[None]:
    """Whatever a user's function raises, as an error of the step."""
    try:
        yield
    except Exception as error:
        raise EvaluationError(
            what,
            detail=f"{type(error).__name__}: {error}",
            hint="`lift` takes the columns of a row, `finish` gives a value of the type `returns`",
        ) from error
