"""Higher-order deltas of a join: which parts of a delta do not depend on the update.

Let Q[key] = Σ L₁·…·Lₙ. The leaves take in their changes one after another, so that

    ΔQ = Σᵢ Σ (L₁+ΔL₁)·…·(Lᵢ₋₁+ΔLᵢ₋₁)·ΔLᵢ·Lᵢ₊₁·…·Lₙ

is exact whatever set of leaves changes at once, with one product for each leaf and none for sets
of leaves. Once the variables of Lᵢ are bound, the other leaves fall apart into connected parts,
and a product of sums takes the place of the sum of products: each part P is a view
M_P[variables that it shares with Lᵢ or the key], kept in the same way, down to single leaves.

The product reads a part after the change if all its leaves have their turn before i, and before
the change if all come later. In between, it reads M_P before the change, plus the deltas of M_P for
those of its leaves that were first; these are parts of M_P's own change, which is computed anyway,
and no rows at all unless several leaves changed. So the turn of the leaves is chosen with few such
parts: a chain in its own order has none.

In a cycle parts are wide: under a change of R(a, b) of the triangle the rest is S(b, c)·T(c, a), of
which the view over a and b may have |S|·|T| rows. `narrow_deltas` keeps no such part. It looks one
relation up after another, S by b and then T by c and a, so that nothing is kept but relations and
views that have a row of one relation for each of theirs; a change takes as long as its rows have
neighbours. Acyclic joins have no wide parts.

Koch, *Incremental Query Evaluation in a Ring of Databases*, sections 5 and 6, on batches: a change
is a collection, and a trigger is a join with it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import permutations

from rekindle.incremental.policies.hypergraph import Hypergraph

MAXIMUM_LEAVES = 6
"""Of a clique of n leaves each of 2ⁿ parts is a view."""


class When(enum.Enum):
    """At which point of a transaction a product reads a part."""

    BEFORE = "before"
    AFTER = "after"
    BETWEEN = "between"


@dataclass(frozen=True, slots=True)
class Part:
    """M[key] = Σ Π of some relations, named in their turn."""

    relations: tuple[str, ...]
    key: tuple[str, ...]

    def __str__(self) -> str:
        return f"M({', '.join(self.relations)})[{', '.join(self.key)}]"


@dataclass(frozen=True, slots=True)
class Lookup:
    """A part that a delta reads, and when."""

    part: Part
    when: When


@dataclass(frozen=True, slots=True)
class Delta:
    """The change of a part by the change of one of its relations."""

    relation: str
    lookups: tuple[Lookup, ...]

    def __str__(self) -> str:
        marks = {When.BEFORE: "", When.AFTER: "′", When.BETWEEN: "″"}
        reads = (f"{lookup.part}{marks[lookup.when]}" for lookup in self.lookups)
        return " · ".join((f"Δ{self.relation}", *reads))


@dataclass(frozen=True, slots=True)
class Maintained:
    """A part with a delta for each of its relations, in their turn."""

    part: Part
    deltas: tuple[Delta, ...]

    def __str__(self) -> str:
        return f"{self.part} += {' + '.join(map(str, self.deltas))}"


@dataclass(frozen=True, slots=True)
class Deltas:
    """Every part that has to be kept, each after those that it reads; the last is the result."""

    parts: tuple[Maintained, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts))


def higher_order_deltas(query: Hypergraph) -> Deltas:
    """What is kept for a query of at most `MAXIMUM_LEAVES` relations.

    A part that is read with this transaction's change has a mark, and two where it is read with
    some of it.

    >>> print(higher_order_deltas(Hypergraph.of("A", R="A B", S="B C", T="C D")))
    M(T)[C] += ΔT
    M(S)[B, C] += ΔS
    M(S, T)[B] += ΔS · M(T)[C] + ΔT · M(S)[B, C]′
    M(R)[A, B] += ΔR
    M(R, S)[A, C] += ΔR · M(S)[B, C] + ΔS · M(R)[A, B]′
    M(R, S, T)[A] += ΔR · M(S, T)[B] + ΔS · M(R)[A, B]′ · M(T)[C] + ΔT · M(R, S)[A, C]′
    """
    return _Search(query).deltas()


def narrow_deltas(query: Hypergraph) -> Deltas:
    """What is kept if no view may be wider than one of its relations, unless the result is.

    >>> print(narrow_deltas(Hypergraph.of("", R="A B", S="B C", T="C A")))
    M(S)[B, C] += ΔS
    M(T)[A, C] += ΔT
    M(R)[A, B] += ΔR
    M(R, S, T)[] += ΔR · M(S)[B, C] · M(T)[A, C] + ΔS · M(R)[A, B]′ · M(T)[A, C] + \
