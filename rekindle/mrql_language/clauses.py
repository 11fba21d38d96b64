"""The terms of single clauses: projections of a group, aggregates, distinct."""

from __future__ import annotations

from collections.abc import Callable

from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.monoids import AND, MAX, MIN, OR, SUM


def mapped(term: t.Term, head: Callable[[t.Term], t.Term]) -> t.Term:
    """{head(x) | x ∈ term}"""
    name = t.fresh("x")
    return t.CMap(t.Lambda(name, t.Braces((head(t.Var(name)),))), term)


def lifted_variable(group: str, names: list[str], index: int) -> t.Term:
    """The bag of one variable's values in a group of several."""
    if len(names) == 1:
        return t.Var(group)
    taken = tuple(t.fresh(name) for name in names)
    return t.CMap(t.Lambda(taken, t.Braces((t.Var(taken[index]),))), t.Var(group))


def count(term: t.Term) -> t.Term:
    """reduce(+, {1 | x ∈ term})"""
    return t.Reduce(SUM, mapped(term, lambda _: t.Constant(1)))


def average(term: t.Term) -> t.Term:
    """The sum over the count: NaN of nothing."""
    return t.Call("/", (t.Call("as double", (t.Reduce(SUM, term),)), count(term)))


AGGREGATES: dict[str, Callable[[t.Term], t.Term]] = {
    "count": count,
    "sum": lambda term: t.Reduce(SUM, term),
    "avg": average,
    "min": lambda term: t.Reduce(MIN, term),
    "max": lambda term: t.Reduce(MAX, term),
    "all": lambda term: t.Reduce(AND, term),
    "some": lambda term: t.Reduce(OR, term),
}


def distinct(rows: t.Term, ordering: s.Ordering | None) -> t.Term:
    """Each row once; under an order, with the least of its keys."""
    k, group = t.fresh("x"), t.fresh("s")
    if ordering is None:
        pairs = mapped(rows, lambda x: t.Tuple((x, t.Tuple(()))))
        return t.CMap(t.Lambda((k, group), t.Braces((t.Var(k),))), t.GroupBy(pairs))
    key, head = t.fresh("key"), t.fresh("x")
    swapped = t.CMap(t.Lambda((key, head), t.Braces((t.Tuple((t.Var(head), t.Var(key))),))), rows)
    pair = t.Tuple((t.Reduce(MIN, t.Var(group)), t.Var(k)))
    return t.CMap(t.Lambda((k, group), t.Braces((pair,))), t.GroupBy(swapped))
