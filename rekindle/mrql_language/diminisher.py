"""Diminishing: taking out of a state what deleted rows had put in (definition 6, theorem 3).

    (X ⊗ Y) ⊗̃ Y = X

⊎ diminishes by bag difference, + by subtraction, □ by □, a product componentwise, and ↑⊕ by a left
outer join that drops a pair whose value equals the one that is taken out:

    X ↓⊕̃ Y = {(k, a ⊕̃ b) | (k,a) ∈ X, (k,b) ∈ Y, a ≠ b} ⊎ {(k, a) | (k,a) ∈ X, k ∉ π1(Y)}

Two cares. The law needs that no pair of X has the zero for its value: a group whose values add up
to 0 is otherwise taken for one without rows. A state with the number of rows (`split`'s deletions)
has no such pair. And min, max, ∧, ∨ and monoids of the user have no diminisher: it is refused, so
that who asks keeps the rows instead.
"""

from __future__ import annotations

from collections import Counter

from rekindle.errors import UnsupportedError
from rekindle.mrql_language.arithmetic import subtract
from rekindle.mrql_language.monoids import SUM, UNION, Grouped, Invariant, Monoid, Times, merge
from rekindle.mrql_language.values import Bag, Value


def can_diminish(monoid: Monoid) -> bool:
    """Whether a monoid has a diminisher."""
    match monoid:
        case Grouped():
            return can_diminish(monoid.of)
        case Times():
            return all(can_diminish(part) for part in monoid.parts)
        case _:
            return monoid in (SUM, UNION) or isinstance(monoid, Invariant)


def diminish(monoid: Monoid, state: Value, change: Value) -> Value:
    """`state ⊗̃ change`"""
    match monoid:
        case Grouped():
            gone = dict(change)
            return Bag(
                (key, diminish(monoid.of, value, gone[key]) if key in gone else value)
                for key, value in state
                if key not in gone or value != gone[key]
            )
        case Times():
            return tuple(
                diminish(part, x, y) for part, x, y in zip(monoid.parts, state, change, strict=True)
            )
        case Invariant():
            return merge(monoid, state, change)
        case _ if monoid == SUM:
            return subtract(state, change)
        case _ if monoid == UNION:
            return Bag((Counter(state) - Counter(change)).elements())
        case _:
            raise UnsupportedError(
                f"what was merged by {monoid} cannot be taken out again",
                hint="keep the rows, and compute it from them",
            )
