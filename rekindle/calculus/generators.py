"""Generators with a meaning in Python: what explode does, for the interpreter and for tests.

A generator is a function from one row to finitely many, so `FlatMap` over it is linear. The ones
of Spark are opaque to the calculus; these two are their reference. A collection is a tuple, since
rows must be hashable.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

from rekindle.calculus.scalars import Row
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import Generator


@runtime_checkable
class EvaluableGenerator(Generator, Protocol):
    """A generator with a meaning in Python."""

    def generate(self, row: Sequence[Any]) -> Iterable[Row]:
        """The rows to put beside the kept columns of `row`, in any order, with repetitions."""


@dataclass(frozen=True, slots=True)
class Explode:
    """One row for each element of the collection at `position`; none for an empty one or NULL.

    >>> list(Explode(0, Field("item", "int")).generate(((7, 7),)))
    [(7,), (7,)]
    >>> list(Explode(0, Field("item", "int")).generate((None,)))
    []
    """

    position: int
    element: Field

    @property
    def schema(self) -> Schema:
        return Schema((self.element,))

    @property
    def references(self) -> frozenset[int]:
        return frozenset((self.position,))

    @property
    def text(self) -> str:
        return f"explode(${self.position}) as {self.element}"

    def generate(self, row: Sequence[Any]) -> Iterable[Row]:
        return ((element,) for element in row[self.position] or ())


@dataclass(frozen=True, slots=True)
class ExplodeOuter:
    """As `Explode`, but an empty collection or NULL gives one row of NULL.

    >>> list(ExplodeOuter(0, Field("item", "int")).generate(((),)))
    [(None,)]
    """

    position: int
    element: Field

    @property
    def schema(self) -> Schema:
        return Schema((replace(self.element, nullable=True),))

    @property
    def references(self) -> frozenset[int]:
        return frozenset((self.position,))

    @property
    def text(self) -> str:
        return f"explode_outer(${self.position}) as {self.element}"

    def generate(self, row: Sequence[Any]) -> Iterable[Row]:
        return ((element,) for element in row[self.position] or (None,))
