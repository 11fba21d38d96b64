"""A per-key operator looks at what its change touches: f(x + Δx) − f(x) (Proposition 4.7).

`f` treats each key on its own, so the difference is zero at every key that Δx does not touch. The
new node reads the integral as it was before the change, z⁻¹(I(Δx)), and the change.

The hazard: f(∅) may be a row (an aggregate without keys over no input). D ∘ ↑f ∘ I gives f's value
in full at the first transaction, less nothing, so `Update` must do the same there: its first
output is f(Δx), not f(Δx) − f(∅).
"""

from __future__ import annotations

from rekindle.calculus.terms import Linearity
from rekindle.incremental.stream import Delay, Incremental, Integrate, Stream, Update
from rekindle.incremental.traversal import transform


def simplify_per_key(stream: Stream) -> Stream:
    """The circuit with every per-key operator as a function of its past and its change."""
    return transform(stream, _simplify)


def _simplify(node: Stream) -> Stream:
    if isinstance(node, Incremental) and node.operator.linearity is Linearity.PER_KEY:
        (change,) = node.inputs
        return Update(node.operator, Delay(Integrate(change)), change)
    return node
