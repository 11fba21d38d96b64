"""Terms some of whose columns hold the variables of a join query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rekindle.calculus.scalars import Column, Literal, Scalar
from rekindle.calculus.terms import Join, Term

ONE: tuple[str, Scalar] = ("one", Literal(1, "int"))
"""Stands in where a row would have no columns, or a group no key."""


@dataclass(frozen=True, slots=True)
class VariableRows:
    """A term over some leaves, and the positions of the variables among its columns."""

    term: Term
    leaves: frozenset[int]
    variables: Mapping[str, int]

    def column(self, position: int, offset: int = 0) -> Column:
        found = self.term.schema.fields[position]
        return Column(offset + position, found.type, found.nullable)

    def named(self, variables: Iterable[str]) -> tuple[tuple[str, Scalar], ...]:
        return tuple((name, self.column(self.variables[name])) for name in variables)


def natural_join(left: VariableRows, right: VariableRows) -> Join:
    """Both joined on the variables that they share."""
    shared = [name for name in left.variables if name in right.variables]
    return Join(
        left.term,
        right.term,
        tuple(left.column(left.variables[name]) for name in shared),
        tuple(right.column(right.variables[name]) for name in shared),
    )
