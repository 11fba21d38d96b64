"""An arrangement: the integral of a linear form, indexed by keys."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.explain_words import scalar_words
from rekindle.circuit.operators.indexes import ByColumns, ByKeys, ByStamps, KeyedBy, Nulls
from rekindle.circuit.operators.node import Formed, Indexed, Stateful
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Words, named_keys
from rekindle.circuit.stages import LinearForm, Project

MARK = "mark"
"""How the names of columns begin that rows are ordered and looked up by (`circuit/ranges.py`)."""


class Keyed(Formed, Indexed):
    """The rows of a linear form by keys, for joins to look up or to go through."""

    if TYPE_CHECKING:

        @property
        def keys(self) -> tuple[Scalar, ...] | None: ...

        @property
        def order(self) -> int | None: ...

    @property
    def schema(self) -> Schema:
        return self.form.schema

    def name_in(self, words: Words) -> str:
        return words.form_name(self.form)

    def label_in(self, words: Words) -> str:
        return f"{self.name_in(words)} {self.key_words}"

    def title_in(self, words: Words) -> str:
        return f"{self.kind} {self.label_in(words)}"

    def keys_in(self, words: Words) -> tuple[str, ...]:
        return named_keys(self.keys, self.schema)

    @property
    def key_words(self) -> str:
        """What the rows are found by, and in which order."""
        if self.keys is None:
            return "by the whole row"
        names = named_keys(self.keys, self.schema)
        words = f"by {', '.join(names)}" if self.keys else "without a key"
        if self.order is None or not self.schema.names[self.order].startswith(MARK):
            return words
        return f"{words}, in the order of {self.mark_words(self.order)}"

    def is_mark(self, position: int) -> bool:
        """Is a column there for the order of the rows, or to be looked up by?"""
        if self.schema.names[position].startswith(MARK):
            return True
        stages = self.form.branches[0].stages
        return position == self.order and bool(stages) and isinstance(stages[-1], Project)

    def mark_words(self, position: int) -> str:
        """What a mark of the rows was computed from, in the last stage before it."""
        branch = self.form.branches[0]
        *before, last = branch.stages
        assert isinstance(last, Project)
        return scalar_words(last.outputs[position][1], replace(branch, stages=tuple(before)).output)

    def check_sound(self, soundness: Soundness) -> None:
        width = soundness.check_form(self.form)
        soundness.check_scalars(self.keys or (), width)
        soundness.check_columns([self.order], width)


@dataclass(frozen=True)
class Arrangement(Keyed, Stateful):
    """I(x), indexed by `keys`, or by the whole row where that is None.

    The rows of one key are in the order of the bigint column `order`, if there is one. Rows whose
    last columns are `stamps` are told apart by the other columns first; those that differ in one
    stamp alone are in its order.
    """

    form: LinearForm
    keys: tuple[Scalar, ...] | None
    nulls: Nulls = Nulls.LEFT_OUT
    order: int | None = None
    stamps: int = 0

    kind = "arrangement"
    prefix = "arrange"
    linearity = Linearity.LINEAR
    colour = "#2563eb"
    may_lose_rows = True

    @property
    def identity(self) -> tuple[object, ...]:
        keys = ("row",) if self.keys is None else tuple(key.text for key in self.keys)
        more: tuple[str, ...] = () if self.nulls is Nulls.LEFT_OUT else ("nulls",)
        if self.order is not None:
            more += (f"order {self.order}",)
        return (self.form.text, *keys, *more, *("stamped",) * self.stamps)

    @property
    def keyed_by(self) -> KeyedBy:
        if self.stamps:
            return ByStamps(self.schema, self.keys, self.stamps)
        if self.keys is None:
            return ByColumns(self.schema)
        return ByKeys(self.schema, self.keys, self.nulls, self.order)

    def how_in(self, words: Words) -> str:
        return f"integral, {'' if self.keys == () else 'indexed '}{self.key_words}"

    def why_in(self, words: Words) -> str:
        return (
            "an integral is linear: the change is added as one more sorted run, and what is stored "
            "is merged now and then, never recomputed"
        )
