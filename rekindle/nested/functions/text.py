"""A term in the notation of the chapter, with its shorthands put back.

bin⟨f, g⟩ is bin ∘ ⟨f, g⟩, f × g is ⟨f ∘ π₁, g ∘ π₂⟩, π₁₂ is π₁ ∘ π₂, 0! is 0 ∘ !. The groups of
pairs and functions are written ⊕, ⊖ and 0, as those of ground types, and not as the terms that they
are made of. Types are left out: those of the whole term, which `explained` writes, fix them.
"""

from __future__ import annotations

from itertools import takewhile
from typing import assert_never

from rekindle.nested.functions.delta import delta
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
    minus_of,
    plus_of,
    repair,
    zero_of,
)
from rekindle.nested.functions.types import UNIT, Function, Product, twice

_INDICES = {1: "₁", 2: "₂"}


def text(term: Term) -> str:
    """The term as the chapter writes it.

    >>> from rekindle.nested.functions.primitives import TIMES
    >>> print(text(TIMES))
    ×
    >>> print(text(delta(TIMES)))
    ⊕⟨×⟨π₁₁, π₂₂⟩, ×⟨π₁₂, ⊕⟨π₂₁, π₂₂⟩⟩⟩
    """
    return " ∘ ".join(_shortened(_chain(term)))


def explained(term: Term) -> str:
    """The term and its delta, each with its types.

    >>> from rekindle.nested.functions.types import INTEGER
    >>> print(explained(Apply(Function(INTEGER, INTEGER))))
    h: (ℤ^ℤ) × ℤ → ℤ
      = app
    δ(h): ((ℤ^ℤ) × ℤ) × ((ℤ^ℤ) × ℤ) → ℤ
      = ⊕⟨app ∘ ((delta₀ ∘ π₁) × id), app ∘ (π₂ × ⊕)⟩ ∘ repair
    """
    change = delta(term)
    return "\n".join(
        (
            f"h: {term.source} → {term.target}",
            f"  = {text(term)}",
            f"δ(h): {change.source} → {change.target}",
            f"  = {text(change)}",
        )
    )


def _chain(term: Term) -> list[Term]:
    """g ∘ f ∘ … as a list, outermost first; what has a name of its own stays whole."""
    if isinstance(term, Compose) and _name(term) is None:
        return [*_chain(term.outer), *_chain(term.inner)]
    return [term]


def _shortened(chain: list[Term]) -> list[str]:
    """The parts of a composition, with neighbours that have a shorthand made one."""
    match chain:
        case [Projection(), Projection(), *_]:
            path = list(takewhile(lambda link: isinstance(link, Projection), chain))
            picked = "π" + "".join(_link(link)[1:] for link in path)
            return [picked, *_shortened(chain[len(path) :])]
        case [constant, Bang(), *rest] if constant.source == UNIT:
            return [f"{_link(constant)}!", *_shortened(rest)]
        case [operator, Pair() as pair, *rest] if _is_operator(operator) and _name(pair) is None:
            halves = f"⟨{text(pair.first)}, {text(pair.second)}⟩"
            return [f"{_link(operator)}{halves}", *_shortened(rest)]
        case [link, *rest]:
            return [_link(link), *_shortened(rest)]
        case _:
            return []


def _link(term: Term) -> str:
    """One part of a composition, in parentheses if it needs them."""
    name = _name(term)
    if name is not None:
        return name
    match term:
        case Identity():
            return "id"
        case Compose():
            return f"({text(term)})"
        case Bang():
            return "!"
        case Projection(index, _):
            return f"π{_INDICES[index]}"
        case Pair(first, second):
            sides = _sides(first, second)
            return f"({sides})" if sides else f"⟨{text(first)}, {text(second)}⟩"
        case Curry(body):
            return f"curry({text(body)})"
        case Apply():
            return "app"
        case Zero():
            return "0"
        case Plus():
            return "⊕"
        case Minus():
            return "⊖"
        case Defined():
            return term.name
        case Delta0():
            return "delta₀"
        case _:
            assert_never(term)


def _name(term: Term) -> str | None:
    """What the chapter calls a term that is made of others: the group of a type, or repair."""
    source, target = term.source, term.target
    if isinstance(target, Product | Function):
        if source == twice(target) and term == plus_of(target):
            return "⊕"
        if source == UNIT and term == zero_of(target):
            return "0"
        if source == target and term == minus_of(target):
            return "⊖"
    match source:
        case Product(Product() as left, Product() as right) if term == repair(left, right):
            return "repair"
    return None


def _is_operator(term: Term) -> bool:
    return isinstance(term, Plus | Defined) or _name(term) == "⊕"


def _sides(first: Term, second: Term) -> str | None:
    """f × g, if the halves of a pair read one half of their input each."""
    one, other = _of_side(first, 1), _of_side(second, 2)
    return None if one is None or other is None else f"{one} × {other}"


def _of_side(term: Term, side: int) -> str | None:
    """f, if the term is f ∘ π_i."""
    match _chain(term):
        case [*links, Projection(index, _)] if links and index == side:
            parts = _shortened(links)
            return parts[0] if len(parts) == 1 else f"({' ∘ '.join(parts)})"
        case _:
            return None
