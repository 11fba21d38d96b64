"""Per-key operators over rows with the stamps of several nested scopes.

A time is then a vector of iterations, the outermost first, and a collection at a time t is the sum
of the rows whose times are at most t in every part. A group is the same between the times of a
grid, which has in each direction the stamps that the group's rows have there:

    outer
      2 |  a+b+c | a+b+c+d      rows a at (0, 0), b at (1, 0), c at (2, 0), d at (2, 1):
      1 |  a+b   | a+b          six cells, each from its lower left corner on until the next
      0 |  a     | a            in either direction
        +--------+--------
           0        1    inner

What a group becomes in a cell that goes from s until u in each direction comes at s and goes at u,
in each: +1 at (s, s'), -1 at (u, s') and (s, u'), +1 at (u, u'). The sum over all cells is the
operator as changes from time to time, in the order of its stamps (inclusion and exclusion).
A cell costs what its group's rows there cost; for one stamp `nested_time.py` does it with less.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.columns import column_names, is_added
from rekindle.kernels.regroup import MOMENT
from rekindle.traces.arrays import (
    WEIGHT,
    Booleans,
    Int64s,
    identity_columns,
    integers,
    ranges,
    single_chunk,
)
from rekindle.traces.consolidate import consolidate, distinct_keys
from rekindle.traces.reader import TraceReader

UNTIL = "_until"


@dataclass(frozen=True, slots=True)
class Direction:
    """The stamps of one scope, group by group, ascending; a place is an index into them."""

    span: int
    times: Int64s

    @classmethod
    def of(cls, group: Int64s, stamp: Int64s) -> Direction:
        span = int(stamp.max(initial=0)) + 1
        return cls(span, np.unique(group * span + stamp))

    def onwards(self, group: Int64s, stamp: Int64s) -> tuple[Int64s, Int64s]:
        """The first place of each row, and how many its group has from there on."""
        starts = np.searchsorted(self.times, group * self.span + stamp)
        return starts, np.searchsorted(self.times, (group + 1) * self.span) - starts

    def begins(self, place: Int64s) -> Int64s:
        return self.times[place] % self.span

    def ends(self, place: Int64s) -> tuple[Int64s, Booleans]:
        """The next stamp of the group after each place, and where there is one."""
        after = np.append(self.times[1:], -1)[place]
        return after % self.span, after // self.span == self.times[place] // self.span


@dataclass(frozen=True, slots=True)
class Cells:
    """Rows in all the cells that they are in: the row, and the cell's place in each direction."""

    directions: tuple[Direction, ...]
    row: Int64s
    places: tuple[Int64s, ...]

    @classmethod
    def of(cls, group: Int64s, stamps: Sequence[Int64s]) -> Cells:
        directions = tuple(Direction.of(group, stamp) for stamp in stamps)
        row = np.arange(len(group))
        places: tuple[Int64s, ...] = ()
        for direction, stamp in zip(directions, stamps, strict=True):
            starts, counts = direction.onwards(group, stamp)
            here = np.repeat(np.arange(len(row)), counts[row])
            places = (*(p[here] for p in places), ranges(starts[row], counts[row]))
            row = row[here]
        return cls(directions, row, places)

    def numbers(self) -> Int64s:
        """A number for the cell of each entry."""
        number = np.zeros(len(self.row), dtype=np.int64)
        for direction, place in zip(self.directions, self.places, strict=True):
            number = number * max(1, len(direction.times)) + place
        return number


