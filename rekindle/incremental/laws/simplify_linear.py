"""A linear operator is its own incremental version: (↑op)^Δ = ↑op (Theorem 3.3)."""

from __future__ import annotations

from rekindle.calculus.terms import Linearity
from rekindle.incremental.stream import Apply, Incremental, Stream
from rekindle.incremental.traversal import transform


def simplify_linear(stream: Stream) -> Stream:
    """The circuit with every linear operator applied to changes directly."""
    return transform(stream, _simplify)


def _simplify(node: Stream) -> Stream:
    if isinstance(node, Incremental) and node.operator.linearity is Linearity.LINEAR:
        return Apply(node.operator, node.inputs)
    return node
