"""Labels, and the dictionaries that define them.

A label ⟨ι, ε⟩ names an inner collection: ι tells which subquery makes it, ε holds the values that
the subquery depends on. Equal labels therefore have equal definitions, and no definition is kept
twice.

A dictionary defines some labels, its support; a label may be defined as the empty collection, which
is not the same as being undefined. Dictionaries are put together in two ways:

    (d₁ ⊎ d₂)(l) = d₁(l) ⊎ d₂(l)           a change of definitions is added to them
    (d₁ ∪ d₂)(l) = the one of d₁(l), d₂(l)   two dictionaries have the labels of both

∪ never changes a definition. Where both define a label they must agree, and `LabelError` names the
label and both definitions if they do not.

A query's dictionary is a rule: it has a definition for every value that a label may hold. A stored
one is finite. `materialise` makes the second of the first, for the labels that occur.

Lupei's thesis, section 3.3.2, examples 9 and 10.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from rekindle.errors import DefinitionError


class LabelError(DefinitionError):
    """A label that two dictionaries define differently, or that none defines."""


@dataclass(frozen=True, slots=True)
class LabelValue:
    """⟨ι, ε⟩. Labels of stored collections count down from −1, and meet no query's.

    >>> print(LabelValue(1, ("Drive", None)))
    ι1⟨'Drive', NULL⟩
    """

    index: int
    values: tuple[Hashable, ...] = ()

    def __str__(self) -> str:
        shown = ("NULL" if value is None else _shown(value) for value in self.values)
        return f"ι{self.index}⟨{', '.join(shown)}⟩"


def _shown(value: Hashable) -> str:
    return str(value) if isinstance(value, LabelValue) else repr(value)


@dataclass(frozen=True, slots=True)
class Finite:
    """A dictionary that defines the labels it lists, some of them perhaps as empty."""

    definitions: Mapping[Any, Any]

    def find(self, label: Any) -> Any | None:
        return self.definitions.get(label)


@dataclass(frozen=True, slots=True)
class Rule:
    """A dictionary by a rule, which gives None outside its support."""

    find: Callable[[Any], Any | None]


Definitions: TypeAlias = Finite | Rule


def label_union(left: Definitions, right: Definitions) -> Definitions:
    """d₁ ∪ d₂; finite dictionaries are checked at once, rules where they are asked.

    >>> both = label_union(Finite({"a": 1}), Finite({"a": 1, "b": 2}))
    >>> both.find("a"), both.find("b"), both.find("c")
    (1, 2, None)
    """

    def find(label: Any) -> Any | None:
        one, other = left.find(label), right.find(label)
        if one is None or other is None:
            return other if one is None else one
        if one != other:
            raise LabelError(
                f"label {label} has two definitions",
                detail=f"one is {one}, the other {other}",
                hint="a label union does not change definitions; a change is added",
            )
        return one

    return _combined(left, right, find)


def added(left: Definitions, right: Definitions, add: Callable[[Any, Any], Any]) -> Definitions:
    """d₁ ⊎ d₂, where `add` adds two definitions."""

    def find(label: Any) -> Any | None:
        one, other = left.find(label), right.find(label)
        if one is None or other is None:
            return other if one is None else one
        return add(one, other)

    return _combined(left, right, find)


def mapped(dictionary: Definitions, function: Callable[[Any], Any]) -> Definitions:
    """The dictionary with a function of each definition in its place."""

    def find(label: Any) -> Any | None:
        definition = dictionary.find(label)
        return None if definition is None else function(definition)

    if isinstance(dictionary, Finite):
        return Finite({label: function(d) for label, d in dictionary.definitions.items()})
    return Rule(find)


def materialise(dictionary: Definitions, labels: Iterable[Any]) -> Finite:
    """The definitions of the labels that occur; it is an error if one has none."""
    definitions = {}
    for label in labels:
        definition = dictionary.find(label)
        if definition is None:
            raise undefined(label)
        definitions[label] = definition
    return Finite(definitions)


def undefined(label: object) -> LabelError:
    """The error for a label that occurs and that the dictionary of its place does not define."""
    return LabelError(f"label {label} has no definition")


def _combined(
    left: Definitions, right: Definitions, find: Callable[[Any], Any | None]
) -> Definitions:
    if isinstance(left, Finite) and isinstance(right, Finite):
        labels = dict.fromkeys((*left.definitions, *right.definitions))
        return Finite({label: find(label) for label in labels})
    return Rule(find)
