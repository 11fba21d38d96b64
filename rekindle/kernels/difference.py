"""The difference of two collections: what has to be added to the one to have the other."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import WEIGHT
from rekindle.traces.consolidate import consolidate
from rekindle.traces.reader import TraceReader


def difference(before: TraceReader, after: TraceReader) -> Any:
    """after − before, arranged; their values are weights."""
    taken = [
        table.set_column(table.column_names.index(WEIGHT), WEIGHT, pc.negate(table.column(WEIGHT)))
        for table in before.scan()
    ]
    tables = [after.layout.conform(table) for table in (*after.scan(), *taken)]
    return consolidate(pa.concat_tables([after.layout.empty(), *tables]), after.layout)
