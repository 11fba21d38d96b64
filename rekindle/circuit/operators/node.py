"""What every operator says of itself, and what some of them have in common.

A node's `id` is a fingerprint of all that determines its value, so equal subterms of any views are
one node, and its state is found again when the database is reopened. The prefix and the parts of
an identity name state that exists: they outlive any better name of a class.

Everything that differs between operators is a method here or in one of the classes below, which
say what a node has: rows by a key (`Indexing`), an integral (`Stateful`), an integral that joins
look up (`Indexed`), a linear form that it reads (`Formed`), an output that is stored nowhere
(`Passing`). The circuit, explain, costs, stored plans and both placements of a step know these and
not the operators.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.operators.bounds import Bounds, Frontier, Need
from rekindle.circuit.operators.indexes import ByColumns, KeyedBy
from rekindle.circuit.operators.running import Environment, Session, Work
from rekindle.circuit.operators.sizes import Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Half, Link, Words, links_of_form
from rekindle.circuit.stages import LinearForm
from rekindle.traces.layout import TraceLayout
from rekindle.traces.values import Weight


def fingerprint(*parts: object) -> str:
    """A short stable digest of the parts' texts."""
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()[:16]


class Node(ABC):
    """A node of a circuit."""

    kind: ClassVar[str]
    """What explain calls it, and the tag of its stored form."""
    prefix: ClassVar[str]
    """How its identity begins."""
    linearity: ClassVar[Linearity]
    colour: ClassVar[str]
    """That of its box in a drawing; white text is legible on it."""
    is_stored: ClassVar[bool] = True
    """Is it kept as part of a plan? A table's node is made of its entry."""

    # A property that is there at run time would be the default of a dataclass's field of that name.
    if TYPE_CHECKING:

        @property
        def schema(self) -> Schema:
            """The columns of what it gives."""
            ...

    @property
    @abstractmethod
    def inputs(self) -> tuple[str, ...]:
        """The nodes that it reads."""

    @property
    @abstractmethod
    def identity(self) -> tuple[object, ...]:
        """The texts that tell it from other nodes of its kind."""

    @cached_property
    def id(self) -> str:
        return f"{self.prefix}-{fingerprint(self.prefix, *self.identity)}"

    def provides(self, keys: tuple[Scalar, ...] | None) -> bool:
        """Does what it keeps anyway serve lookups by these keys, or by the row if they are None?"""
        return False

    @property
    def is_recomputed(self) -> bool:
        """Does every change compute its value anew from all its rows?"""
        return False

    # ---- running ---------------------------------------------------------------------------

    @property
    def driving(self) -> tuple[str, ...]:
        """The nodes whose changed rows it goes through."""
        return tuple(dict.fromkeys(self.inputs))

    @property
    def is_announced(self) -> bool:
        """Does it give rows before any input, when it is new?"""
        return False

    # ---- costs -----------------------------------------------------------------------------

    @abstractmethod
    def incremental_cost(self, sizes: Sizes) -> Cost:
        """The rows that it touches, and gives, to follow a change."""

    @abstractmethod
    def full_cost(self, sizes: Sizes, scale: float) -> int:
        """The rows that it touches to be filled, when sources are `scale` times what they were."""

    def expected_fanout(self, nodes: Mapping[str, Node], stored: Mapping[str, int]) -> float | None:
        """The rows that it gives for one, as far as that is known before it has run."""
        return None

    def rows_passed(self, sizes: Sizes) -> int | None:
        """The rows that pass through it when all is filled, where they are not stored."""
        return None

    # ---- what time leaves behind -----------------------------------------------------------

    def frontier_in(self, bounds: Bounds) -> Frontier | None:
        """What its later changes are no less than; None: it never changes."""
        return {}

    def needs_in(self, bounds: Bounds) -> Sequence[Need]:
        """The integrals that it looks up, and what it needs of them."""
        return ()

    # ---- words -----------------------------------------------------------------------------

    @property
    @abstractmethod
    def links(self) -> tuple[Link, ...]:
        """What it reads of each of its inputs."""

    @abstractmethod
    def name_in(self, words: Words) -> str:
        """A short name for what it holds; not unique."""

    @abstractmethod
    def label_in(self, words: Words) -> str:
        """What it is, in a line."""

    def title_in(self, words: Words) -> str:
        """The same where nothing else says of what kind it is."""
        return self.label_in(words)

    @abstractmethod
    def how_in(self, words: Words) -> str:
        """How its change is computed."""

    @abstractmethod
    def why_in(self, words: Words) -> str:
        """Why that is enough."""

    def keys_in(self, words: Words) -> tuple[str, ...]:
        """What its state is indexed or looked up by, as column names or expressions."""
        return self.schema.names

    def half_in(self, words: Words) -> Half | None:
        """Which half of which join it is, if it is one."""
        return None

    # ---- stored forms ----------------------------------------------------------------------

    @abstractmethod
    def check_sound(self, soundness: Soundness) -> None:
        """Raise `ShapeError` unless it takes columns that the rows it reads have."""

    @property
    def identities(self) -> Mapping[str, str]:
        """The identities, by name, that its stored form has beside its fields."""
        return {}

    def identify(
        self, soundness: Soundness, inputs: tuple[str, ...], identities: Mapping[str, object]
    ) -> None:
        """Take the identity under which its state stands, whatever it would be today."""
        vars(self)["id"] = soundness.key


