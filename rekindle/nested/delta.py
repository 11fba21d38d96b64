"""The change of a term: δ, one rule for each construct.

    law: r[R + ΔR] = r[R] + δ(r)[R, ΔR]                          proposition 3.2.1
    law: δ(r) = 0 for a term that reads no table that changes    lemma 1

    δ(R) = ΔR                                  δ(c) = δ(p(e)) = δ(lift(e)) = δ(ΔR) = 0
    δ(r₁ + r₂) = δ(r₁) + δ(r₂)                 and so for −r, sum(r), r.i, {x => r}, r₁ ∪ r₂
    δ(r₁ · r₂) = r₁ · δ(r₂) + δ(r₁) · (r₂ + δ(r₂))        and so for * and `for`
    δ(¬r) = ¬(r + δ(r)) − ¬r
    δ(sng(e, r)) = sng(e′, δ(r)) + sng(e′, r) − sng(e, r)   where e′ is e on the changed tables
    δ(fromK(e, r)) likewise
    δ(let X := r₁ in r₂) = let X := r₁ in let ΔX := δ(r₁) in δ(r₂) for both the tables and X

The product is the rule of figure 5.1 with two of its three summands drawn together, as the thesis
itself writes it in example 5. The rule for `let` is figure 5.1's as well: with X and the tables
changed at once, δ_R(r₂) + δ_X(r₂) + δ_R(δ_X(r₂)) is one derivation.

Three rules compute old and new in full: ¬, and sng and fromK where the row itself changes, because
a collection is a part of it. Without those a delta is cheaper than its term (`cost.py`). Shredding
takes collections out of rows, and the rules that are left are sng(e, δ(r)) and fromK(e, δ(r)).

The delta of a delta is one again; it calls its change Δ'R (section 3.2.1). Figure 3.1 has the rules
for NRC+, which are instances of these.

Lupei's thesis, figures 3.1 and 5.1.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field, replace
from typing import TypeVar, assert_never, cast

from rekindle.nested.shredding import united
from rekindle.nested.simplify import (
    iteration_of,
    let_of,
    multiplication_of,
    negation_of,
    product_of,
    singleton_of,
    sum_of,
)
from rekindle.nested.terms import (
    Add,
    Change,
    Constant,
    Dictionary,
    For,
    FromKey,
    KeyTerm,
    LabelDictionary,
    LabelUnion,
    Let,
    Lift,
    MakeRingRecord,
    Multiply,
    Negate,
    Not,
    Predicate,
    Product,
    Relation,
    RingField,
    RingTerm,
    Singleton,
    Sum,
    Term,
    Variable,
    Zero,
    children,
)
from rekindle.nested.variables import rebuilt, renamed_apart

T = TypeVar("T", RingTerm, KeyTerm)


@dataclass(frozen=True, slots=True)
class Changed:
    """What changes: tables, whose changes have an order, and the variables that follow them."""

    tables: frozenset[str]
    order: int = 1
    variables: dict[str, Variable] = field(default_factory=dict)

    def change(self, term: Relation | Variable) -> RingTerm | None:
        """ΔR or ΔX, if the term changes."""
        if isinstance(term, Variable):
            return self.variables.get(term.name)
        return Change(term.name, term.type, self.order) if term.name in self.tables else None

    def renamed(self, variable: Variable) -> Variable:
        return replace(variable, name="Δ" + "'" * (self.order - 1) + variable.name)

    def along(self, variable: Variable) -> Changed:
        return replace(self, variables={**self.variables, variable.name: self.renamed(variable)})


def delta(term: RingTerm, tables: Collection[str], order: int = 1) -> RingTerm:
    """δ(r) for changes of some tables, all at once.

    >>> from rekindle.nested.nrc import bag, flatten, times
    >>> from rekindle.nested.text import text
    >>> from rekindle.nested.types import Bag, Boxed, Scalar
    >>> rows = bag("R", Boxed(Bag(Scalar("int"))))
    >>> text(delta(times(flatten(rows), rows), {"R"}))
    'flatten(R) × ΔR ⊎ flatten(ΔR) × (R ⊎ ΔR)'
    """
    return _delta(renamed_apart(term), Changed(frozenset(tables), order))


def deltas(term: RingTerm, tables: Collection[str], count: int) -> tuple[RingTerm, ...]:
    """The term and its first deltas: r, δ(r), δ²(r), .."""
    terms = [term]
    for order in range(1, count + 1):
        terms.append(delta(terms[-1], tables, order))
    return tuple(terms)


def reads(term: Term, tables: Collection[str]) -> bool:
    """Whether a term is dependent on some table: whether one of them occurs in it."""
    if isinstance(term, Relation):
        return term.name in tables
    return any(reads(below, tables) for below in children(term))


def _follows(term: Term, changed: Changed) -> bool:
    if isinstance(term, Relation | Variable):
        return changed.change(term) is not None
    return any(_follows(below, changed) for below in children(term))


def _new(term: T, changed: Changed) -> T:
    """The term on the changed tables."""

    def visit(part: Term) -> Term:
        if isinstance(part, Relation | Variable):
            change = changed.change(part)
            return part if change is None else Add(part, change)
        return rebuilt(part, tuple(visit(below) for below in children(part)))

    return cast(T, visit(term))


def _delta(term: RingTerm, changed: Changed) -> RingTerm:
    match term:
        case Relation() | Variable():
            change = changed.change(term)
            return Zero(term.type) if change is None else change
        case Zero() | Constant() | Change() | Predicate() | Lift():
            return Zero(term.type)
        case Add(left, right):
            return sum_of(_delta(left, changed), _delta(right, changed))
        case Negate(below):
            return negation_of(_delta(below, changed))
        case Product(left, right):
            first, second = _delta(left, changed), _delta(right, changed)
            return sum_of(product_of(left, second), product_of(first, sum_of(right, second)))
        case Multiply(left, right):
            first, second = _delta(left, changed), _delta(right, changed)
            return sum_of(
                multiplication_of(left, second), multiplication_of(first, sum_of(right, second))
            )
        case For(variable, source, body):
            first, second = _delta(source, changed), _delta(body, changed)
            return sum_of(
                iteration_of(variable, source, second),
                iteration_of(variable, first, sum_of(body, second)),
            )
        case Sum(below):
            inner = _delta(below, changed)
            return Zero(term.type) if isinstance(inner, Zero) else Sum(inner)
        case MakeRingRecord(fields):
            parts = tuple((name, _delta(part, changed)) for name, part in fields)
            nothing = all(isinstance(part, Zero) for _, part in parts)
            return Zero(term.type) if nothing else MakeRingRecord(parts)
        case RingField(record, name):
            inner = _delta(record, changed)
            return Zero(term.type) if isinstance(inner, Zero) else RingField(inner, name)
        case Dictionary() | LabelDictionary():
            inner = _delta(term.body, changed)
            return Zero(term.type) if isinstance(inner, Zero) else replace(term, body=inner)
        case LabelUnion(left, right):
            return united(_delta(left, changed), _delta(right, changed))
        case Not(below):
            inner = _delta(below, changed)
            if isinstance(inner, Zero):
                return Zero(term.type)
            return Add(Not(Add(below, inner)), Negate(term))
        case Let(variable, value, body):
            return _let(variable, value, body, changed)
        case Singleton(key, value):
            inner = _delta(value, changed)
            if not _follows(key, changed):
                return singleton_of(key, inner)
            new = _new(key, changed)
            return Add(singleton_of(new, sum_of(value, inner)), Negate(term))
        case FromKey(key, dictionary):
            inner = Zero(term.type) if dictionary is None else _delta(dictionary, changed)
            if not _follows(key, changed):
                quiet = dictionary is None or isinstance(inner, Zero)
                return Zero(term.type) if quiet else FromKey(key, inner)
            new = _new(key, changed)
            if dictionary is None:
                return Add(FromKey(new), Negate(term))
            return Add(FromKey(new, sum_of(dictionary, inner)), Negate(term))
        case _:
            assert_never(term)


def _let(variable: Variable, value: RingTerm, body: RingTerm, changed: Changed) -> RingTerm:
    inner = _delta(value, changed)
    if isinstance(inner, Zero):
        return let_of(variable, value, _delta(body, changed))
    following = _delta(body, changed.along(variable))
    return let_of(variable, value, let_of(changed.renamed(variable), inner, following))
