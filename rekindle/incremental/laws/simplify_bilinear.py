"""The change of a product: (a × b)^Δ = I(a) × b + a × z⁻¹(I(b)) (Theorem 3.4).

One side is taken after the change and the other before it, so that the pairs of a new row with a
new row are counted once. That holds too when both sides are one stream (a self join): the two
terms then read its integral now and its integral before.

    Δa ─┬───────────→ I ──────→ ×  ─→ +  ─→
        │                       ↑     ↑
    Δb ─│─┬─────────────────────┘     │
        │ └─→ I ─→ z⁻¹ ───────→ ×  ───┘
        │                       ↑
        └───────────────────────┘
"""

from __future__ import annotations

from rekindle.calculus.terms import Linearity
from rekindle.incremental.stream import Apply, Delay, Incremental, Integrate, Stream, Sum
from rekindle.incremental.traversal import transform


def simplify_bilinear(stream: Stream) -> Stream:
    """The circuit with every bilinear operator as two, each with a change on one side."""
    return transform(stream, _simplify)


def _simplify(node: Stream) -> Stream:
    if isinstance(node, Incremental) and node.operator.linearity is Linearity.BILINEAR:
        a, b = node.inputs
        return Sum(
            (
                Apply(node.operator, (Integrate(a), b)),
                Apply(node.operator, (a, Delay(Integrate(b)))),
            )
        )
    return node
