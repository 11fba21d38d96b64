"""An exchange: a change brought into the order of a join's keys, for one step."""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.calculus.scalars import Scalar
from rekindle.calculus.terms import Linearity
from rekindle.circuit.operators.arrangement import Keyed
from rekindle.circuit.operators.indexes import ByKeys, Nulls
from rekindle.circuit.operators.sizes import Sizes
from rekindle.circuit.operators.words import Words
from rekindle.circuit.stages import LinearForm


@dataclass(frozen=True)
class Exchange(Keyed):
    """A change by the `keys` of a join, for this step only: its integral is not kept."""

    form: LinearForm
    keys: tuple[Scalar, ...]

    kind = "exchange"
    prefix = "route"
    linearity = Linearity.LINEAR
    colour = "#475569"
    order = None

    @property
    def identity(self) -> tuple[object, ...]:
        return (self.form.text, *(key.text for key in self.keys))

    @property
    def keyed_by(self) -> ByKeys:
        return ByKeys(self.schema, self.keys, Nulls.LEFT_OUT, None)

    def full_cost(self, sizes: Sizes, scale: float) -> int:
        return int(sizes.stored.get(self.id, 0) * scale)

    def rows_passed(self, sizes: Sizes) -> int | None:
        return sum(sizes.stored.get(branch.node, 0) for branch in self.form.branches)

    def how_in(self, words: Words) -> str:
        return f"this step's rows {self.key_words}, not kept"

    def why_in(self, words: Words) -> str:
        return (
            "only the change is joined: no join reads what it adds up to, so no state is kept for "
            "it"
        )
