"""Shredding: a query whose rows hold collections becomes several queries whose rows do not.

    toK_ι(r)^F = ι⟨the values that r reads⟩        toK_ι(r)^Γ = ⟨{ι⟨..⟩ => r^F}, r^Γ⟩
    fromK(e)^F = fromK(e^F, e^Γ₁)                  fromK(e)^Γ = e^Γ₂

and all other constructs keep their form. r^F computes the flat collection, with labels for inner
ones; each dictionary in r^Γ says what the labels of one place stand for (`contexts.py`). None of
these queries puts a collection into a row, so their changes are cheap (`delta.py`): what was a
change deep inside a row is an addition to a definition.

    law: nest(r^F, r^Γ) = r            theorems 8 and 14

A label holds only what its definition reads, field by field: for `related` that is the name, genre
and director of the movie, and two movies that agree on them share one definition. The fields are
scalars or labels, so a label is a flat row. A collection that a `let` names inside the definition
is defined inside it, so every dictionary is a closed query.

Labels stand for the place and values that made a collection, not for its contents: two labels may
have the same contents. So r₁ * r₂, which compares keys, is shredded only where the keys hold no
collection, or where one side is {x => r} and takes whatever the other side has.

Lupei's thesis, figures 3.3 and 5.2 for terms; `shred` for values, figure 3.4.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TypeAlias, assert_never, cast

from rekindle.errors import UnsupportedError
from rekindle.nested import contexts
from rekindle.nested.contexts import Context, Empty, Fields, Inner, Pair, flat_key, flat_ring
from rekindle.nested.terms import (
    Add,
    Apply,
    Change,
    Constant,
    Dictionary,
    Field,
    For,
    FromKey,
    KeyConstant,
    KeyTerm,
    KeyVariable,
    LabelDictionary,
    LabelUnion,
    Let,
    Lift,
    MakeRecord,
    MakeRingRecord,
    Measure,
    Multiply,
    Negate,
    NewLabel,
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
    free_variables,
)
from rekindle.nested.types import KeyType, Mapping, Record, RingType, holds_boxes, is_flat
from rekindle.nested.variables import paths_read, rebuilt, renamed_apart, substitute

TermContext: TypeAlias = Context[RingTerm]


@dataclass(frozen=True, slots=True)
class Shredded:
    """r^F and r^Γ, with the type of r."""

    type: RingType
    flat: RingTerm
    context: TermContext

    @property
    def queries(self) -> dict[str, RingTerm]:
        """All queries by path: "" is the flat one, the others are dictionaries."""
        return {"": self.flat, **dict(contexts.named(self.context))}


@dataclass(frozen=True, slots=True)
class Scope:
    """The flat forms and contexts of what is bound around a term; `lets` in order of binding."""

    keys: MappingOf[str, tuple[KeyVariable, TermContext]] = field(default_factory=dict)
    lets: MappingOf[str, tuple[Variable, TermContext, RingTerm]] = field(default_factory=dict)

    def with_key(self, flat: KeyVariable, context: TermContext) -> Scope:
        return replace(self, keys={**self.keys, flat.name: (flat, context)})

    def with_let(self, flat: Variable, context: TermContext, value: RingTerm) -> Scope:
        return replace(self, lets={**self.lets, flat.name: (flat, context, value)})


def shredded(term: RingTerm) -> Shredded:
    """The flat query of a term and the dictionaries of its inner collections."""
    flat, context = _ring(numbered(renamed_apart(term)), Scope())
    return Shredded(term.type, flat, context)


def numbered(term: RingTerm) -> RingTerm:
    """The term with a static index of its own for each place that boxes a collection: 1, 2, .."""
    fresh = count(1)

    def visit(part: Term) -> Term:
        if isinstance(part, ToKey):
            index = next(fresh)
            return ToKey(index, cast(RingTerm, visit(part.ring)))
        return rebuilt(part, tuple(visit(below) for below in children(part)))

    return cast(RingTerm, visit(term))


def flat_name(name: str, type_: RingType) -> str:
    """The name of a table's flat collection: its own, if the table is flat."""
    return name if is_flat(type_) else f"{name}^F"


def dictionary_name(name: str, path: str) -> str:
    """The name of the dictionary of a table's inner collections.

    >>> dictionary_name("Server", "incoming")
    'Server^Γ.incoming'
    """
    return f"{name}^Γ.{path}"


def shredded_names(name: str, type_: RingType) -> tuple[str, ...]:
    """The names of all that a table is shredded into, the flat collection first."""
    context = contexts.context_of(type_, lambda path, _: dictionary_name(name, path))
    return (flat_name(name, type_), *(found for _, found in contexts.named(context)))


