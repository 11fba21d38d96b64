"""Values in and out of shredded form: labels for inner collections, and collections for labels.

    shred   s^F, s^Γ      figure 3.4: every inner collection gets a label of its own
    nest    μ_R, u_A      figure 3.5 and theorem 14: every label is replaced by its definition

    laws: nest(shred(v)) = v                            lemma 6
          nest(r^F, r^Γ) = r on the nested tables       lemma 7, theorems 8 and 14

Nesting insists on what a consistent shredded value has (appendix A.2): each label that occurs is
defined. `LabelError` names one that is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from itertools import count
from typing import Any, assert_never

from rekindle.nested import contexts
from rekindle.nested.contexts import Context, Fields, Inner, Pair, joined
from rekindle.nested.labels import Definitions, Finite, LabelValue, materialise, undefined
from rekindle.nested.meaning import Environment, value_of
from rekindle.nested.shredding import Shredded, dictionary_name, flat_name
from rekindle.nested.terms import RingTerm
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
from rekindle.nested.values import Box, KeyValue, RingValue, mapping


@dataclass(frozen=True, slots=True)
class ShreddedValue:
    """A value of a ring type as a flat value and the dictionaries of its inner collections."""

    type: RingType
    flat: RingValue
    context: Context[Definitions]

    def as_tables(self, name: str) -> dict[str, RingValue]:
        """The flat collection and dictionaries by the names that a shredded query reads."""
        tables = {flat_name(name, self.type): self.flat}
        for path, dictionary in contexts.named(self.context):
            tables[dictionary_name(name, path)] = dictionary
        return tables


def new_labels() -> Iterator[LabelValue]:
    """Labels for stored collections, each another: they count down, and meet no query's."""
    return (LabelValue(-number) for number in count(1))


def shred(value: RingValue, type_: RingType, labels: Iterator[LabelValue]) -> ShreddedValue:
    """s^F and s^Γ of a value."""
    found: dict[str, dict[KeyValue, RingValue]] = {}
    flat = _shred_ring(value, type_, labels, found, "")

    def dictionary(path: str, type_: Mapping) -> Definitions:
        return Finite(found.get(path, {}))

    context = contexts.context_of(type_, dictionary)
    return ShreddedValue(type_, flat, context)


def _shred_ring(
    value: RingValue,
    type_: RingType,
    labels: Iterator[LabelValue],
    found: dict[str, dict[KeyValue, RingValue]],
    path: str,
) -> RingValue:
    match type_:
        case Number():
            return value
        case RingRecord(fields):
            return tuple(
                _shred_ring(part, field, labels, found, joined(path, name))
                for part, (name, field) in zip(value, fields, strict=True)
            )
        case Mapping(key, ring):
            rows = joined(path, "[]") if isinstance(key, Boxed) else path
            return mapping(
                (
                    _shred_key(row, key, labels, found, rows),
                    _shred_ring(part, ring, labels, found, joined(path, "=>")),
                )
                for row, part in value.items()
            )
        case _:
            assert_never(type_)


def _shred_key(
    value: Any,
    type_: KeyType,
    labels: Iterator[LabelValue],
    found: dict[str, dict[KeyValue, RingValue]],
    path: str,
) -> KeyValue:
    match type_:
        case Scalar() | Label():
            return value  # type: ignore[no-any-return]
        case Record(fields):
            return tuple(
                _shred_key(part, field, labels, found, joined(path, name))
                for part, (name, field) in zip(value, fields, strict=True)
            )
        case Boxed(ring):
            label = next(labels)
            definition = _shred_ring(value.open(), ring, labels, found, path)
            found.setdefault(path, {})[label] = definition
            return label
        case _:
            assert_never(type_)


def nest(shredded: ShreddedValue) -> RingValue:
    """μ: the value with each label replaced by its definition.

    >>> from rekindle.nested.types import Bag, Scalar
    >>> type_ = Bag(Boxed(Bag(Scalar("int"))))
    >>> nest(shred({Box.of({1: 2}): 3}, type_, new_labels()))
    {[{1: 2}]: 3}
    """
    return _nest_ring(shredded.flat, shredded.type, shredded.context)


