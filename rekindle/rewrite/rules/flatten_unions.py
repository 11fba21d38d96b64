"""A union inside a union is one union: (a + b) + c = a + b + c, and a sum of one input is it.

Addition of Z-sets is associative, so the inputs can be listed at one level; then each is lowered
beside the others and not in a chain. The names of the first input stay first.
"""

from __future__ import annotations

from rekindle.calculus.terms import Term, UnionAll


def flatten_unions(term: Term) -> Term:
    """A union of inputs that are no unions.

    >>> from rekindle.calculus.schema import Schema
    >>> from rekindle.calculus.terms import Source
    >>> t = Source("t", Schema.of(x="int"))
    >>> flatten_unions(UnionAll((UnionAll((t, t)), t))) == UnionAll((t, t, t))
    True
    """
    match term:
        case UnionAll((only,)):
            return only
        case UnionAll(children) if any(isinstance(child, UnionAll) for child in children):
            return UnionAll(
                tuple(
                    inner
                    for child in children
                    for inner in (child.children if isinstance(child, UnionAll) else (child,))
                )
            )
        case _:
            return term
