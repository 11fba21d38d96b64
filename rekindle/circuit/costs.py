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
from typing import assert_never

from rekindle.calculus.terms import Distance, First, Near, Onwards, Quantiles
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import (
    Arrangement,
    Constant,
    Deduplicate,
    Group,
    HalfJoin,
    Keeping,
    Node,
    Recur,
    Regroup,
    Routed,
    Table,
    Variable,
    View,
)

MARGIN = 1.5
"""How much dearer following must look before a part is rebuilt: both are estimates."""
GROUP_ROWS = 4
"""Rows that a touched group, or a range with two ends, is taken to have where nothing is known."""


class Course(enum.Enum):
    """What a step does with a part of the circuit."""

    FOLLOW = "followed"
    REBUILD = "rebuilt"


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """The rows of a change, and by how many rows its table grows."""

    rows: int
    growth: int


@dataclass(frozen=True, slots=True)
class Part:
    """Nodes that a change reaches, with the rows that each course is estimated to cost."""

    nodes: frozenset[str]
    follow: int
    rebuild: int

    @property
    def course(self) -> Course:
        return Course.REBUILD if self.rebuild * MARGIN < self.follow else Course.FOLLOW

    @property
    def reason(self) -> str:
        return f"about {self.follow:,} rows to follow, {self.rebuild:,} to rebuild"


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
    fanouts = _with_expected(circuit, stored, fanouts)
    stored = _with_passing(circuit, stored, fanouts)
    reached = _reached(circuit, changes)
    moved = {key: size.rows for key, size in changes.items()}
    follow = {node.id: _follow(node, moved, stored, fanouts.get(node.id, 1.0)) for node in reached}
    found = []
    for nodes in _apart(reached):
        if any(isinstance(node, Recur) for node in nodes):
            continue  # How far a change runs through a recursion cannot be told beforehand.
        sources = {key for node in nodes for key in node.inputs if key in changes}
        before = sum(stored.get(key, 0) for key in sources)
        after = sum(max(0, stored.get(key, 0) + changes[key].growth) for key in sources)
        scale = after / before if before else 1.0
        rebuild = after + sum(
            _rebuild(node, stored, scale, fanouts.get(node.id, 1.0)) for node in nodes
        )
        found.append(
            Part(
                frozenset(node.id for node in nodes),
                sum(follow[node.id] for node in nodes),
                int(rebuild) if before else max(rebuild, sum(follow.values())),
            )
        )
    return found


def _with_expected(
    circuit: Circuit, stored: Mapping[str, int], fanouts: Mapping[str, float]
) -> dict[str, float]:
    """Beside what was measured, what joins without a key give for a row: all rows, or a range."""
    found = dict(fanouts)
    for node in circuit.nodes.values():
        if not isinstance(node, HalfJoin) or node.id in found:
            continue
        against = circuit.nodes[node.against]
        if isinstance(against, Arrangement) and against.keys == ():
            rows = float(stored.get(against.id, 0))
            if node.lookup is not None:
                two_ends = None not in (node.lookup.low, node.lookup.high)
                rows = min(rows, GROUP_ROWS) if two_ends else rows / 2
            found[node.id] = rows
    return found


def _with_passing(
    circuit: Circuit, stored: Mapping[str, int], fanouts: Mapping[str, float]
) -> dict[str, int]:
    """Beside what is stored, the rows that pass through routes and joins when all is filled."""
    found = dict(stored)
    for node in circuit.nodes.values():
        if isinstance(node, Routed):
            found[node.id] = sum(found.get(branch.node, 0) for branch in node.form.branches)
        elif isinstance(node, HalfJoin):
            found[node.id] = int(found.get(node.change, 0) * fanouts.get(node.id, 1.0))
    return found


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


def _follow(node: Node, moved: dict[str, int], stored: Mapping[str, int], fanout: float) -> int:
    """The rows that a node touches to follow; notes in `moved` how many it gives."""
    match node:
        case Arrangement() | Routed() | View() | Recur():
            rows = touched = sum(moved.get(branch.node, 0) for branch in node.form.branches)
        case Group():
            read = sum(moved.get(branch.node, 0) for branch in node.form.branches)
            rows = 2 * min(read, stored.get(node.id) or read)
            touched = read + rows
        case HalfJoin():
            read = moved.get(node.change, 0)
            rows = int(read * fanout)
            touched = read + rows
        case Deduplicate():
            rows = touched = moved.get(node.arrangement, 0)
        case Regroup():
            rows = moved.get(node.arrangement, 0)
            touched = 2 * _group_rows(node, rows, stored)
        case Table() | Constant() | Variable():
            rows = touched = 0
        case _:
            assert_never(node)
    moved[node.id] = rows
    return touched


def _group_rows(node: Regroup, changed: int, stored: Mapping[str, int]) -> int:
    """The rows of the groups that so many changed rows touch."""
    whole = stored.get(node.arrangement, 0) + changed
    if node.is_recomputed:
        return whole
    match node.extent:
        case None:
            rows = changed * GROUP_ROWS
        case First():
            rows = changed * node.extent.rows
        case Near(distance=Distance.ROWS):
            rows = changed * (2 * node.extent.reach + 1)
        case Near():
            rows = changed * GROUP_ROWS
        case Quantiles():
            rows = changed * 2 * len(node.extent.fractions)
        case Onwards():
            # A change at the end, or one at a random place of a single large group?
            rows = changed * GROUP_ROWS if node.keys else whole // 2
        case _:
            assert_never(node.extent)
    return min(whole, rows)


def _rebuild(node: Node, stored: Mapping[str, int], scale: float, fanout: float) -> int:
    """The rows that a node touches to be filled, and a view to be compared with what it was."""
    match node:
        case HalfJoin():
            return int(stored.get(node.change, 0) * scale * (1 + fanout))
        case Regroup():
            return int(stored.get(node.arrangement, 0) * scale)
        case View():
            return int(stored.get(node.id, 0) * (1 + scale))
        case _ if isinstance(node, Keeping | Routed):
            return int(stored.get(node.id, 0) * scale)
    return 0
