"""How many rows stand before a place of a segment: the sum of the weights up to there.

A segment never changes, so one pass over its weights serves for as long as it is open. A sum is
kept for every block of rows, and the rest of a block is added up where it is asked for.
"""

from __future__ import annotations

import numpy as np

from rekindle.traces.arrays import Int64s, ranges

_BLOCK = 64


class WeightSums:
    """The running sums of a vector of weights.

    >>> WeightSums(np.array([2, 1, -1, 5])).before(np.array([0, 2, 4])).tolist()
    [0, 3, 7]
    """

    def __init__(self, weights: Int64s, anywhere: Int64s | None = None) -> None:
        """Of weights read once in order; `anywhere` are the same, for single blocks."""
        self._weights = weights if anywhere is None else anywhere
        starts = np.arange(0, len(weights), _BLOCK)
        sums = np.add.reduceat(weights, starts) if len(weights) else weights
        self._blocks = np.append(0, np.cumsum(sums))

    def before(self, rows: Int64s) -> Int64s:
        """The sum of the weights of all rows before each of some rows."""
        block = rows // _BLOCK
        begin = block * _BLOCK
        rest = rows - begin
        running = np.append(0, np.cumsum(self._weights[ranges(begin, rest)]))
        ends = np.cumsum(rest)
        found: Int64s = self._blocks[block] + running[ends] - running[ends - rest]
        return found