def _nest_ring(value: RingValue, type_: RingType, context: Context[Definitions]) -> RingValue:
    match type_:
        case Number():
            return value
        case RingRecord(fields):
            assert isinstance(context, Fields)
            return tuple(
                _nest_ring(part, field, context.field(name))
                for part, (name, field) in zip(value, fields, strict=True)
            )
        case Mapping(key, ring):
            assert isinstance(context, Pair)
            return mapping(
                (_nest_key(row, key, context.key), _nest_ring(part, ring, context.value))
                for row, part in value.items()
            )
        case _:
            assert_never(type_)


def _nest_key(value: Any, type_: KeyType, context: Context[Definitions]) -> KeyValue:
    match type_:
        case Scalar() | Label():
            return value  # type: ignore[no-any-return]
        case Record(fields):
            assert isinstance(context, Fields)
            return tuple(
                _nest_key(part, field, context.field(name))
                for part, (name, field) in zip(value, fields, strict=True)
            )
        case Boxed(ring):
            assert isinstance(context, Inner)
            definition = context.dictionary.find(value)
            if definition is None:
                raise undefined(value)
            return Box.of(_nest_ring(definition, ring, context.below))
        case _:
            assert_never(type_)


def occurring(shredded: ShreddedValue) -> dict[str, dict[KeyValue, None]]:
    """The labels that occur at each path, in the flat value or in the definitions above."""
    found: dict[str, dict[KeyValue, None]] = {
        path: {} for path, _ in contexts.named(shredded.context)
    }
    _labels(shredded.flat, shredded.type, shredded.context, found, "")
    return found


def _labels(
    value: Any,
    type_: KeyType | RingType,
    context: Context[Definitions],
    found: dict[str, dict[KeyValue, None]],
    path: str,
) -> None:
    match type_, context:
        case ((Record(fields) | RingRecord(fields)), Fields()):
            for part, (name, field) in zip(value, fields, strict=True):
                _labels(part, field, context.field(name), found, joined(path, name))
        case Mapping(key, ring), Pair():
            rows = joined(path, "[]") if isinstance(key, Boxed) else path
            for row, part in value.items():
                _labels(row, key, context.key, found, rows)
                _labels(part, ring, context.value, found, joined(path, "=>"))
        case Boxed(ring), Inner():
            if value in found[path]:
                return
            found[path][value] = None
            definition = context.dictionary.find(value)
            if definition is None:
                raise undefined(value)
            _labels(definition, ring, context.below, found, path)
        case _:
            return


def materialised(shredded: ShreddedValue) -> ShreddedValue:
    """The same value with finite dictionaries: the definitions of the labels that occur."""
    labels = occurring(shredded)
    stored: dict[str, Definitions] = {
        path: materialise(dictionary, labels[path])
        for path, dictionary in contexts.named(shredded.context)
    }
    context = contexts.context_of(shredded.type, lambda path, _: stored[path])
    return ShreddedValue(shredded.type, shredded.flat, context)


def evaluated(shredded: Shredded, scope: Environment) -> ShreddedValue:
    """The value of a shredded query: of its flat query, and of its dictionaries by their rules."""

    def dictionary(term: RingTerm) -> Definitions:
        value = value_of(term, scope)
        return Finite(value) if isinstance(value, dict) else value

    flat = value_of(shredded.flat, scope)
    return ShreddedValue(shredded.type, flat, contexts.mapped(shredded.context, dictionary))


def tables(
    values: MappingOf[str, RingValue],
    types: MappingOf[str, RingType],
    labels: Iterator[LabelValue],
) -> dict[str, RingValue]:
    """Nested tables as the flat collections and dictionaries that shredded queries read."""
    flat: dict[str, RingValue] = {}
    for name, value in values.items():
        flat |= shred(value, types[name], labels).as_tables(name)
    return flat
