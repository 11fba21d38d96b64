"""Distinct: every row once that is there at all.

H of Proposition 4.7: a row enters when its weight becomes positive and leaves when it stops being
so. Not linear, but a matter of each row alone, so the changed rows are looked up in the integral
before the step and no others.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.operators.bounds import Bounds, Frontier, Need
from rekindle.circuit.operators.node import Passing
from rekindle.circuit.operators.running import Cut, Environment, IntegralRead, Moment, Work
from rekindle.circuit.operators.sizes import Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Link, Role, Words
from rekindle.kernels.nested_time import distinct_at_every_stamp
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.reader import TraceReader


@dataclass(frozen=True)
class DistinctRows(Passing):
    """The rows of an arrangement by the whole row, once each, at every value of its `stamps`."""

    arrangement: str
    schema: Schema
    stamps: int = 0

    kind = "distinct"
    prefix = "distinct"
    linearity = Linearity.PER_KEY
    colour = "#a21caf"

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.arrangement,)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.arrangement,)

    def work(self, environment: Environment, apart: tuple[int, ...] | None = None) -> Work:
        layout = environment.layout(self.arrangement)
        names = [WEIGHT, *layout.payload.names]
        return Work(
            self.arrangement,
            (IntegralRead(self.arrangement, Moment.BEFORE),),
            partial(_distinct, self.stamps, names),
            pa.schema([layout.schema.field(name) for name in names]),
            Cut.BETWEEN_KEYS,
        )

    def incremental_cost(self, sizes: Sizes) -> Cost:
        rows = sizes.moved.get(self.arrangement, 0)
        return Cost(rows, rows)

    def full_cost(self, sizes: Sizes, scale: float) -> int:
        return 0

    def frontier_in(self, bounds: Bounds) -> Frontier | None:
        return bounds.changing(self.arrangement)

    def needs_in(self, bounds: Bounds) -> Sequence[Need]:
        below = {} if self.stamps else bounds.of(self.arrangement)
        return [Need(self.arrangement, tuple(below.items()))]

    @property
    def links(self) -> tuple[Link, ...]:
        return (Link(self.arrangement, Role.CHANGE_AND_BEFORE),)

    def name_in(self, words: Words) -> str:
        return f"distinct {words.name(self.arrangement)}"

    def label_in(self, words: Words) -> str:
        return self.name_in(words)

    def how_in(self, words: Words) -> str:
        return "per key: H(i, d) on the changed rows"

    def why_in(self, words: Words) -> str:
        return (
            "not linear, but whether a row enters or leaves follows from its own weight before "
            "and after: the changed rows are looked up, no others are read or recomputed"
        )

    def check_sound(self, soundness: Soundness) -> None:
        if len(soundness.input(self.arrangement).schema) != len(self.schema):
            raise soundness.refused("its rows are not those that it reads")


def _distinct(
    stamps: int, names: list[str], change: Any, readers: Sequence[TraceReader]
) -> Iterator[Any]:
    (before,) = readers
    yield distinct_at_every_stamp(change, before, stamps).select(names)
