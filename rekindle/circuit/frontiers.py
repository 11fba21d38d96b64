"""What no later change of a node can reach, and what need not be kept because of it.

The bounds of frontiers (`operators/bounds.py`) begin where something moves in one direction: at the
watermark of a table, at the clock. They are led through linear stages by monotone expressions,
through joins by equal keys and by ranges, through groups by their keys. A window function looks
no further back than its frame reaches. A sum has the least of the
bounds of its parts.

An integral is looked up by readers that are known. A row may go when no later change makes any of
them look at it: the reader's later keys, or the lower end of the range that it looks up, lie above
it. NULL lies below nothing and stays. (DBSP section 7.5: a window operator may be moved inside the
integral as time only moves on.)

A table's and a view's own contents never go by this, and neither does what a recursion keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from rekindle.calculus.scalars import Column, Scalar
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.nodes import Node, Stateful
from rekindle.circuit.operators.bounds import (
    Bound,
    Computed,
    Earlier,
    Frontier,
    Leaf,
    Least,
    Monotone,
    Need,
    Seen,
    flat_keys,
)
from rekindle.circuit.ranges import branches_of
from rekindle.circuit.stages import Branch, Finish, Generate, LinearForm, Match, Project, Stage


class Scalars(Protocol):
    """What is known of scalar expressions."""

    def pieces(self, scalar: Scalar) -> Mapping[int, Monotone]:
        """The fields of a scalar, or the whole of it, that do not decrease."""
        ...

    def core_column(self, scalar: Scalar) -> int | None:
        """The time column whose order a mark is, if it is that of one."""
        ...


@dataclass(frozen=True, slots=True)
class Reader:
    """A node that looks an integral up, and what it needs of it."""

    node: str
    need: Need


@dataclass(frozen=True, slots=True)
class Removal:
    """What each reader of an integral needs of it. A row goes if nobody needs it."""

    readers: tuple[Reader, ...]

    @property
    def is_possible(self) -> bool:
        return bool(self.readers) and all(reader.need.below for reader in self.readers)


def sources_of(bound: Bound) -> frozenset[str]:
    """The tables that a bound rests on."""
    match bound:
        case Seen():
            return frozenset((bound.node,))
        case Computed():
            return frozenset().union(*(sources_of(each) for _, each in bound.inputs))
        case Least():
            return frozenset().union(*map(sources_of, bound.bounds))
        case Earlier():
            return sources_of(bound.bound)


class Frontiers:
    """The frontiers of all nodes of a circuit, which are asked for them (`Bounds`).

    `seen` are the time columns of tables; `singles` are tables that have one row from their
    beginning on, and change by putting another in its place.
    """

    def __init__(
        self,
        circuit: Circuit,
        seen: Mapping[str, int],
        singles: frozenset[str],
        scalars: Scalars,
    ) -> None:
        self._circuit = circuit
        self._seen = seen
        self._scalars = scalars
        self._singles = singles
        self._branches = branches_of(circuit.nodes.values())
        self._pieces: dict[int, Mapping[int, Monotone]] = {}
        self._found: dict[str, Frontier | None] = {}
        for node in circuit.nodes.values():
            self._found[node.id] = node.frontier_in(self)

    def removals(self) -> dict[str, Removal]:
        """What may be removed of each integral that is looked up.

        Of those of a recursion nothing is, and nothing of what it looks up: its members are filled
        together or not at all, so one that lost rows could not be filled again by itself.
        """
        readers: dict[str, list[Reader]] = {}
        scopes = self._circuit.scopes.values()
        inside = {node.id for scope in scopes for node in scope.members}
        for node in self._circuit.nodes.values():
            for need in node.needs_in(self):
                if need.key in inside or node.id in inside:
                    need = Need(need.key)
                readers.setdefault(need.key, []).append(Reader(node.id, need))
        return {
            key: Removal(tuple(found))
            for key, found in readers.items()
            if isinstance(kept := self._circuit.nodes[key], Stateful) and kept.may_lose_rows
        }

    # ---- what nodes ask --------------------------------------------------------------------

    def node(self, key: str) -> Node:
        return self._circuit.nodes[key]

    def of(self, key: str) -> Frontier:
        """The bounds of a node's later changes."""
        return self._found[key] or {}

    def changing(self, key: str) -> Frontier | None:
        """The same; None of a node that never changes."""
        return self._found[key]

    def seen(self, key: str) -> int | None:
        return self._seen.get(key)

    def is_single(self, key: str) -> bool:
        return key in self._singles

    def branches(self, key: str) -> Sequence[Branch]:
        return self._branches.get(key, ())

    def core_column(self, scalar: Scalar) -> int | None:
        return self._scalars.core_column(scalar)

    def of_form(self, form: LinearForm) -> Frontier | None:
        """The bounds of a linear form; None if nothing that it reads ever changes."""
        parts = [self._branch(branch) for branch in form.branches]
        known = [part for part in parts if part is not None]
        return _least(known) if known else None

    def _branch(self, branch: Branch) -> Frontier | None:
        # What a recursion reads before it is computed has no bounds.
        found = self._found.get(branch.node, {})
        for stage in branch.stages:
            if found is None:
                return None
            found = self.after(stage, found)
        return found

    def after(self, stage: Stage, before: Frontier) -> Frontier:
        """The bounds after a stage."""
        if not before:
            return {}
        match stage:
            case Project():
                found: dict[Leaf, Bound] = {}
                for i, (_, scalar) in enumerate(stage.outputs):
                    bounds = self.of_scalar(scalar, before)
                    found |= {(i, part): bound for part, bound in bounds.items()}
                return found
            case Generate():
                moved = {old: new for new, old in enumerate(stage.kept)}
                return {(moved[c], f): b for (c, f), b in before.items() if c in moved}
            case Match():
                return _matched(stage, before)
            case Finish():
                return {leaf: b for leaf, b in before.items() if leaf[0] < len(stage.keys)}
        return before

    def of_scalar(self, scalar: Scalar, before: Frontier) -> Mapping[int, Bound]:
        """The bounds of a scalar, or of its fields."""
        if isinstance(scalar, Column):
            return {f: bound for (c, f), bound in before.items() if c == scalar.position}
        if not scalar.references.intersection(column for column, _ in before):
            return {}
        if id(scalar) not in self._pieces:
            self._pieces[id(scalar)] = self._scalars.pieces(scalar)
        return {
            part: Computed(piece, tuple((leaf, before[leaf]) for leaf in sorted(piece.leaves)))
            for part, piece in self._pieces[id(scalar)].items()
            if all(leaf in before for leaf in piece.leaves)
        }


