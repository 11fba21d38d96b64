"""Values held against patterns and against each other: what must hold, and what is bound.

a variable          anything
a constant          what is equal to it
a tuple, a record   what has such parts, each matched by its pattern
a list              a list of just so many elements
"""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from rekindle.errors import UnsupportedError
from rekindle.frontends.mrql import arrays
from rekindle.frontends.mrql.values import (
    BOOLEAN,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    SHORT,
    STRING,
    UNIT,
    Many,
    Rec,
    RecordType,
    Scalar,
    Sql,
    Tup,
    TupleType,
    Value,
    literal,
    packed,
    reads,
    type_of,
    unpacked,
)
from rekindle.frontends.mrql.values import field as field_of
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.values import Bag, Float, List, Long, Record, Short


@dataclass(slots=True)
class Matching:
    """The tests under which a pattern matches, and its variables then."""

    tests: list[Sql] = field(default_factory=list)
    bound: dict[str, Value] = field(default_factory=dict)


def matched(pattern: t.Term, value: Value) -> Matching | None:
    """How a value matches a pattern; None if it cannot, whatever the row."""
    found = Matching()
    return found if _match(pattern, value, found) else None


def _match(pattern: t.Term, value: Value, found: Matching) -> bool:
    match pattern:
        case t.Var():
            found.bound[pattern.name] = value
            return True
        case t.Constant():
            try:
                pairs = same(value, constant(pattern.value))
                found.tests += [arrays.equal(*sides) for sides in pairs]
            except UnsupportedError:
                # They have no type in common: nothing is equal.
                return False
            return True
        case t.Tuple():
            parts = _parts(value, found)
            if not isinstance(parts, Tup) or len(parts.items) != len(pattern.items):
                return False
            both = zip(pattern.items, parts.items, strict=True)
            return all(_match(inner, item, found) for inner, item in both)
        case t.MakeRecord():
            if not isinstance(type_of(value), RecordType):
                return False
            parts = _parts(value, found)
            named = zip(pattern.labels, pattern.items, strict=True)
            return all(_match(inner, field_of(parts, label), found) for label, inner in named)
        case t.Enumerate():
            if not isinstance(value, Sql) or not isinstance(value.type, Many):
                return False
            if not value.type.ordered:
                return False
            size = Sql(f"(size({value.text}) <=> {len(pattern.items)})", BOOLEAN, value.reads)
            found.tests.append(size)
            places = (arrays.indexed(value, Sql(str(i), INT)) for i in range(len(pattern.items)))
            return all(_match(*pair, found) for pair in zip(pattern.items, places, strict=True))
        case _:
            raise UnsupportedError(
                "a pattern of a data type or a document cannot be followed on the engine",
                hint="db.mrql evaluates it",
            )


def _parts(value: Value, found: Matching) -> Value:
    """A struct as what it is made of, which a NULL is not."""
    if isinstance(value, Sql) and isinstance(value.type, TupleType | RecordType):
        found.tests.append(Sql(f"({value.text} IS NOT NULL)", BOOLEAN, value.reads))
        return unpacked(value)
    return value


def same(left: Value, right: Value) -> list[tuple[Sql, Sql]]:
    """What must be equal for two values to be."""
    a = unpacked(left) if isinstance(left, Sql) else left
    b = unpacked(right) if isinstance(right, Sql) else right
    if isinstance(a, Tup) and isinstance(b, Tup) and len(a.items) == len(b.items) > 0:
        return [pair for x, y in zip(a.items, b.items, strict=True) for pair in same(x, y)]
    if isinstance(a, Rec) and isinstance(b, Rec) and len(a.fields) == len(b.fields):
        both = zip(a.fields, b.fields, strict=True)
        return [pair for (_, x), (_, y) in both for pair in same(x, y)]
    return [(packed(left), packed(right))]


def conjunction(tests: Sequence[Sql]) -> Sql:
    """All of the tests."""
    if len(tests) == 1:
        return tests[0]
    return Sql(f"({' AND '.join(each.text for each in tests) or 'true'})", BOOLEAN, reads(*tests))


def constant(value: object) -> Value:
    """A value of the language as SQL."""
    match value:
        case bool():
            return Sql("true" if value else "false", BOOLEAN)
        case Long():
            return Sql(f"{int(value)}L" if value >= 0 else f"({int(value)}L)", LONG)
        case Short():
            return Sql(f"CAST({int(value)} AS SMALLINT)", SHORT)
        case int():
            return Sql(f"{value}" if value >= 0 else f"({value})", INT)
        case Float():
            return Sql(f"CAST({_real(value)} AS FLOAT)", FLOAT)
        case float():
            return Sql(_real(value), DOUBLE)
        case str():
            return Sql(literal(value), STRING)
        case dt.datetime():
            zone = "" if value.tzinfo is None else value.strftime(" %z")
            return Sql(f"TIMESTAMP '{value:%Y-%m-%d %H:%M:%S.%f}{zone}'", Scalar("timestamp"))
        case dt.date():
            return Sql(f"DATE '{value:%Y-%m-%d}'", Scalar("date"))
        case Decimal() if value.is_finite():
            digits = max(0, -int(value.as_tuple().exponent))
            kind = f"decimal(38,{min(digits, 38)})"
            return Sql(f"CAST('{value:f}' AS {kind})", Scalar(kind))
        case bytes():
            return Sql(f"X'{value.hex()}'", Scalar("binary"))
        case tuple():
            return Tup(tuple(map(constant, value))) if value else UNIT
        case Record():
            return Rec(tuple((name, constant(item)) for name, item in value.fields))
        case Bag():
            return arrays.array_of([constant(each) for each in value], False)
        case List():
            return arrays.array_of([constant(each) for each in value], True)
        case _:
            raise UnsupportedError(
                f"a value of {type(value).__name__.lower()} cannot be followed on the engine"
            )


def _real(value: float) -> str:
    if math.isnan(value):
        return "double('NaN')"
    if math.isinf(value):
        return f"double('{'-' if value < 0 else ''}infinity')"
    return f"{float(value)!r}D" if value >= 0 else f"({float(value)!r}D)"
