"""What functions of the language ask of their arguments, said before Spark is asked.

Spark would convert what it is given, a text to a number and a number to a text, or refuse a query
that the user did not write. Types of Spark that the language has no word for, such as dates, are
left to Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from rekindle.errors import UnsupportedError
from rekindle.frontends.mrql.values import (
    BOOLEAN,
    NUMBERS,
    STRING,
    VOID,
    Many,
    RecordType,
    Scalar,
    Sql,
    TupleType,
    Type,
    words,
)

_OF_TEXTS = {
    "substring": 1,
    "contains": 2,
    "startsWith": 2,
    "replace": 3,
    "replaceAll": 3,
    "replaceFirst": 3,
    "split": 2,
    "toLowerCase": 1,
    "toUpperCase": 1,
    "trim": 1,
    "length": 1,
}
"""Functions of texts, and how many of their first arguments are texts."""
_OF_NUMBERS = (
    *("sin", "cos", "tan", "asin", "acos", "atan", "sqrt", "exp", "pow", "ceil", "floor", "rint"),
    *("log", "abs", "round", "negate", "min", "max"),
    *(f"as {kind}" for kind in ("short", "int", "long", "float", "double")),
)

_OF_SCALARS = ("toInt", "toLong", "toShort", "toFloat", "toDouble", "toBool")


def truth(value: Sql, what: str) -> Sql:
    """The value, which is a boolean; `what` is its place in the query."""
    if value.type not in (BOOLEAN, VOID):
        raise UnsupportedError(f"{what} is a boolean, and not {words(value.type)}")
    return value


def check_call(name: str, arguments: Sequence[Sql]) -> None:
    """Raise unless a function of the language is defined on values of these types."""
    if name == "not":
        truth(arguments[0], "what 'not' is of")
    if name in _OF_NUMBERS:
        for each in arguments:
            if not is_number_like(each.type):
                raise _undefined(name, arguments)
    if name in _OF_SCALARS and not isinstance(arguments[0].type, Scalar):
        raise _undefined(name, arguments)
    for each in arguments[: _OF_TEXTS.get(name, 0)]:
        if each.type in (*NUMBERS, BOOLEAN) or not isinstance(each.type, Scalar):
            raise _undefined(name, arguments)


def check_arithmetic(name: str, left: Sql, right: Sql) -> None:
    """Raise where Spark would read a text or a boolean as a number."""
    for each in (left, right):
        if each.type in (STRING, BOOLEAN) or not isinstance(each.type, Scalar):
            raise _undefined(name, (left, right))


def check_order(name: str, left: Sql, right: Sql) -> None:
    """Raise where values of two types are in no order."""
    kinds = {_kind(each.type) for each in (left, right)} - {""}
    if len(kinds) > 1:
        raise UnsupportedError(
            f"{words(left.type)} and {words(right.type)} cannot be compared by '{name}'"
        )


def check_total(name: str, of: Type) -> None:
    """Raise unless values of a type are added up."""
    if not is_number_like(of):
        raise UnsupportedError(f"'{name}' is of numbers, and not of {words(of)}")


def is_number_like(of: Type) -> bool:
    """Is it a number, or nothing, or a type of Spark that the language has no word for?"""
    return isinstance(of, Scalar) and of not in (STRING, BOOLEAN)


def _kind(of: Type) -> str:
    """What has an order of its own; nothing where that is Spark's matter."""
    if of in NUMBERS:
        return "number"
    match of:
        case Scalar("string" | "boolean" as name):
            return name
        case TupleType():
            return f"tuple of {len(of.items)}"
        case RecordType():
            return "record"
        case Many():
            return "collection"
        case _:
            return ""


def _undefined(name: str, arguments: Sequence[Sql]) -> UnsupportedError:
    given = " and ".join(words(each.type) for each in arguments)
    return UnsupportedError(f"'{'-' if name == 'negate' else name}' is not defined on {given}")
