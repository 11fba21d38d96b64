"""Shredding contexts: what hangs below a flat collection, as a tree of the shape of its type.

    Base^Γ = 1        (K × K)^Γ = K^Γ × K^Γ        [R]^Γ = (Label → R^F) × R^Γ
    (K → R)^Γ = K^Γ × R^Γ

So a context is empty for a scalar, has a branch for each field of a record, a pair of branches for
a mapping, and a dictionary for each boxed collection. The tree is the same for types, for terms
and for values, with other leaves.

A dictionary is named by its path, the names of the fields that lead to it: "related",
"orders.lines". Where no field has a name there is "[]" for the rows of a collection and "=>" for
its values. The flat collection at the top is "".

Lupei's thesis, sections 3.3.1 and 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar, assert_never

from rekindle.nested.types import (
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

T = TypeVar("T")
S = TypeVar("S")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Empty:
    """Nothing below: a scalar, a number."""


@dataclass(frozen=True, slots=True)
class Fields(Generic[T]):
    """A branch for each field of a record."""

    fields: tuple[tuple[str, Context[T]], ...]

    def field(self, name: str) -> Context[T]:
        return dict(self.fields)[name]


@dataclass(frozen=True, slots=True)
class Pair(Generic[T]):
    """The branches of a mapping: of its keys, and of its values."""

    key: Context[T]
    value: Context[T]


@dataclass(frozen=True, slots=True)
class Inner(Generic[T]):
    """A boxed collection: the dictionary of its labels, and what is below its definitions."""

    dictionary: T
    below: Context[T]


Context: TypeAlias = Empty | Fields[T] | Pair[T] | Inner[T]


def flat_key(type_: KeyType) -> KeyType:
    """A^F: rows with labels in place of collections.

    >>> from rekindle.nested.types import Bag
    >>> str(flat_key(Record((("name", Scalar("string")), ("tags", Boxed(Bag(Scalar("int"))))))))
    '⟨name: string, tags: Label⟩'
    """
    match type_:
        case Scalar() | Label():
            return type_
        case Record(fields):
            return Record(tuple((name, flat_key(field)) for name, field in fields))
        case Boxed():
            return Label()
        case _:
            assert_never(type_)


def flat_ring(type_: RingType) -> RingType:
    """R^F: the collections of such rows."""
    match type_:
        case Number():
            return type_
        case RingRecord(fields):
            return RingRecord(tuple((name, flat_ring(field)) for name, field in fields))
        case Mapping(key, ring):
            return Mapping(flat_key(key), flat_ring(ring))
        case _:
            assert_never(type_)


def joined(path: str, name: str) -> str:
    """The path of a branch.

    >>> joined("orders", "lines"), joined("", "orders")
    ('orders.lines', 'orders')
    """
    return f"{path}.{name}" if path else name


def context_of(
    type_: KeyType | RingType, leaf: Callable[[str, Mapping], T], path: str = ""
) -> Context[T]:
    """The context of a type, with a leaf made of the path and type of each dictionary."""
    match type_:
        case Scalar() | Label() | Number():
            return Empty()
        case Record(fields) | RingRecord(fields):
            return Fields(
                tuple((name, context_of(field, leaf, joined(path, name))) for name, field in fields)
            )
        case Boxed(ring):
            dictionary = Mapping(Label(), flat_ring(ring))
            return Inner(leaf(path, dictionary), context_of(ring, leaf, path))
        case Mapping(key, ring):
            rows = joined(path, "[]") if isinstance(key, Boxed) else path
            return Pair(context_of(key, leaf, rows), context_of(ring, leaf, joined(path, "=>")))
        case _:
            assert_never(type_)


def named(context: Context[T], path: str = "") -> Iterator[tuple[str, T]]:
    """The dictionaries of a context with their paths, outer ones first."""
    match context:
        case Empty():
            return
        case Fields(fields):
            for name, branch in fields:
                yield from named(branch, joined(path, name))
        case Inner(dictionary, below):
            yield path, dictionary
            yield from named(below, path)
        case Pair(key, value):
            yield from named(key, joined(path, "[]") if isinstance(key, Inner) else path)
            yield from named(value, joined(path, "=>"))
        case _:
            assert_never(context)


def mapped(context: Context[S], function: Callable[[S], T]) -> Context[T]:
    """The context with a function of each dictionary in its place."""
    match context:
        case Empty():
            return context
        case Fields(fields):
            return Fields(tuple((name, mapped(branch, function)) for name, branch in fields))
        case Inner(dictionary, below):
            return Inner(function(dictionary), mapped(below, function))
        case Pair(key, value):
            return Pair(mapped(key, function), mapped(value, function))
        case _:
            assert_never(context)


def zipped(left: Context[S], right: Context[T], function: Callable[[S, T], U]) -> Context[U]:
    """Two contexts of the same type, dictionary by dictionary."""
    match left, right:
        case Empty(), Empty():
            return left
        case Fields(ours), Fields(theirs):
            both = zip(ours, theirs, strict=True)
            return Fields(tuple((name, zipped(a, b, function)) for (name, a), (_, b) in both))
        case Inner(), Inner():
            return Inner(
                function(left.dictionary, right.dictionary),
                zipped(left.below, right.below, function),
            )
        case Pair(), Pair():
            return Pair(
                zipped(left.key, right.key, function), zipped(left.value, right.value, function)
            )
    raise AssertionError("contexts of different types")


def product(left: Context[T], right: Context[T]) -> Context[T]:
    """Γ₁ ⊙ Γ₂: the context of a product of ring values; the empty one is neutral."""
    match left, right:
        case Empty(), _:
            return right
        case _, Empty():
            return left
        case Fields(fields), _:
            return Fields(tuple((name, product(branch, right)) for name, branch in fields))
        case _, Fields(fields):
            return Fields(tuple((name, product(left, branch)) for name, branch in fields))
        case Pair(), Pair():
            keys = Fields((("1", left.key), ("2", right.key)))
            return Pair(keys, product(left.value, right.value))
    raise AssertionError("a product of contexts that belong to keys")
