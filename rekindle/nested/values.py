"""Ring values: numbers, tuples of ring values, and dicts without zeros.

    a number           int or float            Number
    a ring record      a tuple                 R × R, added field by field
    a finite mapping   a dict                  K → R, a key whose value is zero is absent
    a dictionary       `Finite` or `Rule`      {x => r} and the definitions of labels (`labels.py`)

Key values are scalars (None is NULL), tuples, labels and boxes. A `Box` holds a ring value frozen,
so that it can be compared and be a part of a row.

Operations follow the shape of the values; the terms that lead to them are typed, so the shapes fit.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any, TypeAlias

from rekindle.errors import DefinitionError
from rekindle.nested.labels import Definitions, Finite, Rule, added, mapped
from rekindle.nested.types import Mapping, Number, RingRecord, RingType

RingValue: TypeAlias = Any
KeyValue: TypeAlias = Hashable


def zero_of(type_: RingType) -> RingValue:
    """0 of a ring."""
    match type_:
        case Number():
            return 0
        case RingRecord(fields):
            return tuple(zero_of(field) for _, field in fields)
        case Mapping():
            return {}


def is_zero(value: RingValue) -> bool:
    """Whether a value counts for nothing; a dictionary by a rule never does."""
    match value:
        case tuple():
            return all(is_zero(part) for part in value)
        case dict():
            return not value
        case Finite() | Rule():
            return False
        case _:
            return bool(value == 0)


def add(left: RingValue, right: RingValue) -> RingValue:
    """r₁ + r₂.

    >>> add({"a": 1, "b": 2}, {"b": -2, "c": 1})
    {'a': 1, 'c': 1}
    """
    match left, right:
        case tuple(), tuple():
            return tuple(add(a, b) for a, b in zip(left, right, strict=True))
        case dict(), dict():
            return mapping([*left.items(), *right.items()])
        case (Finite() | Rule(), _) | (_, Finite() | Rule()):
            return added(definitions(left), definitions(right), add)
        case _:
            return left + right


def negate(value: RingValue) -> RingValue:
    """−r."""
    match value:
        case tuple():
            return tuple(negate(part) for part in value)
        case dict():
            return {key: negate(part) for key, part in value.items()}
        case Finite() | Rule():
            return mapped(value, negate)
        case _:
            return -value


def product(left: RingValue, right: RingValue) -> RingValue:
    """r₁ · r₂: numbers scale, two mappings have the pairs of their keys.

    >>> product({"a": 2}, {"x": 1, "y": 3})
    {('a', 'x'): 2, ('a', 'y'): 6}
    """
    match left, right:
        case tuple(), _:
            return tuple(product(part, right) for part in left)
        case _, tuple():
            return tuple(product(left, part) for part in right)
        case dict() | Finite(), dict() | Finite():
            return mapping(
                ((a, b), product(x, y))
                for a, x in finite(left).items()
                for b, y in finite(right).items()
            )
        case dict(), _:
            return mapping((key, product(value, right)) for key, value in left.items())
        case _, dict():
            return mapping((key, product(left, value)) for key, value in right.items())
        case Finite() | Rule(), _:
            return mapped(left, lambda value: product(value, right))
        case _, Finite() | Rule():
            return mapped(right, lambda value: product(left, value))
        case _:
            return left * right


def multiply(left: RingValue, right: RingValue) -> RingValue:
    """r₁ * r₂, key by key; one of two mappings has to be finite.

    >>> multiply({"a": 2, "b": 3}, {"b": 4, "c": 5})
    {'b': 12}
    """
    match left, right:
        case tuple(), tuple():
            return tuple(multiply(a, b) for a, b in zip(left, right, strict=True))
        case Rule(), Rule():
            raise DefinitionError("two collections without end are multiplied")
        case Rule(), _:
            found = ((key, left.find(key), value) for key, value in finite(right).items())
            return mapping((key, product(a, b)) for key, a, b in found if a is not None)
        case (dict() | Finite(), _):
            there = definitions(right)
            found = ((key, value, there.find(key)) for key, value in finite(left).items())
            return mapping((key, product(a, b)) for key, a, b in found if b is not None)
        case _:
            return left * right


def total(values: Iterable[RingValue], type_: RingType) -> RingValue:
    """The sum of ring values of a type."""
    match type_:
        case Mapping():
            held = list(values)
            if all(isinstance(value, dict) for value in held):
                return mapping(item for value in held for item in value.items())
            values = held
        case _:
            pass
    result = zero_of(type_)
    for value in values:
        result = add(result, value)
    return result


def mapping(pairs: Iterable[tuple[KeyValue, RingValue]]) -> dict[KeyValue, RingValue]:
    """The finite mapping with the sum of the values of each key, without zeros."""
    sums: dict[KeyValue, RingValue] = {}
    for key, value in pairs:
        sums[key] = add(sums[key], value) if key in sums else value
    return {key: value for key, value in sums.items() if not is_zero(value)}


def finite(value: RingValue) -> dict[KeyValue, RingValue]:
    """The keys and values of a mapping that has an end."""
    match value:
        case dict():
            return value
        case Finite():
            return {k: v for k, v in value.definitions.items() if not is_zero(v)}
        case _:
            raise DefinitionError(
                "a collection without end is ranged over",
                hint="{x => r} can be looked up, or multiplied with a finite collection",
            )


def definitions(value: RingValue) -> Definitions:
    """A mapping as a dictionary: the keys of a finite one are its support."""
    return value if isinstance(value, Finite | Rule) else Finite(value)


@dataclass(frozen=True, slots=True)
class Box:
    """[r]: a ring value that is a part of a row.

    >>> Box.of({"a": 2}) == Box.of({"a": 2}), Box.of({"a": 2}).open()
    (True, {'a': 2})
    """

    frozen: Hashable

    @classmethod
    def of(cls, value: RingValue) -> Box:
        return cls(_frozen(value))

    def open(self) -> RingValue:
        return _thawed(self.frozen)

    def __repr__(self) -> str:
        return f"[{self.open()!r}]"


def _frozen(value: RingValue) -> Hashable:
    match value:
        case dict() | Finite() | Rule():
            return frozenset((key, _frozen(part)) for key, part in finite(value).items())
        case tuple():
            return tuple(_frozen(part) for part in value)
        case _:
            return value  # type: ignore[no-any-return]


def _thawed(frozen: Any) -> RingValue:
    match frozen:
        case frozenset():
            return {key: _thawed(part) for key, part in frozen}
        case tuple():
            return tuple(_thawed(part) for part in frozen)
        case _:
            return frozen