def _table(term: Relation | Change) -> tuple[RingTerm, TermContext]:
    def leaf(path: str, dictionary: Mapping) -> RingTerm:
        return replace(term, name=dictionary_name(term.name, path), type=dictionary)

    flat = replace(term, name=flat_name(term.name, term.type), type=flat_ring(term.type))
    return flat, contexts.context_of(term.type, leaf)


def united(left: RingTerm, right: RingTerm) -> RingTerm:
    """d₁ ∪ d₂, or one of them if the other says nothing more."""
    if isinstance(left, Zero) or left == right:
        return right
    return left if isinstance(right, Zero) else LabelUnion(left, right)


def _ring(term: RingTerm, scope: Scope) -> tuple[RingTerm, TermContext]:
    match term:
        case Zero(type_):
            return Zero(flat_ring(type_)), contexts.context_of(type_, lambda _, d: Zero(d))
        case Relation() | Change():
            return _table(term)
        case Variable(name):
            bound, context, _ = scope.lets[name]
            return bound, context
        case Constant():
            return term, Empty()
        case Predicate(key):
            return Predicate(_key(key, scope)[0]), Empty()
        case Lift(key):
            return Lift(_key(key, scope)[0]), Empty()
        case Not(below):
            return Not(_ring(below, scope)[0]), Empty()
        case MakeRingRecord(fields):
            done = [(name, _ring(part, scope)) for name, part in fields]
            return (
                MakeRingRecord(tuple((name, flat) for name, (flat, _) in done)),
                Fields(tuple((name, context) for name, (_, context) in done)),
            )
        case RingField(record, name):
            flat, context = _ring(record, scope)
            return RingField(flat, name), _fields(context).field(name)
        case Let(variable, value, body):
            flat, context = _ring(value, scope)
            bound = Variable(variable.name, flat.type)
            inner, result = _ring(body, scope.with_let(bound, context, flat))
            return (Let(bound, flat, inner) if bound in free_variables(inner) else inner), result
        case Add(left, right):
            (one, ours), (other, theirs) = _ring(left, scope), _ring(right, scope)
            return Add(one, other), contexts.zipped(ours, theirs, united)
        case LabelUnion(left, right):
            (one, ours), (other, theirs) = _ring(left, scope), _ring(right, scope)
            return LabelUnion(one, other), contexts.zipped(ours, theirs, united)
        case Negate(below):
            flat, context = _ring(below, scope)
            return Negate(flat), context
        case Product(left, right):
            (one, ours), (other, theirs) = _ring(left, scope), _ring(right, scope)
            return Product(one, other), contexts.product(ours, theirs)
        case Multiply(left, right):
            return _multiplied(left, right, scope)
        case Sum(below):
            flat, context = _ring(below, scope)
            return Sum(flat), _pair(context).value
        case For(variable, source, body):
            rows, context = _ring(source, scope)
            (each, inner), inside = _bound(variable, _pair(context).key, body, scope)
            return For(each, rows, inner), contexts.product(_pair(context).value, inside)
        case Dictionary(variable, body):
            if holds_boxes(variable.type):
                raise UnsupportedError(
                    f"a collection with something for every {variable.type} cannot be shredded",
                    detail=f"'{variable.name}' stands for collections that are nowhere",
                    hint="multiply it with a finite collection",
                )
            empty: TermContext = contexts.context_of(variable.type, _no_dictionary)
            (each, inner), inside = _bound(variable, empty, body, scope)
            return Dictionary(each, inner), Pair(empty, inside)
        case LabelDictionary(index, parameters, body):
            for parameter in parameters:
                nothing: TermContext = contexts.context_of(parameter.type, _no_dictionary)
                scope = scope.with_key(parameter, nothing)
            inner, inside = _ring(body, scope)
            return LabelDictionary(index, parameters, inner), Pair(Empty(), inside)
        case Singleton(key, value):
            (row, ours), (flat, theirs) = _key(key, scope), _ring(value, scope)
            return Singleton(row, flat), Pair(ours, theirs)
        case FromKey(key, None):
            row, context = _key(key, scope)
            assert isinstance(context, Inner)
            return FromKey(row, context.dictionary), context.below
        case FromKey(key, dictionary):
            assert dictionary is not None
            flat, context = _ring(dictionary, scope)
            return FromKey(_key(key, scope)[0], flat), _pair(context).value
        case _:
            assert_never(term)


