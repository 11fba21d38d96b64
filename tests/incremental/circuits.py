"""What the tests ask of a circuit."""

from __future__ import annotations

from rekindle.incremental.stream import Integrate, Stream
from rekindle.incremental.traversal import nodes


def integrals(stream: Stream) -> tuple[Integrate, ...]:
    """The integrals, which are the state that the circuit keeps; equal ones are kept once."""
    return tuple(node for node in nodes(stream) if isinstance(node, Integrate))
