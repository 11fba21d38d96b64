"""The policy `factored`: nothing is kept but the result, and a change may come as a product.

    Δ(A·B·C) = (A·u)·(vᵀ·C)      where  ΔB = u·vᵀ

A sum of products over a join is linear in each of its tables. So what a change of one table adds to
the result is the query itself with the change in the table's place (`contributions`), computed from
the tables as they are. Each such query follows a view tree of its own, and when the change is a
product of vectors, or a sum of r of them, the vectors are two more leaves of the join, which share
the number of the product:

    γ[i, k; Σ a·x·y·c](A(i, j) ⋈ U(t, j, x) ⋈ V(t, l, y) ⋈ C(l, k))

The tree sums j out of A ⋈ U and l out of V ⋈ C before it joins both by t. For p × p matrices that
is r·p² rows, where any tree over the product u·vᵀ written out has p³. F-IVM, section 5.

What a step adds reaches the view as rows of a *feed*: an input that is summed up and not kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Field, Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Filter,
    Join,
    Map,
    Source,
    Term,
    Values,
    replaced,
)
from rekindle.calculus.walks import fold, visited
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.hypergraph import Hypergraph
from rekindle.incremental.policies.joins import JoinQuery, Refusal, recognise
from rekindle.incremental.policies.orders import find_order
from rekindle.incremental.policies.trees import View, view_tree
from rekindle.incremental.policies.view_tree import factorise

COUNT, VALUE = "rows", "value"
SUMMED = ("bigint", "double")
PRODUCT = "product"
"""The column that numbers the products of a change."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A table of entries: the positions of its row index, column index and value.

    Without a value every entry is a one, and a change is the product of two sets.
    """

    row: int
    column: int
    value: int | None


@dataclass(frozen=True, slots=True)
class FactoredView:
    """A view that is fed by what changes add to it.

    `term` is the view over `feed`; `contributions` gives, for any contents of the tables, the
    number of joined rows and the sum of each group.
    """

    term: Term
    feed: Source
    contributions: Aggregate


def fed(term: Term, feed: str, arithmetic: Arithmetic) -> FactoredView | Refusal:
    """The view as one that is fed, or why it cannot be."""
    aggregate = term
    while isinstance(aggregate, Map | Filter):
        aggregate = aggregate.child
    if not isinstance(aggregate, Aggregate) or not aggregate.keys:
        return Refusal("it is not an aggregate by keys")
    match aggregate.measures:
        case (measure,) if measure.function is AggregateFunction.SUM:
            pass
        case _:
            return Refusal("it has to compute one sum and nothing else")
    if measure.values is not Values.ALL or measure.type not in SUMMED:
        return Refusal(f"'{measure.name}' is not a sum of all values of the type bigint or double")
    if measure.arguments[0].nullable:
        return Refusal(f"what '{measure.name}' sums up may be NULL: declare the columns NOT NULL")
    twice = [name for name, count in _occurrences(aggregate).items() if count > 1]
    if twice:
        return Refusal(f"it reads '{twice[0]}' twice, so it is not linear in it")
    counted = (arithmetic.row_count(COUNT), measure)
    contributions = Aggregate(aggregate.child, aggregate.keys, counted)
    query = recognise(contributions, arithmetic)
    if isinstance(query, Refusal):
        return query
    keys = aggregate.schema.fields[: len(aggregate.keys)]
    source = Source(feed, Schema((*keys, Field(VALUE, measure.type))))
    summed = Aggregate(
        source,
        tuple((f.name, Column(i, f.type, f.nullable)) for i, f in enumerate(keys)),
        (arithmetic.partial_sum(measure.name, Column(len(keys), measure.type)),),
    )
    if summed.schema.types != aggregate.schema.types:
        return Refusal(f"sums of sums have the types {summed.schema}, not {aggregate.schema}")
    return FactoredView(_replaced(term, aggregate, summed), source, contributions)


def followed(contributions: Aggregate, arithmetic: Arithmetic) -> Term:
    """The contributions along the best view tree.

    Products are few, and estimates do not know it: their number stands under the free variables,
    so that everything on either side of a product is summed out first.
    """

    def plan(query: JoinQuery) -> View:
        graph = query.hypergraph
        numbers = [
            name
            for name in graph.variables
            if all(f"·{mark}" in _holders(graph, name) for mark in "uv")
        ]
        free = tuple(dict.fromkeys((*graph.free, *numbers)))
        return view_tree(find_order(replace(graph, free=free)), graph)

    return factorise(contributions, arithmetic, plan).term


def _holders(graph: Hypergraph, variable: str) -> str:
    """The names of the relations that have a variable, one after another."""
    return " ".join(each.name for each in graph.relations if variable in each.variables)


def vectors(table: str, schema: Schema, matrix: Matrix) -> tuple[Source, Source]:
    """The relations of a factored change: U(product, row, value) and V(product, column, value)."""
    fields = schema.fields
    value: tuple[Field, ...] = ()
    if matrix.value is not None:
        value = (Field(VALUE, fields[matrix.value].type, nullable=False),)

    def vector(mark: str, place: int) -> Source:
        index = Field("index", fields[place].type, fields[place].nullable)
        number = Field(PRODUCT, "int", nullable=False)
        return Source(f"{table}·{mark}", Schema((number, index, *value)))

    return vector("u", matrix.row), vector("v", matrix.column)


def with_factors(
    contributions: Aggregate, table: str, matrix: Matrix, arithmetic: Arithmetic
) -> Aggregate | Refusal:
    """The contributions with Σ u·vᵀ in the place of a table, if they are linear in its values."""
    source = _source(contributions, table)
    left, right = vectors(table, source.schema, matrix)
    number = Column(0, "int", nullable=False)
    pairs = Join(left, right, (number,), (number,))
    scalars: dict[int, Scalar] = {}
    if matrix.value is not None:
        kind = source.schema.fields[matrix.value].type
        factors = [Column(2, kind, nullable=False), Column(5, kind, nullable=False)]
        product = arithmetic.product(factors, pairs.schema)
        if product is None:
            return Refusal(f"a product of values of the type {kind} may be rounded")
        scalars[matrix.value] = product
    for place, position in ((matrix.row, 1), (matrix.column, len(left.schema) + 1)):
        found = source.schema.fields[place]
        scalars[place] = Column(position, found.type, found.nullable)
    outputs = tuple((f.name, scalars[i]) for i, f in enumerate(source.schema))
    replaced = _replaced(contributions, source, Map(pairs, outputs))
    assert isinstance(replaced, Aggregate)
    query = recognise(replaced, arithmetic)
    if isinstance(query, Refusal):
        return query
    if matrix.value is not None and not _is_linear(query, (left.name, right.name)):
        return Refusal(f"it does not multiply the values of '{table}' once into each product")
    return replaced


def _is_linear(query: JoinQuery, names: tuple[str, str]) -> bool:
    """Has every product one plain value of each vector for a factor?"""
    places = [i for i, leaf in enumerate(query.leaves) if leaf.name in names]

    def is_plain(place: int, factor: int) -> bool:
        leaf = query.leaves[place]
        assert isinstance(leaf.term, Map)
        return isinstance(leaf.term.outputs[len(leaf.variables) + factor][1], Column)

    return all(
        sum(leaf == place and is_plain(leaf, factor) for leaf, factor in component) == 1
        for parts in query.measures
        for _, component in parts.sums
        for place in places
    )


def _source(term: Term, table: str) -> Source:
    within = visited(term, lambda node: node.children)
    return next(node for node in within if isinstance(node, Source) and node.name == table)


def _replaced(term: Term, old: Term, new: Term) -> Term:
    return replaced(term, lambda node: new if node is old else None)


def _occurrences(term: Term) -> Mapping[str, int]:
    """How often each source is read."""

    def count(node: Term, below: tuple[Counter[str], ...]) -> Counter[str]:
        return Counter([node.name]) if isinstance(node, Source) else sum(below, Counter())

    return fold(term, lambda node: node.children, count)
