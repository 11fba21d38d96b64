"""The values of MRQL: what a term means.

A tuple is a Python tuple, a string a `str`, a boolean a `bool`, `()` stands for null too. Numbers
carry their width, since arithmetic depends on it: an `int` is 32 bits wide, a `Long` 64, a `Short`
16, a `Float` is single and a `float` double precision. Numbers of different widths are equal where
they are equal as numbers.

Bags are equal as multisets, at every depth: the order of their elements is that of their making,
and means nothing. (The original compares bags in stored order; see docs/design/mrql.md.)
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cmp_to_key
from typing import Any, TypeAlias

from rekindle.errors import EvaluationError

Value: TypeAlias = Any
"""A value of one of the classes here, or a tuple, string, boolean or number."""


class Long(int):
    """A whole number of 64 bits."""

    __slots__ = ()


class Short(int):
    """A whole number of 16 bits."""

    __slots__ = ()


class Float(float):
    """A number of single precision."""

    __slots__ = ()

    def __new__(cls, value: float) -> Float:
        try:
            narrowed = struct.unpack("f", struct.pack("f", value))[0]
        except OverflowError:
            narrowed = float("inf") if value > 0 else float("-inf")
        return super().__new__(cls, narrowed)


class Bag:
    """A multiset: `Bag((1, 2)) == Bag((2, 1))`."""

    __slots__ = ("_hash", "elements")

    def __init__(self, elements: Iterable[Value] = ()) -> None:
        self.elements = tuple(elements)
        self._hash: int | None = None

    def __iter__(self) -> Iterator[Value]:
        return iter(self.elements)

    def __len__(self) -> int:
        return len(self.elements)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Bag):
            return NotImplemented
        return len(self) == len(other) and Counter(self.elements) == Counter(other.elements)

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(frozenset(Counter(self.elements).items()))
        return self._hash

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self.elements)) + "}"


@dataclass(frozen=True, slots=True, repr=False)
class List:
    """Values in an order."""

    elements: tuple[Value, ...] = ()

    def __iter__(self) -> Iterator[Value]:
        return iter(self.elements)

    def __len__(self) -> int:
        return len(self.elements)

    def __repr__(self) -> str:
        return "[" + ", ".join(map(repr, self.elements)) + "]"


@dataclass(frozen=True, slots=True, repr=False)
class Record:
    """Values by name, in the order of the names' writing."""

    fields: tuple[tuple[str, Value], ...]

    def get(self, name: str) -> Value:
        """The value of a field; raises `EvaluationError` where there is none."""
        for label, value in self.fields:
            if label == name:
                return value
        labels = ", ".join(label for label, _ in self.fields)
        raise EvaluationError(f"the record has no field '{name}'", detail=f"it has: {labels}")

    def __repr__(self) -> str:
        return "<" + ", ".join(f"{label}: {value!r}" for label, value in self.fields) + ">"


@dataclass(frozen=True, slots=True, repr=False)
class Data:
    """A value of a data type: its constructor's number, name, and what it was given."""

    order: int
    constructor: str
    items: tuple[Value, ...]

    def __repr__(self) -> str:
        return f"{self.constructor}({', '.join(map(repr, self.items))})"


@dataclass(frozen=True, slots=True)
class Inverse:
    """A value that sorts the other way around: `inv(e)`."""

    value: Value


Collection: TypeAlias = Bag | List
NULL = ()


def elements(value: Value, of: str = "the value") -> tuple[Value, ...]:
    """The elements of a collection; raises `EvaluationError` for anything else."""
    if isinstance(value, Bag | List):
        return value.elements
    raise EvaluationError(f"{of} is no collection", detail=f"found: {kind_of(value)}")


def kind_of(value: Value) -> str:
    """The word for a value's type."""
    match value:
        case bool():
            return "bool"
        case Long():
            return "long"
        case Short():
            return "short"
        case int():
            return "int"
        case Float():
            return "float"
        case float():
            return "double"
        case str():
            return "string"
        case tuple():
            return f"tuple of {len(value)}" if value else "()"
        case Bag():
            return "bag"
        case List():
            return "list"
        case Record():
            return "record"
        case Data():
            return value.constructor
        case _:
            return type(value).__name__.lower()


def _rank(value: Value) -> int:
    kinds = (bool, int | float, str, tuple, Record, List, Bag, Data, Inverse)
    return next((i for i, kind in enumerate(kinds) if isinstance(value, kind)), len(kinds))


def compare(left: Value, right: Value) -> int:
    """Below 0, 0 or above: the order of values; parts are compared in turn, then lengths.

    >>> compare((1, "b"), (1, "a")), compare(Inverse(1), Inverse(2))
    (1, 1)
    """
    if isinstance(left, Inverse) and isinstance(right, Inverse):
        return -compare(left.value, right.value)
    ranks = _rank(left), _rank(right)
    if ranks[0] != ranks[1]:
        return -1 if ranks[0] < ranks[1] else 1
    if not isinstance(left, tuple | Record | List | Bag | Data):
        try:
            return int(left > right) - int(left < right)
        except TypeError:
            kinds = f"{kind_of(left)} and {kind_of(right)}"
            raise EvaluationError(f"{kinds} cannot be compared") from None
    return _compare_all(_parts(left), _parts(right))


def _parts(value: Value) -> tuple[Value, ...]:
    match value:
        case Record():
            return tuple(item for _, item in value.fields)
        case List():
            return value.elements
        case Bag():
            return tuple(sorted(value.elements, key=sort_key))
        case Data():
            return (value.order, value.constructor, *value.items)
        case tuple():
            return value
        case _:
            raise EvaluationError(f"a {kind_of(value)} cannot be compared")


def _compare_all(left: tuple[Value, ...], right: tuple[Value, ...]) -> int:
    for a, b in zip(left, right, strict=False):
        if found := compare(a, b):
            return found
    return (len(left) > len(right)) - (len(left) < len(right))


sort_key = cmp_to_key(compare)


def grouped(pairs: Iterable[Value]) -> dict[Value, list[Value]]:
    """Values by key, keys in the order in which they came first."""
    groups: dict[Value, list[Value]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups
