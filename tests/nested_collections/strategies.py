"""Random nested types, values and well-typed terms.

Scalars come from few values, NULL among them, so that rows meet; bags may be empty, rows occur more
than once and with negative weight. Terms are drawn for a type: whatever can be built of that type
from the tables and from what is bound around.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st

from rekindle.nested.nrc import where
from rekindle.nested.scalars import both, different, either, equal, less
from rekindle.nested.terms import (
    Add,
    Constant,
    Dictionary,
    Field,
    For,
    FromKey,
    KeyConstant,
    KeyTerm,
    KeyVariable,
    Let,
    Lift,
    MakeRecord,
    MakeRingRecord,
    Multiply,
    Negate,
    Not,
    Predicate,
    Product,
    Relation,
    RingTerm,
    Singleton,
    Sum,
    ToKey,
    Variable,
    Zero,
)
from rekindle.nested.types import (
    BIGINT,
    Bag,
    Boxed,
    KeyType,
    Label,
    Mapping,
    Number,
    Record,
    RingRecord,
    RingType,
    Scalar,
)
from rekindle.nested.values import Box, mapping

INT = Scalar("bigint")
STRING = Scalar("string")
WEIGHTS = st.sampled_from([1, 1, 1, 2, 3, -1, -2])
COUNTS = st.sampled_from([1, 1, 2])

Draw = Callable[[st.SearchStrategy[Any]], Any]


# --- types ----------------------------------------------------------------------------------------


def key_types(depth: int) -> st.SearchStrategy[KeyType]:
    """Rows whose collections nest to a depth."""
    scalars = st.sampled_from([INT, STRING])
    if depth == 0:
        return scalars | st.builds(_record, st.lists(scalars, max_size=3))
    inner = st.builds(Boxed, bag_types(depth - 1))
    parts = st.lists(scalars | inner, min_size=1, max_size=3)
    return inner | st.builds(_record, parts)


def bag_types(depth: int) -> st.SearchStrategy[Mapping]:
    return st.builds(Bag, key_types(depth))


def nested_types(deepest: int = 3) -> st.SearchStrategy[Mapping]:
    """Bag types, of which the deepest nest a bag in a bag so many times."""
    return st.integers(0, deepest).flatmap(bag_types)


def _record(parts: list[KeyType]) -> Record:
    return Record(tuple(zip("abc", parts, strict=False)))


# --- values ---------------------------------------------------------------------------------------


def keys(type_: KeyType, weights: st.SearchStrategy[int] = WEIGHTS) -> st.SearchStrategy[Any]:
    match type_:
        case Scalar("bigint"):
            return st.sampled_from([0, 1, 1, 2, None])
        case Scalar():
            return st.sampled_from(["a", "a", "b", None])
        case Record(fields):
            return st.tuples(*(keys(field, weights) for _, field in fields))
        case Boxed(ring):
            return st.builds(Box.of, rings(ring, weights))
        case Label():
            raise AssertionError("labels are made by shredding")


def rings(type_: RingType, weights: st.SearchStrategy[int] = WEIGHTS) -> st.SearchStrategy[Any]:
    match type_:
        case Number():
            return weights
        case RingRecord(fields):
            return st.tuples(*(rings(field, weights) for _, field in fields))
        case Mapping(key, ring):
            rows = st.tuples(keys(key, weights), rings(ring, weights))
            sizes = st.sampled_from([0, 1, 2, 2, 3, 3])
            return sizes.flatmap(lambda n: st.lists(rows, min_size=n, max_size=n)).map(mapping)


# --- terms ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Fragment:
    """Which constructs may be used, and where.

    `boxes`: collections that read tables may be parts of rows (all of NRC+), or not (IncNRC+).
    `signs`: negation, of rows and of truth, and sums of scalars.
    `zeros`: the empty collection.
    """

    boxes: bool = True
    signs: bool = True
    zeros: bool = True


@dataclass(frozen=True)
class Scope:
    tables: tuple[Relation, ...]
    fragment: Fragment
    keys: tuple[KeyVariable, ...] = ()
    lets: tuple[Variable, ...] = ()

    def with_key(self, variable: KeyVariable) -> Scope:
        return replace(self, keys=(*self.keys, variable))

    def with_let(self, variable: Variable) -> Scope:
        return replace(self, lets=(*self.lets, variable))

    def without_tables(self) -> Scope:
        return replace(self, tables=(), lets=())

    @property
    def paths(self) -> list[KeyTerm]:
        found: list[KeyTerm] = []
        for variable in self.keys:
            found += _below(variable)
        return found

    @property
    def collections(self) -> list[RingTerm]:
        """What there is to range over."""
        boxes = [FromKey(path) for path in self.paths if isinstance(path.type, Boxed)]
        bags = [box for box in boxes if isinstance(box.type, Mapping)]
        return [*self.tables, *(v for v in self.lets if isinstance(v.type, Mapping)), *bags]


def _below(key: KeyTerm) -> list[KeyTerm]:
    found = [key]
    if isinstance(key.type, Record):
        for name in key.type.names:
            found += _below(Field(key, name))
    return found


def ring_terms(
    type_: RingType, tables: tuple[Relation, ...], fragment: Fragment, depth: int = 3
) -> st.SearchStrategy[RingTerm]:
    """Terms of a type over some tables."""

    @st.composite
    def drawn(draw: Draw) -> RingTerm:
        return _ring(draw, type_, Scope(tables, fragment), depth)

    return drawn()


def _ring(draw: Draw, type_: RingType, scope: Scope, depth: int) -> RingTerm:
    if isinstance(type_, RingRecord):
        parts = ((name, _ring(draw, part, scope, depth)) for name, part in type_.fields)
        return MakeRingRecord(tuple(parts))
    given = [term for term in scope.collections if term.type == type_]
    given += [v for v in scope.lets if v.type == type_ and v not in given]
    options: list[str] = ["given"] * bool(given)
    if isinstance(type_, Number):
        options += ["one", "predicate"]
        if depth:
            options += ["iterate", "let"] if scope.collections else ["let"]
            options += ["lift", "not", "sum"] if scope.fragment.signs else []
    else:
        options += ["singleton"] * 2
        options += ["zero"] if scope.fragment.zeros and draw(st.integers(0, 9)) == 0 else []
        if depth:
            options += ["where", "add", "let", "multiply"]
            options += ["iterate"] * 8 if scope.collections else []
            options += ["negate"] if scope.fragment.signs else []
            options += ["product"] * 3 if _is_pair(type_) else []
            inner = [t for t in scope.collections if t.type == Bag(Boxed(type_))]
            options += ["flatten"] * 3 if inner else []
    match draw(st.sampled_from(options)):
        case "given":
            return draw(st.sampled_from(given))
        case "one":
            return Constant(draw(st.sampled_from([1, 2])))
        case "zero":
            return Zero(type_)
        case "predicate":
            return Predicate(_condition(draw, scope))
        case "lift":
            return Lift(_key(draw, INT, scope, depth - 1))
        case "not":
            inner_scope = scope if scope.fragment.boxes else scope.without_tables()
            return Not(_ring(draw, BIGINT, inner_scope, depth - 1))
        case "sum":
            collection = _collection(draw, scope, depth - 1)
            return Sum(collection) if collection.type.ring == BIGINT else Constant(1)
        case "singleton":
            assert isinstance(type_, Mapping)
            key = _key(draw, type_.key, scope, depth)
            if type_.ring == BIGINT and draw(st.booleans()):
                return Singleton(key)
            return Singleton(key, _ring(draw, type_.ring, scope, max(0, depth - 2)))
        case "where":
            return where(_condition(draw, scope), _ring(draw, type_, scope, depth - 1))
        case "add":
            left, right = (_ring(draw, type_, scope, depth - 1) for _ in range(2))
            return Add(left, right)
        case "negate":
            return Negate(_ring(draw, type_, scope, depth - 1))
        case "let":
            value = _ring(draw, draw(_near(type_, scope)), scope, depth - 1)
            variable = Variable(f"X{len(scope.lets)}", value.type)
            return Let(variable, value, _ring(draw, type_, scope.with_let(variable), depth - 1))
        case "multiply":
            assert isinstance(type_, Mapping)
            rows = _ring(draw, type_, scope, depth - 1)
            each = KeyVariable(f"k{len(scope.keys)}", type_.key)
            weight = _ring(draw, BIGINT, scope.with_key(each), depth - 2 if depth > 1 else 0)
            return Multiply(rows, Dictionary(each, weight))
        case "iterate":
            source = _collection(draw, scope, depth - 1)
            if source.type.ring != BIGINT:
                source = draw(
                    st.sampled_from([t for t in scope.collections if _plain(t)] or [None])
                )
                if source is None:
                    return _ring(draw, type_, scope, 0)
            each = KeyVariable(f"x{len(scope.keys)}", source.type.key)
            body = _ring(draw, type_, scope.with_key(each), depth - 1)
            if draw(st.booleans()):
                body = where(_condition(draw, scope.with_key(each)), body)
            return For(each, source, body)
        case "product":
            assert isinstance(type_, Mapping) and isinstance(type_.key, Record)
            parts = [_ring(draw, Bag(part), scope, depth - 1) for _, part in type_.key.fields]
            return Product(*parts)
        case "flatten":
            source = draw(
                st.sampled_from([t for t in scope.collections if t.type == Bag(Boxed(type_))])
            )
            each = KeyVariable(f"x{len(scope.keys)}", source.type.key)
            return For(each, source, FromKey(each))
        case other:
            raise AssertionError(other)


def _plain(term: RingTerm) -> bool:
    return isinstance(term.type, Mapping) and term.type.ring == BIGINT


def _is_pair(type_: RingType) -> bool:
    return (
        isinstance(type_, Mapping)
        and type_.ring == BIGINT
        and isinstance(type_.key, Record)
        and type_.key.names == ("1", "2")
    )


def _near(type_: RingType, scope: Scope) -> st.SearchStrategy[RingType]:
    return st.sampled_from([type_, *(term.type for term in scope.collections)])


def _collection(draw: Draw, scope: Scope, depth: int) -> RingTerm:
    """Something to range over: mostly what there is, sometimes a query of its type."""
    there = draw(st.sampled_from(scope.collections)) if scope.collections else None
    if there is None:
        return _ring(draw, Bag(INT), scope, max(0, depth))
    if depth > 0 and draw(st.integers(0, 3)) == 0:
        return _ring(draw, there.type, scope, depth)
    return there


def _key(draw: Draw, type_: KeyType, scope: Scope, depth: int) -> KeyTerm:
    given = [path for path in scope.paths if path.type == type_]
    often = 1 if isinstance(type_, Boxed) else 5
    if given and draw(st.integers(0, often)):
        return draw(st.sampled_from(given))
    match type_:
        case Scalar():
            return KeyConstant(draw(keys(type_)), type_)
        case Record(fields):
            return MakeRecord(tuple((n, _key(draw, part, scope, depth)) for n, part in fields))
        case Boxed(ring):
            inner = scope if scope.fragment.boxes else scope.without_tables()
            return ToKey(0, _ring(draw, ring, inner, max(1, depth - 1)))
        case Label():
            raise AssertionError("labels are made by shredding")


def _condition(draw: Draw, scope: Scope) -> KeyTerm:
    type_ = draw(st.sampled_from([INT, STRING]))
    make = draw(st.sampled_from([equal, equal, equal, different, less]))
    one = make(_key(draw, type_, scope, 0), _key(draw, type_, scope, 0))
    if draw(st.integers(0, 3)):
        return one
    return draw(st.sampled_from([both, either]))(one, _condition(draw, scope))
