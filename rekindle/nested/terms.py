"""The terms of the nested ring calculus: collections, and the rows in them.

    r := 0 | c | R | ΔR | X | ⟨r, r⟩ | r.i | let X := r in r | r + r | −r | r · r | r * r | sum(r)
       | for x in r collect r | {x => r} | {ι⟨x, ..⟩ => r} | r ∪ r
       | p(e) | ¬r | lift(e) | sng(e, r) | fromK(e, r)
    e := c | x | ⟨e, e⟩ | e.i | f(e, ..) | toK(r) | ι⟨e, ..⟩

Ring terms r denote ring values, key terms e rows or parts of rows. `for` is kept as a node of its
own, though it is sum(r₁ * {x => r₂}): rules and texts are told in its words. `lift` makes a number
of a scalar, so that a sum is `for l in lines collect lift(l.qty)`, and a count needs no lift.

Every term has its `type`. An ill-typed term cannot be built (figures 2.1 and 5.2): a constructor
raises `DefinitionError`, which names the parts that do not fit. Functions and predicates read
scalars only. A predicate that looked into a collection could say "is empty", whose change is no
sum of changes (section 2.3); that is what ¬ is for, and ¬ says so.

NULL is a value of every scalar type. A predicate that is NULL is false, a lifted NULL is 0.

Lupei's thesis, section 5.2; labels from section 3.3.2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rekindle.errors import DefinitionError
from rekindle.nested.types import (
    BIGINT,
    BOOLEAN,
    Boxed,
    KeyType,
    Label,
    Mapping,
    Number,
    Record,
    RingRecord,
    RingType,
    Scalar,
    holds_boxes,
    is_flat,
    lifted,
    product_type,
)


def _settle(term: object, type_: KeyType | RingType) -> None:
    object.__setattr__(term, "type", type_)


def _mapping(term: RingTerm, what: str) -> Mapping:
    if not isinstance(term.type, Mapping):
        raise DefinitionError(f"{what} is not a collection but {term.type}")
    return term.type


def _bound(variable: KeyVariable | Variable, body: Term) -> None:
    """A bound variable is read with the type it is bound with."""
    for other in free_variables(body):
        if (
            isinstance(other, type(variable))
            and other.name == variable.name
            and other.type != variable.type
        ):
            raise DefinitionError(
                f"'{variable.name}' is bound as {variable.type} and read as {other.type}"
            )


# --- collections ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Zero:
    """0 or ∅: nothing."""

    type: RingType


@dataclass(frozen=True, slots=True)
class Constant:
    """c: a number."""

    value: int | float
    type: Number = BIGINT

    def __post_init__(self) -> None:
        if self.type == BIGINT and not isinstance(self.value, int):
            raise DefinitionError(f"{self.value} is no constant of type {self.type}")
        if not math.isfinite(self.value):
            raise DefinitionError(f"{self.value} is in no ring of numbers")


@dataclass(frozen=True, slots=True)
class Relation:
    """R: a table of the database."""

    name: str
    type: RingType


@dataclass(frozen=True, slots=True)
class Change:
    """ΔR, Δ'R, ..: what is added to a table; `order` tells apart the changes of higher deltas."""

    name: str
    type: RingType
    order: int = 1


@dataclass(frozen=True, slots=True)
class Variable:
    """X: a collection that a `Let` binds."""

    name: str
    type: RingType


@dataclass(frozen=True, slots=True)
class MakeRingRecord:
    """⟨r, ..⟩: ring values side by side."""

    fields: tuple[tuple[str, RingTerm], ...]
    type: RingRecord = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, RingRecord(tuple((name, term.type) for name, term in self.fields)))


@dataclass(frozen=True, slots=True)
class RingField:
    """r.i: one of the ring values of a ring record."""

    record: RingTerm
    name: str
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.record.type, RingRecord):
            raise DefinitionError(
                f"field '{self.name}' of {self.record.type}, which is no ring record"
            )
        _settle(self, self.record.type.field(self.name))


@dataclass(frozen=True, slots=True)
class Let:
    """let X := value in body."""

    variable: Variable
    value: RingTerm
    body: RingTerm
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.variable.type != self.value.type:
            raise DefinitionError(
                f"'{self.variable.name}' of type {self.variable.type} is bound to a value of type "
                f"{self.value.type}"
            )
        _bound(self.variable, self.body)
        _settle(self, self.body.type)


@dataclass(frozen=True, slots=True)
class Add:
    """r₁ + r₂; ⊎ on bags."""

    left: RingTerm
    right: RingTerm
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.left.type != self.right.type:
            raise DefinitionError(f"no sum of {self.left.type} and {self.right.type}")
        _settle(self, self.left.type)


@dataclass(frozen=True, slots=True)
class Negate:
    """−r; ⊖ on bags."""

    term: RingTerm
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, self.term.type)


@dataclass(frozen=True, slots=True)
class Product:
    """r₁ · r₂: the pairs of two collections, or a collection times a number; × on bags."""

    left: RingTerm
    right: RingTerm
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, product_type(self.left.type, self.right.type))


