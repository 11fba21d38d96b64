"""Figure 4.2 and what follows from it: laws as two terms that give the same for every input.

An equation is built, so it types, and `holds` runs both sides. Each function below states one line
of the chapter for the terms or types it is given; a property test supplies them.
"""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.errors import DefinitionError
from rekindle.nested.functions.delta import delta, delta_by_second
from rekindle.nested.functions.evaluation import Samples, evaluate, same
from rekindle.nested.functions.terms import (
    Apply,
    Bang,
    Curry,
    Delta0,
    Identity,
    Pair,
    Term,
    Value,
    added,
    ignoring,
    minus_of,
    pick,
    plus_of,
    rassoc,
    side_by_side,
    swap,
    zero_of,
)
from rekindle.nested.functions.types import Function, Product, Type, twice


@dataclass(frozen=True, slots=True)
class Equation:
    """left = right, for two terms of the same types."""

    left: Term
    right: Term

    def __post_init__(self) -> None:
        one, other = self.left, self.right
        if (one.source, one.target) != (other.source, other.target):
            raise DefinitionError(
                "the sides of an equation have different types",
                detail=f"{one.source} → {one.target} and {other.source} → {other.target}",
            )

    def holds(self, value: Value, samples: Samples) -> bool:
        """Both sides give the same for this input."""
        return same(
            self.left.target, evaluate(self.left, value), evaluate(self.right, value), samples
        )


# Figure 4.2.


def identities(f: Term) -> tuple[Equation, ...]:
    """f ∘ id_A = id_B ∘ f = f.

    >>> from rekindle.nested.functions.terms import Minus
    >>> from rekindle.nested.functions.types import INTEGER
    >>> [law.holds(5, lambda type_: []) for law in identities(Minus(INTEGER))]
    [True, True]
    """
    return Equation(f @ Identity(f.source), f), Equation(Identity(f.target) @ f, f)


def associativity(h: Term, g: Term, f: Term) -> Equation:
    """(h ∘ g) ∘ f = h ∘ (g ∘ f)."""
    return Equation((h @ g) @ f, h @ (g @ f))


def projections(f1: Term, f2: Term) -> tuple[Equation, ...]:
    """f_i = π_i ∘ ⟨f₁, f₂⟩."""
    pair = Pair(f1, f2)
    return Equation(f1, pick(pair.target, 1) @ pair), Equation(f2, pick(pair.target, 2) @ pair)


def pairing(g1: Term, g2: Term, f: Term) -> Equation:
    """⟨g₁, g₂⟩ ∘ f = ⟨g₁ ∘ f, g₂ ∘ f⟩."""
    return Equation(Pair(g1, g2) @ f, Pair(g1 @ f, g2 @ f))


def discarding(f: Term) -> Equation:
    """!_B ∘ f = !_A."""
    return Equation(Bang(f.target) @ f, Bang(f.source))


def currying(f: Term) -> Equation:
    """f = app ∘ (curry(f) × id_A)."""
    function = Curry(f)
    assert isinstance(function.target, Function)
    lambda_and_argument = side_by_side(function, Identity(function.target.argument))
    return Equation(f, Apply(function.target) @ lambda_and_argument)


def group_laws(type_: Type) -> tuple[Equation, ...]:
    """⊕_A is associative and commutative, with 0_A and ⊖_A; lemmas 19 and 20 for A × B and B^A.

    Each equation is over (A × A) × A, and reads as much of it as it needs.
    """
    plus, same_ = plus_of(type_), Identity(type_)
    three = Product(twice(type_), type_)
    one, two = pick(three, 2), pick(three, 1)
    zero = ignoring(zero_of(type_), type_)
    return (
        Equation(
            plus @ side_by_side(plus, same_),
            plus @ side_by_side(same_, plus) @ rassoc(type_, type_, type_),
        ),
        Equation(plus @ Pair(same_, zero) @ one, one),
        Equation(plus @ Pair(zero, same_) @ one, one),
        Equation(plus @ Pair(same_, minus_of(type_)) @ one, zero @ one),
        Equation(plus @ two, plus @ swap(type_, type_) @ two),
    )


# What else the appendix uses.


def currying_back(g: Term) -> Equation:
    """curry(app ∘ (g × id_A)) = g: with `currying`, curry is an isomorphism (lemma 20)."""
    assert isinstance(g.target, Function)
    return Equation(Curry(Apply(g.target) @ side_by_side(g, Identity(g.target.argument))), g)


def application_distributes(type_: Function) -> Equation:
    """app(f ⊕ df, a) = app(f, a) ⊕ app(df, a), over (B^A × B^A) × A (A.4.1)."""
    argument = Identity(type_.argument)
    both = twice(type_)
    return Equation(
        Apply(type_) @ side_by_side(plus_of(type_), argument),
        added(
            Apply(type_) @ side_by_side(pick(both, 1), argument),
            Apply(type_) @ side_by_side(pick(both, 2), argument),
        ),
    )


def axiom_of_delta0(f: Term) -> Equation:
    """delta₀ ∘ curry(f) = curry(δ_{-,A}(f))."""
    function = Curry(f)
    return Equation(Delta0(function.target) @ function, Curry(delta_by_second(f)))


def incrementality(h: Term) -> Equation:
    """Theorem 12: h ∘ ⊕_A = ⊕_B⟨h ∘ π₁, δ(h)⟩, if it holds for every primitive of h.

    >>> from rekindle.nested.functions.primitives import TIMES
    >>> incrementality(TIMES).holds(((3, 5), (1, -2)), lambda type_: [])
    True
    """
    return Equation(h @ plus_of(h.source), added(h @ pick(twice(h.source), 1), delta(h)))
