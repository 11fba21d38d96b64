"""Terms in the form of definition 2: groupBys and coGroups with one cMap between them.

    cMap(f, cMap(g, S))          →  cMap(λx. cMap(f, g(x)), S)                       (4)
    cMap(f, {e})                 →  f(e)
    cMap(f, {})                  →  {}
    cMap(f, if c then X else Y)  →  if c then cMap(f, X) else cMap(f, Y)
    cMap(λx. {x}, X)             →  X, where X is a bag already
    let p = e in b               →  b with e for p
    (e0, e1)#i, <A: e>.A         →  ei, e

Every rule is an equation of bags, so the value stays; what is written once may be evaluated more
often. The rules are applied from the inside out until none fits.
"""

from __future__ import annotations

from rekindle.mrql_language import terms as t

_BAGS = (t.CMap, t.GroupBy, t.CoGroup, t.Braces)


def normalise(term: t.Term) -> t.Term:
    """The term in normal form."""
    term = t.rebuilt(term, normalise)
    while (changed := _step(term)) is not None:
        term = t.rebuilt(changed, normalise)
    return term


def _step(term: t.Term) -> t.Term | None:
    match term:
        case t.Let():
            return t.applied(term.function, term.value)
        case t.Project(t.Tuple() as made, index) if index < len(made.items):
            return made.items[index]
        case t.Field(t.MakeRecord() as made, name) if name in made.labels:
            return made.items[made.labels.index(name)]
        case t.CMap(function, t.CMap(inner, operand)):
            body = t.CMap(t.renamed(function), inner.body)
            return t.CMap(t.Lambda(inner.shape, body), operand)
        case t.CMap(function, t.Braces(items)):
            return _union(tuple(t.applied(function, item) for item in items))
        case t.CMap(function, t.If(condition, then, otherwise)):
            other = t.CMap(t.renamed(function), otherwise)
            return t.If(condition, t.CMap(function, then), other)
        case t.CMap(t.Lambda(shape, t.Braces((item,))), operand) if isinstance(operand, _BAGS):
            return operand if item == t.as_term(shape) else None
        case _:
            return None


def _union(parts: tuple[t.Term, ...]) -> t.Term:
    if not parts:
        return t.EMPTY
    found = parts[0]
    for part in parts[1:]:
        found = t.Union(found, part)
    return found
