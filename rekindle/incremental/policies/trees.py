"""View trees: a view for each turn of a variable order.

At a variable X the children are joined and X is summed out (⊕); the key of the view is what X
depends on. Leaves are relations, each under the lowest of its variables. Two turns that join
nothing in between are one view that sums out both variables. Free variables are not summed out:
the views under them are joined at the root.

An update of a relation changes the views on its path to the root, and each of these changes is a
join with the siblings on the way. So a view has to be kept only where a sibling's path may pass.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from rekindle.incremental.policies.hypergraph import Hypergraph, Relation
from rekindle.incremental.policies.orders import Node, VariableOrder, check_order, complete_order


@dataclass(frozen=True, slots=True)
class View:
    """V@bound[key] = ⊕_bound ⨂ children."""

    bound: tuple[str, ...]
    key: tuple[str, ...]
    children: tuple[Tree, ...]

    def __str__(self) -> str:
        name = f"V@{','.join(self.bound)}" if self.bound else "V"
        return f"{name}[{', '.join(self.key)}]"

    @property
    def variables(self) -> tuple[str, ...]:
        return self.key


Tree: TypeAlias = View | Relation


def view_tree(order: VariableOrder, query: Hypergraph) -> View:
    """The tree of a query over an order, which is completed and checked first."""
    whole = complete_order(order, query)
    check_order(whole, query)
    depth = {path[-1]: len(path) for path in whole.paths()}
    under: dict[str | None, list[Relation]] = {}
    for relation in query.relations:
        lowest = max(relation.variables, key=depth.__getitem__, default=None)
        under.setdefault(lowest, []).append(relation)

    def built(node: Node, above: tuple[str, ...]) -> list[Tree]:
        """What the node gives to its parent: one view, or all it has if its variable is free."""
        path = (*above, node.variable)
        parts: list[Tree] = [tree for child in node.children for tree in built(child, path)]
        parts += under.get(node.variable, [])
        if node.variable in query.free:
            return parts
        occurring = {v for part in parts for v in part.variables}
        return [_summed(View((node.variable,), _only(above, occurring), tuple(parts)))]

    parts = [tree for root in whole.roots for tree in built(root, ())]
    parts += under.get(None, [])
    return _rooted(parts, query.free)


def _only(path: tuple[str, ...], occurring: set[str]) -> tuple[str, ...]:
    return tuple(variable for variable in path if variable in occurring)


def _summed(view: View) -> View:
    """One view instead of two where the lower one is all that the upper one reads."""
    match view.children:
        case (View() as only,):
            return View(view.bound + only.bound, view.key, only.children)
    return view


def _rooted(parts: list[Tree], free: tuple[str, ...]) -> View:
    match parts:
        case [View() as only] if set(only.key) == set(free):
            return replace(only, key=free)
    return View((), free, tuple(parts))


@dataclass(frozen=True, slots=True)
class Pairing:
    """A child that is joined next, and the variables that are needed after that."""

    child: Tree
    needed: frozenset[str]


def pairings(view: View) -> tuple[Pairing, ...]:
    """The turn in which a view's children are joined two by two: most shared variables first."""
    first, *waiting = view.children
    joined = frozenset(first.variables)
    found = [Pairing(first, joined)]
    while waiting:
        child = max(waiting, key=lambda other: len(joined.intersection(other.variables)))
        waiting.remove(child)
        later = frozenset(view.key).union(*(other.variables for other in waiting))
        joined = joined.union(child.variables) & later
        found.append(Pairing(child, joined))
    return tuple(found)


def views(tree: Tree) -> Iterator[View]:
    """Every view, children first."""
    if isinstance(tree, View):
        for child in tree.children:
            yield from views(child)
        yield tree


def relations(tree: Tree) -> tuple[str, ...]:
    """The names of the relations under a tree."""
    if isinstance(tree, Relation):
        return (tree.name,)
    return tuple(name for child in tree.children for name in relations(child))


def tree_text(tree: Tree, changed: Iterable[str] = ()) -> str:
    """The tree, one view a line; the views that a change of some relations reaches have a δ."""
    return "\n".join(_lines(tree, frozenset(changed)))


def _lines(tree: Tree, changed: frozenset[str]) -> list[str]:
    mark = "δ" if changed.intersection(relations(tree)) else ""
    lines = [f"{mark}{tree}"]
    children = tree.children if isinstance(tree, View) else ()
    for i, child in enumerate(children):
        last = i == len(children) - 1
        head, rest = ("└─ ", "   ") if last else ("├─ ", "│  ")
        first, *below = _lines(child, changed)
        lines += [head + first, *(rest + line for line in below)]
    return lines