def distinct_in_grid(change: Any, before: TraceReader, stamps: int) -> Any:
    """The changes of distinct: `_weight` and the columns, the stamps last."""
    layout = before.layout
    old, _ = before.probe(distinct_keys(change))
    rows = layout.conform(pa.concat_tables([old, change]))
    weight = integers(rows.column(WEIGHT))
    changed = np.arange(len(rows)) >= len(old)
    key, identity, _ = identity_columns(rows)
    group = _groups(key, identity)
    since = _since(group[changed], _stamps(change, stamps), int(group.max(initial=-1)) + 1)
    # Of the rows that share a key those that do not change stay as they are.
    kept = np.flatnonzero(since[0][group] >= 0)
    clamped = [
        np.maximum(stamp, least[group])[kept]
        for stamp, least in zip(_stamps(rows, stamps), since, strict=True)
    ]
    cells = Cells.of(group[kept], clamped)
    _, first, number = np.unique(cells.numbers(), return_index=True, return_inverse=True)
    earlier = np.where(changed, 0, weight)
    turned = (_totals(weight[kept][cells.row], number, len(first)) > 0).astype(np.int64)
    turned -= _totals(earlier[kept][cells.row], number, len(first)) > 0
    turns = np.flatnonzero(turned)
    sample, times, sums = _summed_corners(cells, first[turns], turned[turns], group[kept])
    names = layout.payload.names
    indices = pa.array(kept[sample])
    columns = [single_chunk(rows.column(name)).take(indices) for name in names[:-stamps]]
    columns += [pa.array(time.astype(np.int32)) for time in times]
    return pa.Table.from_arrays([pa.array(sums), *columns], names=[WEIGHT, *names])


def groups_in_grid(change: Any, before: TraceReader, stamps: int) -> Any:
    """The touched groups' rows in every cell from the first changed time on.

    The columns are those of `groups_at_every_stamp`, with a stamp and an end for each scope.
    """
    keys = distinct_keys(change)
    old, _ = before.probe(keys)
    new = consolidate(pa.concat_tables([old, change]), before.layout)
    groups = np.searchsorted(keys, identity_columns(change)[0])
    since = _since(groups, _stamps(change, stamps), len(keys))
    return pa.concat_tables(
        [_in_cells(rows, moment, keys, since) for rows, moment in ((old, -1), (new, 1))]
    )


def group_schema_in_grid(payload: Sequence[Any], stamps: int) -> Any:
    """The schema of what `groups_in_grid` gives, from the columns of the trace."""
    marks = [
        field
        for i, stamp in enumerate(payload[-stamps:])
        for field in (pa.field(stamp.name, pa.int32()), pa.field(f"{UNTIL}{i}", pa.int32()))
    ]
    return pa.schema([pa.field(MOMENT, pa.int64()), *payload[:-stamps], *marks])


def corners_of_results(results: Any, place: int, stamps: int) -> Any:
    """Results of groups in cells as changes: each comes and goes in every direction.

    After `_weight` there are columns, of which those from number `place` on are a stamp and an end
    for each scope; the stamps become the last.
    """
    weight, *columns = results.columns
    bounds = columns[place : place + 2 * stamps]
    kept = [*columns[:place], *columns[place + 2 * stamps :]]
    names = [WEIGHT, *column_names(len(kept) + stamps)]
    parts = []
    for ends in product((0, 1), repeat=stamps):
        corner = [bounds[2 * i + end] for i, end in enumerate(ends)]
        signed = pc.negate(weight) if sum(ends) % 2 else weight
        part = pa.Table.from_arrays([signed, *kept, *corner], names=names)
        parts.append(_present(part, names[-stamps:]))
    return pa.concat_tables(parts)


def _present(table: Any, names: Sequence[str]) -> Any:
    """The rows whose stamps are all there."""
    for name in names:
        if table.column(name).null_count:
            table = table.filter(pc.is_valid(table.column(name)))
    return table


def _corners(cells: Cells, entries: Int64s) -> Iterator[tuple[int, Booleans, tuple[Int64s, ...]]]:
    """The corners of some cells: their sign, where there are such, and their stamps."""
    for ends in product((False, True), repeat=len(cells.directions)):
        present = np.ones(len(entries), dtype=bool)
        stamps = []
        for direction, place, end in zip(cells.directions, cells.places, ends, strict=True):
            if end:
                stamp, there = direction.ends(place[entries])
                present &= there
            else:
                stamp = direction.begins(place[entries])
            stamps.append(stamp)
        yield (-1) ** sum(ends), present, tuple(stamps)


