"""Where a step runs, and each operator of it: decided by the rows that reach them.

A step of few changed rows runs in the driver as a whole. One of many runs on Spark, but for the
operators that few rows reach: a job for each of those would take longer than its work. A placement
that a user forces holds for all.
"""

from __future__ import annotations

from dataclasses import dataclass

from rekindle.spark.step import Placement

STEP_ROWS = 2_000_000
"""Up to so many changed rows a step in the driver costs less than Spark jobs (bench shares)."""
OPERATOR_ROWS = 50_000
"""An operator that so many rows reach runs in the driver, also in a step on Spark."""


@dataclass(slots=True)
class Placing:
    """The choice of a placement, for one database."""

    forced: Placement | None = None

    def takes_step(self, rows: int) -> bool:
        """Does a step over so many changed rows run in the driver?"""
        if self.forced is not None:
            return self.forced is Placement.INLINE
        return rows <= STEP_ROWS

    def takes_operator(self, rows: int) -> bool:
        """Does an operator that so many rows reach run in the driver, in a step on Spark?"""
        return self.forced is not Placement.SPARK and rows <= OPERATOR_ROWS
