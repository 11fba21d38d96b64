"""Strata: which relations must be known before which, and which are known together.

A relation depends on those in the bodies of its rules. Relations that depend on each other form a
stratum and are computed together, as one recursion; a relation may be negated or aggregated only
when it belongs to an earlier stratum.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rekindle.frontends.datalog.parse import Aggregated, Atom, Literal, Rule


@dataclass(frozen=True, slots=True)
class Relation:
    """A head with all its rules."""

    name: str
    rules: tuple[Rule, ...]


@dataclass(frozen=True, slots=True)
class Stratum:
    """Relations that are computed together; one that does not need itself is not recursive."""

    relations: tuple[Relation, ...]
    is_recursive: bool


def strata(rules: Sequence[Rule]) -> list[Stratum]:
    """The strata of a program, each after those that it reads."""
    heads: dict[str, list[Rule]] = {}
    names: dict[str, str] = {}
    for rule in rules:
        key = rule.head.name.lower()
        names.setdefault(key, rule.head.name)
        heads.setdefault(key, []).append(rule)
        first = heads[key][0]
        if len(first.head.arguments) != len(rule.head.arguments):
            raise rule.place.error(
                f"'{rule.head.name}' has {len(rule.head.arguments)} columns here and "
                f"{len(first.head.arguments)} at line {first.place.line}"
            )
    reads = {
        key: {name for rule in found for name, _ in _read(rule.body) if name in heads}
        for key, found in heads.items()
    }
    result = []
    for component in _components(reads):
        _check_stratified(component, heads)
        recursive = len(component) > 1 or component[0] in reads[component[0]]
        relations = tuple(Relation(names[key], tuple(heads[key])) for key in component)
        result.append(Stratum(relations, recursive))
    return result


def _read(body: Sequence[Literal], strict: bool = False) -> Iterator[tuple[str, bool]]:
    """The relations that a body reads, and whether their strata must come before."""
    for literal in body:
        match literal:
            case Atom():
                yield literal.name.lower(), strict or literal.negated
            case Aggregated():
                yield from _read(literal.body, strict=True)


def _check_stratified(component: Sequence[str], heads: dict[str, list[Rule]]) -> None:
    for key in component:
        for rule in heads[key]:
            for name, strict in _read(rule.body):
                if strict and name in component:
                    raise rule.place.error(
                        f"the program is not stratified: '{rule.head.name}' needs the negation or "
                        f"an aggregate of '{name}', which needs '{rule.head.name}'",
                        hint="split the relation, so that one part is complete before the other",
                    )


def _components(reads: dict[str, set[str]]) -> list[list[str]]:
    """Strongly connected components, each after those that it reads (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(key: str) -> None:
        index[key] = low[key] = len(index)
        stack.append(key)
        for other in sorted(reads[key]):
            if other not in index:
                visit(other)
                low[key] = min(low[key], low[other])
            elif other in stack:
                low[key] = min(low[key], index[other])
        if low[key] == index[key]:
            component = []
            while True:
                component.append(stack.pop())
                if component[-1] == key:
                    break
            found.append(component[::-1])

    for key in reads:
        if key not in index:
            visit(key)
    return found
