"""Enumeration of a factorised join: its tuples in batches, one descent after another.

The collections are read once and linked: a row of a parent knows where its rows begin in each child
and how many there are. That takes time and memory of the size of the collections. From then on a
tuple is a row number in each collection, and one is made from the last by integer arithmetic alone.
No row is without successors, so the work between two tuples depends on the query and not on the
data: constant delay.

A level is extended in pieces of a bounded number of tuples, depth first, so that never more than
one piece for each collection is held.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rekindle.traces.arrays import Int64s, single_chunk, take

BATCH_ROWS = 65_536


@dataclass(frozen=True, slots=True)
class Linked:
    """A collection whose rows lie together by key: row p of the parent owns `counts[p]` of them.

    They begin at `starts[p]`. A root belongs to one imagined row. `weights` are multiplicities of
    rows, or None where the weights only count.
    """

    columns: Sequence[Any]
    weights: Int64s | None
    parent: int | None
    starts: Int64s
    counts: Int64s

    @property
    def rows(self) -> int:
        return len(self.columns[0])


def link(
    columns: Sequence[Any],
    weights: Int64s | None,
    parent: int | None = None,
    parent_keys: Sequence[Any] = (),
) -> Linked:
    """A collection under the rows of its parent, which have its first columns as `parent_keys`."""
    size = len(columns[0])
    if parent is None:
        everything = np.array([size], dtype=np.int64)
        return Linked(columns, weights, None, np.zeros(1, dtype=np.int64), everything)
    ours, theirs = _codes(columns[: len(parent_keys)], parent_keys, size, len(parent_keys[0]))
    order = np.argsort(ours, kind="stable")
    ordered = ours[order]
    starts = np.searchsorted(ordered, theirs, side="left")
    counts = np.searchsorted(ordered, theirs, side="right") - starts
    moved = [take(column, order) for column in columns]
    return Linked(moved, None if weights is None else weights[order], parent, starts, counts)


def _codes(
    ours: Sequence[Any], theirs: Sequence[Any], size: int, above: int
) -> tuple[Int64s, Int64s]:
    """Numbers that are equal where keys are; a NULL equals none that a parent has."""
    combined: Int64s = np.zeros(size + above, dtype=np.int64)
    for mine, other in zip(ours, theirs, strict=True):
        both = pa.chunked_array([single_chunk(mine), single_chunk(other)]).combine_chunks()
        encoded = both.dictionary_encode().indices.fill_null(-1)
        codes = np.asarray(encoded, dtype=np.int64) + 1
        # Numbered anew for each column, so that they never grow beyond the rows.
        combined = np.unique(combined * (len(codes) + 1) + codes, return_inverse=True)[1]
    return combined[:size], combined[size:]


def enumerate_tuples(
    collections: Sequence[Linked], rows: int = BATCH_ROWS
) -> Iterator[list[Int64s]]:
    """Row numbers in each collection, for at most `rows` tuples at a time."""
    if any(each.parent is None and not each.rows for each in collections):
        return
    yield from _descend(collections, [], np.zeros(1, dtype=np.int64), rows)


def _descend(
    collections: Sequence[Linked], chosen: list[Int64s], first: Int64s, rows: int
) -> Iterator[list[Int64s]]:
    """The tuples that begin with the chosen rows; `first` stands in for the parent of roots."""
    if len(chosen) == len(collections):
        yield from _repeated(collections, chosen, rows)
        return
    level = collections[len(chosen)]
    owners = first if level.parent is None else chosen[level.parent]
    starts, counts = level.starts[owners], level.counts[owners]
    for tuples, offsets in _pieces(counts, rows):
        extended = [column[tuples] for column in chosen]
        extended.append(starts[tuples] + offsets)
        yield from _descend(collections, extended, first[tuples], rows)


def _repeated(
    collections: Sequence[Linked], chosen: list[Int64s], rows: int
) -> Iterator[list[Int64s]]:
    """Each tuple as often as the multiplicities of its rows say."""
    times: Int64s = np.ones(len(chosen[0]), dtype=np.int64)
    for each, numbers in zip(collections, chosen, strict=True):
        if each.weights is not None:
            times = times * each.weights[numbers]
    if (times == 1).all():
        yield chosen
        return
    for tuples, _ in _pieces(times, rows):
        yield [column[tuples] for column in chosen]


def _pieces(counts: Int64s, rows: int) -> Iterator[tuple[Int64s, Int64s]]:
    """Item i, `counts[i]` times: the items and which time it is, in pieces of at most `rows`."""
    ends = np.cumsum(counts)
    total = int(ends[-1])
    for low in range(0, total, rows):
        places = np.arange(low, min(low + rows, total), dtype=np.int64)
        items = np.searchsorted(ends, places, side="right")
        yield items, places - (ends - counts)[items]
