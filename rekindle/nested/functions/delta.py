"""Figure 4.3: the delta of every construct, so that h(a ⊕ da) = h(a) ⊕ δ(h)(a, da).

δ takes h: A → B to δ(h): A × A → B; theorem 12 is the law above, `equations.incrementality`.

Two rules carry the chapter. A lambda is changed through what is free in it, so δ(curry(f)) derives
f by its first argument only. The other half is owed until the lambda is applied:

    app(f ⊕ df, a ⊕ da) = app(f, a) ⊕ app(delta₀(f), (a, da)) ⊕ app(df, a ⊕ da)

where f is a value, so its term has to be found again. That is why functional values are closures,
and why delta₀ is a construct of the language and has a delta itself (`evaluation.delta0`).
"""

from __future__ import annotations

from typing import assert_never

from rekindle.errors import DefinitionError
from rekindle.nested.functions.terms import (
    Apply,
    Bang,
    Compose,
    Curry,
    Defined,
    Delta0,
    Identity,
    Minus,
    Pair,
    Plus,
    Projection,
    Term,
    Zero,
    added,
    ignoring,
    pick,
    plus_of,
    repair,
    side_by_side,
    zero_of,
)
from rekindle.nested.functions.types import Function, Product, Type, twice


def delta(term: Term) -> Term:
    """δ(h): A × A → B: the change of h's output, from an input and its change.

    >>> from rekindle.nested.functions.types import INTEGER
    >>> print(delta(Plus(INTEGER)).source)
    (ℤ × ℤ) × (ℤ × ℤ)
    """
    both = twice(term.source)
    match term:
        case Identity():
            return pick(both, 2)
        case Bang() | Projection() | Zero() | Plus() | Minus() | Delta0():
            return term @ pick(both, 2)
        case Compose(outer, inner):
            return delta(outer) @ Pair(inner @ pick(both, 1), delta(inner))
        case Pair(first, second):
            return Pair(delta(first), delta(second))
        case Curry(body):
            return Curry(delta_by_first(body))
        case Apply(function):
            return delta_of_application(function)
        case Defined():
            return _given(term)
        case _:
            assert_never(term)


def delta_of_application(type_: Type) -> Term:
    """δ(app) = ⊕⟨app ∘ ((delta₀ ∘ π₁) × id), app ∘ (π₂ × ⊕_A)⟩ ∘ repair.

    The first summand is what f does with the change of its argument, the second what the change of
    f does with the new argument.
    """
    assert isinstance(type_, Function)
    argument, functions = type_.argument, twice(type_)
    pair = Product(type_, argument)
    derived = Delta0(type_)
    old_function = Apply(derived.target) @ side_by_side(
        derived @ pick(functions, 1), Identity(twice(argument))
    )
    new_function = Apply(type_) @ side_by_side(pick(functions, 2), plus_of(argument))
    return added(old_function, new_function) @ repair(pair, pair)


def delta_by_first(term: Term) -> Term:
    """δ_{C,-}(h): (C × C) × A → B, of h: C × A → B whose second argument stays."""
    free, argument = _arguments(term)
    given = Product(twice(free), argument)
    return delta(term) @ Pair(
        Pair(pick(given, 1, 1), pick(given, 2)),
        Pair(pick(given, 2, 1), ignoring(zero_of(argument), given)),
    )


def delta_by_second(term: Term) -> Term:
    """δ_{-,A}(h): C × (A × A) → B, of h: C × A → B whose first argument stays."""
    free, argument = _arguments(term)
    given = Product(free, twice(argument))
    return delta(term) @ Pair(
        Pair(pick(given, 1), pick(given, 1, 2)),
        Pair(ignoring(zero_of(free), given), pick(given, 2, 2)),
    )


def higher_delta(term: Term, order: int) -> Term:
    """Δⁿh = curry(δ(Δⁿ⁻¹h)), Δ⁰h = h: A → B; Δ¹h: A → B^A awaits the change (section 4.3).

    >>> from rekindle.nested.functions.types import BAG
    >>> print(higher_delta(Identity(BAG), 2).target)
    (Bag^Bag)^Bag
    """
    return term if order == 0 else Curry(delta(higher_delta(term, order - 1)))


def _arguments(term: Term) -> tuple[Type, Type]:
    if isinstance(term.source, Product):
        return term.source.first, term.source.second
    raise DefinitionError("a partial delta is of two arguments", detail=f"not of {term.source}")


def _given(term: Defined) -> Term:
    given = term.derive(term)
    if given.source != twice(term.takes) or given.target != term.gives:
        raise DefinitionError(
            f"the delta of '{term.name}' does not type",
            detail=f"it goes from {given.source} to {given.target}",
            hint=f"give a term from {twice(term.takes)} to {term.gives}",
        )
    return given
