"""Scalar expressions over the columns of one row.

A scalar is opaque beyond what `Scalar` says of it: the positions it reads, its type, and a
canonical text that is equal for equal expressions. Two families exist. The ones here are evaluated
in Python: they serve the interpreter and every test that starts no Spark. The other family wraps a
Catalyst expression (`frontends.spark_sql.scalars`) and is evaluated by Spark alone.

NULL is `None`; a function applied to a NULL gives NULL unless it says otherwise (`NULL_SAFE`).
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

from rekindle.errors import DefinitionError

Row: TypeAlias = tuple[Hashable, ...]

_BARE_TYPE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\([0-9]+(,[0-9]+)?\))?")


def quoted(text: str, mark: str) -> str:
    """The text between two marks, on one line: marks, backslashes and controls are escaped.

    >>> quoted("it's\\n", "'")
    "'it\\\\'s\\\\u{a}'"
    """

    def written(character: str) -> str:
        if character in (mark, "\\"):
            return "\\" + character
        return character if character.isprintable() else f"\\u{{{ord(character):x}}}"

    return mark + "".join(map(written, text)) + mark


def written_type(type_: str) -> str:
    """A type as texts show it: bare when it is a word such as `decimal(10,2)`, else quoted.

    >>> written_type("decimal(10,2)"), written_type("array<int>")
    ('decimal(10,2)', '"array<int>"')
    """
    return type_ if _BARE_TYPE.fullmatch(type_) else quoted(type_, '"')


@runtime_checkable
class Scalar(Protocol):
    """What the calculus knows of an expression."""

    @property
    def type(self) -> str: ...

    @property
    def nullable(self) -> bool: ...

    @property
    def references(self) -> frozenset[int]:
        """Positions of the input columns that the value depends on."""

    @property
    def text(self) -> str:
        """A canonical text: equal texts over equal inputs have equal values."""


@runtime_checkable
class Evaluable(Scalar, Protocol):
    """A scalar with a meaning in Python."""

    def evaluate(self, row: Sequence[Any]) -> Any: ...


@dataclass(frozen=True, slots=True)
class Column:
    """The value of the input column at `position`."""

    position: int
    type: str
    nullable: bool = True

    @property
    def references(self) -> frozenset[int]:
        return frozenset((self.position,))

    @property
    def text(self) -> str:
        return f"${self.position}:{written_type(self.type)}" + ("" if self.nullable else "!")

    def evaluate(self, row: Sequence[Any]) -> Any:
        return row[self.position]


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant."""

    value: bool | int | float | str | None
    type: str

    @property
    def nullable(self) -> bool:
        return self.value is None

    @property
    def references(self) -> frozenset[int]:
        return frozenset()

    @property
    def text(self) -> str:
        match self.value:
            case None:
                value = "null"
            case bool():
                value = "true" if self.value else "false"
            case str():
                value = quoted(self.value, "'")
            case _:
                value = repr(self.value)
        return f"{value}:{written_type(self.type)}"

    def evaluate(self, row: Sequence[Any]) -> Any:
        return self.value


def _logical_and(left: Any, right: Any) -> Any:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _logical_or(left: Any, right: Any) -> Any:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


STRICT: Mapping[str, Callable[..., Any]] = {
    "add": operator.add,
    "subtract": operator.sub,
    "multiply": operator.mul,
    "negative": operator.neg,
    "equal": operator.eq,
    "less": operator.lt,
    "greater": operator.gt,
    "not": operator.not_,
    "concat": operator.add,
    "greatest": max,
}
"""Functions that give NULL when any argument is NULL."""

NULL_SAFE: Mapping[str, Callable[..., Any]] = {
    "and": _logical_and,
    "or": _logical_or,
    "is_null": lambda value: value is None,
    "coalesce": lambda *values: next((v for v in values if v is not None), None),
    "row": lambda *values: values,
    "exactly": lambda value: value,
}
"""Functions that see NULLs."""

_NEVER_NULL = frozenset({"is_null", "row"})


@dataclass(frozen=True, slots=True)
class Call:
    """A named Python function of scalars.

    >>> Call("add", (Column(0, "int"), Literal(1, "int")), "int").evaluate((41,))
    42
    """

    function: str
    arguments: tuple[Evaluable, ...]
    type: str

    def __post_init__(self) -> None:
        if self.function not in STRICT and self.function not in NULL_SAFE:
            raise DefinitionError(
                f"unknown scalar function '{self.function}'",
                detail=f"available: {', '.join(sorted({**STRICT, **NULL_SAFE}))}",
            )

    @property
    def nullable(self) -> bool:
        return self.function not in _NEVER_NULL and any(a.nullable for a in self.arguments)

    @property
    def references(self) -> frozenset[int]:
        return frozenset().union(*(argument.references for argument in self.arguments))

    @property
    def text(self) -> str:
        inner = ", ".join(argument.text for argument in self.arguments)
        return f"{self.function}({inner}):{written_type(self.type)}"

    def evaluate(self, row: Sequence[Any]) -> Any:
        values = [argument.evaluate(row) for argument in self.arguments]
        if self.function in NULL_SAFE:
            return NULL_SAFE[self.function](*values)
        return None if any(value is None for value in values) else STRICT[self.function](*values)


def row_of(columns: Sequence[Column]) -> Call:
    """The columns as one value that is never NULL and equal where all of them are, NULL to NULL.

    A join on it compares as grouping and IS NOT DISTINCT FROM do.

    >>> row_of([Column(0, "int"), Column(2, "string")]).evaluate((1, 2, None))
    (1, None)
    """
    return _row(columns)


def same_row_of(columns: Sequence[Column]) -> Call:
    """The same, equal where the columns are the same: -0.0 is equal to 0.0, but not the same.

    Rows that are the same agree in every function of them. `exactly` is a value in which two that
    are equal and not the same differ; to the interpreter what is equal is the same.
    """
    loose = [column for column in columns if any(w in column.type.lower() for w in _LOOSE)]
    return _row([*columns, *(Call("exactly", (column,), "string") for column in loose)])


_LOOSE = ("float", "double", "collate")
"""What the types contain of which two values can be equal and not the same."""


def _row(fields: Sequence[Evaluable]) -> Call:
    types = ", ".join(f"_{i}: {field.type}" for i, field in enumerate(fields))
    return Call("row", tuple(fields), f"struct<{types}>")
