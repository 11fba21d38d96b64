"""What the cost of a node follows from: rows stored, rows moved, and rows that a join makes of one.

All of them are estimates but the first. Rows are the unit: a row that is looked up or computed
costs about as much at one node as at another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from rekindle.circuit.stages import LinearForm

GROUP_ROWS = 4
"""Rows that a touched group, or a range with two ends, is taken to have where nothing is known."""


class Cost(NamedTuple):
    """The rows that a node touches, and those that it gives."""

    touched: int
    given: int


@dataclass(frozen=True, slots=True)
class Sizes:
    """The rows that nodes hold or pass on when all is filled, and those of a step so far."""

    stored: Mapping[str, int]
    fanouts: Mapping[str, float]
    """The rows that a join gives for a row of the change."""
    moved: dict[str, int] = field(default_factory=dict)
    """The rows by which nodes change in the step."""

    def fanout(self, key: str) -> float:
        return self.fanouts.get(key, 1.0)

    def moved_of(self, form: LinearForm) -> int:
        """The changed rows that the branches of a form read."""
        return sum(self.moved.get(branch.node, 0) for branch in form.branches)