@dataclass(frozen=True, slots=True)
class Multiply:
    """r₁ * r₂: key by key, the product of the values that both have there."""

    left: RingTerm
    right: RingTerm
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, _multiplied(self.left.type, self.right.type))


def _multiplied(left: RingType, right: RingType) -> RingType:
    match left, right:
        case Mapping(), Mapping() if left.key == right.key:
            return Mapping(left.key, product_type(left.ring, right.ring))
        case Number(), Number():
            return product_type(left, right)
        case RingRecord(), RingRecord() if left.names == right.names:
            both = zip(left.fields, right.fields, strict=True)
            return RingRecord(tuple((name, _multiplied(a, b)) for (name, a), (_, b) in both))
    raise DefinitionError(f"{left} and {right} have no keys in common to multiply at")


@dataclass(frozen=True, slots=True)
class Sum:
    """sum(r): the values of all keys added up."""

    term: RingTerm
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, _mapping(self.term, "what is summed").ring)


@dataclass(frozen=True, slots=True)
class For:
    """for x in source collect body: the sum over all keys x of their value times the body."""

    variable: KeyVariable
    source: RingTerm
    body: RingTerm
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        source = _mapping(self.source, f"what '{self.variable.name}' ranges over")
        if self.variable.type != source.key:
            raise DefinitionError(
                f"'{self.variable.name}' of type {self.variable.type} ranges over rows of type "
                f"{source.key}"
            )
        _bound(self.variable, self.body)
        _settle(self, product_type(source.ring, self.body.type))


@dataclass(frozen=True, slots=True)
class Dictionary:
    """{x => r}: the body for every key x; it has no end, and is only multiplied or looked up."""

    variable: KeyVariable
    body: RingTerm
    type: Mapping = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _bound(self.variable, self.body)
        _settle(self, Mapping(self.variable.type, self.body.type))


@dataclass(frozen=True, slots=True)
class LabelDictionary:
    """{ι⟨x, ..⟩ => r}: defines each label of index ι by the body, for the values in the label."""

    index: int
    parameters: tuple[KeyVariable, ...]
    body: RingTerm
    type: Mapping = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for parameter in self.parameters:
            _bound(parameter, self.body)
        _settle(self, Mapping(Label(), self.body.type))


@dataclass(frozen=True, slots=True)
class LabelUnion:
    """r₁ ∪ r₂: the definitions of both dictionaries, which agree on the labels that both define."""

    left: RingTerm
    right: RingTerm
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if _mapping(self.left, "the left of a label union").key != Label():
            raise DefinitionError(f"a label union of {self.left.type}, which is no dictionary")
        if self.left.type != self.right.type:
            raise DefinitionError(f"no label union of {self.left.type} and {self.right.type}")
        _settle(self, self.left.type)


@dataclass(frozen=True, slots=True)
class Predicate:
    """p(e): 1 where the condition is true, 0 where it is false or NULL."""

    key: KeyTerm
    type: Number = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.key.type != BOOLEAN:
            raise DefinitionError(f"a condition is of type {self.key.type}, not boolean")
        _settle(self, BIGINT)


@dataclass(frozen=True, slots=True)
class Not:
    """¬r: 1 where the number is 0, otherwise 0."""

    term: RingTerm
    type: Number = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.term.type != BIGINT:
            raise DefinitionError(f"no negation of {self.term.type}, only of bigint")
        _settle(self, BIGINT)


@dataclass(frozen=True, slots=True)
class Lift:
    """lift(e): a scalar as a number to add and multiply; NULL is 0."""

    key: KeyTerm
    type: Number = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        ring = lifted(self.key.type) if isinstance(self.key.type, Scalar) else None
        if ring is None:
            raise DefinitionError(f"{self.key.type} cannot be added up, only numbers can")
        _settle(self, ring)


@dataclass(frozen=True, slots=True)
class Singleton:
    """sng(e, r): one key with its value; nothing, if the value is 0."""

    key: KeyTerm
    value: RingTerm = Constant(1)
    type: Mapping = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, Mapping(self.key.type, self.value.type))


@dataclass(frozen=True, slots=True)
class FromKey:
    """fromK(e): the collection in a box; fromK(e, d): the one that dictionary d has for a label."""

    key: KeyTerm
    dictionary: RingTerm | None = None
    type: RingType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        match self.key.type, self.dictionary:
            case Boxed(ring), None:
                _settle(self, ring)
            case Label(), None:
                raise DefinitionError("a label is opened without a dictionary")
            case Label(), dictionary if dictionary is not None:
                found = _mapping(dictionary, "the dictionary of a label")
                if found.key != Label():
                    raise DefinitionError(f"a label is looked up in {found}, no dictionary")
                _settle(self, found.ring)
            case other, _:
                raise DefinitionError(f"{other} holds no collection to open")


