"""Keys that are equal but for rounding and drift (section 2, the last paragraph).

The keys of a state may hold reals that move from step to step, as the centroids of k-means do. A
key of a change is then taken for the key of the state that it is near to: the same but for reals
that differ by at most a threshold. Of several, the first; none, and it is a key of its own.
"""

from __future__ import annotations

from rekindle.mrql_language.monoids import Grouped, Monoid, merge_all
from rekindle.mrql_language.values import Bag, Record, Value


def near(left: Value, right: Value, threshold: float) -> bool:
    """Whether two keys are the same but for reals within the threshold.

    >>> near(("a", 1.0), ("a", 1.25), 0.5), near(("a", 1.0), ("b", 1.0), 0.5)
    (True, False)
    """
    if isinstance(left, float) or isinstance(right, float):
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        return numbers and abs(left - right) <= threshold
    if isinstance(left, Record) and isinstance(right, Record):
        return near(left.fields, right.fields, threshold)
    if isinstance(left, tuple) and isinstance(right, tuple):
        return len(left) == len(right) and all(
            near(x, y, threshold) for x, y in zip(left, right, strict=True)
        )
    return bool(left == right)


def aligned(monoid: Monoid, state: Value, change: Value, threshold: float) -> Value:
    """The change with the state's keys for its own where they are near."""
    if not isinstance(monoid, Grouped):
        return change
    known = [key for key, _ in state]

    def moved(key: Value) -> Value:
        return next((other for other in known if near(key, other, threshold)), key)

    return merge_all(monoid, Bag((moved(key), value) for key, value in change))
