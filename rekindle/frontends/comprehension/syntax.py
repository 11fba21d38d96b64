"""What the text of a comprehension says, before names and types are known.

    query  ::=  for x in source [where condition], ...  yield value [=> ring value]
             |  for x in source [where condition], ...  collect query
             |  query union query  |  negate(query)  |  flatten(query)  |  let x = query in query
             |  table  |  x.field  |  (query)
    value  ::=  (name: value, ...)  |  query  |  scalar
    scalar ::=  any expression of Spark SQL, in which  sum(query), count(query), exists(query),
                exists(x in source where condition), forall(x in source: condition)  may stand

A scalar is text with holes: names that a `for` or `let` may have bound, and what stands for a
number or a truth value that is computed from a collection.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rekindle.errors import StatementError


@dataclass(frozen=True, slots=True)
class Place:
    """Where in the text something stands."""

    line: int
    column: int
    text: str

    def error(self, message: str, hint: str = "") -> StatementError:
        """The error that points there."""
        lines = self.text.splitlines()
        shown = lines[self.line - 1] if self.line <= len(lines) else ""
        mark = " " * (self.column - 1) + "^"
        return StatementError(
            f"line {self.line}, column {self.column}: {message}",
            detail=f"in the line\n{shown}\n{mark}",
            hint=hint,
        )


@dataclass(frozen=True, slots=True)
class Path:
    """A name, and the fields that follow it: `movies`, `m.name`, `c.address.city`."""

    names: tuple[str, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Generator:
    """`x in source where condition`: x is each element that satisfies the condition."""

    variable: str
    source: Expression
    condition: Expression | None
    place: Place


@dataclass(frozen=True, slots=True)
class For:
    """`for generators yield key => value`; a value of None is the multiplicity 1."""

    generators: tuple[Generator, ...]
    key: Expression
    value: Expression | None
    place: Place


@dataclass(frozen=True, slots=True)
class Collect:
    """`for generators collect query`: all that the query gives for each element, added up."""

    generators: tuple[Generator, ...]
    body: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class Let:
    """`let x = bound in body`."""

    variable: str
    bound: Expression
    body: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class Union:
    """The sum of collections."""

    parts: tuple[Expression, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Negate:
    """A collection with its multiplicities negated."""

    query: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class Flatten:
    """The sum of the collections in a collection."""

    query: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class Tuple:
    """`(name: value, ...)`."""

    fields: tuple[tuple[str, Expression], ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Call:
    """A function of Spark SQL, an aggregate of a collection, or a function of the user."""

    name: str
    arguments: tuple[Expression, ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Quantified:
    """`exists(x in source where condition)` or `forall(x in source: condition)`."""

    name: str
    generator: Generator
    place: Place


@dataclass(frozen=True, slots=True)
class Group:
    """Something in brackets."""

    inner: Expression
    place: Place


@dataclass(frozen=True, slots=True)
class Scalar:
    """Text of Spark SQL with holes."""

    pieces: tuple[str | Expression, ...]
    place: Place


Expression: TypeAlias = (
    Path
    | For
    | Collect
    | Let
    | Union
    | Negate
    | Flatten
    | Tuple
    | Call
    | Quantified
    | Group
    | Scalar
)
