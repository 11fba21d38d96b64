"""Join queries: what a linear aggregate over joins is made from, as far as factorisation sees it.

    γ[keys; Σ Π factors](σ(L₁ ⋈ … ⋈ Lₙ))

The leaves Lᵢ are subterms without a join of their own. A *variable* is a class of columns that
join keys equate, or a grouping column. A measure is a sum of products with one factor at most from
each leaf, so that a product of sums can take the place of the sum of products.

NULLs: a product is NULL where a factor is, and SUM skips it. So a factor is taken as zero where it
is NULL, and the number of rows that are summed is a product too, of factors that are 1 where a
value is present and 0 elsewhere. In a + b each summand is multiplied by the presence of the other.

What is not of this form is refused with a reason, and the view stays as it is.

A join without an aggregate, π(σ(L₁ ⋈ … ⋈ Lₙ)), is taken apart in the same way (`recognise_rows`):
each of its columns is a variable, or a column of one leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rekindle.algebra.exact_sums import MOST_FACTORS
from rekindle.calculus.scalars import Literal
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Aggregate,
    AggregateFunction,
    Constant,
    Distinct,
    Filter,
    Fix,
    FlatMap,
    Join,
    Map,
    Measure,
    Negate,
    OuterJoin,
    PerGroup,
    SemiJoin,
    Term,
    Triggered,
    UnionAll,
    Values,
    sources,
)
from rekindle.calculus.walks import fold, visited
from rekindle.incremental.policies.arithmetic import Arithmetic, Operation
from rekindle.incremental.policies.factors import Component, Factors, Leaf
from rekindle.incremental.policies.hypergraph import Hypergraph, Relation
from rekindle.incremental.policies.layout import (
    Computed,
    Layout,
    Leaves,
    Place,
    Value,
    leaves_of,
    shown,
)
from rekindle.rewrite.analyses.positivity import is_positive

MAXIMUM_PRODUCTS = 16
"""Products that one measure may be expanded to; each is a column of every view above its leaves."""

MAXIMUM_JOINED = 64
"""Leaves that a join may have to be taken apart."""

FUNCTIONS = (AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVERAGE)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a term is not a join query; `nested` if a condition compares with an aggregate."""

    reason: str
    nested: bool = False


@dataclass(frozen=True, slots=True)
class Fused:
    """A part of a join that is one leaf, since a condition reads its leaves together."""

    leaf: str
    tables: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{self.leaf} is the join of {', '.join(self.tables)}, first order: {self.reason}"


@dataclass(frozen=True, slots=True)
class Parts:
    """A measure as its ring value: the rows counted, and signed products to be summed."""

    measure: Measure
    count: Component
    sums: tuple[tuple[int, Component], ...]

    @property
    def components(self) -> tuple[Component, ...]:
        return (self.count, *(component for _, component in self.sums))


@dataclass(frozen=True, slots=True)
class JoinQuery:
    """A linear aggregate over a join of leaves; `keys` has the variable of each grouping key."""

    leaves: tuple[Leaf, ...]
    keys: tuple[str, ...]
    measures: tuple[Parts, ...]
    schema: Schema
    fused: tuple[Fused, ...] = ()

    @property
    def hypergraph(self) -> Hypergraph:
        relations = tuple(Relation(leaf.name, leaf.variables + leaf.local) for leaf in self.leaves)
        return Hypergraph(relations, tuple(dict.fromkeys(self.keys)))


@dataclass(frozen=True, slots=True)
class RowQuery:
    """A join of leaves, each reduced to its variables and to the `local` columns of the result.

    `outputs` has, for each column of the result, the variable or local column that it shows; the
    names of all of these differ.
    """

    leaves: tuple[Leaf, ...]
    outputs: tuple[str, ...]
    schema: Schema

    @property
    def hypergraph(self) -> Hypergraph:
        """The join by its variables alone."""
        return Hypergraph(tuple(Relation(leaf.name, leaf.variables) for leaf in self.leaves))


def recognise_rows(term: Term, arithmetic: Arithmetic) -> RowQuery | Refusal:
    """The join that a term is, or why it is none."""
    below = term
    while isinstance(below, Map | Filter):
        below = below.child
    if not isinstance(below, Join):
        return Refusal(f"it is not a join of rows but {_described(below)}")
    try:
        return _Recogniser(arithmetic).rows(term)
    except _RefusedError as refused:
        return Refusal(str(refused))