class Indexing(Node):
    """A node whose change is hashed and sorted by a key."""

    @property
    def keyed_by(self) -> KeyedBy:
        """What its rows are hashed and sorted by."""
        return ByColumns(self.schema)

    def laid_out(self, session: Session) -> TraceLayout:
        """The layout of its changes, and of the trace that they add up to."""
        return TraceLayout((Weight(),), session.payload(self.schema))

    def initial(self) -> Any:
        """The rows that it begins with, as an Arrow table; None: it has what it is given."""
        return None


class Stateful(Indexing):
    """A node that keeps an integral."""

    may_lose_rows: ClassVar[bool] = False
    """Is the integral there for lookups alone, so that a row goes which nobody looks at again?"""

    def full_cost(self, sizes: Sizes, scale: float) -> int:
        return int(sizes.stored.get(self.id, 0) * scale)


class Indexed(Indexing):
    """A node whose change, and integral if it keeps one, a join can read."""


class Formed(Indexing):
    """A node that reads a linear form."""

    if TYPE_CHECKING:

        @property
        def form(self) -> LinearForm: ...

    @property
    def inputs(self) -> tuple[str, ...]:
        return self.form.nodes

    @property
    def links(self) -> tuple[Link, ...]:
        return links_of_form(self.form)

    def incremental_cost(self, sizes: Sizes) -> Cost:
        rows = sizes.moved_of(self.form)
        return Cost(rows, rows)

    def frontier_in(self, bounds: Bounds) -> Frontier | None:
        return bounds.of_form(self.form)

    def summing(self, environment: Environment) -> Callable[[Any], Any] | None:
        """How many of its rows are summed up as a change of what it keeps, if they are.

        Otherwise its rows are the change.
        """
        return None


class Passing(Node):
    """A node whose output is stored nowhere; kernels compute it from what was written."""

    @abstractmethod
    def work(self, environment: Environment, apart: tuple[int, ...] | None = None) -> Work:
        """How its output is computed; rows that agree in the columns `apart` may be one."""

    def work_on(
        self,
        columns: Sequence[int],
        environment: Environment,
        apart: tuple[int, ...] | None = None,
    ) -> Work:
        """The same for the columns of its output at some positions."""
        return self.work(environment, apart).select([0, *(1 + i for i in columns)])

    def output_schema(self, environment: Environment) -> Any:
        """The columns of its output: `_weight`, c0, c1..."""
        return self.work(environment).schema

    def needs_in(self, bounds: Bounds) -> Sequence[Need]:
        """All rows of what it may read: an operator that needs fewer says so."""
        return [Need(key) for key in dict.fromkeys((*self.inputs, self.id))]

    def told_apart(self, environment: Environment) -> tuple[int, ...] | None:
        """The columns by which its readers tell its rows apart; None: by all."""
        return None
