"""Group: linear aggregates per group, kept as accumulators.

The accumulators are a linear function of the rows, so their change is a sum. What the group gives
is not linear but per key: the old buffers of the touched groups leave and the new ones enter, which
the stage `Finish` after it makes results of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pyarrow as pa

from rekindle.aggregates.accumulators import Accumulator
from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity, Measure
from rekindle.circuit.explain_words import measure_words
from rekindle.circuit.operators.bounds import Bounds, Frontier, Need
from rekindle.circuit.operators.indexes import ByGroup
from rekindle.circuit.operators.node import Formed, Passing, Stateful
from rekindle.circuit.operators.running import Environment, IntegralRead, Moment, Session, Work
from rekindle.circuit.operators.sizes import Cost, Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Words
from rekindle.circuit.stages import LinearForm, Project
from rekindle.columns import column_names
from rekindle.kernels.aggregate import (
    Existence,
    aggregate_layout,
    buffer_change,
    buffer_schema,
    empty_buffers,
    state_change,
)
from rekindle.traces.arrays import WEIGHT
from rekindle.traces.layout import TraceLayout
from rekindle.traces.reader import TraceReader


@dataclass(frozen=True)
class Group(Formed, Stateful, Passing):
    """Accumulators of linear aggregates for each group; gives the old and new buffers.

    Where `merged` is given, a row stands for that many rows (`terms.Aggregate`).
    """

    form: LinearForm
    keys: tuple[tuple[str, Scalar], ...]
    measures: tuple[Measure, ...]
    schema: Schema
    merged: Scalar | None = None

    kind = "group"
    prefix = "group"
    linearity = Linearity.PER_KEY
    colour = "#6d28d9"
    may_lose_rows = True

    @property
    def identity(self) -> tuple[object, ...]:
        measures = (
            f"{m.function.value}/{m.text}/{','.join(a.text for a in m.arguments)}"
            for m in self.measures
        )
        keys = (key.text for _, key in self.keys)
        merged = () if self.merged is None else ("merged", self.merged.text)
        return (self.form.text, *keys, "measures", *measures, *merged)

    @property
    def arguments(self) -> tuple[Scalar, ...]:
        """What the measures are taken of, in their order."""
        return tuple(argument for measure in self.measures for argument in measure.arguments)

    # ---- running ---------------------------------------------------------------------------

    @property
    def is_announced(self) -> bool:
        """A group without keys gives a row over no rows."""
        return not self.keys

    @property
    def keyed_by(self) -> ByGroup:
        merged = () if self.merged is None else (self.merged,)
        scalars = (*(key for _, key in self.keys), *self.arguments, *merged)
        return ByGroup(self.form.schema, scalars, len(self.keys))

    def laid_out(self, session: Session) -> TraceLayout:
        keys = Schema(self.schema.fields[: len(self.keys)])
        return aggregate_layout(session.payload(keys), session.accumulators(self))

    def summing(self, environment: Environment) -> Callable[[Any], Any] | None:
        return partial(
            state_change,
            layout=environment.layout(self.id),
            accumulators=environment.accumulators(self),
            merged=None if self.merged is None else f"x{len(self.arguments)}",
        )

    def work(self, environment: Environment, apart: tuple[int, ...] | None = None) -> Work:
        accumulators = environment.accumulators(self)
        keys = column_names(len(self.keys))
        read = [WEIGHT, *keys, *environment.buffer_names(self)]
        names = [WEIGHT, *column_names(len(read) - 1)]
        full = buffer_schema(environment.layout(self.id), accumulators)
        first = None
        if environment.announces(self):
            empty = empty_buffers(accumulators).add_column(0, WEIGHT, pa.array([1], pa.int64()))
            first = empty.select(read).rename_columns(names)
        return Work(
            self.id,
            (IntegralRead(self.id, Moment.BEFORE),),
            partial(_buffers, accumulators, self._existence, read, names),
            pa.schema([full.field(r).with_name(n) for r, n in zip(read, names, strict=True)]),
            first=first,
        )

    @property
    def _existence(self) -> Existence:
        return Existence.WITH_ROWS if self.keys else Existence.ALWAYS

    # ---- costs -----------------------------------------------------------------------------

    def incremental_cost(self, sizes: Sizes) -> Cost:
        read = sizes.moved_of(self.form)
        rows = 2 * min(read, sizes.stored.get(self.id) or read)
        return Cost(read + rows, rows)

    # ---- what time leaves behind -----------------------------------------------------------

    def frontier_in(self, bounds: Bounds) -> Frontier | None:
        below = bounds.of_form(self.form)
        return None if below is None else bounds.after(Project(self.keys), below)

    def needs_in(self, bounds: Bounds) -> Sequence[Need]:
        return [Need(self.id, tuple(bounds.of(self.id).items()))]

    # ---- words -----------------------------------------------------------------------------

    def name_in(self, words: Words) -> str:
        return f"groups by {', '.join(self.keys_in(words))}" if self.keys else "one group"

    def label_in(self, words: Words) -> str:
        return f"group by {', '.join(self.keys_in(words))}" if self.keys else "one group of all"

    def how_in(self, words: Words) -> str:
        kept = [measure_words(measure, self.form.schema) for measure in self.measures]
        which = "the touched groups" if self.keys else "the one group"
        return f"per key: accumulators of {which}: {', '.join(kept) or 'existence'}"

    def why_in(self, words: Words) -> str:
        return (
            "the accumulators are linear: the change is added to those of the touched groups, "
            "whose old result leaves and new one enters; the rows of a group are never read again"
        )

    def keys_in(self, words: Words) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keys)

    # ---- stored forms ----------------------------------------------------------------------

    def check_sound(self, soundness: Soundness) -> None:
        width = soundness.check_form(self.form)
        soundness.check_scalars(self.keyed_by.scalars, width)


def _buffers(
    accumulators: tuple[Accumulator, ...],
    existence: Existence,
    read: list[str],
    names: list[str],
    change: Any,
    readers: Sequence[TraceReader],
) -> Iterator[Any]:
    (before,) = readers
    output = buffer_change(change, before, accumulators, existence)
    yield output.select(read).rename_columns(names)
