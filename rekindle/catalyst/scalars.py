"""Scalars that Spark evaluates: a Catalyst expression and the attributes it reads.

`expression` refers to `inputs` by expression id, so a lowering either binds it to positions or
aliases a plan's columns to those ids. Two scalars are equal when their expressions are equal over
positions (`text`); the names a user chose do not matter.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    fingerprint,
    id_of,
    ids_read,
    simple_name,
    type_of,
)


@dataclass(frozen=True, slots=True)
class CatalystScalar:
    """An expression of Spark over the columns `inputs`."""

    text: str
    type: str
    nullable: bool
    references: frozenset[int] = field(compare=False)
    display: str = field(compare=False)
    expression: JavaObject = field(compare=False, repr=False)
    inputs: tuple[JavaObject, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CatalystGenerator:
    """A table-valued function of a row, such as `explode(tags)`, inner or outer."""

    text: str
    schema: Schema
    outer: bool
    references: frozenset[int] = field(compare=False)
    display: str = field(compare=False)
    expression: JavaObject = field(compare=False, repr=False)
    inputs: tuple[JavaObject, ...] = field(compare=False, repr=False)

    @property
    def function(self) -> str:
        """The class name of the generator."""
        return simple_name(self.expression)


def _identity(catalyst: Catalyst, expression: JavaObject, inputs: Sequence[JavaObject]) -> str:
    """Equal for equal expressions over inputs of equal types.

    The types of columns that the expression does not read count too: `inputs` also says how the
    rows it is evaluated on are laid out, so one scalar must be able to stand for an equal one.
    """
    layout = "|".join(type_of(attribute) for attribute in inputs)
    digest = hashlib.sha256(layout.encode()).hexdigest()[:8]
    return (
        f"catalyst:{fingerprint(catalyst.bind(expression, inputs), catalyst.settings())}:{digest}"
    )


def _positions(expression: JavaObject, inputs: Sequence[JavaObject]) -> frozenset[int]:
    wanted = ids_read(expression)
    return frozenset(i for i, a in enumerate(inputs) if id_of(a) in wanted)


def scalar(
    catalyst: Catalyst, expression: JavaObject, inputs: Sequence[JavaObject]
) -> CatalystScalar:
    """The scalar of an expression over the given attributes."""
    return CatalystScalar(
        text=_identity(catalyst, expression, inputs),
        type=type_of(expression),
        nullable=bool(expression.nullable()),
        references=_positions(expression, inputs),
        display=str(expression.sql()),
        expression=expression,
        inputs=tuple(inputs),
    )


def generator(
    catalyst: Catalyst,
    expression: JavaObject,
    inputs: Sequence[JavaObject],
    outputs: Sequence[JavaObject],
    *,
    outer: bool,
) -> CatalystGenerator:
    """The generator of an expression over the given attributes, giving the columns `outputs`."""
    added = Schema(tuple(Field(str(a.name()), type_of(a), bool(a.nullable())) for a in outputs))
    identity = _identity(catalyst, expression, inputs)
    return CatalystGenerator(
        text=f"{identity}:{'outer' if outer else 'inner'}",
        schema=added,
        outer=outer,
        references=_positions(expression, inputs),
        display=str(expression.sql()),
        expression=expression,
        inputs=tuple(inputs),
    )
