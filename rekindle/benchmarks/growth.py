"""By which power something grows: the slope of a line through logarithms."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rekindle.circuit.nodes import Stateful, Table
from rekindle.runtime.database import Database


def exponent(points: Sequence[tuple[float, float]]) -> float:
    """The power p of the x·cᵖ that fits best, by least squares on logarithms.

    >>> round(exponent([(10, 300), (20, 2400), (40, 19200)]), 6)
    3.0
    """
    places = [math.log(x) for x, _ in points]
    heights = [math.log(max(y, 1e-12)) for _, y in points]
    middle, level = sum(places) / len(places), sum(heights) / len(heights)
    spread = sum((x - middle) ** 2 for x in places)
    return sum((x - middle) * (y - level) for x, y in zip(places, heights, strict=True)) / spread


def kept_rows(db: Database) -> int:
    """The rows of all that a database keeps for its views."""
    nodes, traces = db._engine.circuit.nodes, db._engine.state.traces
    return sum(
        traces[key].rows
        for key, node in nodes.items()
        if isinstance(node, Stateful) and not isinstance(node, Table)
    )
