"""Categorical features: a cofactor over relations as columns of zeros and ones, and its counts.

In the categorical cofactor ring the entry of two categories is the relation of the value pairs that
occur, with their counts; that of a category and a number x is the relation of values with Σx. So it
holds, sparsely, what one-hot encoded columns have as sums of products:

    Σ [c = v]·x = entry(c, x)(v)        Σ [c = v]·[d = w] = entry(c, d)(v, w)

and [c = v]·[c = w] is 0 for two values. The columns of all values of a category add up to 1, as the
intercept does; the smallest value is therefore left out and is what the others are compared with.

The same counts give the mutual information of two categories, Σ p(v,w)·log(p(v,w) / (p(v)·p(w))),
and the tree over the categories with the largest sum of it approximates their joint distribution
best among all trees (Chow and Liu).

F-IVM (regression ring with categorical variables; mutual information).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from math import fsum, log
from typing import Any, TypeAlias

from rekindle.algebra.cofactor import Cofactor, Entry
from rekindle.algebra.relations import Tuple
from rekindle.errors import DefinitionError

Pair: TypeAlias = tuple[str, str]
Edge: TypeAlias = tuple[str, str, float]


@dataclass(frozen=True, slots=True)
class OneHot:
    """A cofactor of numbers, the name of each of its features, and the values of each category."""

    cofactor: Cofactor[Fraction]
    names: tuple[str, ...]
    levels: Mapping[str, tuple[Any, ...]]


def level_name(feature: str, value: object) -> str:
    """What the column of one value of a category is called.

    >>> level_name("colour", "red"), level_name("sold", True)
    ('colour=red', 'sold=true')
    """
    return f"{feature}={str(value).lower() if isinstance(value, bool) else value}"


def one_hot(
    cofactor: Cofactor[Entry], names: Sequence[str], categorical: Collection[str]
) -> OneHot:
    """The cofactor after each category became a column for each value but the smallest.

    >>> from rekindle.algebra.cofactor import categorical_ring, category, quantity
    >>> ring = categorical_ring(2)
    >>> rows = [("red", 3), ("blue", 4), ("red", 5)]
    >>> lifted = [ring.multiply(ring.lift(0, category("colour", c)), ring.lift(1, quantity(x)))
    ...           for c, x in rows]
    >>> found = one_hot(ring.add(ring.add(*lifted[:2]), lifted[2]), ["colour", "x"], ["colour"])
    >>> found.names, [int(each) for each in found.cofactor.sums]
    (('colour=red', 'x'), [2, 12])
    """
    levels: dict[str, tuple[Any, ...]] = {}
    places: dict[tuple[int, Tuple], int] = {}
    expanded: list[str] = []
    for axis, name in enumerate(names):
        if name not in categorical:
            places[axis, Tuple()] = len(expanded)
            expanded.append(name)
            continue
        found = sorted(row[name] for row in cofactor.sums[axis].support())
        levels[name] = tuple(found)
        for value in found[1:]:
            places[axis, Tuple({name: value})] = len(expanded)
            expanded.append(level_name(name, value))

    def place(axis: int, row: Tuple) -> int | None:
        own = row.restricted([names[axis]] if names[axis] in categorical else [])
        return places.get((axis, own))

    zero = Fraction(0)
    sums = [zero] * len(expanded)
    products = [[zero] * len(expanded) for _ in expanded]
    for i, entry in enumerate(cofactor.sums):
        for row, weight in entry:
            at = place(i, row)
            if at is not None:
                sums[at] = weight
        for j, both in enumerate(cofactor.products[i]):
            for row, weight in both:
                at, other = place(i, row), place(j, row)
                if at is not None and other is not None:
                    products[at][other] = weight
    count = cofactor.count.weight(Tuple())
    return OneHot(
        Cofactor(count, tuple(sums), tuple(map(tuple, products))), tuple(expanded), levels
    )


def mutual_information(counts: Entry, first: str, second: str) -> float:
    """How much one category tells of another, in nats, from the counts of their value pairs.

    >>> from rekindle.algebra.cofactor import category, CATEGORIES
    >>> same = CATEGORIES.add(
    ...     CATEGORIES.multiply(category("a", 0), category("b", 0)),
    ...     CATEGORIES.multiply(category("a", 1), category("b", 1)))
    >>> round(mutual_information(same, "a", "b"), 6)
    0.693147
    """
    total = Fraction(0)
    ours: dict[Any, Fraction] = {}
    theirs: dict[Any, Fraction] = {}
    for row, weight in counts:
        total += weight
        ours[row[first]] = ours.get(row[first], Fraction(0)) + weight
        theirs[row[second]] = theirs.get(row[second], Fraction(0)) + weight
    if not total:
        raise DefinitionError("there are no rows to learn from")
    parts = [
        float(weight / total) * log(weight * total / (ours[row[first]] * theirs[row[second]]))
        for row, weight in counts
    ]
    return max(0.0, fsum(parts))  # fsum: the order in which rows are read must not show.


def pairwise_information(
    cofactor: Cofactor[Entry], names: Sequence[str], categorical: Collection[str]
) -> dict[Pair, float]:
    """The mutual information of every two categories, in the order of the features."""
    places = [i for i, name in enumerate(names) if name in categorical]
    return {
        (names[i], names[j]): mutual_information(cofactor.products[i][j], names[i], names[j])
        for i, j in combinations(places, 2)
    }


def maximum_spanning_tree(weights: Mapping[Pair, float]) -> list[Edge]:
    """The tree with the largest sum of weights, heaviest edge first; of equals the first given.

    >>> maximum_spanning_tree({("a", "b"): 0.2, ("a", "c"): 0.5, ("b", "c"): 0.3})
    [('a', 'c', 0.5), ('b', 'c', 0.3)]
    """
    parts = {name: frozenset([name]) for pair in weights for name in pair}
    tree: list[Edge] = []
    for (one, other), weight in sorted(weights.items(), key=lambda item: -item[1]):
        if parts[one] is not parts[other]:
            merged = parts[one] | parts[other]
            parts.update(dict.fromkeys(merged, merged))
            tree.append((one, other, weight))
    return tree
