"""Many sums of products over a join, as one vector that follows a view tree.

The sums that a model needs are the elements of one ring value (the cofactor ring, and its like of
higher degree). A view of the tree has them in one column: for each product, as far as it concerns
the leaves under the view, the sum over those leaves. Where two views are joined, both vectors stay
side by side; they are multiplied where a variable is summed out, element by element, each product
being one element of each vector. So a join that is kept has as many numbers as its parts together,
and not as many as their products. Views by the same variables are not joined at all: they are one
group of the rows of all of them, with a vector for each.

    γ[Σ (1, x, y, x·y)](R(k, x) ⋈ S(k, y))
      = γ[r₀·s₀, r₁·s₀, r₀·s₁, r₁·s₁](γ[k; r = Σ (1, x)](R) ⋈ γ[k; s = Σ (1, y)](S))
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from rekindle.algebra.polynomials import Factor, Monomial, Polynomials
from rekindle.calculus.scalars import Column, Literal, Scalar
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Filter,
    Map,
    Measure,
    Term,
    UnionAll,
)
from rekindle.incremental.policies.arithmetic import Arithmetic
from rekindle.incremental.policies.hypergraph import Relation
from rekindle.incremental.policies.joins import JoinQuery, Refusal, recognise
from rekindle.incremental.policies.orders import find_order
from rekindle.incremental.policies.trees import Tree, View, pairings, view_tree
from rekindle.incremental.policies.variables import ONE, VariableRows, natural_join

VECTOR = "array<double>"
Product: TypeAlias = tuple[int, ...]
"""Columns that are multiplied, by their positions; one may occur twice."""
_Part: TypeAlias = tuple[tuple[int, int], ...]
"""A product as factors of leaves, (leaf, factor), in order."""
_PRESENT: Scalar = Literal(1, "bigint")
"""Stands beside the columns of a view in the rows that are its own."""


def summed(
    rows: Term,
    keys: Sequence[tuple[str, Scalar]],
    products: Sequence[Product],
    arithmetic: Arithmetic,
) -> Term:
    """The keys, and the vector of the sums of the products; along a view tree if `rows` is a join.

    Columns that occur in products are doubles that are never NULL.
    """
    used = sorted({position for product in products for position in product})
    single = [
        Measure(f"x{i}", AggregateFunction.SUM, (Column(i, "double", False),), "double")
        for i in used
    ]
    query = recognise(Aggregate(rows, tuple(keys), tuple(single)), arithmetic)
    parts = _parts(query, used, products)
    if isinstance(query, Refusal) or isinstance(parts, Refusal):
        return _directly(rows, keys, products)
    tree = view_tree(find_order(query.hypergraph), query.hypergraph)
    root = _Builder(query, parts, arithmetic).root(tree)
    named = [(name, root.column(root.variables[v])) for (name, _), v in _paired(keys, query)]
    return Map(root.term, (*named, ("sums", root.column(root.vectors[0].columns[0]))))


def _paired(
    keys: Sequence[tuple[str, Scalar]], query: JoinQuery
) -> Iterable[tuple[tuple[str, Scalar], str]]:
    return zip(keys, query.keys, strict=True)


def _directly(
    rows: Term, keys: Sequence[tuple[str, Scalar]], products: Sequence[Product]
) -> Aggregate:
    used = sorted({position for product in products for position in product})
    place = {position: i for i, position in enumerate(used)}
    monomials = [tuple((place[i], None) for i in product) for product in products]
    columns = tuple(Column(i, "double", False) for i in used)
    return Aggregate(rows, tuple(keys), (_measure(columns, monomials),))


def _measure(
    columns: tuple[Column, ...], monomials: Sequence[Monomial], name: str = "sums"
) -> Measure:
    polynomials = Polynomials(tuple(monomials))
    return Measure(
        name,
        AggregateFunction.POLYNOMIALS,
        columns,
        VECTOR,
        nullable=False,
        text=polynomials.text,
        finish=polynomials,
    )


def _parts(
    query: JoinQuery | Refusal, used: Sequence[int], products: Sequence[Product]
) -> list[_Part] | Refusal:
    """The products as factors of the leaves; refused where a column is a sum over two leaves."""
    if isinstance(query, Refusal):
        return query
    factors: dict[int, _Part] = {}
    for position, measure in zip(used, query.measures, strict=True):
        match measure.sums:
            case ((1, component),):
                factors[position] = tuple(sorted(component))
            case _:
                return Refusal(f"'{measure.measure.name}' is a sum over several leaves")
    return [tuple(sorted(f for i in product for f in factors[i])) for product in products]


@dataclass(frozen=True, slots=True)
class _Vector:
    """Columns with the sums over some leaves.

    `elements` says where the sum of a part is: in which of the columns, and at which place if that
    is a vector.
    """

    columns: tuple[int, ...]
    leaves: frozenset[int]
    elements: Mapping[_Part, Factor]


@dataclass(frozen=True, slots=True)
class _Rows(VariableRows):
    """A term with variables, vectors of the leaves that were summed, and factors of the others."""

    vectors: tuple[_Vector, ...]
    factors: Mapping[tuple[int, int], int]


class _Builder:
    """Builds the views of one query."""

    def __init__(self, query: JoinQuery, parts: Sequence[_Part], arithmetic: Arithmetic) -> None:
        self._query = query
        self._parts = parts
        self._arithmetic = arithmetic
        self._positions = {leaf.name: i for i, leaf in enumerate(query.leaves)}

    def root(self, tree: View) -> _Rows:
        rows = self._joined(tree)
        return self._aggregated(rows, rows.named(tree.key), tree.key, self._parts)

    def _rows(self, tree: Tree) -> _Rows:
        if isinstance(tree, Relation):
            return self._leaf(self._positions[tree.name])
        rows = self._joined(tree)
        # Without a key there would be a row over no input; a constant stands in for it.
        named = rows.named(tree.key) or (ONE,)
        return self._aggregated(rows, named, tree.key, self._wanted(rows))

    def _wanted(self, rows: _Rows) -> list[_Part]:
        """The products as far as they concern the leaves of some rows; equal ones once."""
        return list(dict.fromkeys(_within(part, rows.leaves) for part in self._parts))

    def _leaf(self, position: int) -> _Rows:
        leaf = self._query.leaves[position]
        width = len(leaf.variables)
        factors = {(position, i): width + i for i in range(leaf.factors)}
        variables = {name: i for i, name in enumerate(leaf.variables)}
        return _Rows(leaf.term, frozenset((position,)), variables, (), factors)

    def _joined(self, view: View) -> _Rows:
        """The children joined two by two, but views by the same variables all at once."""
        rows = {alike[0]: self._together(alike) for alike in _by_variables(view.children)}
        first, *others = pairings(replace(view, children=tuple(rows)))
        found = rows[first.child]
        for pairing in others:
            found = self._pair(found, rows[pairing.child], pairing.needed)
        return found

    def _together(self, children: Sequence[Tree]) -> _Rows:
        """Views by the same variables as one: γ[k](R) ⋈ γ[k](S) = σ[r > 0 ∧ s > 0](γ[k](R + S)).

        In the sum of their rows each has columns of its own, NULL in the rows of the others, which
        sums skip; r and s count the rows of each. No join is kept, nor the views apart from it.
        """
        if len(children) == 1:
            return self._rows(children[0])
        key = children[0].variables
        inputs = [self._unsummed(child) for child in children]
        summed = [self._products(rows, self._wanted(rows)) for rows in inputs]
        columns = [(_PRESENT, *arguments) for arguments, _ in summed]
        branches = [
            Map(rows.term, _beside(rows.named(key), columns, i)) for i, rows in enumerate(inputs)
        ]
        union = UnionAll(tuple(branches))
        places = [Column(i, f.type, f.nullable) for i, f in enumerate(union.schema.fields)]
        measures: list[Measure] = []
        vectors: list[_Vector] = []
        start = len(key)
        for i, rows in enumerate(inputs):
            own = places[start : start + len(columns[i])]
            start += len(own)
            vector, added = self._own_sums(rows, summed[i][1], own, len(key) + len(measures))
            vectors.append(vector)
            measures += added
        keys = zip(key, places[: len(key)], strict=True)
        return self._complete(
            _Rows(
                Aggregate(union, tuple(keys), tuple(measures)),
                frozenset().union(*(rows.leaves for rows in inputs)),
                {name: i for i, name in enumerate(key)},
                tuple(vectors),
                {},
            )
        )

    def _own_sums(
        self, rows: _Rows, monomials: Sequence[Monomial], own: Sequence[Column], first: int
    ) -> tuple[_Vector, list[Measure]]:
        """The number of rows of one of several views, and the vector of what it has besides."""
        present, *arguments = own
        parts = dict(zip(self._wanted(rows), monomials, strict=True))
        products = {part: monomial for part, monomial in parts.items() if monomial}
        counted = replace(self._arithmetic.row_count(f"rows{first}"), arguments=(present,))
        elements: dict[_Part, Factor] = dict.fromkeys(parts, (0, None))
        elements |= {part: (1, i) for i, part in enumerate(products)}
        if not products:
            return _Vector((first,), rows.leaves, elements), [counted]
        sums = _measure((*arguments, present), list(products.values()), f"sums{first + 1}")
        return _Vector((first, first + 1), rows.leaves, elements), [counted, sums]

    def _unsummed(self, tree: Tree) -> _Rows:
        """What a view sums up, or a leaf."""
        return self._joined(tree) if isinstance(tree, View) else self._rows(tree)

    def _complete(self, rows: _Rows) -> _Rows:
        """The rows of a key that all views have; as in a join, NULL is no key."""
        schema = rows.term.schema
        counts = [rows.column(vector.columns[0]) for vector in rows.vectors]
        term = Filter(rows.term, self._arithmetic.positive(counts, schema))
        for position in rows.variables.values():
            key = rows.column(position)
            if key.nullable:
                term = Filter(term, self._arithmetic.equal(key, key, schema))
        return replace(rows, term=term)

    def _pair(self, left: _Rows, right: _Rows, needed: frozenset[str]) -> _Rows:
        """Two views joined, with the variables that are still needed and all of their numbers."""
        width = len(left.term.schema)
        joined = natural_join(left, right)
        outputs: list[tuple[str, Scalar]] = []
        variables: dict[str, int] = {}
        vectors: list[_Vector] = []
        factors: dict[tuple[int, int], int] = {}
        for rows, offset in ((left, 0), (right, width)):
            for name, position in rows.variables.items():
                if name in needed and name not in variables:
                    variables[name] = len(outputs)
                    outputs.append((name, rows.column(position, offset)))
            for vector in rows.vectors:
                moved = tuple(range(len(outputs), len(outputs) + len(vector.columns)))
                vectors.append(replace(vector, columns=moved))
                for position in vector.columns:
                    outputs.append((f"sums{len(outputs)}", rows.column(position, offset)))
            for factor, position in rows.factors.items():
                factors[factor] = len(outputs)
                outputs.append((f"factor{len(outputs)}", rows.column(position, offset)))
        term = Map(joined, tuple(outputs) or (ONE,))
        return _Rows(term, left.leaves | right.leaves, variables, tuple(vectors), factors)

    def _aggregated(
        self,
        rows: _Rows,
        named: tuple[tuple[str, Scalar], ...],
        key: Sequence[str],
        parts: Sequence[_Part],
    ) -> _Rows:
        """Variables that are not in the key summed out, and the numbers multiplied."""
        columns, monomials = self._products(rows, parts)
        term = Aggregate(rows.term, named, (_measure(columns, monomials),))
        elements: dict[_Part, Factor] = {part: (0, i) for i, part in enumerate(parts)}
        vector = _Vector((len(named),), rows.leaves, elements)
        variables = {name: i for i, name in enumerate(key)}
        return _Rows(term, rows.leaves, variables, (vector,), {})

    def _products(
        self, rows: _Rows, parts: Sequence[_Part]
    ) -> tuple[tuple[Column, ...], list[Monomial]]:
        """The numbers of rows, and the parts as products of them."""
        columns: list[Column] = []
        vectors: list[tuple[int, _Vector]] = []
        for vector in rows.vectors:
            vectors.append((len(columns), vector))
            columns += [rows.column(position) for position in vector.columns]
        places = {factor: len(columns) + i for i, factor in enumerate(rows.factors)}
        columns += [rows.column(position) for position in rows.factors.values()]
        return tuple(columns), [self._monomial(part, vectors, places) for part in parts]

    @staticmethod
    def _monomial(
        part: _Part, vectors: Sequence[tuple[int, _Vector]], places: Mapping[tuple[int, int], int]
    ) -> Monomial:
        """The part as a product of one element of each vector and of factors."""
        found: list[Factor] = []
        for start, vector in vectors:
            column, element = vector.elements[_within(part, vector.leaves)]
            found.append((start + column, element))
        found += [(places[factor], None) for factor in part if factor in places]
        return tuple(found)


def _within(part: _Part, leaves: frozenset[int]) -> _Part:
    return tuple(factor for factor in part if factor[0] in leaves)


def _by_variables(children: Sequence[Tree]) -> list[list[Tree]]:
    """Those by the same variables side by side; what has none is alone."""
    found: dict[object, list[Tree]] = {}
    for child in children:
        found.setdefault(frozenset(child.variables) or child, []).append(child)
    return list(found.values())


def _beside(
    key: tuple[tuple[str, Scalar], ...], columns: Sequence[Sequence[Scalar]], own: int
) -> tuple[tuple[str, Scalar], ...]:
    """A key and the columns of several views, NULL but for those of one."""
    placed = [
        scalar if i == own else Literal(None, scalar.type)
        for i, scalars in enumerate(columns)
        for scalar in scalars
    ]
    return (*key, *((f"x{i}", scalar) for i, scalar in enumerate(placed)))
