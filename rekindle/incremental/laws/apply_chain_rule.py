"""Step 5: (Q₁ ∘ Q₂)^Δ = Q₁^Δ ∘ Q₂^Δ (Proposition 3.2, chain rule; any number of inputs).

Read from the output: D ∘ ↑op = (↑op)^Δ ∘ D pushes the derivative through an operator onto each of
its inputs, D(a + b) = D(a) + D(b) through a sum, and D ∘ z⁻¹ = z⁻¹ ∘ D through a delay. It ends at
the inputs, where D ∘ I is the identity.
"""

from __future__ import annotations

from rekindle.incremental.stream import (
    Apply,
    Delay,
    Differentiate,
    Incremental,
    Integrate,
    Stream,
    Sum,
)
from rekindle.incremental.traversal import fold, transform


def apply_chain_rule(stream: Stream) -> Stream:
    """The circuit with every derivative pushed to where it meets an integral."""
    return transform(stream, _push)


def _push(node: Stream) -> Stream:
    return fold(node.child, _derivative) if isinstance(node, Differentiate) else node


def _derivative(node: Stream, derivatives: tuple[Stream, ...]) -> Stream:
    """D(node), given D of each of its inputs."""
    match node:
        case Apply():
            return Incremental(node.operator, derivatives)
        case Integrate():
            return node.child
        case Sum():
            return Sum(derivatives)
        case Delay():
            return Delay(*derivatives)
        case _:
            return Differentiate(node)
