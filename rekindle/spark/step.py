"""One step: the changes of the tables become the changes of every node they reach.

`executor.py` visits the nodes. Where the work happens is the placement: `inline.py` runs kernels in
the driver on tables in memory, `distributed.py` runs the same kernels in Spark tasks on files. Both
give, for each node that keeps an integral, the run that its trace grows by.
"""

from __future__ import annotations

import enum
import secrets
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Node
from rekindle.errors import RekindleError
from rekindle.traces.segment import Run
from rekindle.traces.store import Store
from rekindle.traces.trace import Trace


class Placement(enum.Enum):
    """Where the kernels of a step run."""

    INLINE = "inline"
    SPARK = "spark"


class TooLargeError(RekindleError):
    """A step that outgrew the driver while it ran; it is run again on Spark."""


@dataclass(frozen=True, slots=True)
class NodeStep:
    """What one node did in a step: the rows that came to it, and those that it gave."""

    rows_in: int
    rows_out: int
    seconds: float
    placement: Placement
    rebuilt: str = ""
    """Why the node was filled anew, if it was."""
    visits: int = 1
    """How often it ran: once, or at each iteration of its recursion that reached it."""
    heavy_keys: int = 0
    """How many keys had so many rows that these were divided between tasks."""
    threshold: int = 0
    """Of how many pairs a key was heavy, if one was."""

    def after(self, earlier: NodeStep | None) -> NodeStep:
        """Both visits of one step, as one."""
        if earlier is None:
            return self
        placements = (earlier.placement, self.placement)
        return replace(
            self,
            placement=Placement.SPARK if Placement.SPARK in placements else Placement.INLINE,
            rows_in=earlier.rows_in + self.rows_in,
            rows_out=earlier.rows_out + self.rows_out,
            seconds=earlier.seconds + self.seconds,
            visits=earlier.visits + 1,
        )


@dataclass(slots=True)
class StepResult:
    """The runs by which nodes change, the contents of those filled anew, and what each did."""

    runs: dict[str, Run] = field(default_factory=dict)
    contents: dict[str, Trace] = field(default_factory=dict)
    nodes: dict[str, NodeStep] = field(default_factory=dict)
    passing: set[str] = field(default_factory=set)
    """Files that no trace needs after the step."""


@dataclass(frozen=True, slots=True)
class StepContext:
    """What a step reads: the circuit, the traces before it, and where files go."""

    circuit: Circuit
    traces: Mapping[str, Trace]
    store: Store
    epoch: int
    fresh: frozenset[str] = frozenset()
    """Nodes that this step fills from nothing, or reads as if they had just been filled."""
    attempt: str = field(default_factory=lambda: secrets.token_hex(4))
    """Tells this attempt at the epoch from others, whose tasks may still be running."""

    def without(self, nodes: Collection[str]) -> StepContext:
        """The same step, which leaves some nodes alone."""
        kept = {key: node for key, node in self.circuit.nodes.items() if key not in nodes}
        return replace(self, circuit=Circuit(kept)) if nodes else self

    def path(self, node: str, part: str) -> str:
        """The name of a file, fixed by operator, epoch, writer, attempt and part."""
        return f"data/{node}/e{self.epoch:010}-{self.store.writer}{self.attempt}-{part}"

    def announces(self, node: Node) -> bool:
        """Does the node give rows before any input: a constant, a new group without keys?"""
        return node.id in self.fresh and node.is_announced
