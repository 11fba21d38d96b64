"""Where the boxes of a layered drawing go, and which way its lines take.

Columns come from longest paths, so every line runs from left to right. A line that skips columns
passes through a waypoint in each of them; waypoints take part in the ordering and keep their
distance like boxes, hence no line crosses a box. Rows are ordered by barycentres (Sugiyama), and
then placed as close to their neighbours as the order and the gaps allow: a least-squares fit under
order constraints, which pooling adjacent violators solves exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeAlias

from rekindle.calculus.walks import fold

Line: TypeAlias = tuple[str, str, str]
"""From a block, to a block, with a style: lines of one start and style share their waypoints."""

_SWEEPS = 16
_WAYPOINT_HEIGHT = 10.0


@dataclass(frozen=True, slots=True)
class Layout:
    """The column and the vertical middle of each block, and the waypoints of each line."""

    columns: Mapping[str, int]
    middles: Mapping[str, float]
    routes: Mapping[Line, tuple[tuple[int, float], ...]]
    height: float


def lay_out(heights: Mapping[str, float], lines: Sequence[Line], gap: float) -> Layout:
    """Places for blocks of the given heights; the lines must form no cycle.

    >>> placed = lay_out({"a": 20.0, "b": 20.0, "c": 20.0}, [("a", "b", ""), ("b", "c", "")], 10.0)
    >>> dict(placed.columns), placed.height
    ({'a': 0, 'b': 1, 'c': 2}, 20.0)
    """
    lines = list(dict.fromkeys(lines))
    columns = assign_columns(heights, [(a, b) for a, b, _ in lines])
    members: list[list[str]] = [[] for _ in range(max(columns.values(), default=0) + 1)]
    for block, column in columns.items():
        members[column].append(block)
    sizes = dict(heights)
    steps: dict[tuple[str, str], None] = {}
    paths: dict[Line, list[str]] = {}
    for line in lines:
        source, target, style = line
        path = [source]
        for column in range(columns[source] + 1, columns[target]):
            waypoint = f"{source}\0{style}\0{column}"
            if waypoint not in sizes:
                sizes[waypoint] = _WAYPOINT_HEIGHT
                members[column].append(waypoint)
            path.append(waypoint)
        path.append(target)
        paths[line] = path
        steps.update(dict.fromkeys(pairwise(path)))
    neighbours = _Neighbours(steps)
    ordered = order_rows(members, neighbours)
    middles = _place(ordered, neighbours, sizes, gap)
    top = min((middles[m] - sizes[m] / 2 for m in middles), default=0.0)
    bottom = max((middles[m] + sizes[m] / 2 for m in middles), default=0.0)
    middles = {member: middle - top for member, middle in middles.items()}
    routes = {
        line: tuple((columns[line[0]] + i, middles[m]) for i, m in enumerate(path[1:-1], start=1))
        for line, path in paths.items()
    }
    return Layout(columns, {b: middles[b] for b in heights}, routes, bottom - top)


def assign_columns(blocks: Iterable[str], edges: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Longest path from the left; then blocks with more readers than inputs move to the right."""
    edges = list(dict.fromkeys(edges))
    inputs: dict[str, list[str]] = {block: [] for block in blocks}
    readers: dict[str, list[str]] = {block: [] for block in inputs}
    for source, target in edges:
        inputs[target].append(source)
        readers[source].append(target)
    columns: dict[str, int] = {}

    def place(block: str, before: tuple[int, ...]) -> int:
        columns[block] = 1 + max(before, default=-1)
        return columns[block]

    for block in inputs:
        if block not in columns:
            fold(block, lambda key: inputs[key], place)
    for block in sorted(columns, key=lambda block: -columns[block]):
        if readers[block] and len(readers[block]) >= len(inputs[block]):
            columns[block] = min(columns[reader] for reader in readers[block]) - 1
    return {block: columns[block] for block in inputs}


class _Neighbours:
    def __init__(self, steps: Iterable[tuple[str, str]]) -> None:
        self.left: dict[str, list[str]] = {}
        self.right: dict[str, list[str]] = {}
        for source, target in steps:
            self.right.setdefault(source, []).append(target)
            self.left.setdefault(target, []).append(source)

    def all(self, member: str) -> list[str]:
        return self.left.get(member, []) + self.right.get(member, [])


def order_rows(members: Sequence[Sequence[str]], neighbours: _Neighbours) -> list[list[str]]:
    """Each column from top to bottom, with few crossings: barycentres, swept both ways."""
    best = order = [list(column) for column in members]
    fewest = _crossings(order, neighbours)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        order = [list(column) for column in order]
        rightwards = sweep % 2 == 0
        sides = neighbours.left if rightwards else neighbours.right
        for column in order if rightwards else reversed(order):
            places = {m: i for other in order for i, m in enumerate(other)}
            centres = {
                m: sum(places[n] for n in sides[m]) / len(sides[m]) if m in sides else places[m]
                for m in column
            }
            column.sort(key=lambda m: centres[m])
        if (found := _crossings(order, neighbours)) < fewest:
            best, fewest = order, found
    return best


def _crossings(order: Sequence[Sequence[str]], neighbours: _Neighbours) -> int:
    count = 0
    for column, following in pairwise(order):
        places = {m: i for i, m in enumerate(following)}
        steps = [(i, places[n]) for i, m in enumerate(column) for n in neighbours.right.get(m, [])]
        count += sum((a - c) * (b - d) < 0 for i, (a, b) in enumerate(steps) for c, d in steps[:i])
    return count


def _place(
    order: Sequence[Sequence[str]],
    neighbours: _Neighbours,
    sizes: Mapping[str, float],
    gap: float,
) -> dict[str, float]:
    middles: dict[str, float] = {}
    for column in order:
        middles.update(_fit(column, dict.fromkeys(column, 0.0), sizes, gap))
    for sweep in range(_SWEEPS):
        for column in order if sweep % 2 else reversed(order):
            wanted = {
                m: sum(middles[n] for n in near) / len(near) if (near := neighbours.all(m)) else 0.0
                for m in column
            }
            middles.update(_fit(column, wanted, sizes, gap))
    return middles


def _fit(
    column: Sequence[str], wanted: Mapping[str, float], sizes: Mapping[str, float], gap: float
) -> dict[str, float]:
    """The middles nearest to the wanted ones such that blocks keep their order and the gap."""
    offsets, offset = [], 0.0
    for previous, member in pairwise((None, *column)):
        assert member is not None
        if previous is not None:
            offset += (sizes[previous] + sizes[member]) / 2 + gap
        offsets.append(offset)
    pools: list[tuple[float, int]] = []
    for member, offset in zip(column, offsets, strict=True):
        total, count = wanted[member] - offset, 1
        while pools and pools[-1][0] / pools[-1][1] > total / count:
            total, count = total + pools[-1][0], count + pools[-1][1]
            pools.pop()
        pools.append((total, count))
    shifts = [total / count for total, count in pools for _ in range(count)]
    return {m: s + o for m, s, o in zip(column, shifts, offsets, strict=True)}
