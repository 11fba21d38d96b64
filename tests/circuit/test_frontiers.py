"""What a window function looks at of its integral: no further back than its frame reaches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import pytest

from rekindle.calculus.bodies import Measures
from rekindle.calculus.scalars import Call, Column, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import Distance, Reach, RunningFrame, SlidingFrame
from rekindle.circuit.circuit import Circuit
from rekindle.circuit.frontiers import Frontiers, value_of
from rekindle.circuit.nodes import Arrangement, GroupMap, Table
from rekindle.circuit.operators.bounds import WHOLE, Bound, Earlier, Leaf, Monotone, Seen
from rekindle.circuit.stages import Branch, LinearForm, Project

ROWS = Schema.of(k="bigint", ts="bigint")
TABLE = Table("t", ROWS, (), "1")
KEY, TIME = Column(0, "bigint"), Column(1, "bigint")
ORDER = 2
MARK = Call("add", (TIME, TIME), "bigint")
"""It stands for the order of the time, which the calculus has no function for."""


class _Piece:
    leaves = frozenset([(1, WHOLE)])


class _Scalars:
    """Scalars of which the order is known to be that of the time, and to rise with it or not."""

    def __init__(self, rises: bool) -> None:
        self._piece = {WHOLE: cast(Monotone, _Piece())} if rises else {}

    def pieces(self, scalar: Scalar) -> Mapping[int, Monotone]:
        return self._piece

    def core_column(self, scalar: Scalar) -> int | None:
        return 1 if scalar == MARK else None


def _below(reach: Reach | None, rises: bool = False) -> dict[Leaf, Bound]:
    """Below what the rows of the integral of a window function are not looked at any more."""
    circuit = Circuit()
    circuit.table(TABLE)
    shown = Project((("k", KEY), ("ts", TIME), ("order", MARK)))
    rows = shown.output(ROWS)
    kept = Arrangement(LinearForm((Branch(TABLE.id, ROWS).then(shown),), rows), (KEY,), order=ORDER)
    window = GroupMap(kept.id, (0,), Measures(Schema(rows.fields[:1]), ()), reach)
    nodes = [kept, window, *([] if window.kept is None else [window.kept])]
    circuit.nodes |= {node.id: node for node in nodes}
    frontiers = Frontiers(circuit, {TABLE.id: 1}, frozenset(), _Scalars(rises))
    removals = frontiers.removals()
    if window.kept is not None:
        assert not removals[window.kept.id].is_possible, "the last result may be of any age"
    (reader,) = removals[kept.id].readers
    return dict(reader.need.below)


def test_rows_beyond_the_reach_of_a_frame_are_not_looked_at() -> None:
    found = _below(SlidingFrame(ORDER, before=5, after=3, distance=Distance.VALUES))
    assert found == {(1, WHOLE): Earlier(Seen(TABLE.id), 8)}
    (bound,) = found.values()
    assert value_of(bound, {TABLE.id: 100}, lambda _, __: None, {}) == 92
    assert value_of(bound, {}, lambda _, __: None, {}) is None


@pytest.mark.parametrize(
    "reach", [None, SlidingFrame(ORDER, 5, 3, Distance.ROWS), RunningFrame(ORDER, 3)]
)
def test_where_rows_are_counted_all_are_looked_at(reach: Reach | None) -> None:
    assert _below(reach) == {}


def test_a_running_frame_looks_on_from_a_change() -> None:
    """By the order itself: where NULLs come first it does not rise, and all are looked at."""
    assert set(_below(RunningFrame(ORDER, 3), rises=True)) == {(ORDER, WHOLE)}
