"""Stages on Arrow columns, without the JVM, where they only need what Arrow and numpy have.

Much of what joins, arrangements and recursions do to a row is to compare two columns, leave some
out and hash the rest. A call into the JVM costs milliseconds whatever the size, and more than the
work itself for many rows. Every other stage is Spark's (`compiled_stages.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rekindle.spark.identity import Identity, marks
from rekindle.spark.stages import MARKS, Rowwise
from rekindle.spark.vectors import Vector, Vectors
from rekindle.traces.arrays import WEIGHT, single_chunk


@dataclass(frozen=True, slots=True)
class Columnar:
    """The rows on which `predicate` holds, as named `columns`, and an identity for each."""

    names: tuple[str, ...]
    predicate: Vector | None
    columns: tuple[Vector, ...]
    identity: Identity | None

    def run(self, rows: Sequence[Any]) -> list[Any]:
        """Arrays of weights and columns through this stage."""
        if self.predicate is not None:
            rows = _where(_expanded(self.predicate(rows[1:]), len(rows[0])), rows)
        weight, *inputs = rows
        given = [_expanded(column(inputs), len(weight)) for column in self.columns]
        added = [] if self.identity is None else marks(self.identity, given, len(weight))
        return [weight, *given, *added]


def through(stages: Sequence[Columnar], table: pa.Table) -> pa.Table:
    """The rows that stages, one after the other, make of a table of `_weight` and columns."""
    rows: Sequence[Any] = [single_chunk(column) for column in table.columns]
    for stage in stages:
        rows = stage.run(rows)
    return pa.Table.from_arrays(rows, names=[WEIGHT, *stages[-1].names])


def _where(mask: Any, rows: Sequence[Any]) -> Sequence[Any]:
    """The rows at which the mask is true, mostly all of them."""
    return rows if mask.true_count == len(mask) else [column.filter(mask) for column in rows]


def _expanded(value: Any, rows: int) -> Any:
    return pa.repeat(value, rows) if isinstance(value, pa.Scalar) else value


def columnar(stage: Rowwise) -> Columnar | None:
    """The stage, if all of it has a shape that is known here."""
    if stage.marks is not None and stage.identity is None:
        return None
    vectors = Vectors(stage.attributes)
    predicate = None
    if stage.predicate is not None:
        predicate = vectors.vector(stage.predicate)
        if predicate is None:
            return None
    columns = []
    for output in stage.columns:
        found = vectors.vector(output.expression)
        if found is None:
            return None
        columns.append(found)
    names = [output.name for output in stage.columns]
    if stage.identity is not None:
        names += MARKS
    return Columnar(tuple(names), predicate, tuple(columns), stage.identity)
