"""Circuits on streams: the language in which a query becomes its incremental version.

A stream node denotes a stream of Z-sets, one value for each transaction. `Apply` is a lifted
operator ↑op; `Integrate`, `Differentiate` and `Delay` are I, D and z⁻¹; `Incremental` stands for
(↑op)^Δ = D ∘ ↑op ∘ I until a law replaces it by something cheaper; `Update` is what a per-key
operator becomes: a function of the previous integral and of the change, such as H of
Proposition 4.7. DBSP, sections 2 and 3.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from rekindle.calculus.terms import Constant, Fix, Source, Term


@dataclass(frozen=True, slots=True)
class Input:
    """The stream of a named table or view, of a constant, which changes once, or of a recursion.

    A recursion is a scope of its own; its incremental form is that of `calculus.stamps`.
    """

    source: Source | Constant | Fix

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return ()


@dataclass(frozen=True, slots=True)
class Apply:
    """↑op: the operator at the root of `operator`, applied at every time to the inputs' values."""

    operator: Term
    inputs: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class Integrate:
    """I: the running sum."""

    child: Stream

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Differentiate:
    """D: each value less the one before."""

    child: Stream

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Delay:
    """z⁻¹: the value of one transaction ago."""

    child: Stream

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return (self.child,)


@dataclass(frozen=True, slots=True)
class Sum:
    """+: the sum of streams."""

    inputs: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class Incremental:
    """(↑op)^Δ, not yet simplified."""

    operator: Term
    inputs: tuple[Stream, ...]


@dataclass(frozen=True, slots=True)
class Update:
    """A per-key operator's change, f(x+Δx) − f(x), from z⁻¹(I(Δx)) and Δx."""

    operator: Term
    previous: Stream
    change: Stream

    @property
    def inputs(self) -> tuple[Stream, ...]:
        return (self.previous, self.change)


Stream: TypeAlias = Input | Apply | Integrate | Differentiate | Delay | Sum | Incremental | Update