def _described(term: Term) -> str:
    """What a term is at its top, in the words of SQL."""
    match term:
        case Aggregate():
            return "an aggregate"
        case OuterJoin():
            return "an outer join"
        case SemiJoin():
            return "a selection by a subquery (IN, EXISTS, NOT IN)"
        case Distinct():
            return "a set of different rows (DISTINCT, UNION, INTERSECT, EXCEPT)"
        case UnionAll() | Negate():
            return "a UNION ALL or a difference of queries"
        case PerGroup():
            return "a window function or a LIMIT"
        case FlatMap():
            return "an explode or another function that makes rows"
        case Fix():
            return "a recursion"
        case Constant():
            return "a list of constant rows"
    return "the rows of one table or view"


def recognise(term: Term, arithmetic: Arithmetic) -> JoinQuery | Refusal:
    """The join query that a term is, or why it is none."""
    return _recognised(term, _Recogniser(arithmetic))


def recognise_around(term: Term, arithmetic: Arithmetic) -> JoinQuery | Refusal:
    """The same, where a condition that cannot be taken apart makes what it reads one leaf.

    So a query with a nested aggregate in a condition is a join of the other leaves and of one that
    has the condition in it. It is not linear in the tables below such a leaf.
    """
    return _recognised(term, _Fusing(arithmetic))


def _recognised(term: Term, recogniser: _Recogniser) -> JoinQuery | Refusal:
    if not isinstance(term, Aggregate):
        return Refusal("it is not an aggregate")
    for measure in term.measures:
        if measure.function not in FUNCTIONS or measure.values is not Values.ALL:
            return Refusal(f"'{measure.name}' is not a count, a sum or an average of all rows")
    try:
        return recogniser.query(term)
    except _RefusedError as refused:
        return Refusal(str(refused), isinstance(refused, _NestedError))


class _RefusedError(Exception):
    """Unwinds the walk over a term; never leaves this module."""


class _NestedError(_RefusedError):
    """A condition compares with an aggregate."""


_Product: TypeAlias = tuple[int, tuple[Place, ...]]


