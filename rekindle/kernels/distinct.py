"""Distinct: a row is in the output once when its weight in the input is positive.

Not linear, but its change follows from the weights of the changed rows alone. With the integral i
before the step and the change d (DBSP proposition 4.7):

    H(i, d)[x] = -1 if i[x] > 0 and i[x] + d[x] <= 0
                 +1 if i[x] <= 0 and i[x] + d[x] > 0
                  0 otherwise
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import WEIGHT, identity_columns, integers, single_chunk
from rekindle.traces.reader import TraceReader


def distinct_change(change: Any, reader: TraceReader) -> Any:
    """Rows of the arranged change that enter (+1) or leave (-1); `reader` is the integral before.

    The columns are `_weight` and the payload.
    """
    delta = integers(change.column(WEIGHT))
    found = reader.lookup(identity_columns(change))
    before = np.zeros(len(delta), dtype=np.int64)
    known = found.row >= 0
    before[known] = integers(found.table.column(WEIGHT))[found.row[known]]
    sign = ((before + delta) > 0).astype(np.int64) - (before > 0)
    emitted = np.flatnonzero(sign)
    indices = pa.array(emitted)
    names = reader.layout.payload.names
    return pa.Table.from_arrays(
        [
            pa.array(sign[emitted]),
            *(single_chunk(change.column(name)).take(indices) for name in names),
        ],
        schema=pa.schema([pa.field(WEIGHT, pa.int64()), *reader.layout.payload]),
    )
