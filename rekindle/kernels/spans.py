"""Ranges in which the rows of a change look for stored rows, added up before anything is read.

Rows of a change that make the same pairs differ only in their ranges. A stored row strictly inside
the ranges of several meets the sum of their weights; where an update moves the end of a range, that
is zero but between the old end and the new one:

    −1   ····├──────────────────────┤
    +1   ········├──────────────────┤
    sum  ····│−−−│                  │      and the rows at the ends, each with each

Rows at an end are paired with every row that ends there, since equal orders may stand for values
that differ: what asks for the pairs tells which of them are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import KEY, WEIGHT, Int64s, integers, single_chunk
from rekindle.traces.between import HIGHEST, LOWEST
from rekindle.traces.packed import unpacked


@dataclass(frozen=True, slots=True)
class Span:
    """Which rows of its key a row of the change meets: those from `low` to `high` in order.

    Both are bigint columns of the change; an end without a column is open. The rows that stand at
    the very last place have none of their own and are met by every row.

    Rows of the change that are equal in the columns `apart` are added up; None: no rows are.
    """

    low: str | None
    high: str | None
    apart: tuple[str, ...] | None = None

    def pieces(self, change: Any) -> Pieces:
        """What to look for, by rows of the change in their order."""
        low, high = (
            np.full(len(change), end) if name is None else integers(change.column(name))
            for name, end in ((self.low, LOWEST), (self.high, HIGHEST))
        )
        every = np.arange(len(change))
        each = Pieces(every, low, high, integers(change.column(WEIGHT)))
        closed = each.at(high != HIGHEST)
        last = np.full(len(closed.row), HIGHEST)
        groups = None if self.apart is None else _groups(change, self.apart)
        if groups is not None:
            each = added_up(groups, each)
        return _joined([each, closed._replace(low=last, high=last)])


class Pieces(NamedTuple):
    """A `row` of a change meets the stored rows from `low` to `high`, with a `weight`."""

    row: Int64s
    low: Int64s
    high: Int64s
    weight: Int64s

    def at(self, which: Any) -> Pieces:
        return Pieces(*(column[which] for column in self))


def _joined(parts: Sequence[Pieces]) -> Pieces:
    """All of the pieces, in the order of their rows."""
    whole = Pieces(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    return whole.at(np.argsort(whole.row, kind="stable"))


def added_up(groups: Int64s, pieces: Pieces) -> Pieces:
    """Pieces whose weights are sums over those of a group, of which any row may stand for all.

    >>> one = np.array([0, 0])
    >>> update = Pieces(np.arange(2), np.array([5, 8]), np.array([99, 99]), np.array([-1, 1]))
    >>> found = added_up(one, update)
    >>> sorted(zip(*(column.tolist() for column in found)))
    [(0, 5, 5, -1), (0, 6, 7, -1), (0, 8, 8, -1), (0, 99, 99, -1), (1, 8, 8, 1), (1, 99, 99, 1)]
    """
    together = np.bincount(groups)[groups] > 1
    if not together.any():
        return pieces
    alone, several = pieces.at(~together), pieces.at(together & (pieces.low <= pieces.high))
    return _joined([alone, *_swept(groups[several.row], several)])


def _swept(groups: Int64s, pieces: Pieces) -> list[Pieces]:
    """The rows at the ends, each by itself, and the sums between them.

    The ends of all groups are numbered, one group after the other. The weights that were opened,
    less those that were closed, add up to zero where a group ends.
    """
    row, low, high, weight = pieces
    place, group = np.concatenate([low, high]), np.concatenate([groups, groups])
    order = np.lexsort((place, group))
    is_new = np.ones(len(order), dtype=bool)
    is_new[1:] = (np.diff(place[order]) != 0) | (np.diff(group[order]) != 0)
    number = np.empty(len(order), dtype=np.int64)
    number[order] = np.cumsum(is_new) - 1
    ends = place[order][is_new]
    first, last = np.split(number, 2)

    wide = np.flatnonzero(first < last)
    opened, closed = (np.zeros(len(ends), dtype=np.int64) for _ in range(2))
    np.add.at(opened, first[wide], weight[wide])
    np.add.at(closed, last[wide], weight[wide])
    after = np.cumsum(opened - closed)
    within = np.append(0, after[:-1]) - closed

    # Of the pieces that began at an end or before, the one that goes furthest covers what any does.
    reach = np.full(len(ends), -1)
    np.maximum.at(reach, first[wide], last[wide] * len(row) + wide)
    furthest = np.maximum.accumulate(reach) % max(len(row), 1)

    between, inside = np.flatnonzero(after), np.flatnonzero(within)
    between = between[ends[between] + 1 < ends[between + 1]]
    return [
        Pieces(row, low, low, weight),
        Pieces(row, high, high, weight).at(wide),
        Pieces(row[furthest[between]], ends[between] + 1, ends[between + 1] - 1, after[between]),
        Pieces(row[furthest[inside - 1]], ends[inside], ends[inside], within[inside]),
    ]


def _groups(change: Any, apart: Sequence[str]) -> Int64s | None:
    """A number for each row, the same for rows that agree in their keys and in the columns `apart`.

    None where a column has values of a type that is not compared here.
    """
    columns = [integers(change.column(KEY))]
    shown = unpacked(change.select(list(apart)))
    for name in apart:
        codes = _codes(single_chunk(shown.column(name)))
        if codes is None:
            return None
        columns.append(codes)
    order = np.lexsort(columns)
    is_new = np.ones(len(order), dtype=bool)
    if len(order):
        is_new[1:] = np.any([np.diff(column[order]) != 0 for column in columns], axis=0)
    groups = np.empty(len(order), dtype=np.int64)
    groups[order] = np.cumsum(is_new) - 1
    return groups


def _codes(array: Any) -> Int64s | None:
    """Numbers that are equal for equal values; floating ones are compared by their bits."""
    if pa.types.is_nested(array.type):
        return None
    if pa.types.is_floating(array.type):
        bits = pa.int64() if array.type == pa.float64() else pa.int32()
        array = array.view(bits)
    numbers = array.dictionary_encode("encode").indices
    codes: Int64s = numbers.to_numpy(zero_copy_only=False).astype(np.int64)
    return codes
