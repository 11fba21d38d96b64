"""mode: the most frequent value of a group, and of several the least or the greatest.

It is not linear, but derived from what is (`calculus.derived`): the values are counted, for each
frequency the first value is kept, and of these the one with the greatest frequency. A changed row
moves one value from one frequency to another, and no other row of its group is read.

The arguments are the value and minus the number of its rows, which is −1 in a row, and 0 where the
value is NULL. So it is also the mode of values that are counted already, of each once or of the
first of each frequency.

Without an order of the values Spark takes any of those that are equally frequent, and computes it
from the rows of the group (`others`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, ClassVar

from rekindle.aggregates.base import Arguments, GroupAggregate, Use
from rekindle.aggregates.extremes import Extreme


class LeastMode(GroupAggregate):
    """mode(x, true), mode() WITHIN GROUP (ORDER BY x)."""

    tag = "mode"
    first: ClassVar[Extreme] = Extreme.LEAST
    """Which of the values that are equally frequent it is."""

    def of_rows(self, use: Use, rows: Sequence[Arguments]) -> Any:
        negated: defaultdict[Any, int] = defaultdict(int)
        for value, number in rows:
            negated[value] += number
        least = min(negated.values(), default=0)
        choose = min if self.first is Extreme.LEAST else max
        return choose((value for value, number in negated.items() if number == least), default=None)


class GreatestMode(LeastMode):
    """mode() WITHIN GROUP (ORDER BY x DESC)."""

    tag = "mode_descending"
    first: ClassVar[Extreme] = Extreme.GREATEST
