"""Whether a step follows a change through the circuit, or fills what it reaches anew.

Both give the same state. Following costs the rows of the change and of what it touches at every
node; filling anew costs the rows that every node holds afterwards. When most rows of a table leave
or all of them are updated, the second is less. The nodes that a change reaches fall into *parts*
that share nothing but sources, and each part is decided by itself, at each step, from the sizes of
the change and of the stored state and from what joins gave when they last ran.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rekindle.calculus.terms import Linearity
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Node
from rekindle.circuit.operators.sizes import Sizes

MARGIN = 1.5
"""How much dearer following must look before a part is filled anew: both are estimates."""


class Refresh(enum.Enum):
    """How a step brings a part of the circuit up to date."""

    INCREMENTAL = "incremental"
    FULL = "full"


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """The rows of a change, and by how many rows its table grows."""

    rows: int
    growth: int


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that a change reaches, with the rows that either refresh is estimated to cost."""

    nodes: frozenset[str]
    incremental: int
    full: int

    @property
    def refresh(self) -> Refresh:
        return Refresh.FULL if self.full * MARGIN < self.incremental else Refresh.INCREMENTAL

    @property
    def reason(self) -> str:
        return f"about {self.incremental:,} rows to follow, {self.full:,} to rebuild"


def parts(
    circuit: Circuit,
    changes: Mapping[str, ChangeSize],
    stored: Mapping[str, int],
    fanouts: Mapping[str, float],
) -> list[Part]:
    """The parts that changes of sources reach.

    `stored` gives the rows of every node that keeps an integral, `fanouts` the rows that a join
    gave for each row of the change when it last ran.
    """
    sizes = _sizes(circuit, stored, _expected(circuit, stored, fanouts))
    sizes.moved.update({key: size.rows for key, size in changes.items()})
    reached = _reached(circuit, changes)
    incremental = {}
    for node in reached:
        cost = node.incremental_cost(sizes)
        incremental[node.id], sizes.moved[node.id] = cost
    found = []
    for nodes in _apart(reached):
        if any(node.linearity is Linearity.SCOPE for node in nodes):
            continue  # How far a change runs through a recursion cannot be told beforehand.
        sources = {key for node in nodes for key in node.inputs if key in changes}
        before = sum(sizes.stored.get(key, 0) for key in sources)
        after = sum(max(0, sizes.stored.get(key, 0) + changes[key].growth) for key in sources)
        scale = after / before if before else 1.0
        full = after + sum(node.full_cost(sizes, scale) for node in nodes)
        found.append(
            Part(
                frozenset(node.id for node in nodes),
                sum(incremental[node.id] for node in nodes),
                int(full) if before else max(full, sum(incremental.values())),
            )
        )
    return found


def _expected(
    circuit: Circuit, stored: Mapping[str, int], fanouts: Mapping[str, float]
) -> dict[str, float]:
    """Beside what was measured, what nodes that have not run can tell of what they give."""
    found = dict(fanouts)
    for node in circuit.nodes.values():
        if node.id not in found:
            expected = node.expected_fanout(circuit.nodes, stored)
            if expected is not None:
                found[node.id] = expected
    return found


def _sizes(circuit: Circuit, stored: Mapping[str, int], fanouts: Mapping[str, float]) -> Sizes:
    """Beside what is stored, the rows that pass through nodes when all is filled."""
    rows = dict(stored)
    sizes = Sizes(rows, fanouts)
    for node in circuit.nodes.values():
        passed = node.rows_passed(sizes)
        if passed is not None:
            rows[node.id] = passed
    return sizes


def _reached(circuit: Circuit, changes: Iterable[str]) -> list[Node]:
    """The nodes after the changed ones, inputs first."""
    known = set(changes)
    found = []
    for node in circuit.nodes.values():
        if node.id not in known and not known.isdisjoint(node.inputs):
            known.add(node.id)
            found.append(node)
    return found


def _apart(nodes: Iterable[Node]) -> list[list[Node]]:
    """The nodes, those together that read one another."""
    leaders: dict[str, str] = {}

    def leader(key: str) -> str:
        while leaders[key] != key:
            leaders[key] = leaders[leaders[key]]
            key = leaders[key]
        return key

    listed = list(nodes)
    for node in listed:
        leaders[node.id] = node.id
        for key in node.inputs:
            if key in leaders:
                leaders[leader(key)] = node.id
    groups: dict[str, list[Node]] = {}
    for node in listed:
        groups.setdefault(leader(node.id), []).append(node)
    return list(groups.values())
