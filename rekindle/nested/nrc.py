"""NRC+, the calculus of nested bags, as a fragment of the ring calculus.

    sng(x), sng(e)                     Singleton of a row, of a boxed bag
    flatten(e)                         for x in e collect fromK(x)
    for x in e₁ union e₂               For; where p is a product with the predicate
    e₁ × e₂, e₁ ⊎ e₂, ⊖e, ∅, let       Product, Add, Negate, Zero, Let
    p(x) : Bag(1)                      Predicate : bigint

The last line is the one difference. A bag of empty tuples is its count, Bag(1) ≅ bigint, and the
ring calculus keeps the count. Deltas, degrees and costs of NRC+ (figures 3.1 and 3.2) are then
instances of those of the ring calculus.

Lupei's thesis, section 2.1. A for-comprehension takes its body as a function of its variable.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from rekindle.errors import DefinitionError
from rekindle.nested.terms import (
    Add,
    Field,
    For,
    FromKey,
    KeyTerm,
    KeyVariable,
    Let,
    MakeRecord,
    Negate,
    Predicate,
    Product,
    Relation,
    RingTerm,
    Singleton,
    ToKey,
    Variable,
    Zero,
)
from rekindle.nested.types import Bag, KeyType, Mapping


def bag(name: str, row: KeyType) -> Relation:
    """R : Bag(K)."""
    return Relation(name, Bag(row))


def sng(row: KeyTerm) -> Singleton:
    """sng(x): the bag with one row."""
    return Singleton(row)


def boxed(inner: RingTerm) -> ToKey:
    """A collection as a part of a row; its static index is given by shredding."""
    return ToKey(0, inner)


def for_in(name: str, source: RingTerm, body: Callable[[KeyVariable], RingTerm]) -> For:
    """for x in e₁ union e₂."""
    if not isinstance(source.type, Mapping):
        raise DefinitionError(f"what '{name}' ranges over is not a collection but {source.type}")
    variable = KeyVariable(name, source.type.key)
    return For(variable, source, body(variable))


def where(condition: KeyTerm, body: RingTerm) -> Product:
    """where p(x) ..: the body if the condition holds, otherwise nothing."""
    return Product(Predicate(condition), body)


def flatten(nested: RingTerm) -> For:
    """flatten(e): the rows of all inner bags."""
    return for_in("x", nested, FromKey)


def times(left: RingTerm, right: RingTerm) -> Product:
    """e₁ × e₂."""
    return Product(left, right)


def plus(*terms: RingTerm) -> RingTerm:
    """e₁ ⊎ e₂ ⊎ ..."""
    return reduce(Add, terms)


def minus(term: RingTerm) -> Negate:
    """⊖e."""
    return Negate(term)


def empty(row: KeyType) -> Zero:
    """∅ : Bag(K)."""
    return Zero(Bag(row))


def let(name: str, value: RingTerm, body: Callable[[Variable], RingTerm]) -> Let:
    """let X := e₁ in e₂."""
    variable = Variable(name, value.type)
    return Let(variable, value, body(variable))


def row(**fields: KeyTerm) -> MakeRecord:
    """⟨name: e, ..⟩."""
    return MakeRecord(tuple(fields.items()))


def path(key: KeyTerm, *names: str) -> KeyTerm:
    """x.a.b: a field of a field."""
    return reduce(Field, names, key)
