"""The sums of a model as terms: one vector for each part of its view, along a view tree."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from pyspark.sql import functions as F

from rekindle.calculus.scalars import Column, Literal, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Aggregate, Map, Term
from rekindle.incremental.policies.vectors import summed
from rekindle.runtime.models.sums import Columns, Sums
from rekindle.spark.arithmetic import SparkArithmetic


@dataclass(frozen=True, slots=True)
class PartTerm:
    """A part of a model's view."""

    term: Term
    follows_a_tree: bool


def sums_terms(
    sums: Sums, rows: Term, schema: Schema, arithmetic: SparkArithmetic
) -> list[PartTerm]:
    """The parts over the term of `Sums.rows`, as rows of the view's schema."""
    return [
        _part(sums, place, part, rows, schema, arithmetic) for place, part in enumerate(sums.parts)
    ]


def _part(
    sums: Sums,
    place: int,
    part: Columns,
    rows: Term,
    schema: Schema,
    arithmetic: SparkArithmetic,
) -> PartTerm:
    first = len(sums.numbers)
    positions = [first + sums.categories.index(name) for name in part]
    fields = rows.schema.fields
    keys = [(fields[i].name, Column(i, fields[i].type, fields[i].nullable)) for i in positions]
    vector = summed(rows, keys, sums.products(part), arithmetic)
    places = {name: i for i, (name, _) in enumerate(keys)}
    outputs = tuple(_outputs(schema, vector, place, places, arithmetic))
    return PartTerm(Map(vector, outputs), not isinstance(vector, Aggregate))


def _outputs(
    schema: Schema,
    vector: Term,
    place: int,
    keys: dict[str, int],
    arithmetic: SparkArithmetic,
) -> Iterator[tuple[str, Scalar]]:
    """The view's columns from the keys and the vector, whose first element is the count."""
    last = len(vector.schema) - 1
    elements = Column(last, vector.schema.fields[last].type, False)
    for field in schema:
        match field.name:
            case "part":
                yield field.name, Literal(place, "int")
            case "n":
                count = arithmetic.made([elements], vector.schema, lambda v: v[0].cast("bigint"))
                yield field.name, replace(count, nullable=field.nullable)
            case "sums":
                rest = arithmetic.made(
                    [elements], vector.schema, lambda v: F.slice(v, F.lit(2), F.size(v))
                )
                yield field.name, replace(rest, nullable=field.nullable)
            case name if name in keys:
                yield name, Column(keys[name], field.type, field.nullable)
            case name:
                yield name, Literal(None, field.type)
