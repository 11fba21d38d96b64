"""The degree of a term: how many deltas can be taken until one reads no table.

    law: deg(δ(r)) = deg(r) − 1        theorem 2, for a term of positive degree without zeros in it

A table counts 1, products and iterations add, sums take the larger. So deg(r) is the number of
deltas after which what is left depends on changes only, and the views that higher-order maintenance
keeps are r, δ(r), .. up to the last that does not (corollary 3.2.2).

¬, and sng and fromK of a row that changes, have no degree: their deltas read the tables as often as
they do. They are infinite, `math.inf`.

Degree zero and reading no table are the same except under `let`: in let X := R in c a table is
read, and not needed. Likewise the degree of R · ∅ is 1 and its delta nothing, which is why the law
asks for terms without zeros (`simplify.py`).

Lupei's thesis, section 3.2.1, and 3.3.2 for labels.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from typing import assert_never

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
    ToKey,
    Variable,
    Zero,
    children,
)


def degree(term: RingTerm, tables: Collection[str]) -> float:
    """deg(r) with respect to tables that change: a whole number, or infinite.

    >>> from rekindle.nested.nrc import bag, times
    >>> from rekindle.nested.types import Scalar
    >>> R = bag("R", Scalar("int"))
    >>> degree(times(R, R), {"R"}), degree(R, {"S"})
    (2, 0)
    """
    return _degree(term, frozenset(tables), {})


def _degree(term: RingTerm, tables: frozenset[str], lets: Mapping[str, float]) -> float:
    def of(below: RingTerm) -> float:
        return _degree(below, tables, lets)

    match term:
        case Relation(name):
            return 1 if name in tables else 0
        case Variable(name):
            return lets.get(name, 0)
        case Zero() | Constant() | Change() | Predicate() | Lift():
            return 0
        case Add(left, right) | LabelUnion(left, right):
            return max(of(left), of(right))
        case Product(left, right) | Multiply(left, right) | For(_, left, right):
            return of(left) + of(right)
        case Negate(below) | Sum(below) | RingField(below):
            return of(below)
        case Dictionary(_, body) | LabelDictionary(_, _, body):
            return of(body)
        case MakeRingRecord(fields):
            return max((of(part) for _, part in fields), default=0)
        case Let(variable, value, body):
            return _degree(body, tables, {**lets, variable.name: of(value)})
        case Not(below):
            return _whole(of(below))
        case Singleton(key, value):
            return of(value) + _whole(_key_degree(key, tables, lets))
        case FromKey(key, dictionary):
            inner = 0 if dictionary is None else of(dictionary)
            return inner + _whole(_key_degree(key, tables, lets))
        case _:
            assert_never(term)


def _whole(inner: float) -> float:
    """The degree of what is computed anew whenever something in it changes."""
    return math.inf if inner else 0


def _key_degree(key: KeyTerm, tables: frozenset[str], lets: Mapping[str, float]) -> float:
    degrees = [_degree(ring, tables, lets) for ring in _boxed(key)]
    return max(degrees, default=0)


def _boxed(term: Term) -> list[RingTerm]:
    """The collections in a row."""
    if isinstance(term, ToKey):
        return [term.ring]
    return [ring for below in children(term) for ring in _boxed(below)]
