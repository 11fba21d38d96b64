"""What becomes of a group: the bodies that the calculus itself knows.

Front ends have their own (`frontends.spark_sql.bodies`), opaque here beyond their schema and text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from rekindle.calculus.scalars import Row
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import Body, Measure


@runtime_checkable
class EvaluableBody(Body, Protocol):
    """A body with a meaning in Python."""

    def apply(self, key: Row, rows: Sequence[Row]) -> Iterable[Row]:
        """The rows made of a group's rows, each as often as its weight says."""


@dataclass(frozen=True, slots=True)
class Measures:
    """One row of the group's keys and measures; the measures' arguments are columns."""

    keys: Schema
    measures: tuple[Measure, ...]

    @property
    def schema(self) -> Schema:
        return self.keys + Schema(tuple(Field(m.name, m.type, m.nullable) for m in self.measures))

    @property
    def text(self) -> str:
        return "measures " + ", ".join(
            f"{m.function.value}/{m.values.value}/{m.text}({','.join(a.text for a in m.arguments)})"
            for m in self.measures
        )

    @property
    def display(self) -> str:
        return ", ".join(measure.name for measure in self.measures)

    def shown_keys(self, keys: Sequence[int]) -> Mapping[int, int]:
        """Where its row has the keys of the group."""
        return {key: place for place, key in enumerate(keys)}
