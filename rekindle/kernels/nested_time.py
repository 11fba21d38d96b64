"""Per-key operators at every iteration of a scope, over rows with a stamp.

The rows of an arrangement with one stamp are identified by (`_key`, `_id0`) apart from it, and it
is `_id1`; so rows that differ in the stamp alone stand together, in its order, and the multiplicity
of a row at an iteration is a running sum. With the stamps of several nested scopes times are not in
one order, and `grid.py` takes over.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.columns import column_names, is_added
from rekindle.kernels.distinct import distinct_change
from rekindle.kernels.grid import (
    UNTIL,
    corners_of_results,
    distinct_in_grid,
    group_schema_in_grid,
    groups_in_grid,
)
from rekindle.kernels.regroup import MOMENT
from rekindle.traces.arrays import (
    IDENTITY,
    KEY,
    WEIGHT,
    Booleans,
    Int64s,
    identity_columns,
    integers,
    ranges,
    single_chunk,
)
from rekindle.traces.consolidate import (
    consolidate,
    distinct_keys,
    key_starts,
    order_within,
    segment_starts,
    sorted_identity,
)
from rekindle.traces.reader import TraceReader

_WEIGHED = (KEY, *IDENTITY, WEIGHT)


def distinct_at_every_stamp(change: Any, before: TraceReader, stamps: int = 1) -> Any:
    """The changes of distinct: `_weight` and the columns, the stamps last.

    Rows from before and changed rows are sorted once, together: at each stamp of a row, whether it
    is there is told with and without the change, and the difference is the result. Of the rows from
    before only identities and weights are read: what comes or goes is among the changed rows, apart
    from its stamp.
    """
    if not stamps:
        return distinct_change(change, before)
    if stamps > 1:
        return distinct_in_grid(change, before, stamps)
    stored = [
        [integers(match.table.column(name))[match.row] for name in _WEIGHED]
        for match in before.matches(distinct_keys(change))
    ]
    now = [integers(change.column(name)) for name in _WEIGHED]
    key, row, stamp, weights = (np.concatenate(part) for part in zip(*stored, now, strict=True))
    order, identity = sorted_identity((key, row, stamp))
    starts = segment_starts(identity)
    old = len(weights) - len(change)
    earlier = weights.copy()
    earlier[old:] = 0
    begins = _begins(identity[0][starts], identity[1][starts])
    turns = _turns(np.add.reduceat(weights[order], starts), begins)
    turns -= _turns(np.add.reduceat(earlier[order], starts), begins)
    kept = np.flatnonzero(turns)
    # The changed rows stand behind the others, so the last of a row's places is one of them.
    places = np.maximum.reduceat(order, starts[begins])[np.cumsum(begins)[kept] - 1] - old
    *names, last = before.layout.payload.names
    taken = change.select(names).take(pa.array(places))
    at = pa.array(identity[2][starts[kept]]).cast(before.layout.payload.field(last).type)
    return taken.append_column(last, at).add_column(0, WEIGHT, pa.array(turns[kept]))


def _turns(weights: Int64s, begins: Booleans) -> Int64s:
    """1 where a row comes, -1 where it goes, from its weights at ascending stamps."""
    present = _running(weights, begins) > 0
    before = np.append(False, present[:-1]) & ~begins
    return present.astype(np.int64) - before


def _begins(key: Int64s, row: Int64s) -> Booleans:
    """Where another row begins, apart from stamps, in sorted columns."""
    found = np.ones(len(key), dtype=bool)
    found[1:] = (key[1:] != key[:-1]) | (row[1:] != row[:-1])
    return found


def _running(weights: Int64s, begins: Booleans) -> Int64s:
    """Running sums that start anew where `begins` says."""
    if not len(weights):
        return weights
    total = np.cumsum(weights)
    starts = np.flatnonzero(begins)
    offsets = (total - weights)[starts]
    return total - np.repeat(offsets, np.diff(np.append(starts, len(weights))))


def groups_at_every_stamp(change: Any, before: TraceReader, stamps: int = 1) -> Any:
    """The touched groups' rows at every iteration at which one of their rows comes or goes.

    `_moment` is -1 for the groups before the change and 1 after it, as in `touched_groups`; then
    come the columns without the stamp, the iteration, and the next one at which the group changes
    (NULL for the last). A row occurs as often as its multiplicity then says. Before its first
    changed iteration a group is what it was, so it is told from that one on.
    """
    if stamps > 1:
        return groups_in_grid(change, before, stamps)
    old, _ = before.probe(distinct_keys(change))
    new = consolidate(pa.concat_tables([old, change]), before.layout)
    since = _first_stamps(change)
    return pa.concat_tables([_at_stamps(old, -1, since), _at_stamps(new, 1, since)])


def _first_stamps(change: Any) -> tuple[Int64s, Int64s]:
    """The keys of an arranged change, and the least stamp of each."""
    key, _, stamp = identity_columns(change)
    starts = key_starts(key)
    return key[starts], np.minimum.reduceat(stamp, starts) if len(starts) else stamp


def from_until(results: Any, bounds: int, stamps: int = 1) -> Any:
    """Results of groups at iterations as changes: each comes at its stamp and goes at the next.

    After `_weight` there are columns, of which number `bounds` is the stamp and the one after it
    the end; the stamp becomes the last.
    """
    if stamps > 1:
        return corners_of_results(results, bounds, stamps)
    weight, *columns = results.columns
    stamp, until = columns[bounds : bounds + 2]
    head, rest = columns[:bounds], columns[bounds + 2 :]
    names = [WEIGHT, *column_names(len(columns) - 1)]
    comes = pa.Table.from_arrays([weight, *head, *rest, stamp], names=names)
    goes = pa.Table.from_arrays([pc.negate(weight), *head, *rest, until], names=names)
    return pa.concat_tables([comes, goes.filter(pc.is_valid(until))])


def stamped_group_schema(schema: Any, stamps: int = 1) -> Any:
    """The schema of what `groups_at_every_stamp` gives, from that of the trace."""
    payload = [field for field in schema if not is_added(field.name)]
    if stamps > 1:
        return group_schema_in_grid(payload, stamps)
    return _schema(payload)


def _schema(payload: list[Any]) -> Any:
    marks = [pa.field(payload[-1].name, pa.int32()), pa.field(UNTIL, pa.int32())]
    return pa.schema([pa.field(MOMENT, pa.int64()), *payload[:-1], *marks])


def _at_stamps(rows: Any, moment: int, since: tuple[Int64s, Int64s]) -> Any:
    payload = [field for field in rows.schema if not is_added(field.name)]
    schema = _schema(payload)
    if not len(rows):
        return schema.empty_table()
    key, row, stamp = identity_columns(rows)
    stamp = np.maximum(stamp, since[1][np.searchsorted(since[0], key)])
    # The iterations of each group, ascending, and where those of a row's group begin and end.
    group = np.cumsum(np.append(False, key[1:] != key[:-1]))
    span = int(stamp.max()) + 1
    times = np.unique(group * span + stamp)
    starts = np.searchsorted(times, group * span + stamp)
    counts = np.searchsorted(times, (group + 1) * span) - starts
    which = np.repeat(np.arange(len(key)), counts)
    place = ranges(starts, counts)
    order = order_within(place, row[which])
    which, place = which[order], place[order]
    first = np.flatnonzero(_begins(place, row[which]))
    weights = np.add.reduceat(integers(rows.column(WEIGHT))[which], first)
    repeated = np.repeat(first, np.maximum(weights, 0))
    taken, at = which[repeated], place[repeated]
    until = np.append(times[1:], 0) % span
    last = np.append(times[1:] // span != times[:-1] // span, True)
    indices = pa.array(taken)
    columns = [single_chunk(rows.column(f.name)).take(indices) for f in payload[:-1]]
    return pa.Table.from_arrays(
        [
            pa.array(np.full(len(taken), moment, dtype=np.int64)),
            *columns,
            pa.array((times[at] % span).astype(np.int32)),
            pa.array(until[at].astype(np.int32), mask=last[at]),
        ],
        schema=schema,
    )
