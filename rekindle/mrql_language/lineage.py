"""Lineage: each value of a query's output with the join and group-by keys that it came by.

Algorithm 1 on terms of definition 2, where S is a source or anything else that is no group:

    Tq[reduce(⊕, cMap(f, S))] = {((), reduce(⊕, cMap(f, S)))}                     (7a)
    Tq[reduce(⊕, cMap(f, e))] = reduce(↑⊕, sMap1(f, Te[e]))                       (7b)
    Tq[cMap(f, S)]            = {((), b) | a ∈ S, b ∈ f(a)}                       (7c)
    Tq[cMap(f, e)]            = sMap1(f, Te[e])                                   (7d)
    Te[groupBy(c)]            = groupBy(swap(Tc[c]))                              (7e)
    Te[coGroup(c1, c2)]       = mix(coGroup(Tc[c1], Tc[c2]))                      (7f)
    Tc[cMap(f, S)]            = sMap3(f, S)                                       (7g)
    Tc[cMap(f, e)]            = sMap2(f, Te[e])                                   (7h)

The lineage of a value is (k, θ) for a groupBy with key k, (k, (θx, θy)) for a coGroup, () at a
source. One deviation: a coGroup's input that has a lineage of its own forgets it. With the paper's
mix, a key with two lineages on one side has the rows of the other side twice, and a key without
rows on one side has no output at all, although a coGroup is an outer join; so (15b) is true only of
inputs with the lineage (). A coGroup's inputs merge by ⊎, which needs no lineage.
"""

from __future__ import annotations

from rekindle.mrql_language import terms as t
from rekindle.mrql_language.monoids import Grouped

_EMPTY_LINEAGE = t.Tuple(())


def _mapped(term: t.Term) -> tuple[t.Lambda, t.Term]:
    """Any bag as cMap(f, e): cMap(λx. {x}, e) where no cMap is written."""
    if isinstance(term, t.CMap):
        return term.function, term.operand
    name = t.fresh("x")
    return t.Lambda(name, t.Braces((t.Var(name),))), term


def _is_group(term: t.Term) -> bool:
    return isinstance(term, t.GroupBy | t.CoGroup)


def annotate(query: t.Term) -> t.Term:
    """Tq: the query with a lineage at each value of its output."""
    if isinstance(query, t.Reduce):
        function, operand = _mapped(query.operand)
        if not _is_group(operand):
            return t.Braces((t.Tuple((_EMPTY_LINEAGE, query)),))
        return t.Reduce(Grouped(query.monoid), t.SMap1(function, annotate_groups(operand)))
    function, operand = _mapped(query)
    if _is_group(operand):
        return t.SMap1(function, annotate_groups(operand))
    b = t.fresh("b")
    pair = t.Lambda(b, t.Braces((t.Tuple((_EMPTY_LINEAGE, t.Var(b))),)))
    return t.CMap(t.Lambda(function.shape, t.CMap(pair, function.body)), operand)


def annotate_groups(term: t.Term) -> t.Term:
    """Te: groups by their lineage."""
    match term:
        case t.GroupBy():
            return t.GroupBy(t.Swap(_annotate_pairs(term.operand)))
        case t.CoGroup():
            return t.Mix(t.CoGroup(_side(term.left), _side(term.right)))
        case _:
            raise AssertionError(term)


def _side(term: t.Term) -> t.Term:
    found = _annotate_pairs(term)
    return t.Forget(found) if isinstance(found, t.SMap2) else found


def _annotate_pairs(term: t.Term) -> t.Term:
    """Tc: pairs (key, (lineage, value))."""
    function, operand = _mapped(term)
    if _is_group(operand):
        return t.SMap2(function, annotate_groups(operand))
    return t.SMap3(function, operand)
