"""Equal terms that say less: zeros vanish, what is made and opened again is not made.

    r + 0 = r        r · 0 = 0        for x in 0 collect r = 0        1 · r = r
    ⟨a: e, ..⟩.a = e                  fromK(toK(r)) = r
    fromK(ι⟨e, ..⟩, {ι⟨x, ..⟩ => r}) = r[e/x]
    for x in sng(e, r₁) collect r₂ = r₁ · r₂[e/x]
    for x in (for y in r₁ collect r₂) collect r₃ = for y in r₁ collect for x in r₂ collect r₃
    for x in r₁ + r₂ collect r₃ = (for x in r₁ collect r₃) + (for x in r₂ collect r₃)

`sum_of`, `product_of` and their like build a node unless a zero says it is not needed; deltas are
built with them, so that they read as in the thesis. `simplified` applies all of the above.

{ι⟨..⟩ => ∅} stays: it defines its labels as empty, which ∅ does not.
"""

from __future__ import annotations

from typing import cast

from rekindle.nested.terms import (
    ONE,
    Add,
    Dictionary,
    Field,
    For,
    FromKey,
    KeyTerm,
    KeyVariable,
    LabelDictionary,
    LabelUnion,
    Let,
    MakeRecord,
    MakeRingRecord,
    Multiply,
    Negate,
    NewLabel,
    Predicate,
    Product,
    RingField,
    RingTerm,
    Singleton,
    Sum,
    Term,
    ToKey,
    Variable,
    Zero,
    children,
    free_variables,
)
from rekindle.nested.types import Number, product_type
from rekindle.nested.variables import rebuilt, renamed_apart, substitute


def sum_of(left: RingTerm, right: RingTerm) -> RingTerm:
    """r₁ + r₂; r + (s − r) = s, and p · r + p · s = p · (r + s) for a condition p."""
    match left, right:
        case Zero(), _:
            return right
        case _, Zero():
            return left
        case _, Add(new, Negate(old)) if old == left:
            return new
        case Product(Predicate() as condition, one), Product(again, other) if again == condition:
            return Product(condition, sum_of(one, other))
        case _:
            return Add(left, right)


def negation_of(term: RingTerm) -> RingTerm:
    """−r."""
    match term:
        case Zero():
            return term
        case Negate(below):
            return below
        case _:
            return Negate(term)


def product_of(left: RingTerm, right: RingTerm) -> RingTerm:
    """r₁ · r₂."""
    type_ = product_type(left.type, right.type)
    if isinstance(left, Zero) or isinstance(right, Zero):
        return Zero(type_)
    if left == ONE and right.type == type_:
        return right
    return left if right == ONE and left.type == type_ else Product(left, right)


def multiplication_of(left: RingTerm, right: RingTerm) -> RingTerm:
    """r₁ * r₂."""
    term = Multiply(left, right)
    return Zero(term.type) if isinstance(left, Zero) or isinstance(right, Zero) else term


def iteration_of(variable: KeyVariable, source: RingTerm, body: RingTerm) -> RingTerm:
    """for x in r₁ collect r₂."""
    term = For(variable, source, body)
    return Zero(term.type) if isinstance(source, Zero) or isinstance(body, Zero) else term


def let_of(variable: Variable, value: RingTerm, body: RingTerm) -> RingTerm:
    """let X := r₁ in r₂; without the let if X is not read."""
    return Let(variable, value, body) if variable in free_variables(body) else body


def singleton_of(key: KeyTerm, value: RingTerm) -> RingTerm:
    """sng(e, r)."""
    term = Singleton(key, value)
    return Zero(term.type) if isinstance(value, Zero) else term


def simplified(term: RingTerm) -> RingTerm:
    """An equal term to which none of the equations above applies any more."""
    while True:
        simpler = cast(RingTerm, _pass(renamed_apart(term)))
        if simpler == term:
            return term
        term = simpler


def _pass(term: Term) -> Term:
    node = rebuilt(term, tuple(_pass(below) for below in children(term)))
    match node:
        case Add(left, right):
            return sum_of(left, right)
        case Negate(below):
            return negation_of(below)
        case Product(left, right):
            return product_of(left, right)
        case Multiply(left, right):
            return multiplication_of(left, right)
        case Singleton(key, value):
            return singleton_of(key, value)
        case Let(variable, value, body):
            return let_of(variable, value, body)
        case Sum(Zero()) | RingField(Zero()) | Dictionary(_, Zero()):
            return Zero(node.type)
        case Sum(Singleton(_, value)):
            return value
        case RingField(MakeRingRecord(fields), name):
            return dict(fields)[name]
        case Field(MakeRecord(fields), name):
            return dict(fields)[name]
        case FromKey(key, dictionary):
            return _opened(node, key, dictionary)
        case LabelUnion(Zero(), other) | LabelUnion(other, Zero()):
            return other
        case For(variable, source, body):
            return _iterated(node, variable, source, body)
        case _:
            return node


def _opened(node: FromKey, key: KeyTerm, dictionary: RingTerm | None) -> RingTerm:
    match key, dictionary:
        case ToKey(_, ring), None:
            return ring
        case _, Zero():
            return Zero(node.type)
        case NewLabel(index, fields), LabelDictionary(other, parameters, body):
            if index != other:
                return Zero(node.type)
            values = (value for _, value in fields)
            return substitute(body, dict(zip(parameters, values, strict=True)))
        case NewLabel(index), LabelUnion(left, right):
            for one, rest in ((left, right), (right, left)):
                if isinstance(one, LabelDictionary):
                    return FromKey(key, one if one.index == index else rest)
    return node


def _iterated(node: For, variable: KeyVariable, source: RingTerm, body: RingTerm) -> RingTerm:
    moved: RingTerm
    match source:
        case Zero():
            return Zero(node.type)
        case _ if isinstance(body, Zero):
            return Zero(node.type)
        case Singleton(key, value):
            return product_of(value, substitute(body, {variable: key}))
        case Add(left, right):
            return Add(For(variable, left, body), For(variable, right, body))
        case Negate(below):
            return Negate(For(variable, below, body))
        case Let(bound, value, inner):
            return Let(bound, value, For(variable, inner, body))
        case Product(left, right) if isinstance(left.type, Number):
            moved = Product(left, For(variable, right, body))
        case For(outer, rows, inner):
            moved = For(outer, rows, For(variable, inner, body))
        case _:
            return node
    # With values that are collections themselves, a product in another order has other pairs.
    return moved if moved.type == node.type else node
