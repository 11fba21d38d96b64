"""Factoring: what of a function over a group merges, and what is computed from it (section 9).

A function's body e over a group becomes F(e1, ..., en), where the ei are the largest subterms with
a monoid; the state holds (e1, ..., en), F is left to the answer:

    sMap1(λ(k,v). e, X)  →  kMap(λ(x1,...,xn). F(x1,...,xn), sMap1(λ(k,v). {(e1,...,en)}, X))

A tuple keeps its form, so that (k, sum/count) merges by □×((+)×(+)). What has no variable of the
group or the key is no part of the state. Where the body merges by ⊎ itself, it is e1, and F is the
identity; the pull of F through the operators above (the paper's rewrite rules for kMap) is done by
`split.py`, which puts F and all that stands above it into the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rekindle.mrql_language import terms as t
from rekindle.mrql_language.inference import Joins, Judgement, Rho, infer
from rekindle.mrql_language.monoids import Invariant, Monoid, Times


@dataclass(frozen=True, slots=True)
class Factored:
    """What is kept, by which monoid it merges, and the body over what was kept."""

    state: t.Term
    monoid: Monoid
    shape: t.Shape
    body: t.Term
    judgements: tuple[Judgement, ...]


def factor(
    body: t.Term,
    rho: Rho,
    local: frozenset[str],
    joins: Joins = Joins.ANY,
    accept: Callable[[Monoid], bool] = lambda monoid: True,
) -> Factored:
    """The body as F(e1, ..., en); `local` are the variables of the key and the group.

    A part whose monoid is not accepted is not kept: what it is made of is.
    """
    found = _Factoring(rho, local, joins, accept).factor(body)
    if isinstance(found, Factored):
        return found
    return Factored(t.Tuple(()), Times(()), (), found, ())


class _Factoring:
    def __init__(
        self, rho: Rho, local: frozenset[str], joins: Joins, accept: Callable[[Monoid], bool]
    ) -> None:
        self._rho, self._local, self._joins, self._accept = rho, local, joins, accept

    def _kept_whole(self, term: t.Term, monoid: Monoid) -> bool:
        """Whether a term is one part of the state, rather than the parts within it."""
        if isinstance(monoid, Invariant):
            return not isinstance(term, t.Braces)
        return not isinstance(term, t.Tuple) and self._accept(monoid)

    def factor(self, term: t.Term) -> Factored | t.Term:
        """F and the parts, or the term itself if nothing of it need be kept."""
        names = t.free(term)
        if not names & self._local:
            return term
        if names <= set(self._rho):
            judgement = infer(term, self._rho, self._joins)
            if judgement is not None and self._kept_whole(term, judgement.monoid):
                name = t.fresh(_name(term))
                return Factored(term, judgement.monoid, name, t.Var(name), (judgement,))
        parts: list[Factored] = []

        def change(part: t.Term) -> t.Term:
            found = self.factor(part)
            if not isinstance(found, Factored):
                return found
            parts.append(found)
            return found.body

        rebuilt = t.rebuilt(term, change)
        if len(parts) == 1:
            only = parts[0]
            return Factored(only.state, only.monoid, only.shape, rebuilt, only.judgements)
        return Factored(
            t.Tuple(tuple(part.state for part in parts)),
            Times(tuple(part.monoid for part in parts)),
            tuple(part.shape for part in parts),
            rebuilt,
            tuple(judgement for part in parts for judgement in part.judgements),
        )


def _name(term: t.Term) -> str:
    match term:
        case t.Var():
            return term.name
        case t.Reduce(_, t.CMap(t.Lambda(_, t.Braces((t.Constant(),))), _)):
            return "c"
        case t.Reduce():
            return "s"
        case _:
            return "x"
