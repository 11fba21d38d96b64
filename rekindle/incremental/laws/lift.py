"""Step 3: ↑(f ∘ g) = ↑f ∘ ↑g, so a term is lifted node by node (Proposition 2.4).

The circuit reads streams of whole tables and gives the stream of the whole view.
"""

from __future__ import annotations

from rekindle.calculus.terms import Constant, Fix, Source, Term
from rekindle.incremental.stream import Apply, Input, Stream
from rekindle.incremental.traversal import share


def lift(term: Term) -> Stream:
    """↑term: the term's meaning at every time. Equal subterms become one node."""
    return share(_lift(term))


def _lift(term: Term) -> Stream:
    if isinstance(term, Source | Constant | Fix):
        return Input(term)
    return Apply(term, tuple(map(_lift, term.children)))
