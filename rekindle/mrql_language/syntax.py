"""What an MRQL text says, as frozen nodes; `parse.py` builds them, `translate.py` reads them.

A node holds what was written, before any name is looked up. Names and calls carry their place, so
that what is found wrong later is still said with line and column. Places take no part in equality.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeAlias

from rekindle.errors import RekindleError, StatementError


@dataclass(frozen=True, slots=True)
class Place:
    """A line and a column of a script, both from 1."""

    line: int
    column: int

    def error(self, message: str, detail: str = "", hint: str = "") -> StatementError:
        """The error that names this place."""
        return StatementError(
            f"MRQL: line {self.line}, column {self.column}: {message}", detail=detail, hint=hint
        )


_SAID = "MRQL: line "
_START = Place(1, 1)


def placed(error: RekindleError, place: Place | None) -> RekindleError:
    """The error, which says now where it comes from, unless it has done so before."""
    if place is not None and not error.message.startswith(_SAID):
        error.message = f"{_SAID}{place.line}, column {place.column}: {error.message}"
        error.args = (error.message,)
    return error


# --- types -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedType:
    """`int`, `string`, `any`, or a name given by `type` or `data`."""

    name: str
    place: Place = field(compare=False, repr=False, default=_START)


@dataclass(frozen=True, slots=True)
class TupleType:
    items: tuple[Type, ...]


@dataclass(frozen=True, slots=True)
class RecordType:
    fields: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class CollectionType:
    """`bag(T)` or `list(T)`."""

    kind: str
    element: Type


Type: TypeAlias = NamedType | TupleType | RecordType | CollectionType

# --- patterns --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Variable:
    name: str
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class Anything:
    """`*`"""


@dataclass(frozen=True, slots=True)
class Constant:
    """Matches what equals it."""

    value: Expression


@dataclass(frozen=True, slots=True)
class TuplePattern:
    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class RecordPattern:
    """Names any of the fields; the others are not looked at."""

    fields: tuple[tuple[str, Pattern], ...]


@dataclass(frozen=True, slots=True)
class ListPattern:
    """Matches a list of exactly this length."""

    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True)
class ConstructorPattern:
    name: str
    items: tuple[Pattern, ...]
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class TypedPattern:
    pattern: Pattern
    type: Type


Pattern: TypeAlias = (
    Variable
    | Anything
    | Constant
    | TuplePattern
    | RecordPattern
    | ListPattern
    | ConstructorPattern
    | TypedPattern
)

# --- expressions -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class Literal:
    """An integer of any size, a double or a string."""

    value: int | float | str


@dataclass(frozen=True, slots=True)
class TupleOf:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class RecordOf:
    fields: tuple[tuple[str, Expression], ...]
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class BagOf:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    items: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class Call:
    """A function, aggregation, macro, constructor, `source` or `stream`."""

    name: str
    arguments: tuple[Expression, ...]
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class Binary:
    operator: str
    left: Expression
    right: Expression
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class Unary:
    """`-e`, `+e`, `not e` or `exists e`."""

    operator: str
    operand: Expression
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class Attribute:
    """`e.name`"""

    operand: Expression
    name: str
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class XmlAttribute:
    """`e.@name`, or `e.@*` with the name `*`."""

    operand: Expression
    name: str


@dataclass(frozen=True, slots=True)
class Children:
    """`e.*`"""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Component:
    """`e#index`"""

    operand: Expression
    index: int
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class Index:
    operand: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class Slice:
    """`e[i:j]`, both ends included."""

    operand: Expression
    first: Expression
    last: Expression


@dataclass(frozen=True, slots=True)
class Cast:
    operand: Expression
    type: Type


@dataclass(frozen=True, slots=True)
class Range:
    """`i..j`, a list, or `i...j`, a bag; both ends included."""

    first: Expression
    last: Expression
    kind: str


@dataclass(frozen=True, slots=True)
class Binding:
    """`p in e`, or `p = e` for one value."""

    pattern: Pattern
    domain: Expression
    each: str
    """`in` or `=`."""


@dataclass(frozen=True, slots=True)
class Grouping:
    pattern: Pattern
    key: Expression | None
    having: Expression | None


@dataclass(frozen=True, slots=True)
class OrderKey:
    key: Expression
    direction: str


@dataclass(frozen=True, slots=True)
class Ordering:
    keys: tuple[OrderKey, ...]
    limit: Expression | None


@dataclass(frozen=True, slots=True)
class Select:
    kind: str
    """`all` or `distinct`."""
    head: Expression
    bindings: tuple[Binding, ...]
    condition: Expression | None
    grouping: Grouping | None
    ordering: Ordering | None
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class Quantified:
    """`some p in e, ...: c` or `all p in e, ...: c`."""

    quantifier: str
    bindings: tuple[Binding, ...]
    condition: Expression


@dataclass(frozen=True, slots=True)
class If:
    condition: Expression
    then: Expression
    otherwise: Expression


@dataclass(frozen=True, slots=True)
class Let:
    pattern: Pattern
    value: Expression
    body: Expression


@dataclass(frozen=True, slots=True)
class Case:
    subject: Expression
    branches: tuple[tuple[Pattern, Expression], ...]


@dataclass(frozen=True, slots=True)
class Lambda:
    parameters: tuple[tuple[str, Type], ...]
    result: Type
    body: Expression


@dataclass(frozen=True, slots=True)
class Repeat:
    pattern: Pattern
    start: Expression
    step: Expression
    limit: Expression | None
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class Template:
    """`[xml| ... |]` or `[json| ... |]`: texts and holes in turn, a text first and last."""

    kind: str
    texts: tuple[str, ...]
    holes: tuple[Expression, ...]
    place: Place = field(compare=False, default=_START)


@dataclass(frozen=True, slots=True)
class TypeArgument:
    """`type(T)` among the arguments of a source."""

    type: Type


@dataclass(frozen=True, slots=True)
class PathArgument:
    """`xpath(path)` among the arguments of a source."""

    path: str


@dataclass(frozen=True, slots=True)
class Trace:
    operand: Expression


Expression: TypeAlias = (
    Name
    | Literal
    | TupleOf
    | RecordOf
    | BagOf
    | ListOf
    | Call
    | Binary
    | Unary
    | Attribute
    | XmlAttribute
    | Children
    | Component
    | Index
    | Slice
    | Cast
    | Range
    | Select
    | Quantified
    | If
    | Let
    | Case
    | Lambda
    | Repeat
    | Template
    | TypeArgument
    | PathArgument
    | Trace
)

# --- statements ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Evaluate:
    """`e;`, or with a word before it: `incr e;`, `lineage e;`, `debug e;`."""

    mode: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class Assign:
    """`v = e;`: a name for an expression."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class StoreVariable:
    """`store v := e;`: a name for a value."""

    name: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class StoreFile:
    """`store "f" from e;` or `dump "f" from e;`."""

    verb: str
    file: str
    expression: Expression


@dataclass(frozen=True, slots=True)
class TypeDefinition:
    name: str
    type: Type


@dataclass(frozen=True, slots=True)
class DataDefinition:
    name: str
    constructors: tuple[tuple[str, Type], ...]


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    name: str
    parameters: tuple[tuple[str, Type], ...]
    result: Type
    body: Expression


@dataclass(frozen=True, slots=True)
class MacroDefinition:
    name: str
    parameters: tuple[str, ...]
    body: Expression


@dataclass(frozen=True, slots=True)
class AggregationDefinition:
    name: str
    plus: Expression
    zero: Expression
    unit: Expression | None
    element: Type


@dataclass(frozen=True, slots=True)
class Outside:
    """`import`, `parser` or `include`: what lies outside of the script."""

    verb: str
    names: tuple[str, ...]
    target: str
    place: Place = field(compare=False, default=_START)


Statement: TypeAlias = (
    Evaluate
    | Assign
    | StoreVariable
    | StoreFile
    | TypeDefinition
    | DataDefinition
    | FunctionDefinition
    | MacroDefinition
    | AggregationDefinition
    | Outside
)
