"""A recursion while it runs: its members, what waits for its later iterations, those inside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.calculus.terms import Bound
from rekindle.calculus.while_loops import GOING_ON
from rekindle.circuit.circuit import Scope
from rekindle.circuit.nodes import Feedback, Node, Variable
from rekindle.errors import iteration_limit
from rekindle.kernels.waiting import Time, Waiting
from rekindle.spark.plans import Plans


@dataclass(frozen=True, slots=True)
class Loop:
    """A scope, the nodes that a turn visits, and the loops among them, each under its last node."""

    scope: Scope
    led_back: tuple[Feedback, ...]
    members: tuple[Node, ...]
    waiting: Waiting
    inner: Mapping[str, Loop]
    inside: frozenset[str]
    """The members that belong to an inner loop."""
    read: frozenset[str]
    """What the members read."""

    @classmethod
    def of(cls, scope: Scope, plans: Plans) -> Loop:
        led_back = scope.led_back
        layouts = {feedback.variable.id: plans.layout(feedback) for feedback in led_back}
        inner = {key: cls.of(found, plans) for key, found in scope.inner.items()}
        members = tuple(node for node in scope.members if not isinstance(node, Variable))
        return cls(
            scope,
            led_back,
            members,
            Waiting(layouts, scope.depth),
            inner,
            frozenset(node.id for found in scope.inner.values() for node in found.members),
            frozenset(key for node in members for key in node.inputs),
        )

    def soonest(self, within: Time) -> int | None:
        """The next iteration, within those of outer loops, at which anything here is due."""
        found = [waiting.soonest(within) for waiting in self._all_waiting()]
        return min((iteration for iteration in found if iteration is not None), default=None)

    def lead_back(self, feedback: Feedback, change: pa.Table) -> None:
        """Let a relation's change wait for the next iteration, if there is one to it."""
        variable = feedback.variable
        if variable.bound is Bound.RESULT:
            stamp = change.column(self.waiting.last_stamp(variable.id))
            change = change.filter(pc.less(stamp, variable.limit - 1))
        if len(change):
            self.waiting.add(variable.id, change)

    def check(self, iteration: int) -> None:
        """Raise if the recursion should have ended."""
        variable = self.scope.feedbacks[0].variable
        if iteration > variable.limit:
            names = (feedback.variable.name for feedback in self.scope.feedbacks)
            given = [name for name in names if not name.endswith(GOING_ON)]
            raise iteration_limit(given, variable.limit)

    def _all_waiting(self) -> Iterator[Waiting]:
        yield self.waiting
        for loop in self.inner.values():
            yield from loop._all_waiting()