class _Recogniser:
    """Takes one term apart."""

    def __init__(self, arithmetic: Arithmetic) -> None:
        self._arithmetic = arithmetic
        self._leaves = Leaves()
        self._equal: list[tuple[Place, Place]] = []
        self._fused: list[tuple[int, _RefusedError]] = []

    def query(self, term: Aggregate) -> JoinQuery:
        _refuse_many(term.child)
        layout = self._flatten(term.child)
        if len(self._leaves.terms) < 2:
            if self._fused:
                raise self._fused[0][1]
            raise _RefusedError(_why_alone(self._leaves.terms[0]))
        keys = [
            self._on_one_leaf(layout.value(key), f"the grouping key '{name}'")
            for name, key in term.keys
        ]
        expanded = [
            [self._products(layout.value(argument)) for argument in measure.arguments]
            for measure in term.measures
        ]
        names = self._variables(keys)
        factors = Factors(self._arithmetic, self._leaves, names)
        measures = tuple(
            self._measure(measure, products, factors)
            for measure, products in zip(term.measures, expanded, strict=True)
        )
        fused = tuple(
            Fused(self._leaves.names[leaf], tuple(sources(self._leaves.terms[leaf])), str(refused))
            for leaf, refused in self._fused
        )
        variables = tuple(names[key] for key in keys)
        return JoinQuery(factors.leaves(), variables, measures, term.schema, fused)

    def rows(self, term: Term) -> RowQuery:
        _refuse_many(term)
        layout = self._flatten(term)
        for part in self._leaves.terms:
            if _has_outer_join(part):
                raise _RefusedError("a part of it is an outer join")
        shown = [
            self._on_one_leaf(value, f"the column '{name}'")
            for value, name in zip(layout.values, term.schema.names, strict=True)
        ]
        names = self._variables([])
        for place in names:
            kind = self._leaves.field(place).type
            if any(word in kind for word in _NOT_LOOKED_UP):
                raise _RefusedError(f"a join compares values of the type {kind}")
        taken = set(names.values())
        local: dict[Place, str] = {}
        for place in shown:
            if place not in names and place not in local:
                local[place] = self._unused(place, taken)
                taken.add(local[place])
        leaves = tuple(self._reduced(i, names, local) for i in range(len(self._leaves.terms)))
        outputs = tuple(names.get(place) or local[place] for place in shown)
        return RowQuery(leaves, outputs, term.schema)

    def _reduced(self, leaf: int, names: dict[Place, str], local: dict[Place, str]) -> Leaf:
        """A leaf with its variables and local columns, in this order, and no others."""
        variables: dict[str, Place] = {}
        for place in sorted((p for p in names if p.leaf == leaf), key=_order):
            variables.setdefault(names[place], place)
        own = {name: place for place, name in local.items() if place.leaf == leaf}
        outputs = [(n, self._leaves.column(p)) for n, p in (variables | own).items()]
        term = Map(self._leaves.terms[leaf], tuple(outputs) or (("one", Literal(1, "int")),))
        return Leaf(self._leaves.names[leaf], term, tuple(variables), tuple(own), 0)

    # ---- the joins -----------------------------------------------------------------------------

    def _flatten(self, term: Term) -> Layout:
        """The columns of the term, after its leaves and equalities are noted."""
        match term:
            case Join():
                return self._join(term)
            case Map() if _joins(term):
                below = self._flatten(term.child)
                values = tuple(below.value(scalar) for _, scalar in term.outputs)
                return Layout(values, term.schema)
            case Filter() if _joins(term):
                below = self._flatten(term.child)
                self._keep(below.value(term.predicate))
                return below
        if not is_positive(term):
            raise _RefusedError("a part of the join may hold rows of negative weight")
        return self._leaves.add(term)

    def _join(self, term: Join) -> Layout:
        left, right = self._flatten(term.left), self._flatten(term.right)
        for ours, theirs in zip(term.left_keys, term.right_keys, strict=True):
            self._equate(left.value(ours), right.value(theirs))
        both = left + right
        if term.residual is not None:
            self._keep(both.value(term.residual))
        return both

    def _equate(self, left: Value, right: Value) -> None:
        ours, theirs = (self._on_one_leaf(value, "a join key") for value in (left, right))
        types = {self._leaves.field(place).type for place in (ours, theirs)}
        if len(types) > 1:
            raise _RefusedError(f"a join compares the types {' and '.join(sorted(types))}")
        self._equal.append((ours, theirs))

    def _keep(self, predicate: Value) -> None:
        """A condition is pushed to the one leaf that it reads, or is a join key after all."""
        read = leaves_of(predicate)
        if len(read) <= 1:
            self._leaves.keep(predicate, min(read, default=0))
            return
        parts = self._parts(predicate)
        match parts:
            case (Operation.CONJUNCTION, left, right):
                self._keep(left)
                self._keep(right)
            case (Operation.EQUALITY, left, right):
                self._equate(left, right)
            case _:
                nested = any(_is_aggregated(self._leaves.terms[leaf]) for leaf in read)
                kind = _NestedError if nested else _RefusedError
                raise kind(f"the condition {shown(predicate)} reads {self._listed(read)} together")

    def _parts(self, value: Value) -> tuple[Operation, Value, Value] | None:
        if isinstance(value, Place):
            return None
        shape = self._arithmetic.shape(value.scalar)
        if shape is None:
            return None
        return shape.operation, value.layout.value(shape.left), value.layout.value(shape.right)

    def _on_one_leaf(self, value: Value, what: str) -> Place:
        read = leaves_of(value)
        if len(read) > 1:
            raise _RefusedError(f"{what} is computed from {self._listed(read)} together")
        return self._leaves.place(value, min(read, default=0))

    def _listed(self, leaves: Iterable[int]) -> str:
        return " and ".join(f"'{self._leaves.names[leaf]}'" for leaf in sorted(leaves))

    # ---- variables -----------------------------------------------------------------------------

    def _variables(self, keys: Sequence[Place]) -> dict[Place, str]:
        """The name of every class of columns that are equated or grouped by.

        Two columns of one leaf in one class must be equal in each of its rows, so one is enough.
        """
        classes: dict[Place, list[Place]] = {key: [key] for key in keys}
        for left, right in self._equal:
            merged = list(dict.fromkeys(classes.get(left, [left]) + classes.get(right, [right])))
            for place in merged:
                classes[place] = merged
        names: dict[Place, str] = {}
        for members in sorted(classes.values(), key=lambda found: min(map(_order, found))):
            if members[0] in names:
                continue
            ordered = sorted(members, key=_order)
            name = self._unused(ordered[0], set(names.values()))
            names.update(dict.fromkeys(ordered, name))
            first: dict[int, Place] = {}
            for place in ordered:
                known = first.setdefault(place.leaf, place)
                if known != place:
                    self._keep_equal(known, place)
        return names

    def _keep_equal(self, left: Place, right: Place) -> None:
        schema = self._leaves.terms[left.leaf].schema
        ours, theirs = self._leaves.column(left), self._leaves.column(right)
        places = tuple(Place(left.leaf, i) for i in range(len(schema)))
        equal = self._arithmetic.equal(ours, theirs, schema)
        self._leaves.keep(Computed(equal, Layout(places, schema)), left.leaf)

    def _unused(self, place: Place, taken: set[str]) -> str:
        """The column's own name; with its leaf's name and a number as far as that is taken."""
        plain = self._leaves.field(place).name
        longer = f"{self._leaves.names[place.leaf]}.{plain}"
        numbered = (f"{longer}#{i}" for i in range(2, len(taken) + 3))
        return next(name for name in (plain, longer, *numbered) if name not in taken)

    # ---- measures ------------------------------------------------------------------------------

    def _products(self, value: Value) -> list[_Product]:
        """The value as a sum of signed products of values over one leaf each."""
        read = leaves_of(value)
        if len(read) <= 1:
            return [(1, (self._leaves.place(value, min(read, default=0)),))]
        match self._parts(value):
            case (Operation.PRODUCT, left, right):
                ours, theirs = self._products(left), self._products(right)
                self._check_product(value, max(len(ours), len(theirs)))
                found = [(a * b, (*x, *y)) for a, x in ours for b, y in theirs]
            case (Operation.SUM, left, right):
                found = self._products(left) + self._products(right)
            case (Operation.DIFFERENCE, left, right):
                negated = [(-sign, factors) for sign, factors in self._products(right)]
                found = self._products(left) + negated
            case _:
                raise _RefusedError(
                    f"{shown(value)} reads {self._listed(read)} together{self._because(value)}"
                )
        if len(found) > MAXIMUM_PRODUCTS:
            raise _RefusedError(f"{shown(value)} is a sum of more than {MAXIMUM_PRODUCTS} products")
        if any(len(factors) > MOST_FACTORS for _, factors in found):
            raise _RefusedError(f"{shown(value)} is a product of more than {MOST_FACTORS} factors")
        return found

    def _check_product(self, value: Value, summands: int) -> None:
        if summands == 1 or isinstance(value, Place):
            return
        if not self._arithmetic.distributes(value.scalar):
            raise _RefusedError(
                f"{shown(value)} multiplies a sum over {self._listed(leaves_of(value))} of the "
                f"type {value.scalar.type}, and one by one its summands would give another "
                "result where a factor is infinite"
            )

    def _because(self, value: Value) -> str:
        if isinstance(value, Place):
            return ""
        return f": {self._arithmetic.obstacle(value.scalar)}"

    def _measure(
        self, measure: Measure, arguments: Sequence[list[_Product]], factors: Factors
    ) -> Parts:
        read = (place for products in arguments for _, places in products for place in places)
        present = tuple(dict.fromkeys(read))
        count = factors.component((), present)
        sums: list[tuple[int, Component]] = []
        if measure.function is not AggregateFunction.COUNT:
            for sign, multiplied in arguments[0]:
                others = tuple(place for place in present if place not in multiplied)
                sums.append((sign, factors.component(multiplied, others)))
        if factors.inexact is not None:
            raise _RefusedError(f"in '{measure.name}' {factors.inexact}")
        return Parts(measure, count, tuple(sums))