# --- rows -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScalarFunction:
    """A function of scalars: a Spark SQL text with {0}, {1}, .. for its arguments, and its type.

    `python` computes it in the reference semantics; two functions are the same if they have the
    same text and type.
    """

    text: str
    type: Scalar
    python: Callable[..., Any] | None = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class KeyConstant:
    """c: a scalar that never changes, or NULL (None)."""

    value: Any
    type: Scalar


@dataclass(frozen=True, slots=True)
class KeyVariable:
    """x: a row that a `For` or a dictionary binds."""

    name: str
    type: KeyType


@dataclass(frozen=True, slots=True)
class MakeRecord:
    """⟨e, ..⟩: a row with named fields."""

    fields: tuple[tuple[str, KeyTerm], ...]
    type: Record = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, Record(tuple((name, term.type) for name, term in self.fields)))


@dataclass(frozen=True, slots=True)
class Field:
    """e.i: a field of a row."""

    key: KeyTerm
    name: str
    type: KeyType = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.key.type, Record):
            raise DefinitionError(f"field '{self.name}' of {self.key.type}, which is no record")
        _settle(self, self.key.type.field(self.name))


@dataclass(frozen=True, slots=True)
class Apply:
    """f(e, ..): a scalar computed from scalars."""

    function: ScalarFunction
    arguments: tuple[KeyTerm, ...]
    type: Scalar = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for argument in self.arguments:
            if not is_flat(argument.type):
                raise DefinitionError(
                    f"'{self.function.text}' reads {argument.type}, which holds a collection",
                    hint="functions and conditions read scalars; range over the collection instead",
                )
        _settle(self, self.function.type)


@dataclass(frozen=True, slots=True)
class ToKey:
    """toK(r): a collection as a part of a row. Shredding numbers the places where that happens."""

    index: int
    ring: RingTerm
    type: Boxed = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _settle(self, Boxed(self.ring.type))


@dataclass(frozen=True, slots=True)
class NewLabel:
    """ι⟨e, ..⟩: the label of index ι for some values."""

    index: int
    fields: tuple[tuple[str, KeyTerm], ...]
    type: Label = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, value in self.fields:
            if holds_boxes(value.type):
                raise DefinitionError(f"field '{name}' of a label is a collection, {value.type}")
        _settle(self, Label())


@dataclass(frozen=True, slots=True)
class Measure:
    """μ(r): the scalar that an aggregate of Spark gives for a collection: a minimum, a count.

    It leaves the calculus of rings: where the collection changes, the scalar is computed again.
    """

    name: str
    collection: RingTerm
    type: Scalar


RingTerm: TypeAlias = (
    Zero
    | Constant
    | Relation
    | Change
    | Variable
    | MakeRingRecord
    | RingField
    | Let
    | Add
    | Negate
    | Product
    | Multiply
    | Sum
    | For
    | Dictionary
    | LabelDictionary
    | LabelUnion
    | Predicate
    | Not
    | Lift
    | Singleton
    | FromKey
)
KeyTerm: TypeAlias = (
    KeyConstant | KeyVariable | MakeRecord | Field | Apply | ToKey | NewLabel | Measure
)
Term: TypeAlias = RingTerm | KeyTerm

UNIT_ROW = MakeRecord(())
ONE = Constant(1)


def type_of(term: Term) -> KeyType | RingType:
    """The type of a term."""
    return term.type


def children(term: Term) -> tuple[Term, ...]:
    """The terms right below one, in the order they are written."""
    match term:
        case Zero() | Constant() | Relation() | Change() | Variable():
            return ()
        case KeyConstant() | KeyVariable():
            return ()
        case MakeRingRecord(fields):
            return tuple(below for _, below in fields)
        case MakeRecord(fields) | NewLabel(_, fields):
            return tuple(below for _, below in fields)
        case RingField(below) | Negate(below) | Sum(below) | Not(below):
            return (below,)
        case Predicate(key) | Lift(key) | Field(key):
            return (key,)
        case ToKey(_, ring) | Measure(_, ring):
            return (ring,)
        case Let(_, value, body) | For(_, value, body):
            return value, body
        case Add(left, right) | Product(left, right):
            return left, right
        case Multiply(left, right) | LabelUnion(left, right):
            return left, right
        case Dictionary(_, body) | LabelDictionary(_, _, body):
            return (body,)
        case Singleton(key, value):
            return key, value
        case FromKey(key, dictionary):
            return (key,) if dictionary is None else (key, dictionary)
        case Apply(_, arguments):
            return arguments


def free_variables(term: Term) -> frozenset[KeyVariable | Variable]:
    """The variables of a term that nothing in it binds."""
    match term:
        case KeyVariable() | Variable():
            return frozenset({term})
        case Let(variable, value, body) | For(variable, value, body):
            return free_variables(value) | (free_variables(body) - {variable})
        case Dictionary(variable, body):
            return free_variables(body) - {variable}
        case LabelDictionary(_, parameters, body):
            return free_variables(body) - set(parameters)
        case _:
            found: frozenset[KeyVariable | Variable] = frozenset()
            return found.union(*(free_variables(below) for below in children(term)))