ΔT · M(R)[A, B]′ · M(S)[B, C]′
    """
    return _NarrowSearch(query).deltas()


def has_wide_parts(query: Hypergraph) -> bool:
    """Is the join cyclic, so that some part of a delta is wider than each of its relations?"""
    every, narrow = (
        {maintained.part for maintained in deltas.parts}
        for deltas in (higher_order_deltas(query), narrow_deltas(query))
    )
    return every != narrow


class _Search:
    """Follows the deltas of one query."""

    def __init__(self, query: Hypergraph) -> None:
        self._query = query
        self._variables = {r.name: frozenset(r.variables) for r in query.relations}
        self._turn = self._best_turn()
        self._found: dict[Part, Maintained] = {}

    def deltas(self) -> Deltas:
        self._maintain(Part(self._turn, self._query.free))
        return Deltas(tuple(self._found.values()))

    def _maintain(self, part: Part) -> None:
        if part in self._found:
            return
        deltas = tuple(self._delta(part, relation) for relation in part.relations)
        for delta in deltas:
            for lookup in delta.lookups:
                self._maintain(lookup.part)
        self._found[part] = Maintained(part, deltas)

    def _delta(self, part: Part, relation: str) -> Delta:
        bound = self._variables[relation]
        seen = bound.union(part.key)
        others = [name for name in part.relations if name != relation]
        lookups = []
        for component in self._components(others, bound):
            variables = frozenset[str]().union(*(self._variables[name] for name in component))
            key = tuple(v for v in self._query.variables if v in variables & seen)
            lookups.append(Lookup(Part(component, key), self._when(relation, component)))
        # What shares no variable with the relation multiplies its rows, so it comes last.
        lookups.sort(key=lambda lookup: bound.isdisjoint(lookup.part.key))
        return Delta(relation, tuple(lookups))

    def _components(self, relations: Sequence[str], bound: frozenset[str]) -> list[tuple[str, ...]]:
        """The relations, those together that share a variable which is not bound."""
        waiting, found = list(relations), []
        while waiting:
            component, reached = [waiting.pop(0)], True
            while reached:
                held = frozenset[str]().union(*(self._variables[n] for n in component)) - bound
                near = [n for n in waiting if held & self._variables[n]]
                waiting = [n for n in waiting if n not in near]
                component += near
                reached = bool(near)
            found.append(tuple(n for n in relations if n in component))
        return found

    def _when(self, relation: str, component: Iterable[str]) -> When:
        earlier = {self._turn.index(name) < self._turn.index(relation) for name in component}
        if len(earlier) == 2:
            return When.BETWEEN
        return When.AFTER if True in earlier else When.BEFORE

    def _best_turn(self) -> tuple[str, ...]:
        """The turn in which the fewest parts of the result's deltas are read in between."""
        names = tuple(relation.name for relation in self._query.relations)
        split = [
            (name, component)
            for name in names
            for component in self._components(
                [other for other in names if other != name], self._variables[name]
            )
            if len(component) > 1
        ]

        def mixed(turn: tuple[str, ...]) -> int:
            place = {name: i for i, name in enumerate(turn)}
            return sum(
                len({place[other] < place[name] for other in component}) == 2
                for name, component in split
            )

        return min(permutations(names), key=mixed)


class _NarrowSearch(_Search):
    """Follows the deltas of one query, through single relations where a part would be wide."""

    def _delta(self, part: Part, relation: str) -> Delta:
        waiting = [name for name in part.relations if name != relation]
        bound = self._variables[relation]
        lookups: list[Lookup] = []
        while waiting:
            component, wide = self._next(waiting, bound)
            waiting = [name for name in waiting if name not in component]
            held = self._held(component)
            # A relation out of the middle of a part shows what the rest of the part needs.
            seen = bound.union(part.key, self._held(waiting) if wide else ())
            key = tuple(v for v in self._query.variables if v in held & seen)
            lookups.append(Lookup(Part(component, key), self._when(relation, component)))
            bound = bound.union(key)
        return Delta(relation, tuple(lookups))

    def _next(self, waiting: Sequence[str], bound: frozenset[str]) -> tuple[tuple[str, ...], bool]:
        """What is looked up next: of the parts one that is narrow, else a relation of one.

        What shares most variables with those that are bound comes first, so that a product with
        something that shares none comes last.
        """

        def shared(names: Iterable[str]) -> int:
            return len(self._held(names) & bound)

        parts = sorted(self._components(waiting, bound), key=shared, reverse=True)
        narrow = [each for each in parts if self._is_narrow(each, bound)]
        if narrow and shared(narrow[0]) >= min(1, shared(parts[0])):
            return narrow[0], False
        return (max(parts[0], key=lambda name: shared((name,))),), True

    def _is_narrow(self, component: Sequence[str], bound: frozenset[str]) -> bool:
        """Has one relation of the part all variables that it shares with those that are bound?"""
        joined = self._held(component) & bound
        return any(joined <= self._variables[name] for name in component)

    def _held(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset[str]().union(*(self._variables[name] for name in names))
