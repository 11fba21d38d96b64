"""What a stored value must look like before anything reads it.

A shape is a function that passes a value or raises `ShapeError` with the place inside it. Shapes
are made of smaller ones, so that the description of a stored form reads like the form itself:

    SEGMENT = record(path=text, rows=whole(0), low=whole(), high=whole())

A record may not have fields that nobody asked for, an `open_record` may: later writers say more
there, which this reader can do without. Values are passed on as they are, so checking costs one
walk and no copy.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

Shape = Callable[[Any, str], None]


class ShapeError(ValueError):
    """A value that is not what its form says, and where in it."""


def _expected(what: str, value: object, place: str) -> ShapeError:
    found = "null" if value is None else type(value).__name__
    return ShapeError(f"{place or 'the whole'}: expected {what}, found {found}")


def anything(value: Any, place: str) -> None:
    """Every value."""


def text(value: Any, place: str) -> None:
    if type(value) is not str:
        raise _expected("a text", value, place)


def truth(value: Any, place: str) -> None:
    if type(value) is not bool:
        raise _expected("true or false", value, place)


def number(value: Any, place: str) -> None:
    if type(value) not in (int, float):
        raise _expected("a number", value, place)


def whole(low: int = -(2**63), high: int = 2**63 - 1) -> Shape:
    """A whole number in a range, both ends included."""

    def check(value: Any, place: str) -> None:
        if type(value) is not int:
            raise _expected("a whole number", value, place)
        if not low <= value <= high:
            raise ShapeError(f"{place}: {value} is not between {low} and {high}")

    return check


def one_of(*known: str) -> Shape:
    """One of some texts."""

    def check(value: Any, place: str) -> None:
        if type(value) is not str or value not in known:
            raise _expected(f"one of {', '.join(known)}", value, place)

    return check


def optional(shape: Shape) -> Shape:
    """A value of the shape, or null."""

    def check(value: Any, place: str) -> None:
        if value is not None:
            shape(value, place)

    return check


def either(number: Shape, other: Shape) -> Shape:
    """A number of one shape, or a value that is no number of the other."""

    def check(value: Any, place: str) -> None:
        (number if type(value) is int else other)(value, place)

    return check


def list_of(shape: Shape) -> Shape:
    """A list, every element of one shape."""

    def check(value: Any, place: str) -> None:
        if type(value) not in (list, tuple):
            raise _expected("a list", value, place)
        for i, each in enumerate(value):
            shape(each, f"{place}[{i}]")

    return check


def row_of(*shapes: Shape, later: Shape | None = None) -> Shape:
    """A list of as many elements as there are shapes, each of its own.

    There may be one element more of the shape `later`, which earlier forms do not have.
    """

    def check(value: Any, place: str) -> None:
        is_list = type(value) in (list, tuple)
        has_more = later is not None and is_list and len(value) == len(shapes) + 1
        if not is_list or not (has_more or len(value) == len(shapes)):
            raise _expected(f"a list of {len(shapes)}", value, place)
        checks = (*shapes, later) if has_more and later is not None else shapes
        for i, (each, shape) in enumerate(zip(value, checks, strict=True)):
            shape(each, f"{place}[{i}]")

    return check


def map_of(shape: Shape) -> Shape:
    """An object with any names, every value of one shape."""

    def check(value: Any, place: str) -> None:
        if type(value) is not dict:
            raise _expected("an object", value, place)
        for name, each in value.items():
            text(name, place)
            shape(each, f"{place}.{name}")

    return check


def record(later: Mapping[str, Shape] | None = None, /, **fields: Shape) -> Shape:
    """An object with these fields and no others; those added `later` may be missing.

    >>> record(x=whole(0))({"x": -1}, "it")
    Traceback (most recent call last):
    rekindle.shapes.ShapeError: it.x: -1 is not between 0 and ...
    """
    more = dict(later or {})

    def check(value: Any, place: str) -> None:
        if type(value) is not dict:
            raise _expected("an object", value, place)
        for name, shape in fields.items():
            if name not in value:
                raise ShapeError(f"{place or 'the whole'}: lacks '{name}'")
            shape(value[name], f"{place}.{name}" if place else name)
        for name, each in value.items():
            if name in fields:
                continue
            if name not in more:
                raise ShapeError(f"{place or 'the whole'}: '{name}' is not known")
            more[name](each, f"{place}.{name}" if place else name)

    return check


def open_record(later: Mapping[str, Shape] | None = None, /, **fields: Shape) -> Shape:
    """An object with these fields and any others; those added `later` may be missing."""
    more = dict(later or {})

    def check(value: Any, place: str) -> None:
        if type(value) is not dict:
            raise _expected("an object", value, place)
        others = {name: anything for name in value if name not in fields and name not in more}
        record({**more, **others}, **fields)(value, place)

    return check


def read_json(body: bytes | str, shape: Shape) -> Any:
    """The value that JSON text stands for; raises `ShapeError` unless it is of the shape.

    Text that is nested beyond any measure ends in the parser, and shapes have an end of their own:
    none of them refers to itself.
    """
    try:
        value = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise ShapeError(f"it is not JSON: {str(error)[:200]}") from error
    shape(value, "")
    return value
