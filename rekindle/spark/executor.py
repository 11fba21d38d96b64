"""The walk of a step through the circuit, whatever runs the nodes.

Nodes are visited once, inputs first; one none of whose inputs changed is not visited. A recursion
is run as a whole in place of the last of its nodes. What a node did is noted with the rows that
came to it and that it gave. Where the rows are, and what a visit does, is the placement:
`inline.py` has tables in memory, `distributed.py` files and Spark jobs.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeVar

from rekindle.circuit.circuit import Scope
from rekindle.circuit.nodes import Formed, Node
from rekindle.circuit.stages import Branch
from rekindle.errors import EvaluationError
from rekindle.spark.environment import StepEnvironment
from rekindle.spark.pairs import pairs_of
from rekindle.spark.plans import Plans
from rekindle.spark.step import NodeStep, Placement, StepContext, StepResult

Change = TypeVar("Change")
"""What a node has changed by, as it is given to a step: arranged."""
Rows = TypeVar("Rows")
"""The rows that a branch begins with."""
Formation = TypeVar("Formation")
"""What the rows of all branches make for the node that reads them."""


class Executor(ABC, Generic[Change, Rows, Formation]):
    """Runs one step."""

    placement: ClassVar[Placement]

    def __init__(self, plans: Plans, context: StepContext) -> None:
        self._plans = plans
        self._context = context
        self._environment = StepEnvironment(plans, context)

    def _walk(self, seeds: Mapping[str, Change], result: StepResult) -> None:
        """Visit all nodes but those whose change is given."""
        scopes = self._context.circuit.scopes
        inside = {node.id for scope in scopes.values() for node in scope.members}
        for node in self._context.circuit.nodes.values():
            seed = seeds.get(node.id)
            if seed is not None:
                self._seed(node, seed)
            elif node.id in scopes:
                self._run_scope(scopes[node.id], result)
            elif node.id not in inside:
                self._run(node, result)

    def _run(self, node: Node, result: StepResult) -> None:
        """Visit a node if anything that it reads may have changed."""
        announced = self._context.announces(node)
        if not announced and not any(map(self._may_change, node.driving)):
            return
        started = time.perf_counter()
        with self._plans.under_settings_of(node):
            self._visit(node, result)
        seconds = time.perf_counter() - started
        read = sum(map(self._rows_of, node.driving))
        if read or announced:
            step = NodeStep(read, self._rows_of(node.id), seconds, self._placement_of(node))
            self._note(node.id, step, result)

    def _note(self, key: str, step: NodeStep, result: StepResult) -> None:
        """Take note of what a node did."""
        result.nodes[key] = step.after(result.nodes.get(key))

    def _formed(self, node: Formed, given: Sequence[tuple[Branch, Rows]]) -> Formation:
        """What the rows of some branches of its form make for a node.

        If an expression fails it may have failed on a pair that was never there (`pairs.py`): the
        pairs of joins are added up then, and the others are as they were.
        """
        try:
            return self._evaluated(node, given)
        except EvaluationError:
            joined = pairs_of(self._context.circuit, [branch for branch, _ in given])
            if not joined:
                raise
        paired = [branch for pairs in joined for branch in pairs]
        added = [(branch, rows) for branch, rows in given if branch not in paired]
        for pairs in joined:
            whole = self._added_up([(branch, rows) for branch, rows in given if branch in pairs])
            if whole is not None:
                added.append((replace(pairs[0], sign=1), whole))
        return self._evaluated(node, added)

    def _placement_of(self, node: Node) -> Placement:
        """Where a node ran."""
        return self.placement

    # ---- the placement ---------------------------------------------------------------------

    @abstractmethod
    def _seed(self, node: Node, change: Change) -> None:
        """Let a node have changed, in what it keeps."""

    @abstractmethod
    def _run_scope(self, scope: Scope, result: StepResult) -> None:
        """Run a recursion until nothing changes."""

    @abstractmethod
    def _visit(self, node: Node, result: StepResult) -> None:
        """Compute what a node changes by, or prepare that its readers do."""

    @abstractmethod
    def _may_change(self, key: str) -> bool:
        """May a node have given rows?"""

    @abstractmethod
    def _rows_of(self, key: str) -> int:
        """The rows that a node gave, as far as that is known."""

    @abstractmethod
    def _evaluated(self, node: Formed, given: Sequence[tuple[Branch, Rows]]) -> Formation:
        """Rows of branches through their stages and the preparation of a node."""

    @abstractmethod
    def _added_up(self, given: Sequence[tuple[Branch, Rows]]) -> Rows | None:
        """The sum of the pairs that branches begin with, each by itself; None if there are none."""
