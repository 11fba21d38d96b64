"""A query as an answer over states that merge: q(S) = a(h(S)), h(S ⊎ ΔS) = h(S) ⊗ h(ΔS).

A component is a part of the query that definition 2 covers. Its state is the part with lineage
(algorithm 1), with what does not merge factored out (section 9):

    part            premise     h                                 ⊗     a(x)
    reduce(⊕, c)    c : ⊎       Tq[reduce(⊕, c)]                  ↑⊕    reduce(⊕, π2(x))
    cMap(f, S)      : ⊎         Tq[cMap(f, S)]                    ⊎     π2(x)
    cMap(f, e)      e : ↑⊕      sMap1(λ(k,v). {(e1..en)}, Te[e])  ↑⊗    cMap(λ(k,(x1..xn)). F,
                                                                             reduce(↑⊗, T(x)))

(definitions 3 and 4; T drops the lineage below the key). The largest parts become components, from
the outside in; what is above them is the answer. A stream that nothing covers is kept as it is,
which is the paper's worst case: it is visible, as a component whose state is the stream.

With deletions, a state keeps the number of rows with each value: without it, a group that has lost
its last row is told from one that remains only by its values (`diminisher.py`). And what has no
diminisher is not kept; the bag that it is made of is. Nor are the groups of a join with what does
not change: their keys remain when the last row that met them is deleted, and a diminisher drops
them; the rows of the stream are the state then, and the join is in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from rekindle.mrql_language import terms as t
from rekindle.mrql_language.diminisher import can_diminish, diminish
from rekindle.mrql_language.factor import Factored, factor
from rekindle.mrql_language.inference import ASSUMPTION, Joins, Judgement, Rho, bind, infer
from rekindle.mrql_language.interpreter import Interpreter
from rekindle.mrql_language.lineage import annotate, annotate_groups
from rekindle.mrql_language.monoids import (
    INVARIANT,
    SUM,
    UNION,
    Grouped,
    Monoid,
    Times,
    merge,
    zero,
)
from rekindle.mrql_language.normalise import normalise
from rekindle.mrql_language.text import text
from rekindle.mrql_language.values import Value


class Changes(Enum):
    """What arrives: insertions only, or deletions too."""

    INSERTIONS = "insertions"
    DELETIONS = "insertions and deletions"


@dataclass(frozen=True, slots=True)
class Component:
    """One state: its name in the answer, h, ⊗, and the judgements that say so."""

    name: str
    query: t.Term
    homomorphism: t.Term
    merger: Monoid
    judgements: tuple[Judgement, ...]

    @property
    def assumption(self) -> str:
        """What is assumed of joins, or the empty string."""
        return ASSUMPTION if any(judgement.assumes for judgement in self.judgements) else ""


@dataclass(frozen=True, slots=True)
class Split:
    """h and ⊗ for each state, and the answer over all of them."""

    components: tuple[Component, ...]
    answer: t.Term

    def start(self) -> tuple[Value, ...]:
        """The states before anything came: the zeros."""
        return tuple(zero(component.merger) for component in self.components)

    def state(self, run: Interpreter, env: Mapping[str, Value] | None = None) -> tuple[Value, ...]:
        """h over what the interpreter reads."""
        return tuple(run.evaluate(each.homomorphism, env) for each in self.components)

    def merged(self, left: Sequence[Value], right: Sequence[Value]) -> tuple[Value, ...]:
        """`left ⊗ right`, state by state."""
        return tuple(
            merge(each.merger, x, y)
            for each, x, y in zip(self.components, left, right, strict=True)
        )

    def diminished(self, left: Sequence[Value], right: Sequence[Value]) -> tuple[Value, ...]:
        """`left ⊗̃ right`, state by state: what deleted rows had put in is taken out."""
        return tuple(
            diminish(each.merger, x, y)
            for each, x, y in zip(self.components, left, right, strict=True)
        )

    def result(
        self, run: Interpreter, states: Sequence[Value], env: Mapping[str, Value] | None = None
    ) -> Value:
        """a(states)"""
        named = {each.name: state for each, state in zip(self.components, states, strict=True)}
        return run.evaluate(self.answer, {**(env or {}), **named})

    def __str__(self) -> str:
        lines = []
        for each in self.components:
            lines.append(f"h  {each.name} = {text(each.homomorphism)}")
            lines.append(f"⊗  {each.name} : {each.merger}")
            if each.assumption:
                lines.append(f"   assuming that {each.assumption}")
        return "\n".join([*lines, f"a  {text(self.answer)}"])


def split(
    query: t.Term,
    joins: Joins = Joins.ANY,
    changes: Changes = Changes.INSERTIONS,
    rho: Rho | None = None,
) -> Split:
    """The query as states and an answer; `rho` has the variables that it is a function of."""
    work = _Splitting(joins, changes, rho or {})
    answer = work.answer(normalise(query), frozenset())
    return Split(tuple(work.components), answer)


class _Splitting:
    def __init__(self, joins: Joins, changes: Changes, rho: Rho) -> None:
        self._joins, self._changes, self._rho = joins, changes, rho
        self.components: list[Component] = []

    def _moves(self, term: t.Term) -> bool:
        moving = {name for name, monoid in self._rho.items() if monoid != INVARIANT}
        return bool(t.sources(term)) or bool(t.free(term) & moving)

    def answer(self, term: t.Term, within: frozenset[str]) -> t.Term:
        """The term with its largest components replaced by what answers them."""
        if not self._moves(term):
            return term
        if not t.free(term) & within:
            found = self._component(term)
            if found is not None:
                return found
        if isinstance(term, t.Lambda):
            within |= frozenset(t.variables(term.shape))
        if isinstance(term, t.Match):
            within |= t.free(term.pattern)
        return t.rebuilt(term, lambda part: self.answer(part, within))

    def _keep(
        self, query: t.Term, h: t.Term, merger: Monoid, judgements: tuple[Judgement, ...]
    ) -> t.Term:
        name = f"T{len(self.components) + 1}"
        self.components.append(Component(name, query, h, merger, judgements))
        return t.Var(name)

    def _component(self, term: t.Term) -> t.Term | None:
        judgement = infer(term, self._rho, self._joins)
        match term:
            case t.Reduce() if judgement is not None and not self._accepts(term.monoid):
                return None
            case t.Reduce() if judgement is not None and self._changes is Changes.DELETIONS:
                return self._total(term, judgement)
            case t.Reduce() if judgement is not None:
                x = self._keep(term, annotate(term), Grouped(term.monoid), (judgement,))
                return t.Reduce(term.monoid, _values(x))
            case t.GroupBy() | t.CoGroup():
                k, v = t.fresh("k"), t.fresh("v")
                pair = t.Braces((t.Tuple((t.Var(k), t.Var(v))),))
                return self._groups(t.CMap(t.Lambda((k, v), pair), term))
            case t.CMap(_, t.GroupBy() | t.CoGroup()):
                return self._groups(term)
            case _ if judgement is not None and judgement.monoid == UNION:
                x = self._keep(term, annotate(term), UNION, (judgement,))
                return _values(x)
            case _:
                return None

    def _accepts(self, monoid: Monoid) -> bool:
        return self._changes is Changes.INSERTIONS or can_diminish(monoid)

    def _total(self, term: t.Reduce, judgement: Judgement) -> t.Term:
        """A total with the number of what was added: no lineage, since the operand merges by ⊎."""
        value = t.Tuple((term, _number(term.operand)))
        state = t.Braces((t.Tuple((t.Tuple(()), value)),))
        x = self._keep(term, state, Grouped(Times((term.monoid, SUM))), (judgement,))
        first, count = t.fresh("v"), t.fresh("n")
        only = t.Lambda((t.fresh("θ"), (first, count)), t.Braces((t.Var(first),)))
        return t.Reduce(term.monoid, t.CMap(only, x))

    def _groups(self, term: t.CMap) -> t.Term | None:
        groups = infer(term.operand, self._rho, self._joins)
        if groups is None or not isinstance(groups.monoid, Grouped):
            return None
        if self._changes is Changes.DELETIONS and INVARIANT in _sides(groups.monoid.of):
            return None
        function = _taking_apart(term.function, term.operand)
        bound = bind(function.shape, Times((INVARIANT, groups.monoid.of)))
        if bound is None:
            return None
        assert isinstance(function.shape, tuple)
        key, group = function.shape
        local = frozenset(t.variables(function.shape))
        found = factor(function.body, {**self._rho, **bound}, local, self._joins, self._accepts)
        if self._changes is Changes.DELETIONS:
            found = _with_presence(found, group)
        inner = t.Lambda((key, group), t.Braces((found.state,)))
        h = t.SMap1(inner, annotate_groups(term.operand))
        x = self._keep(term, h, Grouped(found.monoid), (groups, *found.judgements))
        k, lineage, a = t.fresh("k"), t.fresh("θ"), t.fresh("a")
        by_key = t.Braces((t.Tuple((t.Var(k), t.Var(a))),))
        merged = t.Reduce(Grouped(found.monoid), t.CMap(t.Lambda(((k, lineage), a), by_key), x))
        return t.CMap(t.Lambda((t.fresh("k"), found.shape), found.body), merged)


def _values(x: t.Term) -> t.Term:
    """π2(x)"""
    lineage, value = t.fresh("θ"), t.fresh("v")
    return t.CMap(t.Lambda((lineage, value), t.Braces((t.Var(value),))), x)


def _sides(group: Monoid) -> tuple[Monoid, ...]:
    return group.parts if isinstance(group, Times) else (group,)


def _number(bag: t.Term) -> t.Term:
    one = t.Lambda(t.fresh("_"), t.Braces((t.Constant(1),)))
    return t.Reduce(SUM, t.CMap(one, bag))


def _taking_apart(function: t.Lambda, groups: t.Term) -> t.Lambda:
    """The function with the key, and each side of a coGroup, as a variable."""
    wanted: t.Shape = (t.fresh("k"), t.fresh("s"))
    if isinstance(groups, t.CoGroup):
        wanted = (t.fresh("k"), (t.fresh("xs"), t.fresh("ys")))
    shape = function.shape
    if isinstance(shape, tuple) and len(shape) == 2:
        sides = shape[1]
        if isinstance(groups, t.GroupBy) and isinstance(sides, str):
            return function
        if isinstance(groups, t.CoGroup) and isinstance(sides, tuple) and len(sides) == 2:
            return function
    return t.Lambda(wanted, t.applied(function, t.as_term(wanted)))


def _with_presence(found: Factored, group: t.Shape) -> Factored:
    """The same with the number of the group's rows."""
    counts = [_number(t.Var(name)) for name in t.variables(group)]
    shape = tuple(t.fresh("n") for _ in counts)
    return Factored(
        t.Tuple((found.state, t.Tuple(tuple(counts)))),
        Times((found.monoid, Times((SUM,) * len(counts)))),
        (found.shape, shape),
        found.body,
        found.judgements,
    )
