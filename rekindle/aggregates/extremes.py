"""min, max, min_by and max_by: the first row of the group in an ordered trace decides them."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any, ClassVar

from rekindle.aggregates.base import Arguments, GroupAggregate, Use


class Extreme(Enum):
    """Which end of an order an aggregate asks for."""

    LEAST = "least"
    GREATEST = "greatest"


class Least(GroupAggregate):
    """The first argument of the row whose last argument is least."""

    tag = "least"
    calls = ("Min", "MinBy")
    extreme: ClassVar[Extreme] = Extreme.LEAST

    def of_rows(self, use: Use, rows: Sequence[Arguments]) -> Any:
        return min((row[0] for row in rows if row), default=None)


class Greatest(GroupAggregate):
    """The first argument of the row whose last argument is greatest."""

    tag = "greatest"
    calls = ("Max", "MaxBy")
    direction = "Descending"
    extreme: ClassVar[Extreme] = Extreme.GREATEST

    def of_rows(self, use: Use, rows: Sequence[Arguments]) -> Any:
        return max((row[0] for row in rows if row), default=None)
