"""Step 4: Q^Δ = D ∘ Q ∘ I, with each input integrated on its own (Definition 3.1).

From here on an input carries the changes of its table, and the circuit gives the changes of the
view. It is right already; the laws that follow only make it cheap.
"""

from __future__ import annotations

from rekindle.incremental.stream import Differentiate, Input, Integrate, Stream
from rekindle.incremental.traversal import transform


def incrementalise(stream: Stream) -> Stream:
    """The circuit between integrals of its inputs and the derivative of its output."""
    return Differentiate(transform(stream, _integrate_inputs))


def _integrate_inputs(node: Stream) -> Stream:
    return Integrate(node) if isinstance(node, Input) else node
