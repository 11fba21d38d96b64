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

from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.operators.arrangement import Arrangement, Keyed
from rekindle.circuit.operators.node import Indexed, Node, Passing
from rekindle.circuit.operators.running import Environment, Moment, Reading, Work
from rekindle.circuit.operators.sizes import GROUP_ROWS, Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Half, Link, Role, Words
from rekindle.circuit.stages import Branch, Match, columns_read
from rekindle.kernels.join import ChangeSide, Probe
from rekindle.kernels.spans import Span
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.reader import TraceReader


class Side(enum.Enum):
    LEFT = "left"
    RIGHT = "right"


@dataclass(frozen=True, slots=True)
class Lookup:
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
    lookup: Lookup | None = None

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
        names = [f"c{i}" for i in columns]
        fields = [
            pairs.field(1 + i).with_name(name) for i, name in zip(columns, names, strict=True)
        ]
        return Work(
            self.change,
            (Reading(self.against, self.moment),),
            partial(_pairs, meeting, tuple(columns), [WEIGHT, *names]),
            pa.schema([pairs.field(0), *fields]),
            is_product=True,
        )

    def _meeting(self, apart: tuple[int, ...] | None) -> Probe:
        side = ChangeSide.LEFT if self.change_side is Side.LEFT else ChangeSide.RIGHT
        span = None
        if self.lookup is not None:
            ends = (self.lookup.low, self.lookup.high)
            low, high = (None if i is None else f"c{i}" for i in ends)
            span = Span(low, high, None if apart is None else tuple(f"c{i}" for i in apart))
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
