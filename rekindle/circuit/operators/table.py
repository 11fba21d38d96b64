"""A table: an input whose changes are those of a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.operators.bounds import WHOLE, Bounds, Frontier, Seen
from rekindle.circuit.operators.indexes import ByColumns
from rekindle.circuit.operators.node import Indexed, Stateful
from rekindle.circuit.operators.sizes import Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Link, Words


@dataclass(frozen=True)
class Table(Stateful, Indexed):
    """An input: a table's changes, and its contents as their integral, arranged by its key.

    `incarnation` tells a table from an earlier one of the same name that was dropped; `declared`
    has the types, in JSON, of columns with a CHAR(n) or VARCHAR(n), strings in the schema. A table
    without a key may be arranged by an `index`, whose values any number of rows may share.
    """

    name: str
    schema: Schema
    key: tuple[int, ...]
    incarnation: str
    declared: Mapping[int, str] = field(default_factory=dict, hash=False)
    index: tuple[int, ...] = ()

    kind = "table"
    prefix = "table"
    linearity = Linearity.SOURCE
    colour = "#0f766e"
    is_stored = False

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.name, self.incarnation)

    @property
    def inputs(self) -> tuple[str, ...]:
        return ()

    def provides(self, keys: tuple[Scalar, ...] | None) -> bool:
        if keys is None:
            return not self._arranged_by
        positions = tuple(k.position if isinstance(k, Column) else -1 for k in keys)
        return bool(self._arranged_by) and positions == self._arranged_by

    @property
    def _arranged_by(self) -> tuple[int, ...]:
        return self.key or self.index

    @property
    def keyed_by(self) -> ByColumns:
        return ByColumns(self.schema, self._arranged_by)

    def incremental_cost(self, sizes: Sizes) -> Cost:
        return Cost(0, 0)

    def frontier_in(self, bounds: Bounds) -> Frontier:
        column = bounds.seen(self.id)
        return {} if column is None else {(column, WHOLE): Seen(self.id)}

    @property
    def links(self) -> tuple[Link, ...]:
        return ()

    def name_in(self, words: Words) -> str:
        return self.name

    def label_in(self, words: Words) -> str:
        return f"table {self.name}"

    def how_in(self, words: Words) -> str:
        if not self._arranged_by:
            return "stored, arranged by the whole row"
        kind = "primary key" if self.key else "index"
        return f"stored, arranged by {kind} {', '.join(self.keys_in(words))}"

    def why_in(self, words: Words) -> str:
        return "the rows of a transaction are the change; they are added to what is stored"

    def keys_in(self, words: Words) -> tuple[str, ...]:
        names = self.schema.names
        return tuple(names[i] for i in self._arranged_by) or names

    def check_sound(self, soundness: Soundness) -> None:
        raise soundness.refused("a table is not part of a plan")
