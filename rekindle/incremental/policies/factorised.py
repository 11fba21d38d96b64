"""Factorised results: a join kept along a variable order, and never listed.

    R(a, b) ⋈ S(a, c)   is   ⋃ₐ {a} × Rₐ × Sₐ

For each turn of the order and each leaf there is one flat collection, keyed by the variables that
it depends on. Its rows are the values found under a key, and the weight of a row is the number of
tuples that it has below: the relational payloads of F-IVM (section 6.3) in first normal form.

    U@X[dep(X), X] = ⋈ of the children's keys;   weight = Π of the children's totals

A key is a part of a row of the parent, so from a row one descends to each child on its own, and the
tuples below are the product of what is found. A row is there only if its weight is not zero, so
each descent finds something and enumeration never comes to a dead end.

The collections are views of the database like any other: ordinary terms over their children. For an
acyclic join each has at most as many rows as some table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.terms import Join, Map, Source, Term
from rekindle.incremental.policies.hypergraph import Relation
from rekindle.incremental.policies.joins import RowQuery
from rekindle.incremental.policies.orders import Node, VariableOrder, find_order
from rekindle.incremental.policies.trees import View, pairings


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection of a factorised result: its columns are `key`, then `values`.

    `parent` is the place of the collection whose rows have the key; the roots have none. Weights
    of a leaf are multiplicities of rows; those of others count the tuples below.
    """

    view: str
    title: str
    key: tuple[str, ...]
    values: tuple[str, ...]
    parent: int | None
    is_leaf: bool

    def to_json(self) -> dict[str, Any]:
        return {
            "view": self.view,
            "title": self.title,
            "key": list(self.key),
            "values": list(self.values),
            "parent": self.parent,
            "is_leaf": self.is_leaf,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Collection:
        return cls(
            data["view"],
            data["title"],
            tuple(data["key"]),
            tuple(data["values"]),
            data["parent"],
            data["is_leaf"],
        )


@dataclass(frozen=True, slots=True)
class Factorisation:
    """The collections, parents first, and the name that each column of the result shows."""

    collections: tuple[Collection, ...]
    outputs: tuple[str, ...]

    @property
    def roots(self) -> tuple[Collection, ...]:
        """Their totals multiply to the number of tuples."""
        return tuple(each for each in self.collections if each.parent is None)

    def place(self, name: str) -> tuple[int, int]:
        """The collection that adds a column, and the column's place among its columns."""
        return next(
            (i, len(each.key) + each.values.index(name))
            for i, each in enumerate(self.collections)
            if name in each.values
        )

    def text(self, facts: Mapping[str, str] | None = None) -> str:
        """The order as a tree, one collection a line; `facts` are words about their views."""
        known = facts or {}

        def lines(parent: int | None) -> Iterator[str]:
            found = [i for i, each in enumerate(self.collections) if each.parent == parent]
            for i in found:
                each = self.collections[i]
                fact = known.get(each.view)
                last = i == found[-1]
                head, rest = ("└─ ", "   ") if last else ("├─ ", "│  ")
                if parent is None:
                    head = rest = ""
                yield f"{head}{each.title}{'' if fact is None else f': {fact}'}"
                yield from (rest + line for line in lines(i))

        return "\n".join(lines(None))

    def to_json(self) -> dict[str, Any]:
        return {
            "collections": [each.to_json() for each in self.collections],
            "outputs": list(self.outputs),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Factorisation | None:
        if data is None:
            return None
        collections = tuple(Collection.from_json(each) for each in data["collections"])
        return cls(collections, tuple(data["outputs"]))


@dataclass(frozen=True, slots=True)
class Kept:
    """A factorisation and the term of each of its views, each after those that it reads."""

    factorisation: Factorisation
    terms: Mapping[str, Term]


def factorise_rows(query: RowQuery, name: str, order: VariableOrder | None = None) -> Kept:
    """The collections of a join, as views named after `name`."""
    graph = query.hypergraph
    builder = _Builder(query, name)
    for root in (order or find_order(graph)).roots:
        builder.turn(root, (), None)
    for position, leaf in enumerate(query.leaves):
        if not leaf.variables:
            builder.leaf(position, None)
    factorisation = Factorisation(tuple(builder.collections), query.outputs)
    return Kept(factorisation, builder.terms)


@dataclass(frozen=True, slots=True)
class _Part:
    """A child seen from above: its variables, as columns of its view."""

    relation: Relation
    term: Term


class _Builder:
    """Walks an order from the top; terms are noted from the bottom up."""

    def __init__(self, query: RowQuery, name: str) -> None:
        self._query = query
        self._name = name
        self.collections: list[Collection] = []
        self.terms: dict[str, Term] = {}

    def turn(self, node: Node, above: tuple[str, ...], parent: int | None) -> _Part:
        """The collection of a variable, and all under it."""
        variables = [node.variable]
        children, leaves = node.children, self._lowest(node)
        while len(children) == 1 and not leaves:
            # Nothing is joined in between: one collection has the values of both variables.
            (only,) = children
            variables.append(only.variable)
            children, leaves = only.children, self._lowest(only)
        path = (*above, *variables)
        needed = {v for leaf in self._under(node) for v in self._query.leaves[leaf].variables}
        key = tuple(v for v in above if v in needed)
        values = tuple(variables)
        title = ", ".join(values) + (f" by {', '.join(key)}" if key else "")
        place = self._add(title, key, values, parent, is_leaf=False)
        parts = [self.turn(child, path, place) for child in children]
        parts += [self.leaf(leaf, place) for leaf in leaves]
        view = self.collections[place].view
        self.terms[view] = _joined(parts, (*key, *values))
        return _part(view, self.terms[view], key)

    def leaf(self, position: int, parent: int | None) -> _Part:
        """The collection of a leaf: its local columns by its variables."""
        leaf = self._query.leaves[position]
        # A leaf without variables and columns has a constant for a column, which no one asks for.
        values = leaf.local or (() if leaf.variables else (f"{leaf.name}.one",))
        title = f"{leaf.name}({', '.join(leaf.local)})"
        title += f" by {', '.join(leaf.variables)}" if leaf.variables else ""
        place = self._add(title, leaf.variables, values, parent, is_leaf=True)
        view = self.collections[place].view
        self.terms[view] = leaf.term
        return _part(view, leaf.term, leaf.variables)

    def _add(
        self,
        title: str,
        key: tuple[str, ...],
        values: tuple[str, ...],
        parent: int | None,
        *,
        is_leaf: bool,
    ) -> int:
        view = f"{self._name}·{len(self.collections)}"
        self.collections.append(Collection(view, title, key, values, parent, is_leaf))
        return len(self.collections) - 1

    def _lowest(self, node: Node) -> list[int]:
        """The leaves that have the variable and none below it."""
        below = {path[-1] for child in node.children for path in VariableOrder((child,)).paths()}
        return [
            i
            for i, leaf in enumerate(self._query.leaves)
            if node.variable in leaf.variables and not below.intersection(leaf.variables)
        ]

    def _under(self, node: Node) -> list[int]:
        below = {path[-1] for path in VariableOrder((node,)).paths()}
        return [
            i for i, leaf in enumerate(self._query.leaves) if below.intersection(leaf.variables)
        ]


def _part(view: str, term: Term, key: tuple[str, ...]) -> _Part:
    """A view reduced to its key; its weights add up to the tuples under each key."""
    return _Part(Relation(view, key), _projected(Source(view, term.schema), key))


def _joined(parts: list[_Part], columns: tuple[str, ...]) -> Term:
    """The parts joined two by two, those that share most first; the columns in their order."""
    terms = {part.relation: part.term for part in parts}
    view = View((), columns, tuple(part.relation for part in parts))
    first, *others = pairings(view)
    assert isinstance(first.child, Relation)
    term = terms[first.child]
    for pairing in others:
        assert isinstance(pairing.child, Relation)
        term = _pair(term, terms[pairing.child], pairing.needed)
    return _projected(term, columns)


def _pair(left: Term, right: Term, needed: frozenset[str]) -> Term:
    ours, theirs = left.schema.names, right.schema.names
    shared = [name for name in ours if name in theirs]
    joined = Join(
        left,
        right,
        tuple(_column(left, name) for name in shared),
        tuple(_column(right, name) for name in shared),
    )
    outputs: list[tuple[str, Scalar]] = [
        (name, _column(left, name)) for name in ours if name in needed
    ]
    width = len(ours)
    outputs += [
        (name, _column(right, name, width))
        for name in theirs
        if name in needed and name not in ours
    ]
    return Map(joined, tuple(outputs))


def _projected(term: Term, columns: tuple[str, ...]) -> Term:
    if term.schema.names == columns:
        return term
    return Map(term, tuple((name, _column(term, name)) for name in columns))


def _column(term: Term, name: str, offset: int = 0) -> Column:
    place = term.schema.names.index(name)
    found = term.schema.fields[place]
    return Column(offset + place, found.type, found.nullable)
