"""What the variables of a term stand for while it is compiled, and what a script has defined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from pyspark.sql import types as T

from rekindle.errors import UnsupportedError
from rekindle.frontends.mrql.blocks import Block, Group, Relation
from rekindle.frontends.mrql.scalars import Typing
from rekindle.frontends.mrql.values import TupleType, Value, component, type_of, words
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.interpreter import Function


@dataclass(frozen=True, slots=True)
class Later:
    """A collection that has a name: compiled where it is used, as what it is used for."""

    term: t.Term
    environment: Environment
    calls: tuple[str, ...] = ()
    """The functions of the script within which it was written."""


@dataclass(frozen=True, slots=True)
class Row:
    """The one row that a group's rows are while an aggregate over them is compiled."""

    value: Value


@dataclass(frozen=True, slots=True)
class Pair:
    """A key with its group, or the two sides of a group."""

    first: Bound
    second: Bound


Bound: TypeAlias = "Value | Group | Later | Row | Relation | Pair"
Environment: TypeAlias = "Mapping[str, Bound]"


@dataclass(frozen=True, slots=True)
class Scope:
    """The variables, and the block that what they read is joined in."""

    environment: Environment
    block: Block = field(default_factory=Block)

    def fork(self) -> Scope:
        """The same for another branch of a union."""
        return Scope(self.environment, self.block.copy())

    def fresh(self) -> Scope:
        """The variables, for a subquery."""
        return Scope(self.environment)

    def having(self, **bound: Bound) -> Scope:
        """The scope with more variables."""
        return Scope({**self.environment, **bound}, self.block)

    def bind(self, shape: t.Shape, bound: Bound) -> Scope:
        """The scope with what a shape takes apart."""
        return Scope({**self.environment, **taken(shape, bound)}, self.block)


def taken(shape: t.Shape, bound: Bound) -> dict[str, Bound]:
    """The variables of a shape with the parts of a value."""
    if isinstance(shape, str):
        return {shape: bound}
    if isinstance(bound, Pair):
        parts: tuple[Bound, ...] = (bound.first, bound.second)
        if len(shape) != 2:
            raise UnsupportedError(f"a pattern of {len(shape)} components does not fit a pair")
    elif isinstance(bound, Group | Later | Row | Relation):
        raise UnsupportedError("a collection cannot be taken apart as a tuple")
    else:
        has = type_of(bound)
        if isinstance(has, TupleType) and len(has.items) != len(shape):
            raise UnsupportedError(
                f"a pattern of {len(shape)} components does not fit {words(has)}"
            )
        parts = tuple(component(bound, i) for i in range(len(shape)))
    found: dict[str, Bound] = {}
    for part, item in zip(shape, parts, strict=True):
        found |= taken(part, item)
    return found


@dataclass(frozen=True, slots=True)
class Known:
    """What a query may name: tables with their columns, and what a script has defined."""

    tables: Mapping[str, T.StructType]
    functions: Mapping[str, Function]
    stored: Mapping[str, object]
    typing: Typing