def _key(term: KeyTerm, scope: Scope) -> tuple[KeyTerm, TermContext]:
    match term:
        case KeyConstant():
            return term, Empty()
        case KeyVariable(name):
            return scope.keys[name]
        case MakeRecord(fields):
            done = [(name, _key(part, scope)) for name, part in fields]
            return (
                MakeRecord(tuple((name, flat) for name, (flat, _) in done)),
                Fields(tuple((name, context) for name, (_, context) in done)),
            )
        case Field(key, name):
            flat, context = _key(key, scope)
            return Field(flat, name), _fields(context).field(name)
        case Apply(function, arguments):
            return Apply(function, tuple(_key(each, scope)[0] for each in arguments)), Empty()
        case Measure(name, collection, type_):
            return Measure(name, _ring(collection, scope)[0], type_), Empty()
        case NewLabel(index, fields):
            return NewLabel(index, tuple((n, _key(e, scope)[0]) for n, e in fields)), Empty()
        case ToKey(index, ring):
            inner, inside = _ring(ring, scope)
            label, dictionary = labelled(index, _closed(inner, scope))
            return label, Inner(dictionary, inside)
        case _:
            assert_never(term)


def _closed(flat: RingTerm, scope: Scope) -> RingTerm:
    """The term with the collections that it names defined inside it."""
    for bound, _, value in reversed(list(scope.lets.values())):
        if bound in free_variables(flat):
            flat = Let(bound, value, flat)
    return flat


def labelled(index: int, flat: RingTerm) -> tuple[NewLabel, LabelDictionary]:
    """The label with the values that a flat query reads, and the dictionary that defines it."""
    fields: list[tuple[str, KeyTerm]] = []
    inside: dict[Term, Term] = {}
    for path in paths_read(flat):
        leaves = list(_leaves(path, _written(path)))
        fields += leaves
        parameters = [KeyVariable(name, leaf.type) for name, leaf in leaves]
        inside[path] = _assembled(path.type, iter(parameters))
    parameters = [KeyVariable(name, leaf.type) for name, leaf in fields]
    body = substitute(flat, inside)
    return NewLabel(index, tuple(fields)), LabelDictionary(index, tuple(parameters), body)


def _written(path: KeyTerm) -> str:
    match path:
        case KeyVariable(name):
            return name
        case Field(key, name):
            return f"{_written(key)}.{name}"
        case _:
            raise AssertionError(path)


def _leaves(path: KeyTerm, name: str) -> Iterator[tuple[str, KeyTerm]]:
    if isinstance(path.type, Record):
        for field_name in path.type.names:
            yield from _leaves(Field(path, field_name), f"{name}.{field_name}")
    else:
        yield name, path


def _assembled(type_: KeyType, parameters: Iterator[KeyVariable]) -> KeyTerm:
    if isinstance(type_, Record):
        return MakeRecord(tuple((name, _assembled(t, parameters)) for name, t in type_.fields))
    return next(parameters)


def _bound(
    variable: KeyVariable, context: TermContext, body: RingTerm, scope: Scope
) -> tuple[tuple[KeyVariable, RingTerm], TermContext]:
    flat = KeyVariable(variable.name, flat_key(variable.type))
    inner, below = _ring(body, scope.with_key(flat, context))
    return (flat, inner), below


def _multiplied(left: RingTerm, right: RingTerm, scope: Scope) -> tuple[RingTerm, TermContext]:
    match left, right:
        case _, Dictionary(variable, body):
            rows, context = _ring(left, scope)
            each, below = _bound(variable, _pair(context).key, body, scope)
            values = contexts.product(_pair(context).value, below)
            return Multiply(rows, Dictionary(*each)), Pair(_pair(context).key, values)
        case Dictionary(variable, body), _:
            rows, context = _ring(right, scope)
            each, below = _bound(variable, _pair(context).key, body, scope)
            values = contexts.product(below, _pair(context).value)
            return Multiply(Dictionary(*each), rows), Pair(_pair(context).key, values)
    if isinstance(left.type, Mapping) and holds_boxes(left.type.key):
        raise UnsupportedError(
            f"collections are compared as parts of rows: {left.type} * {right.type}",
            hint="shredding compares labels, not contents; multiply with {x => ..} instead",
        )
    (one, ours), (other, theirs) = _ring(left, scope), _ring(right, scope)
    return Multiply(one, other), _multiplied_contexts(ours, theirs)


def _multiplied_contexts(left: TermContext, right: TermContext) -> TermContext:
    match left, right:
        case Pair(), Pair():
            return Pair(left.key, contexts.product(left.value, right.value))
        case Fields(ours), Fields(theirs):
            both = zip(ours, theirs, strict=True)
            return Fields(tuple((n, _multiplied_contexts(a, b)) for (n, a), (_, b) in both))
        case _:
            return Empty()


def _no_dictionary(path: str, type_: Mapping) -> RingTerm:
    raise AssertionError(f"a dictionary {type_} below a flat row, at '{path}'")


def _pair(context: TermContext) -> Pair[RingTerm]:
    assert isinstance(context, Pair)
    return context


def _fields(context: TermContext) -> Fields[RingTerm]:
    assert isinstance(context, Fields)
    return context
