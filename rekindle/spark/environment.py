"""What the nodes of one step may ask of it, wherever it runs."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator
from rekindle.calculus.schema import Schema
from rekindle.circuit.nodes import Group, Indexing, Node
from rekindle.circuit.ranges import branches_of
from rekindle.circuit.stages import Branch
from rekindle.spark.plans import Plans
from rekindle.spark.step import StepContext
from rekindle.traces.layout import TraceLayout


class StepEnvironment:
    """A step, as its nodes see it: `rekindle.circuit.operators.running.Environment`."""

    def __init__(self, plans: Plans, context: StepContext) -> None:
        self._plans = plans
        self._context = context

    def layout(self, key: str) -> TraceLayout:
        """The layout of a node's changes."""
        node = self._context.circuit.nodes[key]
        assert isinstance(node, Indexing)
        return self._plans.layout(node)

    def payload(self, schema: Schema) -> pa.Schema:
        return self._plans.payload(schema)

    def accumulators(self, group: Group) -> tuple[Accumulator, ...]:
        return self._plans.accumulators(group)

    def buffer_names(self, group: Group) -> list[str]:
        return self._plans.buffer_names(group)

    def branches(self, key: str) -> Sequence[Branch]:
        """What this step takes from a node."""
        return self._branches.get(key, ())

    def announces(self, node: Node) -> bool:
        return self._context.announces(node)

    @cached_property
    def _branches(self) -> dict[str, list[Branch]]:
        return branches_of(self._context.circuit.nodes.values())
