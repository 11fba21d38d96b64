"""Rows: ordered, named, typed fields.

A type is the text that Spark prints for it (`bigint`, `decimal(10,2)`, `ARRAY<STRING>`), compared
as text. The calculus never looks inside a type: only Spark and the file layer give it meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from rekindle.errors import DefinitionError


@dataclass(frozen=True, slots=True)
class Field:
    """One column: its name, its type in Spark's words, and whether NULL may stand in it."""

    name: str
    type: str
    nullable: bool = True

    def __str__(self) -> str:
        return f"{self.name}: {self.type}" + ("" if self.nullable else " not null")


@dataclass(frozen=True, slots=True)
class Schema:
    """An ordered tuple of fields; columns are referred to by position, names are for people.

    >>> str(Schema.of(id="bigint", name="string"))
    '(id: bigint, name: string)'
    """

    fields: tuple[Field, ...]

    @staticmethod
    def of(**types: str) -> Schema:
        """The schema of nullable columns given as keyword arguments."""
        return Schema(tuple(Field(name, type_) for name, type_ in types.items()))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(field.type for field in self.fields)

    def position(self, name: str) -> int:
        """The position of the one column called `name`."""
        found = [i for i, field in enumerate(self.fields) if field.name == name]
        if len(found) != 1:
            raise DefinitionError(
                f"{'unknown' if not found else 'ambiguous'} column '{name}'",
                detail=f"columns: {', '.join(self.names)}",
            )
        return found[0]

    def as_nullable(self) -> Schema:
        """The same columns, in any of which NULL may stand."""
        return Schema(tuple(replace(field, nullable=True) for field in self.fields))

    def __len__(self) -> int:
        return len(self.fields)

    def __iter__(self) -> Iterator[Field]:
        return iter(self.fields)

    def __add__(self, other: Schema) -> Schema:
        return Schema(self.fields + other.fields)

    def __str__(self) -> str:
        return "(" + ", ".join(str(field) for field in self.fields) + ")"
