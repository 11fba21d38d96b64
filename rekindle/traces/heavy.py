"""Heavy keys: those with so many rows that whoever has one has most of the work.

Rows are told to tasks by ranges of keys. The rows of a light key stay together, which costs nothing
to put together later. A heavy key is divided, by rows, where the operator allows that; and ranges
whose keys are many on one end are cut where the rows are, and not where the keys are.

Both are decided from sizes that are measured. Runs are sorted, so that a key with many rows is met
twice in a row by whoever looks at every so many of them, and counted by binary search then.
Lupei's thesis, section 5.1.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from rekindle.traces.arrays import Int64s
from rekindle.traces.partition import KEY_HIGH, KEY_LOW, KeyRange, key_ranges
from rekindle.traces.reader import TraceReader

LIGHT = 500_000
"""A key of so few rows, or whose rows make so few pairs, is light whatever the others have."""
UNEVEN = 2.0
"""Ranges are cut by rows when one has so many times what it would have if all had the same."""


@dataclass(frozen=True, slots=True)
class Heavy:
    """A key, and how many rows each of some traces has of it."""

    key: int
    rows: tuple[int, ...]

    @property
    def load(self) -> int:
        """How many pairs the rows of one make with those of the others."""
        return int(np.prod(self.rows, dtype=np.int64))

    @property
    def largest(self) -> int:
        """Which of the traces has the most rows of it."""
        return int(np.argmax(self.rows))


class Share(NamedTuple):
    """One of so many parts of the rows that a trace has of a key."""

    key: int
    trace: int
    number: int
    of: int


def threshold(rows: int, partitions: int) -> int:
    """A key of more rows or pairs is heavy: half of what each task has of all rows."""
    return max(LIGHT, rows // (2 * partitions))


def heavy_keys(readers: Sequence[TraceReader], least: int) -> list[Heavy]:
    """The keys of which one of the readers has at least so many rows, ascending."""
    found = np.unique(np.concatenate([reader.repeated(least) for reader in readers]))
    sizes = np.stack([reader.sizes(found) for reader in readers])
    kept = np.flatnonzero(sizes.max(axis=0, initial=0) >= least)
    return [Heavy(int(found[i]), tuple(map(int, sizes[:, i]))) for i in kept]


def shares(heavy: Iterable[Heavy], limit: int, most: int) -> list[Share]:
    """Parts of the keys of more than `limit` pairs, so that no part has more, or `most` of each.

    >>> [tuple(share) for share in shares([Heavy(7, (1, 25)), Heavy(8, (2, 2))], 10, 8)]
    [(7, 1, 0, 3), (7, 1, 1, 3), (7, 1, 2, 3)]
    """
    found = []
    for each in heavy:
        if each.load > limit:
            of = min(most, -(-each.load // limit))
            found += [Share(each.key, each.largest, number, of) for number in range(of)]
    return found


def without(key_range: KeyRange, keys: Sequence[int]) -> list[KeyRange]:
    """What is left of a range without some keys, ascending.

    >>> without((0, 10), [0, 4, 12])
    [(1, 4), (5, 10)]
    """
    low, high = key_range
    found = []
    for key in keys:
        if low <= key < high:
            found.append((low, key))
            low = key + 1
    return [(first, last) for first, last in [*found, (low, high)] if first < last]


def even_ranges(sample: Int64s, partitions: int) -> list[KeyRange]:
    """Ranges of keys, one for each partition or fewer, with about as many rows each.

    They are those of equal width if the keys, of which there is a sample, are even in them.

    >>> crowded = np.append(np.arange(0, 900, 10), np.arange(-(2**62), 2**62, 2**58))
    >>> [int(((crowded >= low) & (crowded < high)).sum()) for low, high in even_ranges(crowded, 4)]
    [30, 31, 30, 31]
    """
    ranges = key_ranges(partitions)
    keys = np.sort(sample)
    if not len(keys):
        return ranges
    counts = np.diff(np.searchsorted(keys, [low for low, _ in ranges]), append=len(keys))
    if counts.max() <= UNEVEN * len(keys) / partitions:
        return ranges
    places = np.arange(1, partitions) * len(keys) // partitions
    bounds = [int(bound) for bound in np.unique(keys[places]) if bound > KEY_LOW]
    return [*zip([KEY_LOW, *bounds], [*bounds, KEY_HIGH], strict=True)]
