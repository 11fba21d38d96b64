"""How the sides of a join are indexed so that ranges of their rows can be looked up.

A half of a join pairs a changed row with the stored rows of its key. Where the join's condition
bounds an expression of the stored rows by expressions of the changed one (`terms.Band`), the stored
rows are kept in the order of the former and only the range between the latter is read. What rows
are ordered and looked up by are bigints, appended to their columns as *marks*: a side's own place,
and the ends of the other side's range.

With equal keys a range must be worth an arrangement that only this join can use. One with two ends
is taken to be: it is a part of the key's rows, however many they become. One with a single end is
a large part of them wherever it is looked up. A range of the rows of a primary key is one row.

Of `SELECT a.* FROM a JOIN b ON a.x > b.y` nobody sees which b a row of a has met. When b changes
from one row to another, the rows of a that both of them meet have nothing to do with the change:
only those between the two ranges are read. `half_join.told_apart` finds such joins.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Join, Range
from rekindle.circuit.nodes import Formed, Node, RangeLookup, Side
from rekindle.circuit.operators.arrangement import MARK
from rekindle.circuit.stages import Branch, Project


@dataclass(frozen=True, slots=True)
class Index:
    """What a side of a join is arranged by: keys, and marks among which `order` is the place."""

    keys: tuple[Scalar, ...]
    marks: tuple[Scalar, ...] = ()
    order: int | None = None

    @property
    def stored(self) -> Index:
        """What the side's integral is arranged by: marks are kept where it is ordered by one.

        Where no range is looked up in it, any arrangement by the keys will do, and the marks are
        those of the change alone.
        """
        return Index(self.keys) if self.order is None else self

    @property
    def text(self) -> str:
        keys, marks = (", ".join(s.text for s in each) for each in (self.keys, self.marks))
        return f"{keys}; {marks}; {self.order}"

    def marked(self, schema: Schema) -> Project:
        """The stage that appends the marks to rows of a schema."""
        columns = [(f.name, Column(i, f.type, f.nullable)) for i, f in enumerate(schema)]
        marks = [(f"{MARK} {i}", mark) for i, mark in enumerate(self.marks)]
        return Project((*columns, *marks))

    def column(self, mark: Scalar, width: int) -> int:
        """Where a mark stands in rows that had `width` columns before it was appended."""
        return width + [known.text for known in self.marks].index(mark.text)


def other(side: Side) -> Side:
    return Side.RIGHT if side is Side.LEFT else Side.LEFT


def worthwhile(join: Join, unique: Collection[Side]) -> dict[Side, Range]:
    """The ranges to look up, by the side whose rows are looked for.

    The sides in `unique` have one row a key.
    """
    if join.band is None:
        return {}
    found = {}
    for side, range_ in ((Side.LEFT, join.band.left), (Side.RIGHT, join.band.right)):
        if range_ is None:
            continue
        if not join.left_keys or (len(range_.ends) == 2 and side not in unique):
            found[side] = range_
    return found


def index_of(join: Join, side: Side, ranges: dict[Side, Range]) -> Index:
    """How a side is arranged for the ranges that are looked up in it and by it."""
    keys = join.left_keys if side is Side.LEFT else join.right_keys
    own, theirs = ranges.get(side), ranges.get(other(side))
    wanted = [*(() if own is None else (own.place,)), *(() if theirs is None else theirs.ends)]
    marks = tuple({mark.text: mark for mark in wanted}.values())
    return Index(keys, marks, None if own is None else 0)


def lookup_of(join: Join, change_side: Side, ranges: dict[Side, Range]) -> RangeLookup | None:
    """The range of the other side's rows that a changed row of a side meets, if it is one."""
    range_ = ranges.get(other(change_side))
    if range_ is None:
        return None
    index = index_of(join, change_side, ranges)
    width = len((join.left if change_side is Side.LEFT else join.right).schema)
    low, high = (
        None if end is None else index.column(end, width) for end in (range_.low, range_.high)
    )
    return RangeLookup(low, high)


def branches_of(nodes: Iterable[Node]) -> dict[str, list[Branch]]:
    """The branches of all linear forms of some nodes, by the node that they begin at."""
    found: dict[str, list[Branch]] = {}
    for node in nodes:
        if isinstance(node, Formed):
            for branch in node.form.branches:
                found.setdefault(branch.node, []).append(branch)
    return found
