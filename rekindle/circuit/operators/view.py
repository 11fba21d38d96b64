"""A view: an output, whose contents are the integral of its changes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Linearity
from rekindle.circuit.operators.indexes import BySpread
from rekindle.circuit.operators.node import Formed, Indexed, Stateful
from rekindle.circuit.operators.sizes import Sizes
from rekindle.circuit.operators.soundness import Soundness
from rekindle.circuit.operators.words import Words
from rekindle.circuit.stages import LinearForm


@dataclass(frozen=True)
class View(Formed, Stateful, Indexed):
    """An output: a view's changes, and its contents as their integral, arranged by the row."""

    name: str
    form: LinearForm

    kind = "view"
    prefix = "view"
    linearity = Linearity.LINEAR
    colour = "#334155"

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.form.text,)

    @property
    def schema(self) -> Schema:
        return self.form.schema

    def called(self, identity: str) -> View:
        """The view under an identity of its own, whatever its form."""
        view = replace(self)
        vars(view)["id"] = identity
        return view

    def provides(self, keys: tuple[Scalar, ...] | None) -> bool:
        return keys is None

    def full_cost(self, sizes: Sizes, scale: float) -> int:
        """What is filled is compared with what it was."""
        return int(sizes.stored.get(self.id, 0) * (1 + scale))

    def name_in(self, words: Words) -> str:
        return self._names(words)[0]

    def label_in(self, words: Words) -> str:
        return f"view {' = '.join(self._names(words))}"

    def _names(self, words: Words) -> list[str]:
        return words.view_names(self.id) or [self.name]

    def how_in(self, words: Words) -> str:
        return "integral of the output"

    def why_in(self, words: Words) -> str:
        return (
            "an integral is linear: the change is added to the view's contents, which are never "
            "recomputed"
        )

    def check_sound(self, soundness: Soundness) -> None:
        if soundness.check_form(self.form) != len(self.schema):
            raise soundness.refused("its columns are not those of its rows")


@dataclass(frozen=True)
class IndexedView(View):
    """An output whose rows are found by some of its columns, which many of them may share."""

    index: tuple[int, ...]

    kind = "indexed view"
    prefix = "indexed"

    @property
    def identity(self) -> tuple[object, ...]:
        return (*super().identity, f"index {self.index}")

    @property
    def keyed_by(self) -> BySpread:
        return BySpread(self.schema, self.index)

    def provides(self, keys: tuple[Scalar, ...] | None) -> bool:
        return False

    def how_in(self, words: Words) -> str:
        names = ", ".join(self.schema.names[i] for i in self.index)
        return f"{super().how_in(words)}, found by {names}"

    def check_sound(self, soundness: Soundness) -> None:
        super().check_sound(soundness)
        soundness.check_columns(self.index, len(self.schema))
