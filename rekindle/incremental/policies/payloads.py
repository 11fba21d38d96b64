"""The views of a tree as terms: rows of variables, with payloads for columns.

A view carries one payload for each component of a measure, restricted to the leaves under it:
the sum of the products of their factors. Where every component is a mere count, there is no column
at all: the weight of a row is its count, joins multiply weights, and summing a variable out is a
projection. Otherwise a view is an aggregate, its rows have weight 1, and its payloads are columns.

A view without a key would have a row over no input too, and groups without rows would appear in
the result. So all views but the root group by a constant instead.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.terms import Aggregate, Map, Measure, Term
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.factors import Component
from rekindle.incremental.policies.hypergraph import Relation
from rekindle.incremental.policies.joins import JoinQuery
from rekindle.incremental.policies.trees import Tree, View, pairings
from rekindle.incremental.policies.variables import ONE, VariableRows, natural_join

COUNT: Component = frozenset()
"""The component without a factor."""


Sums: TypeAlias = tuple[tuple[int, Component], ...]
"""The signed products of a measure."""


class InexactError(Exception):
    """A product of payloads that no type can hold; the caller turns it into a refusal."""


@dataclass(frozen=True, slots=True)
class Rows(VariableRows):
    """A term whose columns hold variables and payloads; a payload at None is the row's weight.

    At the root, `totals` are the sums of measures that are numbers only when they are added up.
    """

    payloads: Mapping[Component, int | None]
    totals: Mapping[Sums, int] = field(default_factory=dict)


class Builder:
    """Builds the views of one query, with components beside those of its measures."""

    def __init__(
        self, query: JoinQuery, arithmetic: Arithmetic, more: Iterable[Component] = ()
    ) -> None:
        self._query = query
        self._arithmetic = arithmetic
        needed = (c for parts in query.measures for c in parts.components)
        self._components = list(dict.fromkeys((*needed, *more)))
        self._positions = {leaf.name: i for i, leaf in enumerate(query.leaves)}

    def root(self, tree: View) -> Rows:
        """The result's variables and its components as columns, also over no input."""
        rows = self._joined(tree)
        return self.totalled(rows, rows.named(tree.key), tree.key)

    def _rows(self, tree: Tree) -> Rows:
        if isinstance(tree, Relation):
            return self.leaf(self._positions[tree.name])
        joined = self._joined(tree)
        if all(payload is None for payload in joined.payloads.values()):
            return self.projected(joined, tree.key)
        return self.aggregated(joined, joined.named(tree.key) or (ONE,), tree.key)

    def leaf(self, position: int) -> Rows:
        """The rows of a leaf, with its factors as payloads."""
        leaf = self._query.leaves[position]
        width = len(leaf.variables)
        payloads: dict[Component, int | None] = {}
        for component in self.restricted(frozenset((position,))):
            payloads[component] = next((width + factor for _, factor in component), None)
        variables = {name: i for i, name in enumerate(leaf.variables)}
        return Rows(leaf.term, frozenset((position,)), variables, payloads)

    def restricted(self, leaves: frozenset[int]) -> list[Component]:
        """The components as far as they concern some leaves; equal ones once."""
        return list(dict.fromkeys(_within(component, leaves) for component in self._components))

    def _joined(self, view: View) -> Rows:
        """The children joined two by two."""
        first, *others = pairings(view)
        rows = self._rows(first.child)
        for pairing in others:
            rows = self.pair(rows, self._rows(pairing.child), pairing.needed)
        return rows

    def pair(self, left: Rows, right: Rows, needed: frozenset[str]) -> Rows:
        """Two views joined, with the variables that are still needed, payloads multiplied."""
        width = len(left.term.schema)
        joined = natural_join(left, right)
        outputs = [output for output in left.named(left.variables) if output[0] in needed]
        outputs += [
            (name, right.column(position, width))
            for name, position in right.variables.items()
            if name in needed and name not in left.variables
        ]
        variables = {name: i for i, (name, _) in enumerate(outputs)}
        payloads: dict[Component, int | None] = {}
        for component in self.restricted(left.leaves | right.leaves):
            factors = [
                rows.column(place, offset)
                for rows, offset in ((left, 0), (right, width))
                if (place := rows.payloads[_within(component, rows.leaves)]) is not None
            ]
            name = payload_name(component, len(payloads))
            payloads[component] = len(outputs) if factors else None
            if factors:
                outputs.append((name, self._product(factors, joined, component)))
        term = Map(joined, tuple(outputs) or (ONE,))
        return Rows(term, left.leaves | right.leaves, variables, payloads)

    def _product(self, factors: Sequence[Column], rows: Term, component: Component) -> Scalar:
        if len(factors) == 1:
            return factors[0]
        product = self._arithmetic.product(factors, rows.schema)
        if product is None:
            types = " and ".join(factor.type for factor in factors)
            raise InexactError(
                f"{self._users(component)} needs a product of sums of the types {types}, "
                "which may be rounded"
            )
        return product

    def _users(self, component: Component) -> str:
        """The measures of which a product, or a part of it, is one."""
        names = [
            f"'{parts.measure.name}'"
            for parts in self._query.measures
            if any(component <= each for each in parts.components)
        ]
        return " and ".join(names)

    def projected(self, rows: Rows, key: Sequence[str]) -> Rows:
        """Variables summed out by leaving them out: weights of rows that become equal add up."""
        if rows.variables.keys() == set(key) and len(rows.term.schema) == len(key):
            return rows
        term = Map(rows.term, rows.named(key) or (ONE,))
        return Rows(term, rows.leaves, {name: i for i, name in enumerate(key)}, rows.payloads)

    def aggregated(
        self,
        rows: Rows,
        named: tuple[tuple[str, Scalar], ...],
        key: Sequence[str],
        merged: Scalar | None = None,
    ) -> Rows:
        """Rows grouped by a key, their payloads summed; `merged` as in `terms.Aggregate`."""
        measures: list[Measure] = []
        payloads: dict[Component, int | None] = {}
        for component, place in rows.payloads.items():
            name = payload_name(component, len(payloads))
            payloads[component] = len(named) + len(measures)
            measures.append(
                self._arithmetic.row_count(name)
                if place is None
                else self._arithmetic.partial_sum(name, rows.column(place))
            )
        term = Aggregate(rows.term, named, tuple(measures), merged)
        return Rows(term, rows.leaves, {name: i for i, name in enumerate(key)}, payloads)

    def totalled(
        self,
        rows: Rows,
        named: tuple[tuple[str, Scalar], ...],
        key: Sequence[str],
        merged: Scalar | None = None,
    ) -> Rows:
        """The rows of the root grouped by its key, each measure's sums as numbers."""
        totals = self._totals(rows)
        left = dict.fromkeys(
            component
            for parts in self._query.measures
            for component in (parts.components if parts.sums not in totals else (parts.count,))
        )
        payloads = {c: place for c, place in rows.payloads.items() if c in left or c == COUNT}
        found = self.aggregated(replace(rows, payloads=payloads), named, key, merged)
        assert isinstance(found.term, Aggregate)
        start = len(found.term.schema)
        term = replace(found.term, measures=(*found.term.measures, *totals.values()))
        return replace(found, term=term, totals={sums: start + i for i, sums in enumerate(totals)})

    def _totals(self, rows: Rows) -> dict[Sums, Measure]:
        """The sums that are made at once with all of their products."""
        totals: dict[Sums, Measure] = {}
        for parts in self._query.measures:
            places = [(sign, rows.payloads[component]) for sign, component in parts.sums]
            summands = [(s, rows.column(place)) for s, place in places if place is not None]
            if len(summands) < len(places) or not summands or parts.sums in totals:
                continue
            measure = self._arithmetic.total(f"total{len(totals)}", summands)
            if measure is not None:
                totals[parts.sums] = measure
        return totals


def _within(component: Component, leaves: frozenset[int]) -> Component:
    return frozenset(pair for pair in component if pair[0] in leaves)


def payload_name(component: Component, turn: int) -> str:
    return f"sum{turn}" if component else "count"
