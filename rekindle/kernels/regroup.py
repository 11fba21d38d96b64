"""The rows of touched groups, before a change and after it.

What a group becomes is not computed here: the rows go to Spark, marked with the moment they belong
to. The moment is -1 or 1, which is the weight that the group's old and new results have in the
change of the output: f(x + Δx) − f(x) on the keys that Δx touches.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import WEIGHT, Int64s, integers
from rekindle.traces.consolidate import consolidate, distinct_keys
from rekindle.traces.first import first_rows
from rekindle.traces.reader import TraceReader

MOMENT = "_moment"


def touched_groups(
    change: Any, before: TraceReader, after: TraceReader, first: int | None = None
) -> Any:
    """`_moment` and the columns of every group that an arranged change touches.

    `change` holds all the changed rows of its keys. With `first` only that many rows of a group
    are given, with those that are level with the last of them; the trace is in that order.
    """
    keys = distinct_keys(change)
    if first is None:
        old, _ = before.probe(keys)
        new = consolidate(pa.concat_tables([old, change]), before.layout)
    else:
        old, new = first_rows(before, keys, first), first_rows(after, keys, first)
    return pa.concat_tables([_moment(old, -1), _moment(new, 1)])


def group_schema(schema: Any) -> Any:
    """The schema of what `touched_groups` gives, from that of the trace."""
    payload = [field for field in schema if not field.name.startswith("_")]
    return pa.schema([pa.field(MOMENT, pa.int64()), *payload])


def _moment(rows: Any, moment: int) -> Any:
    """Each row as often as its weight says, under its moment."""
    weights: Int64s = np.maximum(integers(rows.column(WEIGHT)), 0)
    if len(weights) and not (weights == 1).all():
        rows = rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
    names = [name for name in rows.column_names if not name.startswith("_")]
    marks = pa.array(np.full(len(rows), moment, dtype=np.int64))
    return pa.table([marks, *(rows.column(name) for name in names)], names=[MOMENT, *names])
