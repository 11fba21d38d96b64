"""Iterations that follow what arrives: the paper's approximate algorithm (sections 2 and 12).

A step f(X, S) is split as a(h(X, S)) with X invariant, and the states T follow the streams:

    ΔX ← g(ΔS)
    n times:  ΔT ← T ⊗̂ h(ΔX, ΔS),  ΔX ← a(ΔT)
    T ← override(T, ΔT),  return a(T)

It is approximate: what the change does to the rest of the state is followed only along the keys
that the change meets. `override` stands where the paper writes ⊗; see `diffusion.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rekindle.errors import UnsupportedError
from rekindle.mrql_language import terms as t
from rekindle.mrql_language.diffusion import diffuse, diffusion_text, override
from rekindle.mrql_language.inference import Joins
from rekindle.mrql_language.interpreter import Interpreter
from rekindle.mrql_language.monoids import INVARIANT, UNION, Monoid
from rekindle.mrql_language.near import aligned
from rekindle.mrql_language.normalise import normalise
from rekindle.mrql_language.split import Component, Split, split
from rekindle.mrql_language.text import text
from rekindle.mrql_language.values import Bag, Value, elements


@dataclass(frozen=True, slots=True)
class Iteration:
    """A repeat as the split of its step, over the variable that is iterated."""

    variable: str
    start: t.Term
    step: Split
    steps: int

    def __str__(self) -> str:
        diffusions = (
            f"⊗̂  {each.name} : {diffusion_text(each.merger)}" for each in self.step.components
        )
        return "\n".join([str(self.step), *diffusions])

    def begin(self, run: Interpreter) -> tuple[Value, tuple[Value, ...]]:
        """The iterated value and the states over what is there at first."""
        current = run.evaluate(self.start)
        states = self.step.start()
        for _ in range(self.steps):
            states = self.step.state(run, {self.variable: current})
            current = self._answer(run, states, current)
        return current, states

    def advance(
        self,
        run: Interpreter,
        states: Sequence[Value],
        change: Interpreter,
        threshold: float = 0.0,
    ) -> tuple[Value, tuple[Value, ...]]:
        """The new value and states: `run` reads what does not change, `change` what arrived.

        Keys with reals are taken for equal within the threshold (`near.py`).
        """
        self._check()
        current = change.evaluate(self.start)
        moved: tuple[Value, ...] = self.step.start()
        for _ in range(self.steps):
            came = self.step.state(change, {self.variable: current})
            moved = tuple(
                diffuse(each.merger, old, aligned(each.merger, old, new, threshold))
                for each, old, new in zip(self.step.components, states, came, strict=True)
            )
            current = self._answer(run, moved, current)
        after = tuple(
            override(each.merger, old, new)
            for each, old, new in zip(self.step.components, states, moved, strict=True)
        )
        return self._answer(run, after, current), after

    @property
    def without_key(self) -> tuple[Component, ...]:
        """States that are fed by the iterated value and have no key: the rows before and after a
        step would both be in them."""
        return tuple(
            each
            for each in self.step.components
            if each.merger == UNION and self.variable in t.free(each.homomorphism)
        )

    def _check(self) -> None:
        for each in self.without_key:
            raise UnsupportedError(
                f"the state {each.name} of the iteration has no key to be followed by",
                detail=f"it merges by ⊎: {text(each.query)}",
                hint="evaluate the iteration anew, or follow it exactly",
            )

    def _answer(self, run: Interpreter, states: Sequence[Value], current: Value) -> Value:
        found = self.step.result(run, states, {self.variable: current})
        parts = elements(found)
        flagged = parts and all(
            isinstance(part, tuple) and len(part) == 2 and isinstance(part[1], bool)
            for part in parts
        )
        return Bag(part for part, _ in parts) if flagged else found


def iteration(query: t.Term, joins: Joins = Joins.ANY) -> Iteration:
    """A repeat with a limit, split; X merges by ⊎ where the streams come in through it alone."""
    found = normalise(query)
    if not isinstance(found, t.Repeat) or not isinstance(found.step.shape, str):
        raise UnsupportedError("only a repeat over one collection is split")
    if not isinstance(found.limit, t.Constant):
        raise UnsupportedError("a repeat is split only with a limit that is a number")
    monoid: Monoid = INVARIANT if t.sources(found.step.body) else UNION
    variable = found.step.shape
    step = split(found.step.body, joins, rho={variable: monoid})
    return Iteration(variable, found.start, step, max(int(found.limit.value), 1))
