"""Values and rings of this package as plain bytes: read as data, whoever wrote them.

A value is JSON after one mark. Numbers, texts and lists stand for themselves as far as JSON has
them; anything else is a list that begins with the name of its kind. Reading makes values of the
kinds below and of no others, so bytes that somebody else wrote are a value or an error.

    loads(dumps(x)) == x, and dumps(x) is None for an x that this package does not know.

The bytes of a ring or of a value that only its user knows are pickled elsewhere, which begin with
another mark.
"""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields
from datetime import date, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from rekindle.algebra.cofactor import Cofactor, CofactorRing
from rekindle.algebra.doubles import CompensatedDoubles, Double
from rekindle.algebra.groups import Integers, ProductGroup, ProductRing, Rationals
from rekindle.algebra.matrices import MatrixRing
from rekindle.algebra.relations import RelationRing, Tuple
from rekindle.algebra.tropical import MaxPlus, MinPlus
from rekindle.algebra.zset import FiniteMap, FiniteMapGroup, ZSet, ZSetGroup

MARK = b"\x01"
DEEPEST = 64

_RECORDS: Mapping[str, type[Any]] = {
    kind.__name__: kind
    for kind in (
        *(Integers, Rationals, ProductGroup, ProductRing, MinPlus, MaxPlus, Cofactor),
        *(CofactorRing, CompensatedDoubles, MatrixRing, RelationRing, ZSetGroup, FiniteMapGroup),
    )
}
"""Dataclasses that are made of their fields."""
_MAPS: Mapping[str, type[Any]] = {kind.__name__: kind for kind in (FiniteMap, ZSet)}


class _UnknownError(Exception):
    """A value that this module does not know."""


def dumps(value: object) -> bytes | None:
    """The bytes of a value, or None if a part of it is of no kind that is known here.

    >>> loads(dumps(CofactorRing(2, Rationals())) or b"")
    CofactorRing(features=2, scalars=Rationals())
    """
    try:
        return MARK + json.dumps(_written(value, 0), separators=(",", ":")).encode()
    except (_UnknownError, ValueError):
        return None


def loads(data: bytes) -> Any:
    """The value of bytes that `dumps` wrote; ValueError for any others."""
    if not is_plain(data):
        raise ValueError("the bytes are not a plain value")
    try:
        return _read(json.loads(data[len(MARK) :]), 0)
    except (TypeError, KeyError, ArithmeticError, RecursionError, AttributeError) as error:
        raise ValueError(f"the bytes are no value: {error}") from error


def is_plain(data: bytes) -> bool:
    """Are these bytes of `dumps`?"""
    return data.startswith(MARK)


def _written(value: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise _UnknownError
    kind = type(value)

    def inner(each: Any) -> Any:
        return _written(each, depth + 1)

    if value is None or kind in (bool, str):
        return value
    if kind is int:
        return value if abs(value) < 2**63 else ["int", format(value, "x")]
    if kind is float:
        return value if math.isfinite(value) else ["float", repr(value)]
    if kind is Fraction:
        return ["Fraction", format(value.numerator, "x"), format(value.denominator, "x")]
    if kind is Decimal:
        return ["Decimal", str(value)]
    if kind is bytes:
        return ["bytes", base64.b64encode(value).decode()]
    if kind is Double:
        return ["Double", *map(inner, value)]
    if kind in (date, datetime):
        return [kind.__name__, value.isoformat()]
    if kind is timedelta:
        return ["timedelta", value.days, value.seconds, value.microseconds]
    if isinstance(value, np.generic) and not isinstance(value, np.void):
        return inner(value.item())
    if kind in (tuple, list):
        return [kind.__name__, *map(inner, value)]
    if kind in (dict, Tuple):
        return [kind.__name__, *([inner(k), inner(v)] for k, v in value.items())]
    if _MAPS.get(kind.__name__) is kind:
        pairs = [[inner(k), inner(v)] for k, v in value]
        return [kind.__name__, inner(value.codomain), *pairs]
    if _RECORDS.get(kind.__name__) is kind:
        return [kind.__name__, *(inner(getattr(value, f.name)) for f in fields(kind))]
    raise _UnknownError


def _read(data: Any, depth: int) -> Any:
    if depth > DEEPEST:
        raise ValueError("the value is nested too deeply")
    if not isinstance(data, list):
        if isinstance(data, dict):
            raise ValueError("an object stands for no value")
        return data
    if not data or not isinstance(data[0], str):
        raise ValueError("a value has no kind")
    kind, *parts = data
    if kind in _SCALARS:
        return _SCALARS[kind](*parts)
    values = [_read(part, depth + 1) for part in parts] if kind not in _PAIRED else []
    if kind == "tuple":
        return tuple(values)
    if kind == "list":
        return values
    if kind == "Double":
        return Double(*values)
    if kind in _PAIRED:
        return _paired(kind, parts, depth + 1)
    if kind in _RECORDS:
        return _RECORDS[kind](*values)
    raise ValueError(f"values of the kind '{kind[:40]}' are not known")


def _paired(kind: str, parts: list[Any], depth: int) -> Any:
    """A value that consists of pairs, and of the group of their values if it is a map."""
    group = _read(parts.pop(0), depth) if kind in _MAPS else None
    pairs = [(_read(key, depth), _read(value, depth)) for key, value in parts]
    if kind in _MAPS:
        return _MAPS[kind](pairs, group)
    return Tuple(dict(pairs)) if kind == "Tuple" else dict(pairs)


_PAIRED = ("dict", "Tuple", *_MAPS)
_SCALARS: Mapping[str, Callable[..., Any]] = {
    "int": lambda text: int(text, 16),
    "float": float,
    "Fraction": lambda above, below: Fraction(int(above, 16), int(below, 16)),
    "Decimal": Decimal,
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
    "timedelta": timedelta,
    "bytes": lambda text: base64.b64decode(text, validate=True),
}