def _summed_corners(
    cells: Cells, entries: Int64s, weight: Int64s, group: Int64s
) -> tuple[Int64s, list[Int64s], Int64s]:
    """The corners of weighted cells, those of a group at one time summed up: row, times, weight."""
    parts = [
        (cells.row[entries][there], [stamp[there] for stamp in stamps], sign * weight[there])
        for sign, there, stamps in _corners(cells, entries)
    ]
    row = np.concatenate([part[0] for part in parts])
    times = [np.concatenate(found) for found in zip(*(part[1] for part in parts), strict=True)]
    number = group[row]
    for direction, time in zip(cells.directions, times, strict=True):
        number = number * direction.span + time
    _, first, equal = np.unique(number, return_index=True, return_inverse=True)
    sums = _totals(np.concatenate([part[2] for part in parts]), equal, len(first))
    kept = first[sums != 0]
    return row[kept], [time[kept] for time in times], sums[sums != 0]


def _in_cells(rows: Any, moment: int, keys: Int64s, since: Sequence[Int64s]) -> Any:
    payload = [field for field in rows.schema if not is_added(field.name)]
    stamps = len(since)
    key, identity, _ = identity_columns(rows)
    group = np.searchsorted(keys, key)
    clamped = [
        np.maximum(stamp, least[group])
        for stamp, least in zip(_stamps(rows, stamps), since, strict=True)
    ]
    cells = Cells.of(group, clamped)
    equal = _groups(cells.numbers(), identity[cells.row])
    _, first = np.unique(equal, return_index=True)
    weight = _totals(integers(rows.column(WEIGHT))[cells.row], equal, len(first))
    entries = np.repeat(first, np.maximum(weight, 0))
    indices = pa.array(cells.row[entries])
    columns = [single_chunk(rows.column(f.name)).take(indices) for f in payload[:-stamps]]
    for direction, place in zip(cells.directions, cells.places, strict=True):
        until, there = direction.ends(place[entries])
        columns.append(pa.array(direction.begins(place[entries]).astype(np.int32)))
        columns.append(pa.array(until.astype(np.int32), mask=~there))
    marks = pa.array(np.full(len(entries), moment, dtype=np.int64))
    return pa.Table.from_arrays([marks, *columns], schema=group_schema_in_grid(payload, stamps))


def _groups(first: Int64s, second: Int64s) -> Int64s:
    """A number for each pair, in their order, from 0 on."""
    order = np.lexsort((second, first))
    a, b = first[order], second[order]
    begins = np.append(False, (a[1:] != a[:-1]) | (b[1:] != b[:-1]))[: len(a)]
    found = np.empty(len(a), dtype=np.int64)
    found[order] = np.cumsum(begins)
    return found


def _totals(values: Int64s, number: Int64s, count: int) -> Int64s:
    """The sums of the values with equal numbers; exact, which `bincount` of floats is not."""
    found = np.zeros(count, dtype=np.int64)
    np.add.at(found, number, values)
    return found


def _stamps(rows: Any, count: int) -> list[Int64s]:
    """The last columns of a table as vectors."""
    names = rows.schema.names[-count:]
    return [integers(pc.cast(rows.column(name), pa.int64())) for name in names]


def _since(group: Int64s, stamps: Sequence[Int64s], count: int) -> list[Int64s]:
    """The least stamp of each group in each direction; -1 for a group without any."""
    found = []
    for stamp in stamps:
        least = np.full(count, np.iinfo(np.int64).max)
        np.minimum.at(least, group, stamp)
        found.append(np.where(least == np.iinfo(np.int64).max, -1, least))
    return found
