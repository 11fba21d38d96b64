"""Rows that kernels give for ranges of the key-hash space, before Spark has seen any of them.

Where the stages after a kernel need no expression of Spark (`columnar.py`), they run in the task
that runs the kernel, on the same Arrow columns. Rows only become Spark's where a stage needs it,
so that filling a sum over a table is one pass over its mapped files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.errors import EvaluationError
from rekindle.spark.columnar import Columnar, through
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.partition import KeyRange, key_ranges

PartitionKernel: TypeAlias = Callable[[KeyRange], Iterator[Any]]
Tables: TypeAlias = Iterator[Any]


@dataclass(frozen=True, slots=True)
class Ranged:
    """Tables of one schema that each part's kernel gives for each of its ranges."""

    parts: tuple[tuple[PartitionKernel, int], ...]
    """Kernels, and into how many ranges the work of each is cut."""
    schema: pa.Schema

    @property
    def tasks(self) -> list[tuple[PartitionKernel, KeyRange]]:
        """Independent pieces of work, which together give all rows."""
        return [(kernel, each) for kernel, count in self.parts for each in key_ranges(count)]

    def passed(self, function: Callable[[Tables], Tables], schema: pa.Schema) -> Ranged:
        """What a function makes of the tables of each range."""
        return Ranged(tuple((_passed(k, function), n) for k, n in self.parts), schema)

    def select(self, names: Sequence[str]) -> Ranged:
        kept = list(names)
        return self.passed(
            lambda tables: (table.select(kept) for table in tables),
            pa.schema([self.schema.field(name) for name in kept]),
        )

    def negated(self) -> Ranged:
        return self.passed(lambda tables: map(_negated, tables), self.schema)

    def plus(self, other: Ranged) -> Ranged:
        return replace(self, parts=(*self.parts, *other.parts))

    def through(self, stages: Sequence[Columnar], schema: pa.Schema) -> Ranged:
        """The rows through stages; where they fail, Spark has to be asked for its own error."""

        def staged(tables: Tables) -> Tables:
            for table in tables:
                try:
                    rows = through(stages, table)
                except pa.ArrowInvalid as error:
                    raise EvaluationError("an expression failed on Arrow columns") from error
                if len(rows):
                    yield rows

        return self.passed(staged, schema)


def _passed(kernel: PartitionKernel, function: Callable[[Tables], Tables]) -> PartitionKernel:
    return lambda key_range: function(kernel(key_range))


def _negated(table: Any) -> Any:
    place = table.schema.get_field_index(WEIGHT)
    return table.set_column(place, WEIGHT, pc.negate(table.column(WEIGHT)))
