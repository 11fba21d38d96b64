"""Rows that many may share an index with: together in one narrow span of keys, and apart in it.

The upper bits of a row's key are those of the hash of the index, the lower ones those of the hash
of the row. So what is asked for by the index is one slice of every run, however many other rows
there are, and a heavy value does not stand on one key: merges, pieces and ranges of keys are cut
inside it like anywhere else. Nothing has to be known of sizes for that, and nothing moves when a
light value becomes heavy.

Two values whose hashes agree in the upper bits are found together; whoever looks one up compares.
"""

from __future__ import annotations

import numpy as np

from rekindle.traces.arrays import Int64s

SPREAD_BITS = 20
"""The rows of one value are on up to so many powers of two of keys."""
WITHIN = np.int64(2**SPREAD_BITS - 1)
"""The bits that the row decides."""


def spread(indexed: Int64s, rows: Int64s) -> Int64s:
    """The keys of rows, from the hashes of the index and those of the rows.

    >>> [hex(key) for key in spread(np.array([0x7FABCDE]), np.array([0x123456789])).tolist()]
    ['0x7f56789']
    """
    found: Int64s = (indexed & ~WITHIN) | (rows & WITHIN)
    return found


def spans(indexed: Int64s) -> tuple[Int64s, Int64s]:
    """The first and the last key that rows with these hashes of the index may have, ascending."""
    low: Int64s = np.unique(indexed & ~WITHIN)
    return low, low | WITHIN
