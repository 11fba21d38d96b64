"""Partitions are ranges of the key-hash space and are never stored.

With n = 2^k partitions, a key belongs to `(key >> (64 - k)) + n / 2`, the arithmetic shift of a
signed 64-bit integer; in Spark SQL this is `shiftright(_key, 64 - k) + n / 2` (for k > 0). A run
sorted by key is therefore sorted by partition, and a partition of it is a slice that binary search
finds. The number of partitions can change from step to step.

Ranges are half open, [low, high), in Python integers: the end of the last one is 2^63, which is no
int64.
"""

from __future__ import annotations

import numpy as np

from rekindle.traces.arrays import Int64s

KEY_LOW = -(2**63)
KEY_HIGH = 2**63
KeyRange = tuple[int, int]
ALL_KEYS: KeyRange = (KEY_LOW, KEY_HIGH)


def key_ranges(partitions: int) -> list[KeyRange]:
    """The key range of each partition, ascending.

    >>> key_ranges(2) == [(-(2**63), 0), (0, 2**63)]
    True
    """
    width = 2 ** (64 - _bits(partitions))
    return [(KEY_LOW + i * width, KEY_LOW + (i + 1) * width) for i in range(partitions)]


def partition_of(keys: Int64s, partitions: int) -> Int64s:
    """The partition of each key.

    >>> partition_of(np.array([-(2**63), -1, 0, 2**63 - 1]), 4).tolist()
    [0, 1, 2, 3]
    """
    bits = _bits(partitions)
    if bits == 0:
        return np.zeros(len(keys), dtype=np.int64)
    return (keys >> (64 - bits)) + partitions // 2


def position(keys: Int64s, bound: int) -> int:
    """How many of the sorted keys are below `bound`, which may be 2^63."""
    if bound >= KEY_HIGH:
        return len(keys)
    return int(keys.searchsorted(bound))


def _bits(partitions: int) -> int:
    bits = partitions.bit_length() - 1
    if partitions < 1 or 2**bits != partitions:
        raise ValueError(f"the number of partitions must be a power of two, not {partitions}")
    return bits
