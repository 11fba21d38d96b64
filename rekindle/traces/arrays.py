"""The seam between Arrow and numpy: how a column becomes a vector and back, without a copy.

Identity columns and ring values are never NULL, so their Arrow buffers are plain vectors and every
kernel works on views of them. Payload columns stay opaque Arrow and only move by `take`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s = npt.NDArray[np.int64]
Booleans = npt.NDArray[np.bool_]
Doubles = npt.NDArray[np.float64]

KEY = "_key"
IDENTITY = ("_id0", "_id1")
WEIGHT = "_weight"


def single_chunk(column: Any) -> Any:
    """The column as one `pa.Array`, whether it came from a table or from a record batch."""
    if isinstance(column, pa.ChunkedArray):
        return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    return column


def integers(column: Any) -> Int64s:
    """A zero-copy view of an int64 column without NULLs."""
    view: Int64s = single_chunk(column).to_numpy(zero_copy_only=True)
    return view


def identity_columns(table: Any) -> tuple[Int64s, Int64s, Int64s]:
    """Views of (`_key`, `_id0`, `_id1`), the sort key of every arranged table."""
    return (
        integers(table.column(KEY)),
        integers(table.column(IDENTITY[0])),
        integers(table.column(IDENTITY[1])),
    )


def take(column: Any, indices: Int64s) -> Any:
    """The column's rows at `indices`, as one array."""
    return single_chunk(column).take(pa.array(indices))


def ranges(starts: Int64s, counts: Int64s) -> Int64s:
    """The concatenation of `arange(start, start + count)` over all pairs.

    >>> ranges(np.array([5, 0]), np.array([2, 3])).tolist()
    [5, 6, 0, 1, 2]
    """
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    expanded: Int64s = np.arange(total, dtype=np.int64)
    expanded += np.repeat(starts - (ends - counts), counts)
    return expanded


def growth(table: Any) -> int:
    """By how many rows an arranged table grows what it is added to; its rows, without weights."""
    if WEIGHT not in table.column_names:
        return len(table)
    return int(pc.sum(table.column(WEIGHT)).as_py() or 0)
