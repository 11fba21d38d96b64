"""What a term is worth: the reference semantics, by definition and not by speed.

    ⟦for x in r₁ collect r₂⟧ = Σ_k ⟦r₁⟧(k) · ⟦r₂⟧[x := k]

and the other constructs as in figure 2.2 and section 5.2: each is the operation of its ring
(`values.py`). Multiplicities may be negative, so that a change is a collection like any other.

Two ways of nesting differ on empty groups (section 5.2.1). In `yield k => r` an r that is zero
leaves no trace of k: value nesting. In `yield ⟨k, toK(r)⟩` the row stays, with an empty box in it:
key nesting.

A label that a dictionary does not define opens to nothing, as [(ι, Π) ↦ e](⟨ι′, ε⟩) = {} for ι ≠ ι′
(section 3.3.2). Whether labels that occur are defined is another question, which `nesting.py` asks.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, assert_never

from rekindle.errors import DefinitionError, unknown_name
from rekindle.nested import values
from rekindle.nested.labels import LabelValue, Rule, label_union
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
    ToKey,
    Variable,
    Zero,
)
from rekindle.nested.types import Boxed, Record, RingRecord
from rekindle.nested.values import Box, KeyValue, RingValue


@dataclass(frozen=True, slots=True)
class Environment:
    """The tables, their changes by name and order, and what the variables in scope are bound to."""

    relations: Mapping[str, RingValue] = field(default_factory=dict)
    changes: Mapping[tuple[str, int], RingValue] = field(default_factory=dict)
    rings: Mapping[str, RingValue] = field(default_factory=dict)
    keys: Mapping[str, KeyValue] = field(default_factory=dict)

    def with_key(self, name: str, value: KeyValue) -> Environment:
        return replace(self, keys={**self.keys, name: value})

    def with_ring(self, name: str, value: RingValue) -> Environment:
        return replace(self, rings={**self.rings, name: value})


def meaning(
    term: RingTerm,
    relations: Mapping[str, RingValue],
    changes: Mapping[str, RingValue] | None = None,
) -> RingValue:
    """The value of a term on tables, with changes of the first order.

    >>> from rekindle.nested.types import Bag, Scalar
    >>> x = KeyVariable("x", Scalar("int"))
    >>> meaning(For(x, Relation("R", Bag(x.type)), Lift(x)), {"R": {3: 2, 10: 1, None: 1}})
    16
    """
    first = {(name, 1): value for name, value in (changes or {}).items()}
    return value_of(term, Environment(relations, first))


def value_of(term: RingTerm, scope: Environment) -> RingValue:
    """The value of a ring term in an environment."""
    match term:
        case Zero(type_):
            return values.zero_of(type_)
        case Constant(value):
            return value
        case Relation(name):
            return _named("relation", name, scope.relations)
        case Change(name, type_, order):
            return scope.changes.get((name, order), values.zero_of(type_))
        case Variable(name):
            return _named("variable", name, scope.rings)
        case MakeRingRecord(fields):
            return tuple(value_of(part, scope) for _, part in fields)
        case RingField(record, name):
            assert isinstance(record.type, RingRecord)
            return value_of(record, scope)[record.type.position(name)]
        case Let(variable, value, body):
            return value_of(body, scope.with_ring(variable.name, value_of(value, scope)))
        case Add(left, right):
            return values.add(value_of(left, scope), value_of(right, scope))
        case Negate(below):
            return values.negate(value_of(below, scope))
        case Product(left, right):
            return values.product(value_of(left, scope), value_of(right, scope))
        case Multiply(left, right):
            return values.multiply(value_of(left, scope), value_of(right, scope))
        case Sum(below):
            return values.total(values.finite(value_of(below, scope)).values(), term.type)
        case For(variable, source, body):
            rows = values.finite(value_of(source, scope)).items()
            return values.total(
                (
                    values.product(count, value_of(body, scope.with_key(variable.name, row)))
                    for row, count in rows
                ),
                term.type,
            )
        case Dictionary(variable, body):
            return Rule(lambda key: value_of(body, scope.with_key(variable.name, key)))
        case LabelDictionary(index, parameters, body):
            return Rule(lambda label: _defined(label, index, parameters, body, scope))
        case LabelUnion(left, right):
            one, other = value_of(left, scope), value_of(right, scope)
            return label_union(values.definitions(one), values.definitions(other))
        case Predicate(key):
            return 1 if key_value(key, scope) is True else 0
        case Not(below):
            return 0 if value_of(below, scope) else 1
        case Lift(key):
            return key_value(key, scope) or 0
        case Singleton(key, value):
            return values.mapping([(key_value(key, scope), value_of(value, scope))])
        case FromKey(key, None):
            box = key_value(key, scope)
            assert isinstance(box, Box)
            return box.open()
        case FromKey(key, dictionary):
            assert dictionary is not None
            there = values.definitions(value_of(dictionary, scope))
            definition = there.find(key_value(key, scope))
            return values.zero_of(term.type) if definition is None else definition
        case _:
            assert_never(term)


def key_value(term: KeyTerm, scope: Environment) -> Any:
    """The value of a key term in an environment."""
    match term:
        case KeyConstant(value):
            return value
        case KeyVariable(name):
            return _named("variable", name, scope.keys)
        case MakeRecord(fields):
            return tuple(key_value(part, scope) for _, part in fields)
        case Field(key, name):
            assert isinstance(key.type, Record)
            return key_value(key, scope)[key.type.position(name)]
        case Apply(function, arguments):
            if function.python is None:
                raise DefinitionError(f"'{function.text}' is computed by Spark only")
            return function.python(*(key_value(argument, scope) for argument in arguments))
        case ToKey(_, ring):
            assert isinstance(term.type, Boxed)
            return Box.of(value_of(ring, scope))
        case Measure(name, collection):
            return measured(name, value_of(collection, scope))
        case NewLabel(index, fields):
            return LabelValue(index, tuple(key_value(part, scope) for _, part in fields))
        case _:
            assert_never(term)


def _defined(
    label: KeyValue,
    index: int,
    parameters: tuple[KeyVariable, ...],
    body: RingTerm,
    scope: Environment,
) -> RingValue | None:
    assert isinstance(label, LabelValue)
    if label.index != index:
        return None
    names = (parameter.name for parameter in parameters)
    bound = dict(zip(names, label.values, strict=True))
    return value_of(body, replace(scope, keys={**scope.keys, **bound}))


def _named(kind: str, name: str, there: Mapping[str, Any]) -> Any:
    if name not in there:
        raise unknown_name(kind, name, there)
    return there[name]


def measured(name: str, collection: RingValue) -> Any:
    """What an aggregate gives for a collection; NULLs count, and have no part in the others.

    >>> measured("count", {1: 2, None: 1}), measured("max", {1: 2, None: 1}), measured("min", {})
    (3, 1, None)
    """
    if not isinstance(collection, dict):
        return collection  # A number is the count of what it numbers.
    if name == "count":
        return sum(collection.values())
    if name == "array":
        return sorted(element for element, count in collection.items() for _ in range(count))
    elements = [(_alone(element), count) for element, count in collection.items()]
    known = [(element, count) for element, count in elements if element is not None]
    if name == "sum":
        return sum(element * count for element, count in known)
    if name in ("min", "max"):
        return (min if name == "min" else max)((e for e, _ in known), default=None)
    if name == "avg":
        rows = sum(count for _, count in known)
        return sum(element * count for element, count in known) / rows if rows else None
    raise DefinitionError(f"'{name}' is computed by Spark only")


def _alone(element: Any) -> Any:
    """The scalar that is added up, which may stand in a row of its own."""
    return element[0] if isinstance(element, tuple) else element
