"""The query that nests flat collections back: labels are replaced by the bags that they stand for.

Figure 3.5 of Lupei's thesis. An inner bag is an array in the order of its elements, so that equal
bags are equal arrays; a bag of elements that have no order is an array in any. Elements that have a
position are in the order of those, and NULL where it is negative.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from pyspark.sql import types as T

from rekindle.names import quoted, sql_text
from rekindle.nested.levels import LABEL, POSITION, VALUE, Level

SchemaOf = Callable[[str], T.StructType]
"""The columns of a part by its name."""


def nested_query(level: Level, schema_of: SchemaOf) -> str:
    """The query of the nested rows of a top level over its parts."""
    return _Assembly(schema_of).top(level)


def bags_query(level: Level, schema_of: SchemaOf) -> str:
    """The query of the bags of a level, `bag`, by their labels."""
    return f"SELECT {quoted(LABEL)}, bag FROM {_Assembly(schema_of).bags(level)}"


@dataclass(slots=True)
class _Assembly:
    schema_of: SchemaOf
    _numbers: Iterator[int] = field(default_factory=itertools.count)

    def top(self, level: Level) -> str:
        alias = f"t{next(self._numbers)}"
        joins: list[str] = []
        shown = [
            f"{self._value(alias, (f.name,), f.dataType, level, joins)} AS {quoted(f.name)}"
            for f in self.schema_of(level.view).fields
        ]
        return f"SELECT {', '.join(shown)} FROM {quoted(level.view)} AS {alias} {' '.join(joins)}"

    def bags(self, level: Level) -> str:
        """The bags of a level by their labels."""
        alias = f"t{next(self._numbers)}"
        joins: list[str] = []
        columns = self.schema_of(level.view).fields
        positioned = [f.name for f in columns[:2]] == [LABEL, POSITION]
        fields = columns[2:] if positioned else [f for f in columns if f.name != LABEL]
        values = [
            f"{sql_text(f.name)}, {self._value(alias, (f.name,), f.dataType, level, joins)}"
            for f in fields
        ]
        label = quoted(LABEL)
        element = f"named_struct({', '.join(values)})"
        if positioned:
            at = f"{alias}.{quoted(POSITION)}"
            element = f"named_struct('p', CASE WHEN {at} < 0 THEN ~{at} ELSE {at} END, " + (
                f"'e', CASE WHEN {at} >= 0 THEN {element} END)"
            )
        rows = f"SELECT {alias}.{label}, {element} AS e"
        rows += f" FROM {quoted(level.view)} AS {alias} {' '.join(joins)}"
        if all(is_orderable(f.dataType) for f in fields):
            collected = "sort_array(collect_list(e))"
        elif positioned:
            collected = "array_sort(collect_list(e), (l, r) -> sign(l.p - r.p)::INT)"
        else:
            collected = "collect_list(e)"
        if positioned:
            collected = f"transform({collected}, x -> x.e)"
        if level.of_values:
            collected = f"transform({collected}, x -> x.{quoted(VALUE)})"
        return f"(SELECT {label}, {collected} AS bag FROM ({rows}) GROUP BY {label})"

    def _value(
        self, alias: str, path: tuple[str, ...], type_: T.DataType, level: Level, joins: list[str]
    ) -> str:
        """A column, or a field of one, with its labels replaced."""
        written = ".".join([alias, *map(quoted, path)])
        bag = level.bag(".".join(path))
        if bag is not None:
            other = f"d{next(self._numbers)}"
            joins.append(
                f"LEFT JOIN {self.bags(bag)} AS {other} ON {written} = {other}.{quoted(LABEL)}"
            )
            return f"CASE WHEN {written} IS NOT NULL THEN coalesce({other}.bag, array()) END"
        below = ".".join(path) + "."
        if isinstance(type_, T.StructType) and any(c.startswith(below) for c, _ in level.bags):
            fields = [
                (f.name, self._value(alias, (*path, f.name), f.dataType, level, joins))
                for f in type_.fields
            ]
            made = ", ".join(f"{sql_text(name)}, {value}" for name, value in fields)
            made = f"named_struct({made})"
            return f"CASE WHEN {written} IS NOT NULL THEN {made} END"
        return written


def is_orderable(type_: T.DataType) -> bool:
    """Have the values of a type an order?"""
    match type_:
        case T.MapType() | T.VariantType() | T.CalendarIntervalType():
            return False
        case T.ArrayType():
            return is_orderable(type_.elementType)
        case T.StructType():
            return all(is_orderable(f.dataType) for f in type_.fields)
    return True
