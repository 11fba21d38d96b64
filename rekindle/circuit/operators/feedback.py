"""Feedback: a relation of a recursion, led back to where the recursion reads it.

A variable is the relation one iteration late, ↑z⁻¹ of what the feedback gives; the rows of both end
in stamps, the iterations of the scopes that they are in. The step that runs a recursion
(`spark/inline.py`) takes the changes of the feedback to the variable.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Bound, Linearity
from rekindle.circuit.operators.bounds import Bounds, Frontier
from rekindle.circuit.operators.node import Formed, Indexed, Node, Stateful, fingerprint
from rekindle.circuit.operators.sizes import Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Link, Role, Words
from rekindle.circuit.stages import LinearForm


@dataclass(frozen=True)
class Variable(Node):
    """A relation inside its own recursion, one iteration late: ↑z⁻¹ of what `Feedback` gives.

    `scope` is a digest of the whole recursion: its variables and what they are computed by.
    """

    scope: str
    name: str
    schema: Schema
    limit: int
    depth: int = 1
    """How many scopes it is in, its own among them; as many stamps end its rows."""
    bound: Bound = Bound.ERROR

    kind = "variable"
    prefix = "variable"
    linearity = Linearity.SOURCE
    colour = "#b91c1c"

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.scope, self.name)

    @cached_property
    def feedback(self) -> str:
        """The node that it is fed by."""
        return "recur-" + fingerprint("recur", self.id)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.feedback,)

    def incremental_cost(self, sizes: Sizes) -> Cost:
        return Cost(0, 0)

    def full_cost(self, sizes: Sizes, scale: float) -> int:
        return 0

    @property
    def links(self) -> tuple[Link, ...]:
        return (Link(self.feedback, Role.DELAYED),)

    def name_in(self, words: Words) -> str:
        return self.name

    def label_in(self, words: Words) -> str:
        return f"{self.name}, one iteration ago"

    def how_in(self, words: Words) -> str:
        return "the back edge: what the recursion changed by, one iteration later"

    def why_in(self, words: Words) -> str:
        return "a relation inside its own recursion is known one iteration late"

    def check_sound(self, soundness: Soundness) -> None:
        """What it is fed by comes after it, and is checked there."""

    def identify(
        self, soundness: Soundness, inputs: tuple[str, ...], identities: Mapping[str, object]
    ) -> None:
        super().identify(soundness, inputs, identities)
        if len(inputs) != 1:
            raise soundness.refused("a variable is fed by one node")
        vars(self)["feedback"] = inputs[0]


@dataclass(frozen=True)
class Feedback(Formed, Stateful, Indexed):
    """What a relation of a recursion is computed to be, with the iterations of its changes."""

    variable: Variable
    form: LinearForm

    kind = "recursion"
    prefix = "recur"
    linearity = Linearity.SCOPE
    colour = "#b91c1c"

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.variable.id,)

    @property
    def id(self) -> str:
        return self.variable.feedback

    @property
    def schema(self) -> Schema:
        return self.form.schema

    def frontier_in(self, bounds: Bounds) -> Frontier:
        """What an iteration gives may come from any time."""
        return {}

    def name_in(self, words: Words) -> str:
        return self.variable.name

    def label_in(self, words: Words) -> str:
        return f"recursion of {self.variable.name}"

    def how_in(self, words: Words) -> str:
        until = "until none is left"
        if self.variable.bound is Bound.RESULT:
            until += f", {self.variable.limit:,} times at most"
        return f"fixed point: iterated over the changes {until}"

    def why_in(self, words: Words) -> str:
        return (
            "rows carry the iteration at which they come or go, so a change is led through the "
            "iterations that were recorded before and only what differs is computed"
        )

    def check_sound(self, soundness: Soundness) -> None:
        if soundness.check_form(self.form) != len(self.schema):
            raise soundness.refused("its columns are not those of its rows")
