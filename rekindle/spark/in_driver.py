"""Operators of a step on Spark that run in the driver, since few rows reach them.

A large load often ends in small changes: a filter lets few rows through, a total is one row. What
an operator after that reads is made here by the kernels that tasks run, over the same files, and
goes through the same stages as in a step in the driver, without a job. An operator that turns out
to be larger than what reached it, or one of whose expressions fails, is left to Spark.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import pyarrow as pa

from rekindle.circuit.nodes import Formed, GroupMap, Node
from rekindle.circuit.stages import Branch
from rekindle.errors import EvaluationError
from rekindle.kernels.arrange import arrange
from rekindle.spark.group_maps import mapped_in_driver
from rekindle.spark.inline import signed
from rekindle.spark.outputs import Outputs
from rekindle.spark.placing import Placing
from rekindle.spark.plans import Plans
from rekindle.spark.sharing import Sharing
from rekindle.spark.step import StepContext, TooLargeError

MAXIMUM_ROWS = 500_000
"""An operator that gives more rows than this is left to Spark."""


class InDriver:
    """The small operators of one step on Spark."""

    def __init__(
        self,
        plans: Plans,
        context: StepContext,
        outputs: Outputs,
        sharing: Sharing,
        placing: Placing,
    ) -> None:
        self._plans = plans
        self._context = context
        self._outputs = outputs
        self._sharing = sharing
        self._placing = placing
        self.given: dict[str, pa.Table] = {}
        """What nodes gave, as far as it was computed here."""

    def evaluated(self, node: Formed, branches: Sequence[Branch]) -> pa.Table | None:
        """What branches of its form make for a node, arranged; None where that is Spark's to do."""
        nodes = [self._context.circuit.nodes[branch.node] for branch in branches]
        if not self._takes(nodes):
            return None
        parts = []
        try:
            for branch, read in zip(branches, nodes, strict=True):
                rows = self._plans.compiled(node, branch).run(self._rows(read))
                if rows is not None:
                    parts.append(signed(rows, branch.sign))
            layout, summing = self._plans.layout(node), node.summing(self._outputs.environment)
            if not parts:
                return layout.empty()
            whole = pa.concat_tables(parts)
            return arrange(whole, layout) if summing is None else summing(whole)
        except (EvaluationError, TooLargeError):
            return None

    def rows(self, node: Node) -> pa.Table | None:
        """What a node gives, of `_weight`, c0, c1...; None where that is Spark's to compute."""
        try:
            return self._rows(node) if self._takes([node]) else None
        except (EvaluationError, TooLargeError):
            return None

    def _takes(self, nodes: Sequence[Node]) -> bool:
        reaching = {node.id: self._reaching(node) for node in nodes}
        return self._placing.takes_operator(sum(reaching.values()))

    def _reaching(self, node: Node) -> int:
        """The rows to go through for what a node gives."""
        if node.id in self.given:
            return len(self.given[node.id])
        if self._sharing.has_kept(node):
            return sys.maxsize  # As files, of those columns alone that somebody wanted.
        return self._outputs.reaching(node)

    def _rows(self, node: Node) -> pa.Table:
        if node.id not in self.given:
            with self._plans.under_settings_of(node):
                self.given[node.id] = self._computed(node)
        return self.given[node.id]

    def _computed(self, node: Node) -> pa.Table:
        tasks = self._outputs.tasks(node, self._sharing.apart(node))
        tables, rows = [], 0
        for number in range(tasks.count):
            for table in tasks.tables(number):
                rows += len(table)
                if rows > MAXIMUM_ROWS:
                    raise TooLargeError(f"an operator gives more than {MAXIMUM_ROWS} rows")
                tables.append(table)
        whole = pa.concat_tables(tables) if tables else tasks.schema.empty_table()
        if not isinstance(node, GroupMap):
            return whole
        mapped = mapped_in_driver(self._plans, self._context, node, whole)
        if mapped is None:
            return node.output_schema(self._outputs.environment).empty_table()
        return mapped
