"""Products that are found in plain changes: they are exact, and only found where they pay."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rekindle.calculus.schema import Field, Schema
from rekindle.circuit.nodes import Table
from rekindle.runtime.matrices import products
from rekindle.runtime.matrices.products import Fate, Piece, Split, split, taken_apart
from rekindle.traces.arrays import WEIGHT, integers
from tests.policies.strategies import Draw

Entry = tuple[int, Any, Any, Any]
MATRIX = Table(
    "m", Schema((Field("i", "int"), Field("v", "bigint"), Field("j", "string"))), (0, 2), "1"
)
PAIRS = Table("p", Schema((Field("a", "int"), Field("b", "int"))), (), "2")


def change(entries: list[Entry], values: Any = None) -> pa.Table:
    weights, rows, columns, numbers = zip(*entries, strict=True)
    return pa.table(
        {
            WEIGHT: pa.array(weights, pa.int64()),
            "c0": pa.array(rows, pa.int32()),
            "c1": pa.array(numbers, values or pa.int64()),
            "c2": pa.array([f"{c}" for c in columns]),
        }
    )


def written_out(piece: Piece) -> Counter[tuple[Any, Any, int]]:
    """The entries of a piece with their values, from its vectors."""
    left, right = ([*zip(*t.to_pydict().values(), strict=True)] for t in piece.factors.tables)
    sums: Counter[tuple[Any, Any]] = Counter()
    pairs: Counter[tuple[Any, Any]] = Counter()
    for (_, t, i, x), (_, s, j, y) in product(left, right):
        if t == s:
            sums[i, j] += x * y
            pairs[i, j] += 1
    if piece.fate is not Fate.CHANGE:
        assert set(pairs.values()) == {piece.rank}
    return Counter({(i, j, x): 1 for (i, j), x in sums.items() if x or piece.fate != Fate.CHANGE})


def differences(rows: pa.Table, fate: Fate) -> Counter[tuple[Any, Any, int]]:
    """The entries of a piece with what is added or taken, from its rows."""
    sums: Counter[tuple[Any, Any]] = Counter()
    for row in rows.to_pylist():
        sign = row[WEIGHT] if fate is Fate.CHANGE else 1
        sums[row["c0"], row["c2"]] += sign * row["c1"]
    return Counter({(i, j, x): 1 for (i, j), x in sums.items() if x or fate is not Fate.CHANGE})


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LEAST_IN_LINES", 4)
    monkeypatch.setattr(products, "LEAST_ENTRIES", 9)
    monkeypatch.setattr(products, "LEAST_SAVING", 1)


grids = st.integers(1, 6).flatmap(
    lambda n: st.lists(st.lists(st.integers(-4, 4), min_size=n, max_size=n), min_size=1, max_size=6)
)


@given(grids, st.integers(1, 4))
def test_what_is_taken_apart_is_put_together_again(grid: list[list[int]], most: int) -> None:
    given_ = np.array(grid, dtype=np.int64)
    found = taken_apart(given_, most)
    if found is not None:
        left, right = found
        assert left.shape[1] == right.shape[1] <= max(1, most)
        assert (left @ right.T == given_).all()
    else:
        assert min(given_.shape) > most


@given(st.lists(st.integers(-9, 9), min_size=9), st.lists(st.integers(-9, 9), min_size=9))
def test_a_product_of_two_vectors_is_found(u: list[int], v: list[int]) -> None:
    whole = np.outer(u, v)
    found = taken_apart(whole)
    assert found is not None and found[0].shape[1] == 1


def test_large_values_are_left_alone() -> None:
    large = np.full((9, 9), 2**62, dtype=np.int64)
    large[0, 0] = 1
    assert taken_apart(large) is None


@st.composite
def changes(draw: Draw) -> list[Entry]:
    """Entries that change, arrive and leave, some of them by a product."""
    entries: list[Entry] = []
    numbers = st.integers(-3, 3)
    for kind in draw(st.sets(st.sampled_from(("change", "arrive", "leave", "other")))):
        rows = [f"{kind}{i}" for i in range(draw(st.integers(1, 4)))]
        columns = range(draw(st.integers(1, 4)))
        u, v = ([draw(numbers) for _ in each] for each in (rows, columns))
        base = {"change": 0, "arrive": 10, "leave": 20, "other": 30}[kind]
        for (i, _), j in product(enumerate(rows), columns):
            x = u[i] * v[j]
            match kind:
                case "change":
                    old = draw(numbers)
                    if x:
                        entries += [(-1, base + i, j, old), (1, base + i, j, old + x)]
                case "arrive":
                    entries.append((1, base + i, j, x))
                case "leave":
                    entries.append((-1, base + i, j, x))
                case _ if draw(st.booleans()):
                    entries.append((1, base + i, j, draw(numbers)))
    return entries


@given(changes())
def test_pieces_and_the_rest_are_the_change(entries: list[Entry]) -> None:
    if not entries:
        return
    rows = change(entries)
    found = split(MATRIX, rows)
    parts = [found.rest, *(piece.rows for piece in found.pieces)]
    together = [tuple(row.values()) for part in parts for row in part.to_pylist()]
    assert Counter(together) == Counter(tuple(row.values()) for row in rows.to_pylist())
    for piece in found.pieces:
        assert written_out(piece) == differences(piece.rows, piece.fate)


def fates(found: Split) -> list[tuple[Fate, int]]:
    return [(piece.fate, piece.rank) for piece in found.pieces]


def outer(rows: int, columns: int) -> npt.NDArray[np.int64]:
    return np.outer(np.arange(1, rows + 1), np.arange(1, columns + 1))


def entries_of(grid: npt.NDArray[np.int64], weight: int = 1) -> list[Entry]:
    return [(weight, i, j, int(x)) for (i, j), x in np.ndenumerate(grid)]


def test_a_full_product_is_one_piece() -> None:
    found = split(MATRIX, change(entries_of(outer(9, 10))))
    assert fates(found) == [(Fate.ARRIVE, 1)] and not len(found.rest)
    assert "90 rows" in str(found.pieces[0]) and "9 by 10" in str(found.pieces[0])


def test_a_product_with_a_gap_changes_the_number_of_rows_otherwise() -> None:
    assert not split(MATRIX, change(entries_of(outer(9, 10))[:-1])).pieces


def test_zeros_that_arrive_are_counted() -> None:
    found = split(MATRIX, change(entries_of(np.zeros((9, 9), dtype=np.int64), -1)))
    assert fates(found) == [(Fate.LEAVE, 1)]
    assert [len(table) for table in found.pieces[0].factors.tables] == [9, 9]


def test_no_product_is_seen_where_there_is_none() -> None:
    grid = np.random.default_rng(3).integers(-50, 50, (12, 12))
    assert not split(MATRIX, change(entries_of(grid))).pieces


def test_a_few_lines_are_their_own_vectors() -> None:
    grid = np.random.default_rng(3).integers(20, 50, (2, 12)) * 7
    assert fates(split(MATRIX, change(entries_of(grid)))) == [(Fate.ARRIVE, 2)]


def test_doubles_and_double_rows_stay_as_they_are() -> None:
    whole = entries_of(outer(9, 9))
    floats = Table(
        "d", Schema((Field("i", "int"), Field("v", "double"), Field("j", "string"))), (0, 2), "3"
    )
    assert not split(floats, change(whole, pa.float64())).pieces
    assert not split(MATRIX, change([(2, *rest) for _, *rest in whole])).pieces
    assert not split(MATRIX, change([(1, i, "x", v) for _, i, _, v in whole])).pieces


@pytest.mark.parametrize("weight", [1, -1])
def test_all_pairs_of_two_lists_are_a_product(weight: int) -> None:
    pairs = list(product(range(9), range(12)))
    rows = pa.table(
        {
            WEIGHT: pa.array([weight] * len(pairs), pa.int64()),
            "c0": pa.array([a for a, _ in pairs], pa.int32()),
            "c1": pa.array([b for _, b in pairs], pa.int32()),
        }
    )
    found = split(PAIRS, rows)
    assert fates(found) == [(Fate.ARRIVE if weight == 1 else Fate.LEAVE, 1)]
    left, right = found.pieces[0].factors.tables
    assert sorted(integers(left.column("c1").cast(pa.int64())).tolist()) == list(range(9))
    assert len(right) == 12 and left.column_names == [WEIGHT, "c0", "c1"]
    assert not split(PAIRS, rows.slice(1)).pieces
    nothing = rows.set_column(1, "c0", pa.array([None] * len(rows), pa.int32()))
    assert not split(PAIRS, nothing).pieces