def _matched(match: Match, before: Frontier) -> Frontier:
    """Equal keys have the bounds of each other."""
    found = dict(before)
    left, right = flat_keys(match.left_keys), flat_keys(match.right_keys)
    for one, other in zip(left, right, strict=False):
        if not isinstance(one, Column) or not isinstance(other, Column):
            continue
        pair = one.position, other.position + match.left_width
        for own, beside in (pair, pair[::-1]):
            for (column, part), bound in before.items():
                if column == own:
                    found.setdefault((beside, part), bound)
    return found


def _least(frontiers: Sequence[Frontier]) -> Frontier:
    """The bounds of a sum."""
    first, *others = frontiers
    found: dict[Leaf, Bound] = {}
    for leaf, bound in first.items():
        beside = [each.get(leaf) for each in others]
        bounds = [each for each in beside if each is not None]
        if len(bounds) == len(beside):
            distinct = tuple(dict.fromkeys([bound, *bounds]))
            found[leaf] = distinct[0] if len(distinct) == 1 else Least(distinct)
    return found


Evaluate: TypeAlias = Callable[[Any, Mapping[Leaf, int]], int | None]
"""A monotone expression at the values of what it reads."""


def value_of(
    bound: Bound, marks: Mapping[str, int], evaluate: Evaluate, known: dict[Bound, int | None]
) -> int | None:
    """What a bound is where tables have moved to their marks; None if it is not known yet."""
    if bound not in known:
        known[bound] = _value_of(bound, marks, evaluate, known)
    return known[bound]


def _value_of(
    bound: Bound, marks: Mapping[str, int], evaluate: Evaluate, known: dict[Bound, int | None]
) -> int | None:
    match bound:
        case Seen():
            return marks.get(bound.node)
        case Computed():
            values: dict[Leaf, int] = {}
            for leaf, each in bound.inputs:
                value = value_of(each, marks, evaluate, known)
                if value is None:
                    return None
                values[leaf] = value
            return evaluate(bound.piece, values)
        case Least():
            found = [value_of(each, marks, evaluate, known) for each in bound.bounds]
            present = [value for value in found if value is not None]
            return min(present) if len(present) == len(found) else None
        case Earlier():
            later = value_of(bound.bound, marks, evaluate, known)
            return None if later is None else later - bound.micros