class _Fusing(_Recogniser):
    """Takes one term apart, down to the joins that cannot be."""

    def _flatten(self, term: Term) -> Layout:
        leaves, equal, fused = self._leaves.copy(), list(self._equal), list(self._fused)
        try:
            return super()._flatten(term)
        except _RefusedError as refused:
            if not isinstance(term, Join | Map | Filter) or not is_positive(term):
                raise
            self._leaves, self._equal = leaves, equal
            self._fused = [*fused, (len(leaves.terms), refused)]
            return self._leaves.add(term)


def _is_aggregated(term: Term) -> bool:
    while isinstance(term, Map | Filter):
        term = term.child
    return isinstance(term, Aggregate | Triggered)


def _order(place: Place) -> tuple[int, int]:
    return place.leaf, place.position


_NOT_LOOKED_UP = ("float", "double", "collate", "array", "struct", "map")
"""Types with values that are equal and look different, or that cannot be looked up."""


def _why_alone(leaf: Term) -> str:
    """Why there is only one leaf."""
    while isinstance(leaf, Map | Filter):
        leaf = leaf.child
    if isinstance(leaf, OuterJoin | SemiJoin):
        return f"it reads {_described(leaf)}, and only inner joins are taken apart"
    return "it joins nothing"


def _refuse_many(term: Term) -> None:
    """Refuse a join of more leaves than any policy orders: a graph may have 2ⁿ of them."""

    def inside(node: Term) -> tuple[Term, ...]:
        return node.children if isinstance(node, Join | Map | Filter) else ()

    leaves: int = fold(term, inside, lambda _, below: min(sum(below) or 1, MAXIMUM_JOINED + 1))
    if leaves > MAXIMUM_JOINED:
        raise _RefusedError(f"it joins more than {MAXIMUM_JOINED} tables")


def _has_outer_join(term: Term) -> bool:
    return any(isinstance(node, OuterJoin) for node in visited(term, lambda node: node.children))


def _joins(term: Map | Filter) -> bool:
    """Is there a join under maps and filters?"""
    below: Term = term
    while isinstance(below, Map | Filter):
        below = below.child
    return isinstance(below, Join)
