"""Sums in any ring: what a user gives so that an aggregate of rows can be kept under changes.

A row is lifted to a value of the ring, the values of a group are added, and the last step makes a
result of the sum. Since the sum is linear, its change is the sum of the changed rows, a deletion
being the negated value; the other rows of the group are not needed. Only the additive group is
used for that. A ring multiplies as well, inside `lift`, where a row has several parts.

The three parts are kept as bytes, so that what is stored is the same whenever it is read: a ring of
this package in the plain form of `plain`, whatever a user wrote pickled. Loading pickled bytes runs
what is in them: who stores a sum decides whether it may be loaded.
"""

from __future__ import annotations

import base64
import pickle
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, TypeVar

from rekindle.algebra import plain
from rekindle.algebra.groups import Group, multiple, total

V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class RingSum(Generic[V]):
    """finish(Σ lift(row)); a row with a NULL in it is left out.

    >>> from rekindle.algebra.groups import INTEGERS
    >>> RingSum(INTEGERS, lambda x: x * x, str).result([((3,), 2), ((None,), 5), ((1,), -1)])
    '17'
    """

    group: Group[V]
    lift: Callable[..., V]
    finish: Callable[[V], Any]

    def lifted(self, row: tuple[Any, ...], weight: int) -> V:
        """The value of so many copies of a row."""
        if any(each is None for each in row):
            return self.group.zero
        return multiple(self.group, self.lift(*row), weight)

    def total(self, rows: Iterable[tuple[tuple[Any, ...], int]]) -> V:
        """The value of weighted rows."""
        return total(self.group, [self.lifted(row, weight) for row, weight in rows])

    def result(self, rows: Iterable[tuple[tuple[Any, ...], int]]) -> Any:
        """What the aggregate of weighted rows is."""
        return self.finish(self.total(rows))


@dataclass(frozen=True, slots=True)
class StoredSum:
    """The parts of a sum, in bytes."""

    group: bytes
    lift: bytes
    finish: bytes

    @property
    def text(self) -> str:
        """All of it as one word, which `parse` reads."""
        parts = (self.group, self.lift, self.finish)
        return ".".join(base64.b64encode(part).decode() for part in parts)

    @classmethod
    def parse(cls, text: str) -> StoredSum:
        return cls(*map(base64.b64decode, text.split(".")))

    def load(self) -> RingSum[Any]:
        """The sum itself."""
        return _loaded(self)


@lru_cache(maxsize=256)
def _loaded(stored: StoredSum) -> RingSum[Any]:
    return RingSum(load_group(stored.group), pickle.loads(stored.lift), pickle.loads(stored.finish))


def load_group(data: bytes) -> Any:
    """The ring that bytes stand for."""
    return plain.loads(data) if plain.is_plain(data) else pickle.loads(data)
