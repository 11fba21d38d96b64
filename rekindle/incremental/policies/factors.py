"""The factors that measures need of each leaf, as columns of the leaf's rows.

A *component* is one product of a measure: at most one factor from each leaf. It is the set of
(leaf, factor) pairs; a leaf that is not named counts its rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from rekindle.calculus.scalars import Column, Literal, Scalar
from rekindle.calculus.terms import Map, Term
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.layout import Leaves, Place

Component: TypeAlias = frozenset[tuple[int, int]]


@dataclass(frozen=True, slots=True)
class Leaf:
    """A leaf reduced to its variables and factors, in this order of columns.

    `local` names the other columns that its factors read.
    """

    name: str
    term: Term
    variables: tuple[str, ...]
    local: tuple[str, ...]
    factors: int


_Key: TypeAlias = tuple[tuple[Place, ...], tuple[Place, ...]]


@dataclass(slots=True)
class Factors:
    """Collects the factors of each leaf; equal factors are one."""

    arithmetic: Arithmetic
    given: Leaves
    variables: Mapping[Place, str]
    inexact: str | None = None
    """Why a factor cannot be made, if one cannot."""
    _known: dict[int, dict[_Key, Scalar]] = field(default_factory=dict)

    def component(self, multiplied: Sequence[Place], present: Sequence[Place]) -> Component:
        """The product of values, zero where one of them or of `present` is NULL."""
        leaves = dict.fromkeys(place.leaf for place in (*multiplied, *present))
        found = set()
        for leaf in leaves:
            key = (
                tuple(sorted((p for p in multiplied if p.leaf == leaf), key=_position)),
                tuple(p for p in present if p.leaf == leaf and self.given.field(p).nullable),
            )
            if any(key):
                found.add((leaf, self._factor(leaf, key)))
        return frozenset(found)

    def _factor(self, leaf: int, key: _Key) -> int:
        known = self._known.setdefault(leaf, {})
        if key not in known:
            schema = self.given.terms[leaf].schema
            columns = self.given.column
            multiplied = [self._value(columns(p), leaf) for p in key[0]]
            present = [self.arithmetic.present(columns(p), schema) for p in key[1]]
            known[key] = self._product([*multiplied, *present], leaf)
        return list(known).index(key)

    def _value(self, column: Column, leaf: int) -> Scalar:
        schema = self.given.terms[leaf].schema
        return self.arithmetic.or_zero(column, schema) if column.nullable else column

    def _product(self, scalars: Sequence[Scalar], leaf: int) -> Scalar:
        if len(scalars) == 1:
            return scalars[0]
        product = self.arithmetic.product(scalars, self.given.terms[leaf].schema)
        if product is None:
            self.inexact = f"a product of columns of '{self.given.names[leaf]}' may be rounded"
            return scalars[0]
        return product

    def leaves(self) -> tuple[Leaf, ...]:
        """The leaves with their variables and factors for columns."""
        taken = set(self.variables.values())
        return tuple(self._leaf(leaf, taken) for leaf in range(len(self.given.terms)))

    def _leaf(self, leaf: int, taken: set[str]) -> Leaf:
        columns: dict[str, Place] = {}
        for place, name in sorted(self.variables.items(), key=lambda item: item[0].position):
            if place.leaf == leaf:
                columns.setdefault(name, place)
        known = self._known.get(leaf, {})
        read = dict.fromkeys(place for key in known for places in key for place in places)
        local = [self._local(place, taken) for place in read if place not in self.variables]
        # Named as in the leaf and not as variables: equal leaves of a self join are equal terms.
        outputs: list[tuple[str, Scalar]] = [
            (self.given.field(place).name, self.given.column(place)) for place in columns.values()
        ]
        outputs += [(f"factor{i}", scalar) for i, scalar in enumerate(known.values())]
        # A row without columns is hard on evaluators: a constant stands in.
        term = Map(self.given.terms[leaf], tuple(outputs) or (("one", Literal(1, "int")),))
        return Leaf(self.given.names[leaf], term, tuple(columns), tuple(local), len(known))

    def _local(self, place: Place, taken: set[str]) -> str:
        plain = self.given.field(place).name
        longer = f"{self.given.names[place.leaf]}.{plain}"
        name = next(n for n in (plain, longer, f"{longer}#{place.position}") if n not in taken)
        taken.add(name)
        return name


def _position(place: Place) -> int:
    return place.position
