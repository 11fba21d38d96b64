"""A constant relation: an input that changes once, when it is made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rekindle.calculus.relation import Relation
from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.operators.bounds import Bounds
from rekindle.circuit.operators.node import Indexed, Stateful
from rekindle.circuit.operators.sizes import Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Link, Words


@dataclass(frozen=True)
class Constant(Stateful, Indexed):
    """An input that changes once, when it is made: a constant relation, arranged by the row."""

    schema: Schema
    relation: Relation

    kind = "constant"
    prefix = "constant"
    linearity = Linearity.SOURCE
    colour = "#3f6212"

    @property
    def identity(self) -> tuple[object, ...]:
        return (*self.schema.types, self.relation.text)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def provides(self, keys: tuple[Scalar, ...] | None) -> bool:
        return keys is None

    @property
    def is_announced(self) -> bool:
        return True

    def initial(self) -> Any:
        return self.relation.table

    def incremental_cost(self, sizes: Sizes) -> Cost:
        return Cost(0, 0)

    def frontier_in(self, bounds: Bounds) -> None:
        return None

    @property
    def links(self) -> tuple[Link, ...]:
        return ()

    def name_in(self, words: Words) -> str:
        return "constants"

    def label_in(self, words: Words) -> str:
        return "a constant relation"

    def how_in(self, words: Words) -> str:
        return "stored once, never changes"

    def why_in(self, words: Words) -> str:
        return "it does not depend on any table"

    def check_sound(self, soundness: Soundness) -> None:
        """A constant reads nothing."""
