"""Columns that hold labels in the place of bags, and what expressions reach through them.

A value of a nested collection has a shredded form: the same value with labels for its bags. Of a
bag it is the label, of a struct with bags a struct with labels. While a plan is opened
(`rules/open_dictionaries.py`) such columns are carried in shredded form.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    child_of,
    children_of,
    id_of,
    simple_name,
)
from rekindle.nested.levels import Level

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Carried:
    """A value in shredded form: an expression, and its place in the rows of a level.

    The path of a whole row is empty. Where `fields` are named, the value is an array: of the fields
    of that path of each element of the bag.
    """

    shredded: JavaObject
    level: Level
    path: Path
    origin: int
    """The column of the plan by which the value came in, of a leaf or of a generator."""
    fields: Path = ()

    @property
    def bag(self) -> Level | None:
        """The level of the bag that the value is, if it is one."""
        return self.level.bag(".".join(self.path))

    @property
    def holds_bags(self) -> bool:
        """Is it a bag, or a struct with one?"""
        below = "".join(f"{name}." for name in self.path)
        return self.bag is not None or any(name.startswith(below) for name, _ in self.level.bags)

    def renamed(self, shredded: JavaObject) -> Carried:
        """The same value by another expression."""
        return replace(self, shredded=shredded)

    def within(self, catalyst: Catalyst, name: str) -> Carried:
        """A field of a struct."""
        ordinal = self.shredded.dataType().fieldIndex(name)
        field = catalyst.expression("GetStructField")(self.shredded, ordinal, catalyst.some(name))
        return replace(self, shredded=field, path=(*self.path, name))


def reached(
    catalyst: Catalyst, expression: JavaObject, carried: Mapping[int, Carried]
) -> Carried | None:
    """What a carried column, or a field of one, is; None for any other expression."""
    match simple_name(expression):
        case "AttributeReference":
            return carried.get(id_of(expression))
        case "GetStructField":
            whole = reached(catalyst, child_of(expression), carried)
            return whole and whole.within(catalyst, str(expression.extractFieldName()))
        case "GetArrayStructFields":
            (array, *_) = children_of(expression)
            whole = reached(catalyst, array, carried)
            if whole is None or whole.bag is None:
                return None
            return replace(whole, fields=(*whole.fields, str(expression.field().name())))
    return None
