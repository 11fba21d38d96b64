"""Which policy a join query gets: what each would keep, in estimated rows.

`first_order` keeps every leaf and every join of the first leaves but the last; `view_tree` keeps
the leaves and views of its tree, or the narrow views of a cyclic join; `higher_order` keeps the
parts of its deltas. All keep the result. Rows of a join are estimated by the usual independence of
columns, rows of a view also by the values that its key can have.

An unknown number of values is that of the smallest relation with the variable, as if every join
followed a foreign key.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, prod

from rekindle.incremental.policies.deltas import (
    MAXIMUM_LEAVES,
    Deltas,
    higher_order_deltas,
    narrow_deltas,
)
from rekindle.incremental.policies.hypergraph import DEFAULT_ROWS, Hypergraph, Relation
from rekindle.incremental.policies.narrow_views import is_cyclic
from rekindle.incremental.policies.orders import find_order
from rekindle.incremental.policies.trees import (
    View,
    pairings,
    relations,
    tree_text,
    view_tree,
    views,
)

WORTH = 4
"""How many times less than first order a policy has to keep to be chosen."""


class Policy(enum.Enum):
    """The subterms of a join query that get an integral."""

    FIRST_ORDER = "first_order"
    HIGHER_ORDER = "higher_order"
    VIEW_TREE = "view_tree"
    FACTORED = "factored"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Rows of relations, and numbers of values of their variables where those are known.

    A relation that is joined with itself has one size under all its names (`e`, `e#2`).
    """

    rows: Mapping[str, int]
    values: Mapping[tuple[str, str], int] = field(default_factory=dict)

    def of(self, relation: str) -> int:
        known = self.rows.get(relation, self.rows.get(relation.split("#")[0], DEFAULT_ROWS))
        return max(1, known)


@dataclass(frozen=True, slots=True)
class Kept:
    """A view that a policy keeps, and about how many rows it has."""

    view: str
    rows: int

    def __str__(self) -> str:
        return f"{self.view}: {self.rows:,}"


@dataclass(frozen=True, slots=True)
class Choice:
    """What each policy would keep for one query, if it can follow it.

    The tree is the best one, although `view_tree` follows none where a join is cyclic.
    """

    tree: View
    kept: Mapping[Policy, tuple[Kept, ...]]
    cyclic: bool = False

    def rows(self, policy: Policy) -> int:
        """About how many rows a policy would keep in all."""
        return sum(each.rows for each in self.kept[policy])

    @property
    def policy(self) -> Policy:
        """The one that keeps least; of equals the first: without need a view stays as it is."""
        return min(self.kept, key=self.rows)

    @property
    def worthwhile(self) -> Policy:
        """The one that keeps least, if first order keeps several times as much: estimates are that.

        Deltas of deltas need more views than a tree; they are taken where they keep less.
        """
        least = self.rows(self.policy)
        return self.policy if self.rows(Policy.FIRST_ORDER) >= WORTH * least else Policy.FIRST_ORDER

    @property
    def reason(self) -> str:
        parts = [f"{self.rows(policy):,} {_WHERE[policy]}" for policy in self.kept]
        return f"rows: about {', '.join(parts)}"

    def __str__(self) -> str:
        lines = [f"least in {self.policy.value}; {self.reason}"]
        for policy, kept in self.kept.items():
            lines += [f"  {policy.value} keeps", *(f"    {each}" for each in kept)]
        tree = [] if self.cyclic else tree_text(self.tree).splitlines()
        return "\n".join([*lines, *(f"  {line}" for line in tree)])


_WHERE = {
    Policy.FIRST_ORDER: "in joins from left to right",
    Policy.VIEW_TREE: "in a view tree",
    Policy.HIGHER_ORDER: "in deltas of deltas",
}


def choose(query: Hypergraph, sizes: Sizes, tree: View | None = None) -> Choice:
    """The comparison for a query, over its best tree unless one is given."""
    if tree is None:
        known = {relation.name: sizes.of(relation.name) for relation in query.relations}
        tree = view_tree(find_order(query, known), query)
    estimate = _Estimate(query, sizes)
    kept = {
        Policy.FIRST_ORDER: tuple(_first_order(query, estimate)),
        Policy.VIEW_TREE: tuple(_kept(tree, estimate)),
    }
    cyclic = is_cyclic(query)
    if cyclic:
        kept[Policy.VIEW_TREE] = tuple(_parts(narrow_deltas(query), estimate))
    if len(query.relations) <= MAXIMUM_LEAVES:
        kept[Policy.HIGHER_ORDER] = tuple(_parts(higher_order_deltas(query), estimate))
    return Choice(tree, kept, cyclic)


def _first_order(query: Hypergraph, estimate: _Estimate) -> Iterable[Kept]:
    names = [relation.name for relation in query.relations]
    for relation in query.relations:
        yield Kept(str(relation), estimate.sizes.of(relation.name))
    for count in range(2, len(names)):
        yield Kept(" ⋈ ".join(names[:count]), estimate.join(names[:count]))
    yield Kept(str(View((), query.free, ())), estimate.view(names, query.free))


def _parts(deltas: Deltas, estimate: _Estimate) -> Iterable[Kept]:
    for maintained in deltas.parts:
        part = maintained.part
        yield Kept(str(part), estimate.view(part.relations, part.key))


def _kept(tree: View, estimate: _Estimate) -> Iterable[Kept]:
    for view in views(tree):
        first, *others = pairings(view)
        below = list(relations(first.child))
        for child in view.children:
            if isinstance(child, Relation) and others:
                yield Kept(str(child), estimate.view((child.name,), child.variables))
        for pairing in others[:-1]:
            below += relations(pairing.child)
            rows = estimate.view(below, pairing.needed)
            names = ", ".join(sorted(pairing.needed))
            yield Kept(f"{' ⋈ '.join(below)} [{names}]", rows)
        yield Kept(str(view), estimate.view(relations(view), view.key))


@dataclass(frozen=True, slots=True)
class _Estimate:
    query: Hypergraph
    sizes: Sizes

    def join(self, names: Sequence[str]) -> int:
        """|⋈| = Π rows, divided for each variable by the values of all but the poorest relation."""
        joined = [r for r in self.query.relations if r.name in names]
        rows = float(prod(self.sizes.of(relation.name) for relation in joined))
        for variable in dict.fromkeys(v for relation in joined for v in relation.variables):
            values = sorted(self._values(r, variable) for r in joined if variable in r.variables)
            rows /= prod(values[1:])
        return max(1, ceil(rows))

    def view(self, names: Sequence[str], key: Iterable[str]) -> int:
        """At most the rows of the join, and at most the values of the key."""
        joined = [r for r in self.query.relations if r.name in names]
        combinations = prod(
            min(self._values(r, variable) for r in joined if variable in r.variables)
            for variable in key
        )
        return min(self.join(names), combinations)

    def _values(self, relation: Relation, variable: str) -> int:
        base = relation.name.split("#")[0]
        for name in (relation.name, base):
            if (name, variable) in self.sizes.values:
                return max(1, self.sizes.values[name, variable])
        return min(
            self.sizes.of(other.name)
            for other in self.query.relations
            if variable in other.variables
        )
