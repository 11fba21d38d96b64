"""What explain asks of a node, and what a node may ask of the explanation that it is part of."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.circuit.explain_words import scalar_words
from rekindle.circuit.stages import Branch, LinearForm

if TYPE_CHECKING:
    from rekindle.circuit.operators.half_join import HalfJoin
    from rekindle.circuit.operators.node import Node


class Role(enum.Enum):
    """What of its input a node reads."""

    CHANGE = "change"
    BEFORE = "integral before this step"
    AFTER = "integral after this step"
    CHANGE_AND_BEFORE = "change and integral before this step"
    DELAYED = "change of the iteration before"

    @property
    def symbol(self) -> str:
        return {
            Role.CHANGE: "Δ",
            Role.BEFORE: "z⁻¹I",
            Role.AFTER: "I",
            Role.CHANGE_AND_BEFORE: "Δ, z⁻¹I",
            Role.DELAYED: "↑z⁻¹",
        }[self]


@dataclass(frozen=True, slots=True)
class Link:
    """An input of a node. The signs are those of the branches that read it."""

    source: str
    role: Role
    signs: frozenset[int] = frozenset({1})


@dataclass(frozen=True, slots=True)
class Half:
    """Which half of which join a node is; both halves make up the join's change."""

    join: int
    number: int
    partner: str | None
    condition: str
    formula: str


class Words(Protocol):
    """An explanation, as one of its nodes sees it."""

    def node(self, key: str) -> Node:
        """Another node."""
        ...

    def name(self, key: str) -> str:
        """A short name for what a node holds; not unique."""
        ...

    def reference(self, key: str) -> str:
        """A node's name and number."""
        ...

    def form_name(self, form: LinearForm) -> str:
        """A short name for a sum of branches."""
        ...

    def view_names(self, key: str) -> list[str]:
        """The names that a view has now: views of equal definitions are one node."""
        ...

    def branches(self, key: str) -> Sequence[Branch]:
        """The branches that begin at a node."""
        ...

    def join_number(self, key: str) -> int:
        """The number of the join that a node is a half of."""
        ...

    def partner(self, half: HalfJoin) -> str | None:
        """The other half of a join."""
        ...


def links_of_form(form: LinearForm) -> tuple[Link, ...]:
    """The inputs of a node that reads a linear form."""
    return tuple(
        Link(source, Role.CHANGE, frozenset(b.sign for b in form.branches if b.node == source))
        for source in form.nodes
    )


def named_keys(keys: Iterable[Scalar] | None, schema: Schema) -> tuple[str, ...]:
    """Keys as column names or expressions; without keys a row is its own."""
    return schema.names if keys is None else tuple(scalar_words(key, schema) for key in keys)
