"""The relational operators as pure functions on Z-sets.

The idea: with weights in a ring, a query operator is a function that can be classified by how it
treats addition, and that class is all the incremental rules need to know.

The laws, each held by a test:

    linear      filter_rows, map_rows, flat_map, negate, change_ring, count, weighted_sum,
                group_by, flatten; union_all is addition itself
    bilinear    product, equi_join
    neither     distinct, makeset; aggregate is linear only when its function is

Why this shape: each function takes its Z-sets first and returns a new Z-set. Weights are only
added and multiplied in the Z-set's own ring, so the functions serve every ring; the exceptions
are `distinct` and `distinct_change`, which need the order of the integers.

DBSP §4.2 with table 1, proposition 4.7 (H), §7.2 to §7.4.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

from rekindle.algebra.groups import INTEGERS, Group, Ring, total
from rekindle.algebra.zset import FiniteMap, IndexedZSet, ZSet, ZSetGroup

A = TypeVar("A", bound=Hashable)
B = TypeVar("B", bound=Hashable)
C = TypeVar("C", bound=Hashable)
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W")


def filter_rows(zset: ZSet[A, V], predicate: Callable[[A], bool]) -> ZSet[A, V]:
    """σ: keeps the rows that satisfy the predicate, with their weights. Linear.

    >>> filter_rows(ZSet.of({1: 1, 2: -3}), lambda row: row > 1)
    ZSet({2: -3})
    """
    return ZSet(((row, weight) for row, weight in zset if predicate(row)), zset.ring)


def map_rows(zset: ZSet[A, V], function: Callable[[A], B]) -> ZSet[B, V]:
    """map and π: replaces each row; rows that become equal add their weights. Linear.

    >>> map_rows(ZSet.of({1: 1, -1: 1, 2: 1}), abs)
    ZSet({1: 2, 2: 1})
    """
    return ZSet(((function(row), weight) for row, weight in zset), zset.ring)


def flat_map(zset: ZSet[A, V], function: Callable[[A], Iterable[B]]) -> ZSet[B, V]:
    """Replaces each row by any number of rows, each with the weight of its origin. Linear.

    >>> flat_map(ZSet.of({"ab": 2, "": 1}), list)
    ZSet({'a': 2, 'b': 2})
    """
    return ZSet(
        ((produced, weight) for row, weight in zset for produced in function(row)), zset.ring
    )


def union_all(left: ZSet[A, V], right: ZSet[A, V]) -> ZSet[A, V]:
    """UNION ALL is addition.

    >>> union_all(ZSet.of({"a": 1}), ZSet.of({"a": 1}))
    ZSet({'a': 2})
    """
    return left + right


def negate(zset: ZSet[A, V]) -> ZSet[A, V]:
    """Turns insertions into deletions and back. Linear.

    >>> negate(ZSet.of({"a": 1}))
    ZSet({'a': -1})
    """
    return -zset


def product(left: ZSet[A, V], right: ZSet[B, V]) -> ZSet[tuple[A, B], V]:
    """×: all pairs of rows; the weight of a pair is the product of the weights. Bilinear.

    >>> product(ZSet.of({"a": 2}), ZSet.of({"b": -1}))
    ZSet({('a', 'b'): -2})
    """
    multiply = left.ring.multiply
    return ZSet((((a, b), multiply(v, w)) for a, v in left for b, w in right), left.ring)


def equi_join(
    left: ZSet[A, V],
    right: ZSet[B, V],
    left_key: Callable[[A], K],
    right_key: Callable[[B], K],
    combine: Callable[[A, B], C],
) -> ZSet[C, V]:
    """⋈: combines the pairs of rows whose keys are equal, weights multiplied. Bilinear.

    >>> equi_join(ZSet.of({(1, "x"): 2}), ZSet.of({(1, "y"): 3, (2, "z"): 1}),
    ...           lambda a: a[0], lambda b: b[0], lambda a, b: a + b[1:])
    ZSet({(1, 'x', 'y'): 6})
    """
    multiply = left.ring.multiply
    matches = group_by(right, right_key)
    return ZSet(
        ((combine(a, b), multiply(v, w)) for a, v in left for b, w in matches[left_key(a)]),
        left.ring,
    )


def change_ring(zset: ZSet[A, V], function: Callable[[V], W], into: Ring[W]) -> ZSet[A, W]:
    """Replaces each weight; `function` must preserve + for this to be linear.

    >>> from rekindle.algebra.groups import RATIONALS
    >>> from fractions import Fraction
    >>> change_ring(ZSet.of({"a": 2}), Fraction, RATIONALS)
    ZSet({'a': Fraction(2, 1)})
    """
    return ZSet(((row, function(weight)) for row, weight in zset), into)


def distinct(zset: ZSet[A, int]) -> ZSet[A, int]:
    """The set of the rows with positive weight. Not linear.

    >>> distinct(ZSet.of({"a": 3, "b": -1}))
    ZSet({'a': 1})
    """
    return ZSet.from_rows(row for row, weight in zset if weight > 0)


def distinct_change(integral: ZSet[A, int], change: ZSet[A, int]) -> ZSet[A, int]:
    """H(i, d) = distinct(i + d) − distinct(i), looking only at the rows of d.

    >>> distinct_change(ZSet.of({"a": 1, "b": 5}), ZSet.of({"a": -1, "b": -1, "c": 2}))
    ZSet({'a': -1, 'c': 1})
    """

    def crossing(row: A, weight: int) -> int:
        before = integral.weight(row)
        return int(before + weight > 0) - int(before > 0)

    return ZSet(((row, crossing(row, weight)) for row, weight in change), integral.ring)


def group_by(zset: ZSet[A, V], key: Callable[[A], K]) -> IndexedZSet[K, A, V]:
    """G_p: splits a Z-set by key into an indexed Z-set. Linear.

    >>> group_by(ZSet.of({"joe": 1, "anne": -1}), lambda name: name[0])["a"]
    ZSet({'anne': -1})
    """
    buckets: dict[K, list[tuple[A, V]]] = {}
    for row, weight in zset:
        buckets.setdefault(key(row), []).append((row, weight))
    groupings = ((k, ZSet(pairs, zset.ring)) for k, pairs in buckets.items())
    return FiniteMap(groupings, ZSetGroup(zset.ring))


def aggregate(indexed: FiniteMap[K, V], function: Callable[[K, V], W], into: Group[W]) -> W:
    """Agg_a: the sum over the keys present of a(k, grouping).

    A key whose grouping became empty contributes nothing, even where a(k, ∅) ≠ 0. Without that
    rule the sum would run over every possible key, and GROUP BY would invent groups.

    >>> r = ZSet.of({"joe": 1, "jim": 1, "anne": -1})
    >>> counts = aggregate(group_by(r, lambda name: name[0]),
    ...                    lambda k, rows: makeset((k, count(rows))), ZSetGroup(INTEGERS))
    >>> counts == ZSet.from_rows([("j", 2), ("a", -1)])
    True
    """
    return total(into, (function(key, value) for key, value in indexed))


def flatten(indexed: IndexedZSet[K, A, V]) -> ZSet[tuple[K, A], V]:
    """flatmap (UNNEST): the pairs of a key and a row of its grouping. Linear; undoes group_by.

    It is the aggregate with a(k, s) = Σ s[x] · (k, x).

    >>> flatten(group_by(ZSet.of({"joe": 1}), lambda name: name[0]))
    ZSet({('j', 'joe'): 1})
    """

    def with_key(key: K, rows: ZSet[A, V]) -> ZSet[tuple[K, A], V]:
        return map_rows(rows, lambda row: (key, row))

    return aggregate(indexed, with_key, ZSetGroup(indexed.codomain.zero.ring))


def count(zset: ZSet[A, V]) -> V:
    """a_COUNT: the sum of the weights. Linear.

    >>> count(ZSet.of({"a": 3, "b": -1}))
    2
    """
    return total(zset.ring, (weight for _, weight in zset))


def weighted_sum(zset: ZSet[A, V], value: Callable[[A], V]) -> V:
    """a_SUM: the sum of weight × value(row), in the ring of the weights. Linear.

    To sum values of another ring, move the weights there first with `change_ring`.

    >>> weighted_sum(ZSet.of({(7, 2): 3, (7, 5): -1}), lambda row: row[1])
    1
    """
    multiply = zset.ring.multiply
    return total(zset.ring, (multiply(weight, value(row)) for row, weight in zset))


def makeset(value: A) -> ZSet[A, int]:
    """makeset: the singleton {value ↦ 1}. Not linear: makeset(0) is not empty.

    >>> makeset(0)
    ZSet({0: 1})
    """
    return ZSet(((value, 1),), INTEGERS)
