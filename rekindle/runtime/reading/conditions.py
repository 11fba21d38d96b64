"""What a condition asks for of columns: the values that some of them must have.

A condition is analysed over no rows, so that names, types and casts are Spark's business. Of its
parts joined by AND, those can be looked up that say that a column is equal to a constant, or to one
of a list. The condition itself is applied to what is found, so whatever is not understood here
costs time and no rows.
"""

from __future__ import annotations

import datetime as dt
import decimal
import re
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JJavaError

from rekindle.calculus.schema import Schema
from rekindle.catalyst.jvm import JavaObject, id_of, items, simple_name
from rekindle.runtime.reading.lookups import Lookup, is_compared, values_of

_RELATION = re.compile(r"UnresolvedRelation \[([^\]]*)\]")
_EPOCH = dt.datetime(1970, 1, 1)
_MOST_VALUES = 1_000
"""Longer lists are compared as Spark does it."""


def lookup_in(plan: JavaObject, schema: Schema, stored: pa.Schema) -> Lookup | None:
    """What the filter at the top of an analysed plan asks for of the columns below it."""
    if simple_name(plan) != "Filter":
        return None
    places = {id_of(column): i for i, column in enumerate(items(plan.child().output()))}
    wanted: dict[int, pa.Array] = {}
    for part in _parts(plan.condition()):
        match simple_name(part):
            case "EqualTo" | "EqualNullSafe":
                sides = [_bare(part.left()), _bare(part.right())]
                if simple_name(sides[0]) != "AttributeReference":
                    sides.reverse()
                column, constants = sides[0], sides[1:]
            case "In":
                column, constants = _bare(part.value()), items(part.list())
            case _:
                continue
        if simple_name(column) != "AttributeReference" or len(constants) > _MOST_VALUES:
            continue
        place = places.get(id_of(column))
        if (
            place is None
            or place in wanted
            or not is_compared(schema.types[place], stored.types[place])
        ):
            continue
        found = _values(constants, stored.types[place])
        if found is not None:
            wanted[place] = found
    return Lookup(tuple(wanted.items())) if wanted else None


def filter_over(plan: JavaObject, name: str) -> JavaObject | None:
    """The filter right above a table or view in an unresolved plan that reads it nowhere else."""
    read = [each for each in _RELATION.findall(str(plan.toString())) if _is_name(each, name)]
    if len(read) != 1:
        return None
    waiting = [plan]
    while waiting:
        node = waiting.pop()
        children = items(node.children())
        if simple_name(node) == "Filter":
            below = node.child()
            if simple_name(below) == "SubqueryAlias":
                below = below.child()
            if simple_name(below) == "UnresolvedRelation" and _is_name(below.tableName(), name):
                return node
        waiting += children
    return None


def _is_name(written: str, name: str) -> bool:
    return written.replace("`", "").lower() == name.lower()


def _parts(condition: JavaObject) -> Iterator[JavaObject]:
    waiting = [condition]
    while waiting:
        each = waiting.pop()
        if simple_name(each) == "And":
            waiting += [each.right(), each.left()]
        else:
            yield each


def _bare(expression: JavaObject) -> JavaObject:
    """An expression without a cast to the type that it has."""
    if simple_name(expression) == "Cast":
        child = expression.child()
        if child.dataType().equals(expression.dataType()):
            return child
    return expression


def _values(constants: list[JavaObject], type_: pa.DataType) -> pa.Array | None:
    """Constants as values of a stored column; NULL is equal to nothing."""
    if not all(each.foldable() and each.deterministic() for each in constants):
        return None
    try:
        given = [each.eval(None) for each in constants]
    except Py4JJavaError:
        return None  # Spark fails in its own words when it comes to the condition.
    try:
        values = [_python(value, type_) for value in given if value is not None]
    except OverflowError:
        return None  # Python has no such year: all rows are compared by Spark.
    return values_of(values, type_) if values else None


def _python(value: Any, type_: pa.DataType) -> Any:
    """A value of Catalyst as Python has it."""
    if pa.types.is_string(type_):
        return str(value)
    if pa.types.is_decimal(type_):
        return decimal.Decimal(str(value))
    if pa.types.is_date(type_):
        return _EPOCH.date() + dt.timedelta(days=value)
    if pa.types.is_timestamp(type_):
        moment = _EPOCH + dt.timedelta(microseconds=value)
        return moment if type_.tz is None else moment.replace(tzinfo=dt.UTC)
    return value
