"""Consolidation: the one place where equal rows are added and zero values dropped.

A table of (identity, value) pairs denotes the collection that maps each identity to the sum of its
values. `consolidate` gives the unique *arranged* table of that collection: sorted by
(`_key`, `_id0`, `_id1`) as signed integers, identities distinct, no value zero. It changes no
meaning, so operators may skip it wherever they are linear.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import (
    KEY,
    Booleans,
    Int64s,
    integers,
    take,
)
from rekindle.traces.layout import TraceLayout

Identity = tuple[Int64s, Int64s, Int64s]
_FEW_ROWS = 256
"""So few are sorted by all columns at once; more by the key, and then where keys are equal."""


def consolidate(table: Any, layout: TraceLayout) -> Any:
    """The arranged table of the same collection; the payload is that of any of the equal rows."""
    arrays = layout.arrays(table)
    rows_given = len(arrays[0])
    if not rows_given:
        return layout.empty()
    key, id0, id1 = (array.to_numpy(zero_copy_only=True) for array in arrays[:3])
    identity: Identity = (key, id0, id1)
    order = sort_order(identity)
    if order is not None:
        identity = (key[order], id0[order], id1[order])
    starts = segment_starts(identity)
    values, payload = layout.parted(arrays)
    if order is not None:
        values = [tuple(take(column, order) for column in columns) for columns in values]
    if len(starts) < rows_given:
        values = [
            ring.reduce(columns, starts)
            for ring, columns in zip(layout.values, values, strict=True)
        ]
    keep = ~is_zero(layout, values)
    if keep.all():
        if order is None and len(starts) == rows_given:
            return pa.Table.from_arrays(arrays, schema=layout.schema)
    else:
        starts = starts[keep]
        kept = np.flatnonzero(keep)
        values = [tuple(take(column, kept) for column in columns) for columns in values]
    rows = starts if order is None else order[starts]
    indices = pa.array(rows)
    moved = [column.take(indices) for column in payload]
    return layout.assemble([pa.array(column[starts]) for column in identity], values, moved)


def is_zero(layout: TraceLayout, values: Any) -> Booleans:
    """Where every component of every ring value is zero."""
    mask: Booleans | None = None
    for ring, columns in zip(layout.values, values, strict=True):
        zero = ring.is_zero(columns)
        mask = zero if mask is None else mask & zero
    if mask is None:
        raise ValueError("a layout has at least one ring value")
    return mask


def sort_order(identity: Identity) -> Int64s | None:
    """The permutation that sorts by (`_key`, `_id0`, `_id1`); None when already sorted."""
    key, *rest = identity
    if len(key) < 2 or _in_order(identity):
        return None
    order: Int64s
    if len(key) < _FEW_ROWS:
        order = np.lexsort((*reversed(rest), key))
        return order
    order = np.argsort(key)
    level = key[order]
    same = level[1:] == level[:-1]
    for column in rest:
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        if not len(tied):
            break
        rows = order[tied]
        rank = np.cumsum(np.append(False, ~same)[tied])
        order[tied] = rows[order_within(rank, column[rows])]
        level = column[order]
        same &= level[1:] == level[:-1]
    return order


def sorted_identity(identity: Identity) -> tuple[Int64s, Identity]:
    """The permutation that sorts by identity, and the identity so sorted."""
    order = sort_order(identity)
    if order is None:
        return np.arange(len(identity[0])), identity
    return order, (identity[0][order], identity[1][order], identity[2][order])


def order_within(rank: Int64s, column: Int64s) -> Int64s:
    """The permutation that sorts by (rank, column), for ranks that are not negative.

    Both are packed into one word, which is sorted several times faster than two columns; what of
    the column does not fit is only looked at where the words are equal.
    """
    low = column.astype(np.uint64) - np.uint64(int(column.min()) % 2**64)
    bits = int(low.max()).bit_length()
    shift = max(0, bits + int(rank.max()).bit_length() - 64)
    word = (rank.astype(np.uint64) << np.uint64(bits - shift)) | (low >> np.uint64(shift))
    order: Int64s = np.argsort(word)
    if not shift:
        return order
    level, value = word[order], column[order]
    same = level[1:] == level[:-1]
    if (same & (value[1:] != value[:-1])).any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = order[tied]
        order[tied] = rows[np.lexsort((column[rows], word[rows]))]
    return order


def segment_starts(identity: Identity) -> Int64s:
    """Where each distinct identity begins in sorted, non-empty identity columns."""
    changes = np.ones(len(identity[0]), dtype=bool)
    np.not_equal(identity[0][1:], identity[0][:-1], out=changes[1:])
    for column in identity[1:]:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def key_starts(keys: Int64s) -> Int64s:
    """Where each distinct key begins in a sorted vector."""
    if not len(keys):
        return np.zeros(0, dtype=np.int64)
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))


def distinct_keys(arranged: Any) -> Int64s:
    """The keys of an arranged table, each once."""
    keys = integers(arranged.column(KEY))
    return keys[key_starts(keys)]


def _in_order(identity: Identity) -> bool:
    """Whether rows are sorted by identity."""
    key, id0, id1 = identity
    if not (key[1:] >= key[:-1]).all():
        return False
    tied = np.flatnonzero(key[1:] == key[:-1])
    if not len(tied):
        return True
    before, after = id0[tied], id0[tied + 1]
    if not (before <= after).all():
        return False
    same = tied[before == after]
    return bool((id1[same] <= id1[same + 1]).all())
