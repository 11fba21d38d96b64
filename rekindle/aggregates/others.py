"""Every aggregate without a class of its own: Spark computes it from the rows of the group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rekindle.aggregates.base import Arguments, GroupAggregate, Use
from rekindle.errors import DefinitionError


class Other(GroupAggregate):
    """What the use's own last step makes of the rows, or of those at some ranks."""

    tag = "other"

    def of_rows(self, use: Use, rows: Sequence[Arguments]) -> Any:
        if not callable(use.finish):
            raise DefinitionError(f"'{use.name}' is an aggregate that only Spark can compute")
        return use.finish(rows)
