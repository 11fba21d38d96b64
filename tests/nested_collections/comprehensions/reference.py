"""What a comprehension is worth by the reference semantics, and rows of Spark as its values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from pyspark.sql import Row

from rekindle.nested import terms as core
from rekindle.nested.meaning import Environment, value_of
from rekindle.nested.terms import RingTerm
from rekindle.nested.types import Boxed, KeyType, Record
from rekindle.nested.types import Mapping as MappingType
from rekindle.nested.values import Box, mapping
from rekindle.nested.variables import rebuilt
from tests.nested_collections.comprehensions.scalars import evaluator


def reference(term: RingTerm, tables: Mapping[str, dict[Any, int]]) -> dict[Any, Any]:
    """The value of a term over tables, as rows of `rows_of`."""
    found: dict[Any, Any] = value_of(_computable(term), Environment(relations=tables))
    return found


def _computable(term: Any) -> Any:
    """The term with a function in Python for each scalar function."""
    done = rebuilt(term, tuple(map(_computable, core.children(term))))
    if isinstance(done, core.Apply):
        text = done.function.text
        return core.Apply(replace(done.function, python=evaluator(text)), done.arguments)
    return done


def rows_of(rows: Iterable[Any], type_: KeyType) -> dict[Any, int]:
    """Rows of Spark, or Python values like them, as a bag."""
    return mapping((key_of(row, type_), 1) for row in rows)


def key_of(value: Any, type_: KeyType) -> Any:
    """A value of Spark as a key of the calculus; arrays are bags."""
    match type_:
        case Record(fields):
            if value is None:
                return None
            parts = list(value.values()) if isinstance(value, dict) else list(value)
            return tuple(
                key_of(part, field) for part, (_, field) in zip(parts, fields, strict=True)
            )
        case Boxed(MappingType(key, _)):
            given = value.items() if isinstance(value, dict) else value or ()
            return Box.of(rows_of(given, key))
    assert not isinstance(value, Row)
    return value


def valued(rows: Iterable[Any], type_: MappingType) -> dict[Any, Any]:
    """Rows of a key's fields and a value, as a mapping to numbers."""
    return mapping((key_of_columns(list(row)[:-1], type_.key), list(row)[-1]) for row in rows)


def key_of_columns(columns: list[Any], key: KeyType) -> Any:
    return key_of(columns, key) if isinstance(key, Record) else key_of(columns[0], key)
