"""Variable orders: forests of variables in which each relation lies on one root-to-leaf path.

An order says in which turn variables are summed out: the lowest first. A variable depends on those
of its ancestors that occur with it in the relations below, and on nothing else, which is what keeps
views small. Free variables stay in the result and stand on top.

Every order comes from an elimination: take the relations with a variable, join them, sum the
variable out, and go on with what that gives. For few variables all eliminations are compared;
beyond that the next variable is the one whose join is bounded by the fewest rows. F-IVM.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from rekindle.errors import DefinitionError
from rekindle.incremental.policies.hypergraph import Cover, Hypergraph, Relation, cover

EXHAUSTIVE_VARIABLES = 8
"""Up to this many shared variables the best order is found, beyond that a good one."""


@dataclass(frozen=True, slots=True)
class Node:
    """A variable with what is under it."""

    variable: str
    children: tuple[Node, ...] = ()

    def __str__(self) -> str:
        below = ", ".join(map(str, self.children))
        return f"{self.variable}({below})" if below else self.variable


@dataclass(frozen=True, slots=True)
class VariableOrder:
    """A forest of variables.

    >>> str(VariableOrder((Node("A", (Node("B"), Node("C", (Node("D"), Node("E"))))),)))
    'A(B, C(D, E))'
    """

    roots: tuple[Node, ...]

    def __str__(self) -> str:
        return ", ".join(map(str, self.roots))

    def paths(self) -> Iterator[tuple[str, ...]]:
        """Each variable with its ancestors, from the root down."""

        def walk(node: Node, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
            path = (*above, node.variable)
            yield path
            for child in node.children:
                yield from walk(child, path)

        for root in self.roots:
            yield from walk(root, ())


def complete_order(order: VariableOrder, query: Hypergraph) -> VariableOrder:
    """The order with local variables that it leaves out, each under the lowest of its relation."""
    known = {path[-1]: path for path in order.paths()}
    hung: dict[str | None, list[Node]] = {}
    for relation in query.relations:
        missing = [v for v in relation.variables if v in query.local and v not in known]
        if missing:
            present = [v for v in relation.variables if v in known]
            lowest = max(present, key=lambda v: len(known[v])) if present else None
            hung.setdefault(lowest, []).append(_chain(missing))

    def rebuilt(node: Node) -> Node:
        below = (*map(rebuilt, node.children), *hung.get(node.variable, ()))
        return Node(node.variable, below)

    return VariableOrder((*map(rebuilt, order.roots), *hung.get(None, ())))


def _chain(variables: Sequence[str]) -> Node:
    node = Node(variables[-1])
    for variable in reversed(variables[:-1]):
        node = Node(variable, (node,))
    return node


def check_order(order: VariableOrder, query: Hypergraph) -> None:
    """Raises unless the order is one for the query, with its free variables on top."""
    paths = list(order.paths())
    named = [path[-1] for path in paths]
    listed = f"variables of the query: {', '.join(query.variables)}"
    for variable in named:
        if variable not in query.variables:
            raise DefinitionError(f"the variable order names '{variable}'", detail=listed)
        if named.count(variable) > 1:
            raise DefinitionError(f"the variable order names '{variable}' twice")
    for variable in query.variables:
        if variable not in named:
            raise DefinitionError(f"the variable order leaves out '{variable}'", detail=listed)
    for relation in query.relations:
        if not any(set(relation.variables) <= set(path) for path in ((), *paths)):
            raise DefinitionError(
                f"the variables of '{relation.name}' are not on one path of the variable order",
                detail=f"{relation} in {order}",
                hint="put one of them under the other",
            )
    for path in paths:
        below = next(
            (v for i, v in enumerate(path) if v in query.free and _bound(path[:i], query)), None
        )
        if below is not None:
            raise DefinitionError(
                f"the grouping variable '{below}' stands under one that is summed out",
                detail=str(order),
                hint="put the variables of GROUP BY on top of the variable order",
            )


def _bound(path: Sequence[str], query: Hypergraph) -> bool:
    return any(variable not in query.free for variable in path)


@dataclass(frozen=True, slots=True)
class _Step:
    """One variable summed out of the join of some relations."""

    variable: str
    key: frozenset[str]
    bag: Cover


def find_order(query: Hypergraph, sizes: Mapping[str, int] | None = None) -> VariableOrder:
    """A complete order of least cost: the rows that bound the joins at its variables.

    >>> str(find_order(Hypergraph.of("", R="A B", S="A C E", T="C D")))
    'A(C(E, D), B)'
    """
    known = sizes or {}
    bound = [v for v in query.variables if v not in query.free and v not in query.local]
    shared = bound[::-1]  # Of equal orders the first found has the variables named first on top.
    search = _exhaustive if len(shared) <= EXHAUSTIVE_VARIABLES else _greedy
    found = search(query, shared, known)
    return complete_order(_forest(query, found), query)


_Factor: TypeAlias = tuple[frozenset[str], tuple[Relation, ...]]
_Partial: TypeAlias = tuple[tuple[int, int], tuple[_Step, ...], list[_Factor]]
"""The cost of some steps, the steps, and what they leave to be joined."""


def _eliminate(
    factors: Sequence[_Factor], variable: str, sizes: Mapping[str, int]
) -> tuple[_Step, list[_Factor]]:
    """The variable summed out, and what is left to be joined."""
    with_it = [factor for factor in factors if variable in factor[0]]
    rest = [factor for factor in factors if variable not in factor[0]]
    bag = frozenset().union(*(variables for variables, _ in with_it))
    relations = tuple(relation for _, found in with_it for relation in found)
    step = _Step(variable, bag - {variable}, cover(bag, relations, sizes))
    return step, [*rest, (step.key, relations)]


def _factors(query: Hypergraph) -> list[_Factor]:
    return [(frozenset(r.variables) - query.local, (r,)) for r in query.relations]


def _exhaustive(
    query: Hypergraph, shared: Sequence[str], sizes: Mapping[str, int]
) -> tuple[_Step, ...]:
    """The cheapest of all eliminations.

    What is left to be joined depends on which variables are gone and not on their turn, so sets of
    variables are compared and not sequences: 2ⁿ instead of n!.
    """
    best: dict[frozenset[str], _Partial] = {frozenset(): ((0, 0), (), _factors(query))}
    for _ in shared:
        following: dict[frozenset[str], _Partial] = {}
        for gone, (cost, steps, factors) in best.items():
            for variable in shared:
                if variable in gone:
                    continue
                step, left = _eliminate(factors, variable, sizes)
                total = (cost[0] + step.bag.rows, cost[1] + len(step.key))
                known = following.get(gone | {variable})
                if known is None or total < known[0]:
                    following[gone | {variable}] = (total, (*steps, step), left)
        best = following
    ((_, steps, _),) = best.values()
    return steps


def _greedy(
    query: Hypergraph, shared: Sequence[str], sizes: Mapping[str, int]
) -> tuple[_Step, ...]:
    factors, steps = _factors(query), []
    left = list(shared)
    while left:
        options = [_eliminate(factors, variable, sizes) for variable in left]
        step, factors = min(options, key=lambda option: (option[0].bag.rows, len(option[0].key)))
        left.remove(step.variable)
        steps.append(step)
    return tuple(steps)


def _forest(query: Hypergraph, steps: Sequence[_Step]) -> VariableOrder:
    """A variable stands under the one of its key that is summed out next; free ones are a chain."""
    turn = [step.variable for step in steps] + list(reversed(query.free))
    parents: dict[str, str | None] = {
        step.variable: min(step.key, key=turn.index, default=None) for step in steps
    }
    parents |= {v: query.free[i - 1] if i else None for i, v in enumerate(query.free)}

    def under(parent: str | None) -> tuple[Node, ...]:
        found = [v for v in reversed(turn) if parents[v] == parent]
        return tuple(Node(variable, under(variable)) for variable in found)

    return VariableOrder(under(None))
