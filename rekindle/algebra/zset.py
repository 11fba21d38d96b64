"""Z-sets: finite maps from rows to weights, where a row of weight zero is absent.

The idea: a table, and a change to a table, are the same kind of thing. A row inserted twice has
weight 2, a deleted row weight −1, and applying a change is addition.

The law: maps with finite support into a group are a group again, added point by point. So
`FiniteMap` is written once for any group of values. A `ZSet` is a finite map into a ring (the
integers unless said otherwise; a richer ring gives each row a richer value). An `IndexedZSet` is
a finite map into Z-sets, and nesting goes as deep as one likes.

Why this shape: two maps are equal exactly when their stored entries are, because `consolidate`
runs in the one constructor and nowhere else. No operator has to remember to drop zeros. Zero
means equal to the zero of the group, never a test of one component of the value.

DBSP §4.1 (Z-sets), definitions 4.1 and 4.2 (sets and positive Z-sets), §7.3 (indexed Z-sets).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import Any, Generic, Self, TypeAlias, TypeVar, overload

from rekindle.algebra.groups import INTEGERS, Group, Ring

K = TypeVar("K", bound=Hashable)
A = TypeVar("A", bound=Hashable)
B = TypeVar("B", bound=Hashable)
V = TypeVar("V")
W = TypeVar("W")


def consolidate(pairs: Iterable[tuple[K, V]], group: Group[V]) -> dict[K, V]:
    """The sum of all values of each key, without the keys that sum to zero.

    >>> consolidate([("a", 1), ("b", 2), ("a", -1)], INTEGERS)
    {'b': 2}
    """
    sums: dict[K, V] = {}
    for key, value in pairs:
        sums[key] = group.add(sums[key], value) if key in sums else value
    zero = group.zero
    return {key: value for key, value in sums.items() if value != zero}


@dataclass(frozen=True, slots=True, init=False, repr=False, match_args=False)
class FiniteMap(Generic[K, V]):
    """A map from keys to values of a group that is zero except at finitely many keys.

    Iterating gives (key, value) pairs, in no particular order that callers may rely on.

    >>> m = FiniteMap([("a", 1), ("b", 2), ("a", 1)], INTEGERS)
    >>> m["a"], m["absent"], len(m)
    (2, 0, 2)
    """

    codomain: Group[V]
    _entries: dict[K, V]

    def __init__(self, pairs: Iterable[tuple[K, V]], codomain: Group[V]) -> None:
        object.__setattr__(self, "codomain", codomain)
        object.__setattr__(self, "_entries", consolidate(pairs, codomain))

    def __getitem__(self, key: K) -> V:
        return self._entries.get(key, self.codomain.zero)

    def __contains__(self, key: object) -> bool:
        return key in self._entries

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return iter(self._entries.items())

    def __len__(self) -> int:
        return len(self._entries)

    def __hash__(self) -> int:
        return hash(frozenset(self._entries.items()))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._entries!r})"

    def support(self) -> frozenset[K]:
        """The keys whose value is not zero.

        >>> FiniteMap([("a", 1), ("b", 0)], INTEGERS).support()
        frozenset({'a'})
        """
        return frozenset(self._entries)

    def __add__(self, other: Self) -> Self:
        return type(self)(chain(self, other), self.codomain)

    def __neg__(self) -> Self:
        negate = self.codomain.negate
        return type(self)(((key, negate(value)) for key, value in self), self.codomain)

    def __sub__(self, other: Self) -> Self:
        return self + -other


@dataclass(frozen=True, slots=True, init=False, repr=False, eq=False, match_args=False)
class ZSet(FiniteMap[A, V]):
    """Z[A]: a finite map from rows to weights in a ring.

    `ZSet(pairs, ring)` is the general constructor; `of` and `from_rows` default to the integers.

    >>> r = ZSet.of({"joe": 1, "anne": -1})
    >>> (r + r).weight("joe")
    2
    >>> r - r == ZSet.of({})
    True
    """

    codomain: Ring[V]

    def __init__(self, pairs: Iterable[tuple[A, V]], ring: Ring[V]) -> None:
        FiniteMap.__init__(self, pairs, ring)

    @overload
    @staticmethod
    def of(weights: Mapping[B, int]) -> ZSet[B, int]: ...
    @overload
    @staticmethod
    def of(weights: Mapping[B, W], ring: Ring[W]) -> ZSet[B, W]: ...
    @staticmethod
    def of(weights: Mapping[Any, Any], ring: Ring[Any] = INTEGERS) -> ZSet[Any, Any]:
        """The Z-set with these weights.

        >>> ZSet.of({"a": 2, "b": 0})
        ZSet({'a': 2})
        """
        return ZSet(weights.items(), ring)

    @overload
    @staticmethod
    def from_rows(rows: Iterable[B]) -> ZSet[B, int]: ...
    @overload
    @staticmethod
    def from_rows(rows: Iterable[B], ring: Ring[W]) -> ZSet[B, W]: ...
    @staticmethod
    def from_rows(rows: Iterable[Any], ring: Ring[Any] = INTEGERS) -> ZSet[Any, Any]:
        """The Z-set in which each occurrence of a row weighs 1.

        >>> ZSet.from_rows("abba")
        ZSet({'a': 2, 'b': 2})
        """
        return ZSet(((row, ring.one) for row in rows), ring)

    @property
    def ring(self) -> Ring[V]:
        """The ring of the weights."""
        return self.codomain

    def weight(self, row: A) -> V:
        """m[x]: the weight of a row, zero when it is absent.

        >>> ZSet.of({"a": 2}).weight("b")
        0
        """
        return self[row]

    def is_set(self) -> bool:
        """isset: every row present has weight 1.

        >>> ZSet.from_rows("ab").is_set(), ZSet.from_rows("aa").is_set()
        (True, False)
        """
        one = self.codomain.one
        return all(weight == one for _, weight in self)

    def is_positive(self: ZSet[A, int]) -> bool:
        """ispositive: no row has a negative weight, so the Z-set is a bag.

        >>> ZSet.of({"a": 2}).is_positive(), ZSet.of({"a": -1}).is_positive()
        (True, False)
        """
        return all(weight > 0 for _, weight in self)


IndexedZSet: TypeAlias = FiniteMap[K, ZSet[A, V]]
"""Z[A][K]: a Z-set for each key; a key whose Z-set is empty is absent."""


@dataclass(frozen=True, slots=True)
class ZSetGroup(Generic[A, V]):
    """The abelian group of Z-sets of rows A over a ring.

    >>> group: ZSetGroup[str, int] = ZSetGroup(INTEGERS)
    >>> group.add(ZSet.of({"a": 1}), ZSet.of({"a": -1})) == group.zero
    True
    """

    ring: Ring[V]

    @property
    def zero(self) -> ZSet[A, V]:
        return ZSet((), self.ring)

    def add(self, left: ZSet[A, V], right: ZSet[A, V], /) -> ZSet[A, V]:
        return left + right

    def negate(self, value: ZSet[A, V], /) -> ZSet[A, V]:
        return -value


@dataclass(frozen=True, slots=True)
class FiniteMapGroup(Generic[K, V]):
    """The abelian group of finite maps from keys K into a group."""

    codomain: Group[V]

    @property
    def zero(self) -> FiniteMap[K, V]:
        return FiniteMap((), self.codomain)

    def add(self, left: FiniteMap[K, V], right: FiniteMap[K, V], /) -> FiniteMap[K, V]:
        return left + right

    def negate(self, value: FiniteMap[K, V], /) -> FiniteMap[K, V]:
        return -value


def indexed_group(ring: Ring[V]) -> FiniteMapGroup[K, ZSet[A, V]]:
    """The abelian group of indexed Z-sets Z[A][K] over a ring.

    >>> group: FiniteMapGroup[str, ZSet[int, int]] = indexed_group(INTEGERS)
    >>> len(group.zero)
    0
    """
    return FiniteMapGroup(ZSetGroup(ring))
