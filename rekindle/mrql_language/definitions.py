"""What a script has named so far: expressions, functions, macros, types, aggregations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rekindle.errors import did_you_mean
from rekindle.mrql_language import syntax as s
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.documents import CONSTRUCTORS
from rekindle.mrql_language.monoids import User

_NUMBERS = ("short", "int", "long", "float", "double")
TYPES = (*_NUMBERS, "bool", "byte", "char", "string", "any", "XML", "JSON")
"""The types that have a name of the language's own."""
_OF_SPARK = ("boolean", "tinyint", "smallint", "bigint", "decimal", "binary", "date", "timestamp")
"""Names for what columns of tables may be beside."""


@dataclass(slots=True)
class Definitions:
    """What the statements of a script have named so far."""

    expressions: dict[str, s.Expression] = field(default_factory=dict)
    stored: set[str] = field(default_factory=set)
    functions: dict[str, int] = field(default_factory=dict)
    """Functions of the script, with the number of their parameters."""
    macros: dict[str, s.MacroDefinition] = field(default_factory=dict)
    types: dict[str, s.Type] = field(default_factory=dict)
    kinds: set[str] = field(default_factory=set)
    """The data types of the script."""
    constructors: dict[str, int] = field(default_factory=lambda: dict(CONSTRUCTORS))
    aggregations: dict[str, tuple[User, t.Lambda | None]] = field(default_factory=dict)
    tables: dict[str, str] = field(default_factory=dict)
    """Names that are sources themselves: `stream` or `invariant`."""
    is_outside: Callable[[str], bool] = lambda name: False
    """Is it a function that is not of the language, such as one of Spark?"""

    def resolved(self, of: s.Type) -> s.Type:
        """A type with its abbreviations replaced."""
        match of:
            case s.NamedType() if of.name in self.types:
                return self.resolved(self.types[of.name])
            case s.TupleType():
                return s.TupleType(tuple(self.resolved(item) for item in of.items))
            case s.RecordType():
                return s.RecordType(tuple((n, self.resolved(item)) for n, item in of.fields))
            case s.CollectionType():
                return s.CollectionType(of.kind, self.resolved(of.element))
            case _:
                return of

    def check(self, of: s.Type, *more: str) -> None:
        """Raise unless every name in a type is that of one; `more` are names besides."""
        match of:
            case s.NamedType():
                known = (*TYPES, *self.types, *self.kinds, *more)
                if of.name not in known and of.name not in _OF_SPARK:
                    raise of.place.error(
                        f"there is no type '{of.name}'", hint=did_you_mean(of.name, known)
                    )
            case s.TupleType():
                for item in of.items:
                    self.check(item, *more)
            case s.RecordType():
                for _, item in of.fields:
                    self.check(item, *more)
            case s.CollectionType():
                self.check(of.element, *more)

    def number(self, of: s.Type) -> str:
        """The kind of number that a type is, or the empty string."""
        found = self.resolved(of)
        return found.name if isinstance(found, s.NamedType) and found.name in _NUMBERS else ""
