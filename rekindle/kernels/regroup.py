"""The rows of touched groups, before a change and after it.

What a group becomes is not computed here: the rows go to Spark, marked with the moment they belong
to. The moment is -1 or 1, which is the weight that the group's old and new results have in the
change of the output: f(x + Δx) − f(x) on the keys that Δx touches.

Where a row's result depends on the rows near it, only the rows around a change are given. Let N be
a contiguous stretch of the group with enough unchanged rows around Δx that every row whose result
changes has all that it depends on inside. Rows at the edge of N miss some of what they depend on,
but the same at both moments, so f(N + Δx) − f(N) is exact. The moment is then minus or plus the
number of the stretch: stretches of one group must not see each other.

Where a row's result follows from that of the row before, only the rows from a change on are given:
what they were leaves, and what they become follows from the last result before the change, which
comes as a row of moment 0.

Where only the values at some ranks of a group matter, only they are given, and each says how many
rows it stands for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.calculus.terms import Distance, Quantiles, RunningFrame, SlidingFrame, TopRows
from rekindle.columns import column_name, is_added
from rekindle.traces.arrays import IDENTITY, KEY, WEIGHT, Int64s, integers
from rekindle.traces.consolidate import consolidate, distinct_keys, key_starts
from rekindle.traces.first import first_rows
from rekindle.traces.near import (
    first_places,
    from_the_row_before,
    places_of,
    rows_around,
    to_the_end,
    values_around,
)
from rekindle.traces.ranks import at_fractions
from rekindle.traces.reader import TraceReader

MOMENT = "_moment"
MOMENTS = (-1, 1)
"""Before a change and after it, where all rows of a group are given."""


def touched_groups(
    change: Any,
    before: TraceReader,
    after: TraceReader,
    reach: TopRows | SlidingFrame | Quantiles | None = None,
) -> Any:
    """`_moment` and the columns of every group that an arranged change touches.

    `change` holds all the changed rows of its keys. With a reach only some rows of a group are
    given: its first ones, with those that are level with the last of them, those near a change, or
    those at some ranks; the trace is in that order.
    """
    match reach:
        case None:
            old, _ = before.probe(distinct_keys(change))
            new = consolidate(pa.concat_tables([old, change]), before.layout)
            return pa.concat_tables([_moment(old, _all(old, -1)), _moment(new, _all(new, 1))])
        case SlidingFrame():
            return _stretches(change, before, reach)
        case TopRows() | Quantiles():
            return deciding_rows(distinct_keys(change), before, after, reach)


def deciding_rows(
    keys: Int64s, before: TraceReader, after: TraceReader, reach: TopRows | Quantiles
) -> Any:
    """The same for groups that are given by their keys, sorted and distinct."""
    match reach:
        case TopRows():
            old, new = (first_rows(moment, keys, reach.rows) for moment in (before, after))
        case Quantiles():
            old, new = (_standing(moment, keys, reach) for moment in (before, after))
    return pa.concat_tables([_moment(old, _all(old, -1)), _moment(new, _all(new, 1))])


def _stretches(change: Any, before: TraceReader, near: SlidingFrame) -> Any:
    """The rows around every changed place, under minus and plus the number of their stretch."""
    weights = integers(change.column(WEIGHT))
    gone, come = (change.filter(pa.array(mask)) for mask in (weights < 0, weights > 0))
    # Those that stay count: what is there at both moments is enough at either.
    staying = before.plus([gone] if len(gone) else [])
    places = places_of(change)
    match near.distance:
        case Distance.ROWS:
            stretches = rows_around(staying, places, near.furthest)
        case Distance.VALUES:
            stretches = values_around(places, near.furthest)
    rows = stretches.read(staying)
    old = consolidate(pa.concat_tables([rows, _negated(gone)]), before.layout)
    new = consolidate(pa.concat_tables([rows, come]), before.layout)
    return pa.concat_tables(
        [_moment(old, -1 - stretches.of_rows(old)), _moment(new, 1 + stretches.of_rows(new))]
    )


def _standing(reader: TraceReader, keys: Int64s, quantiles: Quantiles) -> Any:
    """The rows that decide the quantiles of each key, with how many rows they stand for."""
    rows, stands_for = at_fractions(reader, keys, quantiles.fractions, column_name(quantiles.value))
    return _with(_with(rows, column_name(quantiles.rows), stands_for), WEIGHT, _all(rows, 1))


def touched_onwards(
    change: Any, before: TraceReader, kept: TraceReader, onwards: RunningFrame
) -> Any:
    """`_moment` and the columns of what groups become, from the first change of each on.

    `kept` holds what groups became: the columns of their rows, then those of the results. Given
    are the last row before the first change, under 0; the rows from there on as they were, under
    minus their weight; and those that they are now, under 1 and without results.
    """
    places = first_places(change)
    found = from_the_row_before(kept, places).read(kept)
    begin = places.order[np.searchsorted(places.key, integers(found.column(KEY)))]
    later = integers(found.column(IDENTITY[0])) >= begin
    base = _last_of_keys(found.filter(pa.array(~later)), column_name(onwards.rows))
    old = found.filter(pa.array(later))
    rows = to_the_end(places).read(before)
    new = consolidate(pa.concat_tables([rows, change]), before.layout)
    for field in list(kept.layout.payload)[len(before.layout.payload) :]:
        new = new.append_column(field, pa.nulls(len(new), field.type))
    return pa.concat_tables(
        [
            _marked(base, _all(base, 0)),
            _marked(old, -integers(old.column(WEIGHT))),
            _moment(new, _all(new, 1)),
        ]
    )


def _last_of_keys(rows: Any, count: str) -> Any:
    """Of the arranged rows of each key one on which the column `count` is greatest."""
    keys = integers(rows.column(KEY))
    last = np.lexsort((integers(rows.column(count)), keys))
    ends = np.append(key_starts(keys)[1:], len(keys))[: len(keys)] - 1
    return rows.take(pa.array(last[ends]))


def parted(rows: Any) -> tuple[Any, Any]:
    """The rows that only leave, and those that something becomes of."""
    leaving = integers(rows.column(MOMENT)) < 0
    return rows.filter(pa.array(leaving)), rows.filter(pa.array(~leaving))


def with_signs(results: Any) -> Any:
    """Results whose first column, numbers of stretches, is their weight: -1 or 1."""
    signs = pa.array(np.sign(integers(results.column(0))))
    return results.set_column(0, results.schema.field(0), signs)


def group_schema(schema: Any) -> Any:
    """The schema of what `touched_groups` gives, from that of the trace."""
    payload = [field for field in schema if not is_added(field.name)]
    return pa.schema([pa.field(MOMENT, pa.int64()), *payload])


def _moment(rows: Any, moments: Int64s) -> Any:
    """Each row as often as its weight says, under its moment."""
    weights: Int64s = np.maximum(integers(rows.column(WEIGHT)), 0)
    if len(weights) and not (weights == 1).all():
        rows = rows.take(pa.array(np.repeat(np.arange(len(weights)), weights)))
        moments = np.repeat(moments, weights)
    return _marked(rows, moments)


def _marked(rows: Any, moments: Int64s) -> Any:
    names = [name for name in rows.column_names if not is_added(name)]
    columns = (rows.column(name) for name in names)
    return pa.table([pa.array(moments), *columns], names=[MOMENT, *names])


def _all(rows: Any, number: int) -> Int64s:
    return np.full(len(rows), number, dtype=np.int64)


def _negated(rows: Any) -> Any:
    return _with(rows, WEIGHT, -integers(rows.column(WEIGHT)))


def _with(rows: Any, name: str, column: Int64s) -> Any:
    """The rows with another column of that name."""
    place = rows.column_names.index(name)
    return rows.set_column(place, rows.schema.field(place), pa.array(column))
