"""Diffusion: the part of a merged state that is not as it was (definition 5).

    ↑⊕ diffuses as a right outer join,  X ↓⊕ Y = {(k, a ⊕ b) | (k,a) ∈ X, (k,b) ∈ Y}
                                               ⊎ {(k, b) | (k,b) ∈ Y, k ∉ π1(X)},
    a product componentwise, any other monoid as itself.

The law that holds for every ⊕: X ↓ Y is what X ↑ Y has for the keys of Y, so that

    override(X, X ↓ Y) = X ↑ Y

where `override` puts a pair in the place of the one with its key. The paper states
T ⊗ (T ⊗̂ ΔT) = T ⊗ (T ⊗ ΔT) instead. That is true of ⊕ with a ⊕ a = a (min, max, ∧, ∨, □) only: for
a sum, a key of T alone has a on the left and a + a on the right. So the last step of the iteration
here overrides where the paper's merges again.
"""

from __future__ import annotations

from rekindle.mrql_language.monoids import Grouped, Monoid, Times, merge
from rekindle.mrql_language.values import Bag, Value


def diffuse(monoid: Monoid, state: Value, change: Value) -> Value:
    """`state ⊗̂ change`"""
    match monoid:
        case Grouped():
            known = dict(state)
            return Bag(
                (key, merge(monoid.of, known[key], value) if key in known else value)
                for key, value in change
            )
        case Times():
            return tuple(
                diffuse(part, x, y) for part, x, y in zip(monoid.parts, state, change, strict=True)
            )
        case _:
            return merge(monoid, state, change)


def override(monoid: Monoid, state: Value, change: Value) -> Value:
    """The state with the change in the place of what has its keys."""
    match monoid:
        case Grouped():
            return Bag({**dict(state), **dict(change)}.items())
        case Times():
            return tuple(
                override(part, x, y) for part, x, y in zip(monoid.parts, state, change, strict=True)
            )
        case _:
            return change


def diffusion_text(monoid: Monoid) -> str:
    """The diffusion of a monoid, as the paper writes it."""
    match monoid:
        case Grouped():
            return f"↓[{monoid.of}]"
        case Times():
            parts = (diffusion_text(part) for part in monoid.parts)
            return "×".join(f"({part})" if "×" in part else part for part in parts)
        case _:
            return str(monoid)
