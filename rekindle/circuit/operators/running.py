"""How a node runs, wherever it runs: a kernel over a change and the integrals that it looks up.

A node that keeps no integral of what it gives says by a `Work` how its output follows from changes
that were written: which change the kernel goes through, which integrals it reads, and how the
change may be cut. The placement does the rest. In the driver the kernel gets the whole change as
one table in memory; on Spark each task gets the part of change and integrals in one range of the
key-hash space, from mapped files. The kernel is the same, hence so is the result.

Nothing here knows of Spark. What a node needs of the session, such as the accumulators of its
aggregates, it asks of its `Environment`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator
from rekindle.calculus.schema import Schema
from rekindle.circuit.stages import Branch
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader

if TYPE_CHECKING:
    from rekindle.circuit.operators.group import Group
    from rekindle.circuit.operators.node import Node


class Moment(enum.Enum):
    """What is read of an input: z⁻¹(I(x)), I(x), or Δx alone."""

    BEFORE = "before"
    AFTER = "after"
    DURING = "during"


@dataclass(frozen=True, slots=True)
class IntegralRead:
    """An integral that a kernel looks things up in."""

    key: str
    moment: Moment


class Cut(enum.Enum):
    """The pieces of a change that a kernel may be given."""

    ANYWHERE = "anywhere"
    BETWEEN_KEYS = "between keys"
    """All rows of a key are in one piece."""
    KEYS_ALONE = "keys alone"
    """The kernel is given the distinct keys of the change, sorted, and not its rows."""


Kernel: TypeAlias = Callable[[Any, Sequence[TraceReader]], Iterable[Any]]
"""From a piece of a change, and the integrals in the order of the readings, to tables."""


@dataclass(frozen=True, slots=True)
class Work:
    """What is done for each range of keys; its tables have the columns of `schema`.

    The kernel is sent to tasks: it holds values, and nothing of the session.
    """

    change: str
    reads: tuple[IntegralRead, ...]
    kernel: Kernel
    schema: Any
    cut: Cut = Cut.ANYWHERE
    first: Any = None
    """A table that is given once, whatever has changed."""
    is_product: bool = False
    """Is nothing given where an integral that it reads is empty?"""

    def select(self, positions: Sequence[int]) -> Work:
        """The same for some columns of its tables."""
        names = [self.schema.names[i] for i in positions]
        return replace(
            self,
            kernel=partial(_selected, self.kernel, names),
            schema=pa.schema([self.schema.field(i) for i in positions]),
            first=None if self.first is None else self.first.select(names),
        )


def _selected(
    kernel: Kernel, names: list[str], piece: Any, readers: Sequence[TraceReader]
) -> Iterator[Any]:
    for table in kernel(piece, readers):
        yield table.select(names)


class Session(Protocol):
    """What a node may ask of the session that it is in."""

    def payload(self, schema: Schema) -> Any:
        """The Arrow columns c0, c1... of rows of a schema."""
        ...

    def accumulators(self, group: Group) -> tuple[Accumulator, ...]:
        """What computes the measures of a group, over the columns x0, x1..."""
        ...

    def buffer_names(self, group: Group) -> list[str]:
        """The buffer columns that the last expressions of a group read."""
        ...


class Environment(Session, Protocol):
    """What a node may ask of the step that runs it."""

    def layout(self, key: str) -> TraceLayout:
        """The layout of a node's changes."""
        ...

    def branches(self, key: str) -> Sequence[Branch]:
        """The branches that begin at a node."""
        ...

    def announces(self, node: Node) -> bool:
        """Does a node give rows in this step before any input?"""
        ...
