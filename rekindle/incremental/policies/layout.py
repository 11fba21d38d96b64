"""What the columns of a term over joins are made from: columns of its leaves, and scalars of them.

A scalar is opaque and reads columns by position. To compute it on one leaf, the leaf's row is laid
out as the scalar expects it, with NULLs in the places that it does not read, and the leaf's own
columns after that. So no scalar is ever rewritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rekindle.calculus.scalars import Column, Literal, Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import Filter, Map, Term, sources


@dataclass(frozen=True, slots=True)
class Place:
    """A column of a leaf."""

    leaf: int
    position: int


@dataclass(frozen=True, slots=True)
class Computed:
    """A scalar over a row whose columns are known."""

    scalar: Scalar
    layout: Layout


Value: TypeAlias = Place | Computed


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of a term: what each is made from, and its field."""

    values: tuple[Value, ...]
    schema: Schema

    def value(self, scalar: Scalar) -> Value:
        """What a scalar over this row is made from."""
        if isinstance(scalar, Column):
            return self.values[scalar.position]
        return Computed(scalar, self)

    def __add__(self, other: Layout) -> Layout:
        return Layout(self.values + other.values, self.schema + other.schema)


def leaves_of(value: Value) -> frozenset[int]:
    """The leaves that a value depends on."""
    if isinstance(value, Place):
        return frozenset((value.leaf,))
    read = (value.layout.values[i] for i in value.scalar.references)
    return frozenset().union(*map(leaves_of, read))


def shown(value: Value) -> str:
    """A value as its front end shows it to people."""
    if isinstance(value, Place):
        return "a column"
    return str(getattr(value.scalar, "display", value.scalar.text))


@dataclass(slots=True)
class Leaves:
    """The leaves of a join, which get more columns and filters while the join is taken apart."""

    terms: list[Term] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    _known: dict[tuple[int, int, str], tuple[Computed, Place]] = field(default_factory=dict)

    def add(self, term: Term) -> Layout:
        """A new leaf; it is called after its source, with a number if that is taken."""
        leaf = len(self.terms)
        names = tuple(sources(term))
        name = names[0] if len(names) == 1 else f"part{leaf + 1}"
        taken = sum(known.split("#")[0] == name for known in self.names)
        self.terms.append(term)
        self.names.append(f"{name}#{taken + 1}" if taken else name)
        places = tuple(Place(leaf, i) for i in range(len(term.schema)))
        return Layout(places, term.schema)

    def copy(self) -> Leaves:
        """The leaves as they are now."""
        return Leaves(list(self.terms), list(self.names), dict(self._known))

    def field(self, place: Place) -> Field:
        return self.terms[place.leaf].schema.fields[place.position]

    def column(self, place: Place) -> Column:
        """The column as a scalar over its leaf."""
        found = self.field(place)
        return Column(place.position, found.type, found.nullable)

    def place(self, value: Value, leaf: int) -> Place:
        """The value as a column of a leaf, which it must be able to see."""
        if isinstance(value, Place):
            return value
        # By the layout's identity; the entry keeps the layout alive, so it is not given out again.
        key = (leaf, id(value.layout), value.scalar.text)
        if key not in self._known:
            scalar = value.scalar
            rows = self._laid_out(value, leaf)
            width, own = len(value.layout.schema), self.terms[leaf].schema
            name = _name(own, "value")
            outputs = (*_columns(own, width), (name, scalar))
            self.terms[leaf] = Map(rows, outputs)
            self._known[key] = value, Place(leaf, len(own))
        return self._known[key][1]

    def keep(self, predicate: Value, leaf: int) -> None:
        """Only the rows of a leaf on which the predicate is true."""
        if isinstance(predicate, Place):
            self.terms[leaf] = Filter(self.terms[leaf], self.column(predicate))
            return
        rows = Filter(self._laid_out(predicate, leaf), predicate.scalar)
        self.terms[leaf] = Map(
            rows, _columns(self.terms[leaf].schema, len(predicate.layout.schema))
        )

    def _laid_out(self, value: Computed, leaf: int) -> Term:
        """The leaf's rows in the layout that the scalar reads, followed by the leaf's columns."""
        read = {
            i: self.place(value.layout.values[i], leaf) for i in sorted(value.scalar.references)
        }
        padded: list[tuple[str, Scalar]] = []
        for i, wanted in enumerate(value.layout.schema):
            column = (
                Column(read[i].position, wanted.type, wanted.nullable)
                if i in read
                else Literal(None, wanted.type)
            )
            padded.append((wanted.name, column))
        return Map(self.terms[leaf], (*padded, *_columns(self.terms[leaf].schema)))


def _columns(schema: Schema, offset: int = 0) -> tuple[tuple[str, Scalar], ...]:
    return tuple(
        (f.name, Column(offset + i, f.type, f.nullable)) for i, f in enumerate(schema.fields)
    )


def _name(schema: Schema, stem: str) -> str:
    taken: Sequence[str] = schema.names
    return next(name for i in range(len(taken) + 1) if (name := f"{stem}{i}") not in taken)
