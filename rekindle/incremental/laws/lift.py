"""Step 3: ↑(f ∘ g) = ↑f ∘ ↑g, so a term is lifted node by node (Proposition 2.4).

The circuit reads streams of whole tables and gives the stream of the whole view.
"""

from __future__ import annotations

from rekindle.calculus.terms import Constant, Fix, Source, Term, bare
from rekindle.calculus.walks import fold
from rekindle.incremental.stream import Apply, Input, Stream
from rekindle.incremental.traversal import share


def lift(term: Term) -> Stream:
    """↑term: the term's meaning at every time. Equal subterms become one node."""
    return share(fold(term, _inputs, _lift))


def _inputs(term: Term) -> tuple[Term, ...]:
    return () if isinstance(term, Source | Constant | Fix) else term.children


def _lift(term: Term, inputs: tuple[Stream, ...]) -> Stream:
    if isinstance(term, Source | Constant | Fix):
        return Input(term)
    return Apply(bare(term), inputs)
