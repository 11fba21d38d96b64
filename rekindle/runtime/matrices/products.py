"""Plain changes that are products: found by looking at them, then led through as vectors.

A change of a matrix has three parts: entries that get another value, entries that arrive and those
that leave. A part is worth vectors if it is a sum of r products u·vᵀ and r is small:

    3  6  -3
    1  2  -1   =   u·vᵀ   with   u = (3, 1),  v = (1, 2, -1)

Whole numbers are taken apart exactly, by elimination: a row is divided by its greatest common
divisor, and a column that one of its numbers divides gives the multiples to take off; what is left
over must be zero. A product of two vectors is always found, sums of several in most cases. Where
a part counts rows that arrive or leave, it has to be all pairs of some rows and some columns, which
their numbers tell. A table of two columns is a matrix of ones. Doubles are left alone: another
order of products rounds otherwise.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.circuit.nodes import Table
from rekindle.columns import column_name
from rekindle.incremental.policies.factored_updates import Matrix
from rekindle.runtime.matrices.factored import Factors, shape_of, vector_rows
from rekindle.traces.arrays import WEIGHT, Booleans, Int64s, integers, single_chunk

LEAST_ENTRIES = 1_000
LEAST_SAVING = 4
"""Entries that the vectors have to stand for, and how many for each number in a vector."""
LEAST_IN_LINES = 32
MOST_PRODUCTS = 8
"""A change of so few rows or columns is worth vectors with fewer entries: what each of these meets
on either side is summed up before both meet."""
MOST_EMPTY = 16
"""How many times more places than entries are looked at."""
_LARGEST = 2**61

Grid = npt.NDArray[np.int64]


class Fate(enum.Enum):
    """What becomes of the entries of a part."""

    CHANGE = "changed"
    ARRIVE = "arrived"
    LEAVE = "left"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a change as a sum of products, and the rows that it stands for."""

    fate: Fate
    factors: Factors
    rank: int
    rows: pa.Table

    def __str__(self) -> str:
        products = "1 product" if self.rank == 1 else f"{self.rank} products"
        left, right = (len(each) // self.rank for each in self.factors.tables)
        sides = f" of {left:,} by {right:,}" if self.fate is not Fate.CHANGE else ""
        return f"{len(self.rows):,} rows of entries that {self.fate.value} by {products}{sides}"


@dataclass(frozen=True, slots=True)
class Split:
    """A change as sums of products, and the rows that are none."""

    pieces: tuple[Piece, ...]
    rest: pa.Table


def split(node: Table, rows: pa.Table) -> Split:
    """The products among an arranged change of a table."""
    matrix = shape_of(node)
    whole = Split((), rows)
    if matrix is None or len(rows) < LEAST_IN_LINES:
        return whole
    found = _read(matrix, rows)
    if found is None:
        return whole
    pieces: list[Piece] = []
    rest: Booleans = np.ones(len(rows), dtype=bool)
    for part in _parts(found):
        factors = _factors(found, part)
        if factors is not None:
            vectors, rank = factors
            covered = np.concatenate(part.places)
            rest[covered] = False
            pieces.append(Piece(part.fate, vectors, rank, rows.take(pa.array(np.sort(covered)))))
    return Split(tuple(pieces), rows.filter(pa.array(rest))) if pieces else whole


@dataclass(frozen=True, slots=True)
class _Change:
    """Entries by the numbers of their row and column, with weights of ±1."""

    indices: tuple[Any, Any]
    across: int
    codes: Int64s
    weights: Int64s
    values: Int64s | None


@dataclass(frozen=True, slots=True)
class _Part:
    fate: Fate
    codes: Int64s
    values: Int64s | None
    places: tuple[Int64s, ...]
    """Where its rows are."""


def _read(matrix: Matrix, rows: pa.Table) -> _Change | None:
    weights = integers(rows.column(WEIGHT))
    if (np.abs(weights) != 1).any():
        return None
    known: list[Any] = []
    numbers: list[Int64s] = []
    for place in (matrix.row, matrix.column):
        column = single_chunk(rows.column(column_name(place)))
        if column.null_count or not _is_told_apart(column.type):
            return None
        encoded = pc.dictionary_encode(column)
        known.append(encoded.dictionary)
        numbers.append(np.asarray(encoded.indices, dtype=np.int64))
    values: Int64s | None = None
    if matrix.value is not None:
        column = single_chunk(rows.column(column_name(matrix.value)))
        if column.null_count or column.type != pa.int64():
            return None
        values = integers(column)
        if _most(values) > _LARGEST // 2:
            return None
    across = len(known[1])
    return _Change((known[0], known[1]), across, numbers[0] * across + numbers[1], weights, values)


def _is_told_apart(type_: pa.DataType) -> bool:
    """Are equal values of the type the same bytes? Not those of floating point numbers."""
    return bool(
        pa.types.is_integer(type_) or pa.types.is_string(type_) or pa.types.is_date32(type_)
    )


def _parts(change: _Change) -> Iterator[_Part]:
    plus, minus = (np.flatnonzero(change.weights == sign) for sign in (1, -1))
    codes = change.codes
    values = change.values
    if values is None:
        yield _Part(Fate.ARRIVE, codes[plus], None, (plus,))
        yield _Part(Fate.LEAVE, codes[minus], None, (minus,))
        return
    if any(len(np.unique(codes[each])) < len(each) for each in (plus, minus)):
        return
    both, new, old = np.intersect1d(codes[plus], codes[minus], return_indices=True)
    new, old = plus[new], minus[old]
    yield _Part(Fate.CHANGE, both, values[new] - values[old], (new, old))
    for fate, places in ((Fate.ARRIVE, plus), (Fate.LEAVE, minus)):
        alone = places[~np.isin(codes[places], both)]
        yield _Part(fate, codes[alone], values[alone], (alone,))


def _factors(change: _Change, part: _Part) -> tuple[Factors, int] | None:
    entries = len(part.codes)
    if entries < LEAST_IN_LINES:
        return None
    rows, at = np.unique(part.codes // change.across, return_inverse=True)
    columns, over = np.unique(part.codes % change.across, return_inverse=True)
    places = len(rows) * len(columns)
    counted = part.fate is not Fate.CHANGE
    if places > MOST_EMPTY * entries or (counted and places != entries):
        return None
    known = [
        index.take(pa.array(chosen))
        for index, chosen in zip(change.indices, (rows, columns), strict=True)
    ]
    if part.values is None:
        if not _pays(entries, len(rows), len(columns), 1):
            return None
        ones = [np.ones((len(each), 1), dtype=np.int64) for each in known]
        left, right = (
            vector_rows(index, stacked, counted=True).drop_columns("c2")
            for index, stacked in zip(known, ones, strict=True)
        )
        return Factors((left, right)), 1
    grid = np.zeros((len(rows), len(columns)), dtype=np.int64)
    grid[at, over] = part.values
    found = taken_apart(grid)
    if found is None or not _pays(entries, *grid.shape, found[0].shape[1]):
        return None
    left, right = (
        vector_rows(index, stacked, counted=counted)
        for index, stacked in zip(known, found, strict=True)
    )
    return Factors((left, right)), found[0].shape[1]


def _pays(entries: int, rows: int, columns: int, rank: int) -> bool:
    if min(rows, columns) <= MOST_PRODUCTS:
        return True
    return entries >= LEAST_ENTRIES and entries >= LEAST_SAVING * rank * (rows + columns)


def taken_apart(grid: Grid, most: int = MOST_PRODUCTS) -> tuple[Grid, Grid] | None:
    """U and V with grid = U·Vᵀ and few columns, exactly; None if they are not found.

    >>> u, v = taken_apart(np.array([[3, 6, -3], [1, 2, -1]]))
    >>> u.tolist(), v.tolist()
    ([[3], [1]], [[1], [2], [-1]])
    """
    rest = grid.copy()
    left: list[Int64s] = []
    right: list[Int64s] = []
    while len(left) < most and rest.any():
        pivot = _pivot(rest)
        if pivot is None:
            break
        row, at = pivot
        column = rest[:, at] // row[at]
        if float(_most(column)) * float(_most(row)) > _LARGEST or _most(rest) > _LARGEST:
            break
        rest = rest - np.outer(column, row)
        left.append(column)
        right.append(row)
    if not rest.any():
        zero = [np.zeros((size, 1), dtype=np.int64) for size in grid.shape]
        return (np.stack(left, axis=1), np.stack(right, axis=1)) if left else (zero[0], zero[1])
    rows, columns = grid.shape
    if min(rows, columns) > most:
        return None
    unit = np.eye(min(rows, columns), dtype=np.int64)
    return (unit, grid.T) if rows <= columns else (grid, unit)


_TRIED_ROWS = 4


def _pivot(rest: Grid) -> tuple[Int64s, int] | None:
    """A row without its common divisor, and where it divides the whole column."""
    for place in np.flatnonzero(rest.any(axis=1))[:_TRIED_ROWS]:
        row = rest[place] // np.gcd.reduce(rest[place])
        columns = np.flatnonzero(row)
        dividing = columns[~(rest[:, columns] % row[columns]).any(axis=0)]
        if len(dividing):
            return row, int(dividing[0])
    return None


def _most(values: Any) -> int:
    return int(np.abs(values).max(initial=0))
