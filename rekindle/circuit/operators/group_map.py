"""Group map: any function of the rows of a group.

A per-key operator in general: f(x + Δx) − f(x) on the groups that Δx touches. A kernel gathers the
rows of these groups before and after the change, or as many of them as the function's reach says
are enough, and Spark computes what they become (`spark/group_maps.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, assert_never

import pyarrow as pa

from rekindle.calculus.bodies import Measures
from rekindle.calculus.scalars import Column
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import (
    Body,
    Distance,
    Linearity,
    Quantiles,
    Reach,
    RunningFrame,
    SlidingFrame,
    TopRows,
    with_stamps,
)
from rekindle.circuit.operators.arrangement import Arrangement
from rekindle.circuit.operators.bounds import (
    WHOLE,
    Bound,
    Bounds,
    Earlier,
    Frontier,
    Leaf,
    Need,
    of_columns,
)
from rekindle.circuit.operators.indexes import Nulls
from rekindle.circuit.operators.node import Passing
from rekindle.circuit.operators.running import Cut, Environment, IntegralRead, Moment, Work
from rekindle.circuit.operators.sizes import GROUP_ROWS, Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Link, Role, Words
from rekindle.circuit.stages import Branch, LinearForm, Project
from rekindle.kernels.nested_time import groups_at_every_stamp, stamped_group_schema
from rekindle.kernels.regroup import deciding_rows, group_schema, touched_groups, touched_onwards
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.reader import TraceReader


@dataclass(frozen=True)
class GroupMap(Passing):
    """The touched groups of an arrangement, computed anew from their rows before and after.

    With an `reach` that goes `onwards`, what the rows before a change became is read from the
    arrangement `kept` of the node's own results.
    """

    arrangement: str
    keys: tuple[int, ...]
    body: Body
    reach: Reach | None
    stamps: int = 0

    kind = "group map"
    prefix = "regroup"
    linearity = Linearity.PER_KEY
    colour = "#86198f"

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.arrangement, self.body.text, _identity_of(self.reach))

    @property
    def inputs(self) -> tuple[str, ...]:
        return (self.arrangement,)

    @property
    def schema(self) -> Schema:
        return with_stamps(self.body.schema, self.stamps)

    @property
    def bounds(self) -> int:
        """Where the stamps and ends of its groups stand among the columns that they become.

        They are keys to an aggregate, and to others what follows the rows of a group.
        """
        return len(self.keys) if isinstance(self.body, Measures) else len(self.body.schema)

    @cached_property
    def kept(self) -> Arrangement | None:
        """The arrangement of its results that it reads as it was before the step, if it does."""
        if not isinstance(self.reach, RunningFrame):
            return None
        fields = self.schema.fields
        return Arrangement(
            LinearForm((Branch(self.id, self.schema),), self.schema),
            tuple(Column(i, fields[i].type, fields[i].nullable) for i in self.keys),
            Nulls.KEPT,
            self.reach.column,
        )

    @property
    def is_recomputed(self) -> bool:
        """Is its one group all rows, each of which matters?"""
        return not self.keys and self.reach is None

    # ---- running ---------------------------------------------------------------------------

    @property
    def is_announced(self) -> bool:
        """An aggregate without keys has a result over no rows."""
        return not self.keys and isinstance(self.body, Measures)

    def work(self, environment: Environment, apart: tuple[int, ...] | None = None) -> Work:
        """The rows of touched groups under the moment that they belong to (`kernels.regroup`)."""
        layout = environment.layout(self.arrangement).schema
        before = IntegralRead(self.arrangement, Moment.BEFORE)
        after = IntegralRead(self.arrangement, Moment.AFTER)
        cut, schema = Cut.BETWEEN_KEYS, group_schema(layout)
        match self.reach:
            case _ if self.stamps:
                schema = stamped_group_schema(layout, self.stamps)
                return Work(
                    self.arrangement, (before,), partial(_stamped, self.stamps), schema, cut
                )
            case RunningFrame():
                assert self.kept is not None
                kept = IntegralRead(self.kept.id, Moment.BEFORE)
                schema = group_schema(environment.layout(kept.key).schema)
                kernel = partial(_onwards, self.reach)
                return Work(self.arrangement, (before, kept), kernel, schema, cut)
            case TopRows() | Quantiles():
                deciding = partial(_deciding, self.reach)
                return Work(self.arrangement, (before, after), deciding, schema, Cut.KEYS_ALONE)
            case SlidingFrame() | None:
                touched = partial(_touched, self.reach)
                return Work(self.arrangement, (before, after), touched, schema, cut)
            case _:
                assert_never(self.reach)

    def output_schema(self, environment: Environment) -> Any:
        return pa.schema([(WEIGHT, pa.int64()), *environment.payload(self.schema)])

    # ---- costs -----------------------------------------------------------------------------

    def incremental_cost(self, sizes: Sizes) -> Cost:
        rows = sizes.moved.get(self.arrangement, 0)
        return Cost(2 * self._rows_of_groups(rows, sizes), rows)

    def _rows_of_groups(self, changed: int, sizes: Sizes) -> int:
        """The rows of the groups that so many changed rows touch."""
        whole = sizes.stored.get(self.arrangement, 0) + changed
        if self.is_recomputed:
            return whole
        match self.reach:
            case None:
                rows = changed * GROUP_ROWS
            case TopRows():
                rows = changed * self.reach.rows
            case SlidingFrame(distance=Distance.ROWS):
                rows = changed * (2 * self.reach.furthest + 1)
            case SlidingFrame():
                rows = changed * GROUP_ROWS
            case Quantiles():
                rows = changed * 2 * len(self.reach.fractions)
            case RunningFrame():
                # A change at the end, or one at a random place of a single large group?
                rows = changed * GROUP_ROWS if self.keys else whole // 2
            case _:
                assert_never(self.reach)
        return min(whole, rows)

    def full_cost(self, sizes: Sizes, scale: float) -> int:
        return int(sizes.stored.get(self.arrangement, 0) * scale)

    # ---- what time leaves behind -----------------------------------------------------------

    def frontier_in(self, bounds: Bounds) -> Frontier:
        """Results of a group show its keys first, or its rows with results beside them."""
        shown = getattr(self.body, "shown_keys", None)
        if self.stamps or shown is None:
            return {}
        columns = shown(self.keys)
        before = bounds.of(self.arrangement)
        return {(columns[c], part): bound for (c, part), bound in before.items() if c in columns}

    def needs_in(self, bounds: Bounds) -> Sequence[Need]:
        keys = () if self.stamps else self.keys
        below = of_columns(bounds.of(self.arrangement), keys)
        needs = [Need(self.arrangement, (*below, *self._out_of_reach(bounds)))]
        if self.kept is not None:
            needs.append(Need(self.kept.id, of_columns(bounds.of(self.kept.id), self.keys)))
        return needs

    def _out_of_reach(self, bounds: Bounds) -> tuple[tuple[Leaf, Bound], ...]:
        """Below which no row is near a later change, or comes after one, in the order.

        A row without a time is near those without one, all of which stay.
        """
        if self.stamps:
            return ()
        frontier = bounds.of(self.arrangement)
        match self.reach:
            case SlidingFrame(distance=Distance.VALUES):
                time = _time_of(bounds, self.arrangement, self.reach.column)
                bound = None if time is None else frontier.get((time, WHOLE))
                if time is None or bound is None:
                    return ()
                return (((time, WHOLE), Earlier(bound, self.reach.furthest)),)
            case RunningFrame():
                return of_columns(frontier, [self.reach.column])
        return ()

    # ---- words -----------------------------------------------------------------------------

    @property
    def links(self) -> tuple[Link, ...]:
        return (Link(self.arrangement, Role.CHANGE_AND_BEFORE),)

    def name_in(self, words: Words) -> str:
        return str(getattr(self.body, "display", self.body.text))

    def label_in(self, words: Words) -> str:
        which = f"by {', '.join(self.keys_in(words))}" if self.keys else "of all rows"
        return f"{self.name_in(words)} {which}"

    def how_in(self, words: Words) -> str:
        which = "each touched group" if self.keys else "the one group"
        match self.reach:
            case TopRows(rows=count):
                rows = "first row" if count == 1 else f"first {count} rows"
                return f"per key: from the {rows} of {which}, in order"
            case SlidingFrame():
                return f"per key: Spark recomputes the rows around a change of {which}"
            case RunningFrame():
                return f"per key: Spark recomputes {which} from the first change on"
            case Quantiles(fractions=fractions):
                places = ", ".join(f"{f:g}" for f in fractions)
                return f"per key: from the values at {places} of {which}, in order"
            case None:
                if self.keys:
                    return f"per key: Spark recomputes {which} from its rows"
                return "recomputed: its one group is all rows"
            case _:
                assert_never(self.reach)

    def why_in(self, words: Words) -> str:
        if self.is_recomputed:
            return (
                "not linear, and there is no key to tell untouched rows by: every change computes "
                "it anew from all its rows"
            )
        match self.reach:
            case SlidingFrame():
                return (
                    f"not linear, but a row depends on {_near_words(self.reach)} only: the rows "
                    "around a change are computed before and after it, and no others are read"
                )
            case RunningFrame():
                return (
                    "not linear, but a row follows from the one before it: the last result "
                    "before a change is kept, and no rows before that are read"
                )
            case Quantiles():
                return (
                    "not linear, but the values at some ranks decide it: the integral is in "
                    "order and counts its rows, so they are found by binary search"
                )
            case TopRows() | None:
                return (
                    "not linear, but each group is a function of its own rows: only the groups "
                    "that a change touches are computed, before and after it"
                )
            case _:
                assert_never(self.reach)

    def keys_in(self, words: Words) -> tuple[str, ...]:
        names = words.node(self.arrangement).schema.names
        return tuple(names[i] for i in self.keys)

    # ---- stored forms ----------------------------------------------------------------------

    def check_sound(self, soundness: Soundness) -> None:
        width = len(soundness.input(self.arrangement).schema)
        reach = None if self.reach is None else self.reach.column
        soundness.check_columns([*self.keys, reach], width)

    @property
    def identities(self) -> Mapping[str, str]:
        return {} if self.kept is None else {"kept": self.kept.id}

    def identify(
        self, soundness: Soundness, inputs: tuple[str, ...], identities: Mapping[str, object]
    ) -> None:
        super().identify(soundness, inputs, identities)
        if self.kept is not None:
            kept = identities.get("kept")
            if not isinstance(kept, str):
                raise soundness.refused("the arrangement of its results has no identity")
            vars(self.kept)["id"] = kept


def _time_of(bounds: Bounds, arrangement: str, order: int) -> int | None:
    """The column of an arrangement that is the time which its rows are in the order of."""
    node = bounds.node(arrangement)
    assert isinstance(node, Arrangement)
    found = set[int | None]()
    for branch in node.form.branches:
        last = branch.stages[-1] if branch.stages else None
        if not isinstance(last, Project):
            return None
        core = bounds.core_column(last.outputs[order][1])
        places = (
            i
            for i, (_, scalar) in enumerate(last.outputs)
            if core is not None and isinstance(scalar, Column) and scalar.position == core
        )
        found.add(next(places, None))
    return found.pop() if len(found) == 1 else None


_EARLY_NAMES: Mapping[type[Any], str] = {SlidingFrame: "Near", RunningFrame: "Onwards"}
"""Words in identities of state that exists: they outlive any better name of a class."""


def _identity_of(reach: Reach | None) -> object:
    """What tells a group map with a reach from one with another."""
    if reach is None:
        return None
    if isinstance(reach, TopRows):
        return reach.rows
    name = type(reach).__name__
    return _EARLY_NAMES.get(type(reach), name) + repr(reach).removeprefix(name)


def _near_words(near: SlidingFrame) -> str:
    """The rows that a row depends on."""
    if near.distance is Distance.VALUES:
        return "rows whose order is near its own"
    if not near.after:
        return f"the {near.before} before it and itself"
    if not near.before:
        return f"the {near.after} after it and itself"
    return f"the {near.before} before it, the {near.after} after it and itself"


# ---- kernels: each takes a piece of the change and the integrals that the work reads ------------


def _stamped(stamps: int, change: Any, readers: Sequence[TraceReader]) -> Iterator[Any]:
    (before,) = readers
    yield groups_at_every_stamp(change, before, stamps)


def _onwards(reach: RunningFrame, change: Any, readers: Sequence[TraceReader]) -> Iterator[Any]:
    before, kept = readers
    yield touched_onwards(change, before, kept, reach)


def _deciding(
    reach: TopRows | Quantiles, keys: Any, readers: Sequence[TraceReader]
) -> Iterator[Any]:
    before, after = readers
    yield deciding_rows(keys, before, after, reach)


def _touched(
    reach: SlidingFrame | None, change: Any, readers: Sequence[TraceReader]
) -> Iterator[Any]:
    before, after = readers
    yield touched_groups(change, before, after, reach)
