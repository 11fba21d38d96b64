"""The ring of relations: tuples that carry their own schema, added pointwise, multiplied by join.

A tuple is a partial function from column names to values, and tuples of one relation may differ in
their columns. That is what makes both operations total: any two relations can be added, and any
two can be joined,

    (R + S)(x) = R(x) + S(x)        (R * S)(x) = Σ R(a) · S(b)  over a ⋈ b = x.

0 is the empty relation, 1 maps the empty tuple to 1. It is the monoid algebra of tuples under the
natural join; the weights come from any ring, and * commutes when their product does. It is no
field and has zero divisors: two relations that do not match multiply to 0.

Ring of databases, definitions 3.1 and 3.2, proposition 3.4; F-IVM's relational payloads.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from rekindle.algebra.groups import Ring
from rekindle.algebra.zset import ZSet

V = TypeVar("V")


class Tuple(Mapping[str, Hashable]):
    """A typed tuple: column names with their values, equal whatever the order of the columns.

    >>> Tuple(a=1, b=2) == Tuple(b=2, a=1)
    True
    """

    __slots__ = ("_columns", "_hash")

    def __init__(self, columns: Mapping[str, Hashable] | None = None, /, **named: Hashable) -> None:
        self._columns = {**(columns or {}), **named}
        self._hash = hash(frozenset(self._columns.items()))

    def __getitem__(self, column: str) -> Any:
        return self._columns[column]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(self._columns)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Tuple) and self._columns == other._columns

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"<{', '.join(f'{name}: {value!r}' for name, value in self.items())}>"

    def joined(self, other: Tuple) -> Tuple | None:
        """{self} ⋈ {other}: the union of the columns, nothing where a shared one differs.

        >>> Tuple(a=1).joined(Tuple(b=2)), Tuple(a=1).joined(Tuple(a=2))
        (<a: 1, b: 2>, None)
        """
        mine = self._columns
        if any(name in mine and mine[name] != value for name, value in other.items()):
            return None
        return Tuple({**mine, **other._columns})

    def restricted(self, names: Iterable[str]) -> Tuple:
        """The tuple on those of the named columns that it has.

        >>> Tuple(a=1, b=2).restricted(["b", "c"])
        <b: 2>
        """
        return Tuple({name: self._columns[name] for name in names if name in self._columns})


@dataclass(frozen=True, slots=True)
class RelationRing(Generic[V]):
    """Relations of typed tuples with weights in a ring.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> ring = RelationRing(INTEGERS)
    >>> ring.multiply(ZSet.of({Tuple(a=1): 2}), ZSet.of({Tuple(a=1, b=5): 3, Tuple(a=4): 1}))
    ZSet({<a: 1, b: 5>: 6})
    """

    weights: Ring[V]

    @property
    def zero(self) -> ZSet[Tuple, V]:
        return ZSet((), self.weights)

    @property
    def one(self) -> ZSet[Tuple, V]:
        return self.singleton(Tuple())

    def singleton(self, row: Tuple) -> ZSet[Tuple, V]:
        """{row ↦ 1}."""
        return ZSet(((row, self.weights.one),), self.weights)

    def add(self, left: ZSet[Tuple, V], right: ZSet[Tuple, V], /) -> ZSet[Tuple, V]:
        return left + right

    def negate(self, value: ZSet[Tuple, V], /) -> ZSet[Tuple, V]:
        return -value

    def multiply(self, left: ZSet[Tuple, V], right: ZSet[Tuple, V], /) -> ZSet[Tuple, V]:
        multiply = self.weights.multiply
        pairs = ((a.joined(b), multiply(weight, other)) for a, weight in left for b, other in right)
        return ZSet(((row, weight) for row, weight in pairs if row is not None), self.weights)
