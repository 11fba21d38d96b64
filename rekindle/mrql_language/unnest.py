"""Joins and nested queries become coGroups (section 6).

A query within the function of a cMap, at any place and depth, that compares something of the outer
row with something of its own rows is taken out:

    cMap(λx. ... cMap(λy. if a(x) = b(y) and c then e else {}, Y) ..., X)
    →  cMap(λ(k,(xs,ys)). cMap(λx. ... cMap(λy. if c then e else {}, ys) ..., xs),
            coGroup(cMap(λx. {(a(x), x)}, X), cMap(λy. {(b(y), y)}, Y)))

A row of X without partners meets an empty ys, so that no outer join and no null is needed. Where
the inner query is all that the function says, it is a plain join: its pairs are made first,

    →  cMap(λ(x,y). if c then e else {},
            cMap(λ(k,(xs,ys)). cMap(λx. cMap(λy. {(x,y)}, ys), xs), coGroup(...)))

so that a third input can be joined with them in turn. Before that, a test that a cMap's own
variables do not occur in moves out of it.

Hazard: a key or a test that is moved is evaluated for rows that the text would not have come to.
So only those that cannot fail are moved: comparisons of variables, fields, components, constants.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from rekindle.mrql_language import terms as t

_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")


def unnest(term: t.Term) -> t.Term:
    """The term with every nested query that an equality correlates taken out."""
    return _joined(_float(term))


def _total(term: t.Term) -> bool:
    match term:
        case t.Var() | t.Constant() | t.Stored():
            return True
        case t.Field() | t.Project():
            return _total(term.operand)
        case t.Tuple():
            return all(_total(item) for item in term.items)
        case _:
            return False


def _conjuncts(condition: t.Term) -> Iterator[t.Term]:
    if isinstance(condition, t.Call) and condition.function == "and":
        for side in condition.arguments:
            yield from _conjuncts(side)
    else:
        yield condition


def _guarded(conditions: list[t.Term], body: t.Term) -> t.Term:
    if not conditions:
        return body
    found = conditions[0]
    for condition in conditions[1:]:
        found = t.Call("and", (found, condition))
    return t.If(found, body, t.EMPTY)


def _test(body: t.Term) -> tuple[list[t.Term], t.Term]:
    """The conditions on top of a function's body, and what is under them."""
    conditions: list[t.Term] = []
    while isinstance(body, t.If) and body.otherwise == t.EMPTY:
        conditions += _conjuncts(body.condition)
        body = body.then
    return conditions, body


def _movable(condition: t.Term) -> bool:
    is_test = isinstance(condition, t.Call) and condition.function in _COMPARISONS
    return is_test and all(_total(side) for side in condition.arguments)  # type: ignore[union-attr]


def _float(term: t.Term) -> t.Term:
    """Tests outside of the cMaps that they do not depend on."""
    term = t.rebuilt(term, _float)
    if not isinstance(term, t.CMap):
        return term
    conditions, body = _test(term.function.body)
    own = frozenset(t.variables(term.function.shape))
    out = [c for c in conditions if _movable(c) and not t.free(c) & own]
    if not out:
        return term
    rest = [c for c in conditions if c not in out]
    return _guarded(out, t.CMap(t.Lambda(term.function.shape, _guarded(rest, body)), term.operand))


@dataclass(frozen=True, slots=True)
class _Query:
    """A nested query that can be taken out: where it is, and its keys."""

    term: t.CMap
    outer: tuple[t.Term, ...]
    inner: tuple[t.Term, ...]
    body: t.Term


def _joined(term: t.Term) -> t.Term:
    while isinstance(term, t.CMap) and (query := _find(term)) is not None:
        term = _take_out(term, query)
    return t.rebuilt(term, _joined)


def _find(term: t.CMap) -> _Query | None:
    rows = frozenset(t.variables(term.function.shape))
    conditions, body = _test(term.function.body)
    for part in (*conditions, body):
        if (found := _search(part, rows, frozenset())) is not None:
            return found
    return None


def _search(term: t.Term, rows: frozenset[str], between: frozenset[str]) -> _Query | None:
    if isinstance(term, t.CMap) and not t.free(term.operand) & (rows | between):
        query = _query(term, rows, between)
        if query is not None:
            return query
    if isinstance(term, t.Lambda):
        between |= frozenset(t.variables(term.shape))
    if isinstance(term, t.Match):
        between |= t.free(term.pattern)
    for part in t.children(term):
        if (found := _search(part, rows, between)) is not None:
            return found
    return None


def _query(term: t.CMap, rows: frozenset[str], between: frozenset[str]) -> _Query | None:
    own = frozenset(t.variables(term.function.shape))
    conditions, body = _test(term.function.body)
    outer: list[t.Term] = []
    inner: list[t.Term] = []
    rest: list[t.Term] = []
    for condition in conditions:
        sides = _sides(condition, rows, own, between)
        if sides is None:
            rest.append(condition)
        else:
            outer.append(sides[0])
            inner.append(sides[1])
    if not outer:
        return None
    return _Query(term, tuple(outer), tuple(inner), _guarded(rest, body))


def _sides(
    condition: t.Term, rows: frozenset[str], own: frozenset[str], between: frozenset[str]
) -> tuple[t.Term, t.Term] | None:
    """The two sides of an equality between the outer row and the inner one."""
    if not (isinstance(condition, t.Call) and condition.function == "=" and _movable(condition)):
        return None
    for outer, inner in (condition.arguments, condition.arguments[::-1]):
        of_outer, of_inner = t.free(outer), t.free(inner)
        if (
            of_outer & rows
            and not of_outer & (own | between)
            and of_inner & own
            and not of_inner & (rows | between)
        ):
            return outer, inner
    return None


def _take_out(term: t.CMap, query: _Query) -> t.Term:
    k, xs, ys = t.fresh("k"), t.fresh("xs"), t.fresh("ys")
    x, y = term.function.shape, query.term.function.shape
    groups = t.CoGroup(
        _keyed(x, query.outer, term.operand), _keyed(y, query.inner, query.term.operand)
    )
    if _test(term.function.body)[1] == query.term:
        conditions, _ = _test(term.function.body)
        pairs = t.CMap(
            t.Lambda(x, t.CMap(t.Lambda(y, t.Braces((_pair(x, y),))), t.Var(ys))), t.Var(xs)
        )
        # The pairs' variables are those of the function above: each binder needs its own.
        joined = t.CMap(t.renamed(t.Lambda((k, (xs, ys)), pairs)), groups)
        return t.CMap(t.Lambda((x, y), _guarded(conditions, query.body)), joined)
    inside = t.CMap(t.Lambda(y, query.body), t.Var(ys))
    body = _replaced(term.function.body, query.term, inside)
    rows = t.CMap(t.Lambda(x, body), t.Var(xs))
    return t.CMap(t.Lambda((k, (xs, ys)), rows), groups)


def _pair(x: t.Shape, y: t.Shape) -> t.Term:
    return t.Tuple((t.as_term(x), t.as_term(y)))


def _keyed(shape: t.Shape, keys: tuple[t.Term, ...], operand: t.Term) -> t.Term:
    key = keys[0] if len(keys) == 1 else t.Tuple(keys)
    pair = t.Lambda(shape, t.Braces((t.Tuple((key, t.as_term(shape))),)))
    return t.CMap(t.renamed(pair), operand)


def _replaced(term: t.Term, old: t.Term, new: t.Term) -> t.Term:
    if term is old or term == old:
        return new
    return t.rebuilt(term, lambda part: _replaced(part, old, new))
