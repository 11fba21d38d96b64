"""Step 3b: a derived operator is its definition: ↑op(a, b) = ↑(its definition)(a, b).

The definition names its inputs as often as it likes; in the circuit each stays one node.
"""

from __future__ import annotations

from rekindle.calculus.derived import LEFT, RIGHT, definition
from rekindle.calculus.terms import Linearity, Source, Term, bare
from rekindle.errors import restless
from rekindle.incremental.stream import Apply, Stream
from rekindle.incremental.traversal import transform


def expand_derived(stream: Stream) -> Stream:
    """The circuit with every derived operator replaced, also inside definitions."""
    return transform(stream, _expand)


_DEEPEST = 20
"""So many definitions stand inside each other; one that is deeper is inside itself."""


def _expand(node: Stream, depth: int = 0) -> Stream:
    if not isinstance(node, Apply) or node.operator.linearity is not Linearity.DERIVED:
        return node
    if depth > _DEEPEST:
        name = type(node.operator).__name__
        raise restless("a circuit", f"expand_derived, of {name}", depth)
    given = dict(zip((LEFT, RIGHT), node.inputs, strict=False))
    return _lifted(definition(node.operator), given, depth + 1)


def _lifted(term: Term, given: dict[str, Stream], depth: int) -> Stream:
    """A definition over its inputs, which are expanded already; it is of constant depth."""
    if isinstance(term, Source):
        return given[term.name]
    if not term.children:
        raise AssertionError("a definition has no leaves of its own")
    inputs = tuple(_lifted(child, given, depth) for child in term.children)
    return _expand(Apply(bare(term), inputs), depth)
