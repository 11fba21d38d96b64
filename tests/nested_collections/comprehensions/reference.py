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
        case Boxed(MappingType()):
            given = value.items() if isinstance(value, dict) else value or ()
            return Box.of(ring_of(given, type_.ring))
    assert not isinstance(value, Row)
    return value


def ring_of(rows: Iterable[Any], type_: MappingType) -> dict[Any, Any]:
    """Rows of Spark as a mapping: copies of keys, or keys with what they count for."""
    return mapping(_entry(row, type_) for row in rows)


def _entry(row: Any, type_: MappingType) -> tuple[Any, Any]:
    is_row = isinstance(type_.key, Record)
    width = len(type_.key.fields) if isinstance(type_.key, Record) else 1
    if not isinstance(row, Row) or len(row) == width:
        return key_of(row, type_.key), 1
    *columns, value = row
    counts = ring_of(value, type_.ring) if isinstance(type_.ring, MappingType) else value
    return key_of(columns if is_row else columns[0], type_.key), counts
