"""A join as a hypergraph: relations are sets of variables, and some variables are free.

Nothing of terms is left here: variable orders and view trees depend on this alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import combinations
from math import prod

from rekindle.errors import DefinitionError

DEFAULT_ROWS = 1000
"""Rows of a relation whose size is not known."""
_EXHAUSTIVE_COVERS = 8


@dataclass(frozen=True, slots=True)
class Relation:
    """A relation and its variables."""

    name: str
    variables: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}[{', '.join(self.variables)}]"


@dataclass(frozen=True, slots=True)
class Cover:
    """Relations that hold some variables between them: how many, and a bound on their join."""

    relations: int
    rows: int


@dataclass(frozen=True, slots=True)
class Hypergraph:
    """The relations of a join, and the variables that its result keeps.

    >>> query = Hypergraph.of("A", R="A B", S="B C")
    >>> query.variables, sorted(query.local)
    (('A', 'B', 'C'), ['C'])
    """

    relations: tuple[Relation, ...]
    free: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        names = [relation.name for relation in self.relations]
        if len(set(names)) != len(names):
            raise DefinitionError("two relations of a join have one name", detail=", ".join(names))
        unknown = [name for name in self.free if name not in self.variables]
        if unknown:
            raise DefinitionError(
                f"the free variable '{unknown[0]}' is in no relation",
                detail=f"variables: {', '.join(self.variables)}",
            )

    @staticmethod
    def of(free: str = "", /, **relations: str) -> Hypergraph:
        """The hypergraph of relations given by their variables' names, parted by blanks."""
        found = (Relation(name, tuple(names.split())) for name, names in relations.items())
        return Hypergraph(tuple(found), tuple(free.split()))

    @property
    def variables(self) -> tuple[str, ...]:
        """Every variable once, in the order in which relations name them."""
        return tuple(dict.fromkeys(v for relation in self.relations for v in relation.variables))

    @property
    def local(self) -> frozenset[str]:
        """The variables of one relation only that the result does not keep."""
        return frozenset(v for v in self.variables if v not in self.free and self._uses(v) == 1)

    def _uses(self, variable: str) -> int:
        return sum(variable in relation.variables for relation in self.relations)


def cover(
    variables: Iterable[str], relations: Iterable[Relation], sizes: Mapping[str, int]
) -> Cover:
    """The cheapest relations that hold all of the variables that any of them holds.

    The join of these bounds the rows that a view over the variables can have. Covers are whole:
    a fractional one would bound the triangle by n^1.5 rows, but needs a join of three at once.
    """
    given = tuple(relations)
    held = {v for relation in given for v in relation.variables}
    wanted = frozenset(variables) & held
    useful = [relation for relation in given if wanted.intersection(relation.variables)]
    found = _every_cover(wanted, useful) if len(useful) <= _EXHAUSTIVE_COVERS else [useful]

    def rows(chosen: Iterable[Relation]) -> int:
        return prod(max(1, sizes.get(relation.name, DEFAULT_ROWS)) for relation in chosen)

    best = min(found, key=lambda chosen: (rows(chosen), len(chosen)))
    return Cover(len(best), rows(best))


def _every_cover(wanted: frozenset[str], relations: list[Relation]) -> list[list[Relation]]:
    return [
        list(chosen)
        for count in range(len(relations) + 1)
        for chosen in combinations(relations, count)
        if wanted <= {v for relation in chosen for v in relation.variables}
    ]
