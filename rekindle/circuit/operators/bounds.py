"""What the later changes of a node are no less than, and what it still looks at of integrals.

A *frontier* says of the columns of a stream that all later changes have values no less than a
bound. Nodes answer two questions with it: which bounds their own changes have, and which rows of an
integral no later change makes them look at. `circuit/frontiers.py` asks them; an operator that
answers neither has no bounds and keeps every row that it may read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from rekindle.calculus.scalars import Call, Scalar
from rekindle.circuit.stages import Branch, LinearForm, Stage

if TYPE_CHECKING:
    from rekindle.circuit.operators.node import Node

WHOLE = -1
Leaf: TypeAlias = tuple[int, int]
"""A column, and the field of it that is meant; `WHOLE` for the column itself."""


class Monotone(Protocol):
    """An expression that does not decrease when what it reads does not."""

    @property
    def leaves(self) -> frozenset[Leaf]:
        """What it reads."""
        ...


@dataclass(frozen=True, slots=True)
class Seen:
    """What a table has moved to: its watermark, or the clock; `node` is that of the table."""

    node: str


@dataclass(frozen=True, slots=True)
class Computed:
    """A monotone expression of bounds."""

    piece: Monotone
    inputs: tuple[tuple[Leaf, Bound], ...]


@dataclass(frozen=True, slots=True)
class Least:
    """The least of several bounds."""

    bounds: tuple[Bound, ...]


@dataclass(frozen=True, slots=True)
class Earlier:
    """A bound of a time, so many microseconds before."""

    bound: Bound
    micros: int


Bound: TypeAlias = Seen | Computed | Least | Earlier
Frontier: TypeAlias = Mapping[Leaf, Bound]


@dataclass(frozen=True, slots=True)
class Need:
    """An integral that a node looks up, and below which bounds it looks at no row any more.

    Any of the bounds is enough; without one it needs all rows.
    """

    key: str
    below: tuple[tuple[Leaf, Bound], ...] = ()


class Bounds(Protocol):
    """What a node may ask of the circuit that it is in; the nodes that it reads come before it."""

    def node(self, key: str) -> Node: ...

    def of(self, key: str) -> Frontier:
        """The bounds of a node's later changes."""
        ...

    def changing(self, key: str) -> Frontier | None:
        """The same; None of a node that never changes."""
        ...

    def of_form(self, form: LinearForm) -> Frontier | None:
        """The bounds of a linear form; None if nothing that it reads ever changes."""
        ...

    def after(self, stage: Stage, before: Frontier) -> Frontier:
        """The bounds after a stage."""
        ...

    def of_scalar(self, scalar: Scalar, before: Frontier) -> Mapping[int, Bound]:
        """The bounds of a scalar, or of its fields."""
        ...

    def seen(self, key: str) -> int | None:
        """The column of a table that only moves forward, if there is one."""
        ...

    def is_single(self, key: str) -> bool:
        """Has a table one row from its beginning on, and another in its place at each change?"""
        ...

    def branches(self, key: str) -> Sequence[Branch]:
        """The branches of all linear forms that read a node."""
        ...

    def core_column(self, scalar: Scalar) -> int | None:
        """The time column whose order a mark is, if it is that of one."""
        ...


def of_columns(frontier: Frontier, columns: Iterable[int]) -> tuple[tuple[Leaf, Bound], ...]:
    """The bounds of some of the columns."""
    wanted = set(columns)
    return tuple((leaf, bound) for leaf, bound in frontier.items() if leaf[0] in wanted)


def flat_keys(keys: Sequence[Scalar]) -> list[Scalar]:
    """The keys; in the place of a row of columns these columns."""
    found: list[Scalar] = []
    for key in keys:
        found += key.arguments if isinstance(key, Call) and key.function == "row" else [key]
    return found
