"""Half a join: the change of one side against the integral of the other.

A join is bilinear, so its change is a sum of two halves, Δa ⋈ z⁻¹(I(b)) + I(a) ⋈ Δb (Theorem 3.4).
Rows are paired by the hash of their keys; the stage `Match` after it makes the join exact.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.operators.arrangement import Arrangement, Keyed
from rekindle.circuit.operators.bounds import (
    WHOLE,
    Bound,
    Bounds,
    Frontier,
    Leaf,
    Need,
    flat_keys,
)
from rekindle.circuit.operators.node import Indexed, Node, Passing
from rekindle.circuit.operators.running import Environment, IntegralRead, Moment, Work
from rekindle.circuit.operators.sizes import GROUP_ROWS, Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.table import Table
from rekindle.circuit.operators.words import Half, Link, Role, Words
from rekindle.circuit.stages import Branch, Match, Project, columns_read
from rekindle.columns import column_name
from rekindle.kernels.join import ChangeSide, Probe
from rekindle.kernels.spans import Span
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.reader import TraceReader


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class RangeLookup:
    """The rows of its key that a changed row meets: those whose order is from `low` to `high`.

    Both are columns of the change; an end without a column is open.
    """

    low: int | None
    high: int | None


@dataclass(frozen=True)
class HalfJoin(Passing):
    """A product of a change and an integral: Δa ⋈ z⁻¹(I(b)), I(a) ⋈ Δb.

    A join's change is the sum of two of them. With the moment `during` it is Δa ⋈ Δb. What it reads
    may have columns after those of the join's inputs, by which ranges are found; the left input
    has `left_width` of its own.
    """

    change: str
    against: str
    moment: Moment
    change_side: Side
    schema: Schema
    left_width: int
    lookup: RangeLookup | None = None

    kind = "half join"
    prefix = "join"
    linearity = Linearity.BILINEAR
    colour = "#c2410c"

    @property
    def identity(self) -> tuple[object, ...]:
        ends = () if self.lookup is None else (f"{self.lookup.low} to {self.lookup.high}",)
        return (self.change, self.against, self.moment.value, self.change_side.value, *ends)

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.change, self.against)

    @property
    def widths(self) -> tuple[int, int]:
        """How many columns of the left and of the right rows the pairs have."""
        return self.left_width, len(self.schema) - self.left_width

    # ---- running ---------------------------------------------------------------------------

    @property
    def driving(self) -> tuple[str, ...]:
        """The other side is looked up."""
        return (self.change,)

    def work(self, environment: Environment, apart: tuple[int, ...] | None = None) -> Work:
        return self.work_on(range(len(self.schema)), environment, apart)

    def work_on(
        self,
        columns: Sequence[int],
        environment: Environment,
        apart: tuple[int, ...] | None = None,
    ) -> Work:
        """Only the columns that are asked for are taken from either side."""
        meeting = self._meeting(apart)
        sides = (environment.layout(key).schema for key in (self.change, self.against))
        pairs = meeting.schema(*sides)
        names = [column_name(i) for i in columns]
        fields = [
            pairs.field(1 + i).with_name(name) for i, name in zip(columns, names, strict=True)
        ]
        return Work(
            self.change,
            (IntegralRead(self.against, self.moment),),
            partial(_pairs, meeting, tuple(columns), [WEIGHT, *names]),
            pa.schema([pairs.field(0), *fields]),
            is_product=True,
        )

    def _meeting(self, apart: tuple[int, ...] | None) -> Probe:
        side = ChangeSide.LEFT if self.change_side is Side.LEFT else ChangeSide.RIGHT
        span = None
        if self.lookup is not None:
            ends = (self.lookup.low, self.lookup.high)
            low, high = (None if i is None else column_name(i) for i in ends)
            span = Span(low, high, None if apart is None else tuple(map(column_name, apart)))
        return Probe(side, span, self.widths)

    def told_apart(self, environment: Environment) -> tuple[int, ...] | None:
        if self.lookup is None:
            return None
        return told_apart(self, environment.branches(self.id))

    # ---- costs -----------------------------------------------------------------------------

    def incremental_cost(self, sizes: Sizes) -> Cost:
        read = sizes.moved.get(self.change, 0)
        rows = int(read * sizes.fanout(self.id))
        return Cost(read + rows, rows)

    def full_cost(self, sizes: Sizes, scale: float) -> int:
        return int(sizes.stored.get(self.change, 0) * scale * (1 + sizes.fanout(self.id)))

    def expected_fanout(self, nodes: Mapping[str, Node], stored: Mapping[str, int]) -> float | None:
        """Without a key: all rows of the other side, or a range of them."""
        against = nodes[self.against]
        if not isinstance(against, Arrangement) or against.keys != ():
            return None
        rows = float(stored.get(against.id, 0))
        if self.lookup is None:
            return rows
        return (
            min(rows, GROUP_ROWS) if None not in (self.lookup.low, self.lookup.high) else rows / 2
        )

    def rows_passed(self, sizes: Sizes) -> int | None:
        return int(sizes.stored.get(self.change, 0) * sizes.fanout(self.id))

    # ---- what time leaves behind -----------------------------------------------------------

    def frontier_in(self, bounds: Bounds) -> Frontier | None:
        """The bounds of the changed side, and those that the other one has by the range."""
        before = bounds.changing(self.change)
        if before is None:
            return None
        left, right = self.widths
        is_left = self.change_side is Side.LEFT
        width, moved = (left, 0) if is_left else (right, left)
        found: dict[Leaf, Bound] = {
            (column + moved, part): bound
            for (column, part), bound in before.items()
            if column < width
        }
        low = None if self.lookup is None else self.lookup.low
        core = _core(bounds, bounds.node(self.against))
        if core is not None and low is not None and (low, WHOLE) in before:
            found.setdefault((core + (left if is_left else 0), WHOLE), before[low, WHOLE])
        return found

    def needs_in(self, bounds: Bounds) -> Sequence[Need]:
        """No later change of the other side meets a row below the bounds."""
        if self.moment is Moment.DURING:
            return ()
        changed, against = bounds.node(self.change), bounds.node(self.against)
        frontier = bounds.changing(self.change)
        if not isinstance(against, Arrangement) or frontier is None:
            return [Need(self.against)]
        found: list[tuple[Leaf, Bound]] = []
        pairs = zip(flat_keys(against.keys or ()), flat_keys(_keys_of(changed)), strict=False)
        for own, theirs in pairs:
            if isinstance(own, Column):
                of_key = bounds.of_scalar(theirs, frontier)
                found += [((own.position, part), bound) for part, bound in of_key.items()]
        low = None if self.lookup is None else self.lookup.low
        if low is not None and against.order is not None and (low, WHOLE) in frontier:
            found.append(((against.order, WHOLE), frontier[low, WHOLE]))
        found += self._cancelled(bounds, changed, against)
        return [Need(self.against, tuple(found))]

    def _cancelled(
        self, bounds: Bounds, changed: Node, against: Arrangement
    ) -> list[tuple[Leaf, Bound]]:
        """Below which stored rows the old and the new row of a single one meet the same.

        A row and the one in its place meet all rows up to their ends. Where nobody tells them
        apart, what both of them meet is not even read (`kernels/spans.py`).
        """
        if self.lookup is None or self.lookup.low is not None or self.lookup.high is None:
            return []
        if against.order is None or told_apart(self, bounds.branches(self.id)) != ():
            return []
        if not isinstance(changed, Keyed) or len(changed.form.branches) != 1:
            return []
        (branch,) = changed.form.branches
        plain = all(isinstance(stage, Project) for stage in branch.stages)
        bound = bounds.of(changed.id).get((self.lookup.high, WHOLE))
        if not bounds.is_single(branch.node) or not plain or bound is None:
            return []
        return [((against.order, WHOLE), bound)]

    # ---- words -----------------------------------------------------------------------------

    @property
    def links(self) -> tuple[Link, ...]:
        return (Link(self.change, Role.CHANGE), Link(self.against, _ROLES[self.moment]))

    @property
    def ends(self) -> tuple[str, str, Moment, Side]:
        """What tells it from all other halves."""
        return self.change, self.against, self.moment, self.change_side

    @property
    def other_ends(self) -> tuple[str, str, Moment, Side] | None:
        """Those of the other half: sides, roles and moments are exchanged. A trigger has none."""
        if self.moment is Moment.DURING:
            return None
        moment = Moment.AFTER if self.moment is Moment.BEFORE else Moment.BEFORE
        side = Side.RIGHT if self.change_side is Side.LEFT else Side.LEFT
        return self.against, self.change, moment, side

    def name_in(self, words: Words) -> str:
        return f"join {words.join_number(self.id)}"

    def label_in(self, words: Words) -> str:
        half = self.half_in(words)
        which = "" if half.partner is None else f", half {half.number} of 2"
        return f"join {half.join}{which}: {half.formula}"

    def how_in(self, words: Words) -> str:
        change, against = words.reference(self.change), words.reference(self.against)
        if self.moment is Moment.DURING:
            return f"bilinear: change of {change} against the change of {against}"
        return (
            f"bilinear: change of {change} against the integral of {against} "
            f"{self.moment.value} this step{self._range_words(words)}"
        )

    def why_in(self, words: Words) -> str:
        if self.lookup is not None:
            return (
                "a product is linear in each side: only pairs with a changed row are computed, and "
                "the stored rows that it can match are a range of their order, found by binary "
                "search"
            )
        if not self.keys_in(words):
            return (
                "a product is linear in each side, but there is no key to look up by: each "
                "changed row meets every stored row of the other side"
            )
        return (
            "a product is linear in each side: only pairs with a changed row are computed, the "
            "stored rows of their keys are looked up, and the join is never recomputed"
        )

    def keys_in(self, words: Words) -> tuple[str, ...]:
        return words.node(self.against).keys_in(words)

    def half_in(self, words: Words) -> Half:
        change, against = f"Δ{_argument(words.name(self.change))}", words.name(self.against)
        integral = f"I({against})" if self.moment is Moment.AFTER else f"z⁻¹I({against})"
        if self.moment is Moment.DURING:
            integral = f"Δ{_argument(against)}"
        left = self.change_side is Side.LEFT
        symbol = "⋈" if self.keys_in(words) else "×"
        sides = (self.change, self.against) if left else (self.against, self.change)
        keys = (words.node(side).keys_in(words) for side in sides)
        return Half(
            join=words.join_number(self.id),
            number=1 if self.moment is Moment.AFTER else 2,
            partner=words.partner(self),
            condition=" and ".join(f"{a} = {b}" for a, b in zip(*keys, strict=False)),
            formula=f"{change} {symbol} {integral}" if left else f"{integral} {symbol} {change}",
        )

    def _range_words(self, words: Words) -> str:
        """Which of the stored rows it looks up, where that is a range of them."""
        if self.lookup is None:
            return ""
        against, change = words.node(self.against), words.node(self.change)
        assert isinstance(against, Arrangement) and against.order is not None
        assert isinstance(change, Keyed)
        found = f", where {against.mark_words(against.order)} is in the range"
        for word, column in (("from", self.lookup.low), ("to", self.lookup.high)):
            if column is not None:
                found += f" {word} {change.mark_words(column)}"
        if told_apart(self, words.branches(self.id)) is not None:
            found += "; rows that are not told apart have their ranges added up first"
        return found

    # ---- stored forms ----------------------------------------------------------------------

    def check_sound(self, soundness: Soundness) -> None:
        change, against = soundness.input(self.change), soundness.input(self.against)
        if not isinstance(change, Indexed) or not isinstance(against, Indexed):
            raise soundness.refused("a join reads what no key finds")
        if self.lookup is not None:
            ends = [self.lookup.low, self.lookup.high]
            soundness.check_columns(ends, len(change.schema))
        if not 0 <= self.left_width <= len(self.schema):
            raise soundness.refused("its left rows are wider than its pairs")


def _core(bounds: Bounds, against: Node) -> int | None:
    """The column of the stored rows whose order they are in."""
    if not isinstance(against, Arrangement) or against.order is None:
        return None
    last = against.form.branches[0].stages[-1:]
    if len(against.form.branches) != 1 or not last or not isinstance(last[0], Project):
        return None
    project = last[0]
    mark = project.outputs[against.order][1]
    core = None if isinstance(mark, Column) else bounds.core_column(mark)
    shown = (
        i
        for i, (_, scalar) in enumerate(project.outputs)
        if isinstance(scalar, Column) and scalar.position == core
    )
    return next(shown, None)


def _keys_of(changed: Node) -> tuple[Scalar, ...]:
    """The key by which a changed row looks up the other side."""
    if isinstance(changed, Keyed):
        return changed.keys or ()
    if not isinstance(changed, Table):
        return ()
    # Its own contents are looked up.
    fields = changed.schema.fields
    columns = changed.key or changed.index
    return tuple(Column(i, fields[i].type, fields[i].nullable) for i in columns)


def told_apart(half: HalfJoin, branches: Iterable[Branch]) -> tuple[int, ...] | None:
    """The columns by which the rows of a change differ for those who read the pairs of a half join.

    Rows that agree in them make the same pairs for all branches, as far as their ranges agree.
    None: every row is looked at by itself, since the ranges do not decide what the pairs are, or
    since all columns are shown.
    """
    first, last = 0, half.left_width
    if half.change_side is Side.RIGHT:
        first, last = half.left_width, len(half.schema)
    found: set[int] = set()
    for branch in branches:
        match, *others = branch.stages or (None,)
        if not isinstance(match, Match) or not match.decides:
            return None
        keys = match.left_keys if half.change_side is Side.LEFT else match.right_keys
        found.update(*(key.references for key in keys))
        read = columns_read([stage for stage in others if stage is not None], len(half.schema))
        found.update(i - first for i in read if first <= i < last)
    return tuple(sorted(found)) if len(found) < last - first else None


_ROLES: Mapping[Moment, Role] = {
    Moment.BEFORE: Role.BEFORE,
    Moment.AFTER: Role.AFTER,
    Moment.DURING: Role.CHANGE,
}


def _argument(name: str) -> str:
    return f"({name})" if " " in name else name


def _pairs(
    meeting: Probe,
    columns: tuple[int, ...],
    names: list[str],
    change: Any,
    readers: Sequence[TraceReader],
) -> Iterator[Any]:
    (against,) = readers
    for table in meeting.batches(change, against, wanted=columns):
        yield table.rename_columns(names)
