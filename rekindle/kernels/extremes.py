"""Least and greatest values of groups, on Arrow columns.

For types that Arrow orders as Spark does (`rekindle.spark.vectors`) there is no need to ask Spark:
NULLs are passed over, and the extreme of nothing but NULLs is NULL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from rekindle.aggregates.extremes import Extreme
from rekindle.traces.arrays import WEIGHT

_FUNCTIONS = {Extreme.LEAST: "min", Extreme.GREATEST: "max"}


@dataclass(frozen=True, slots=True)
class Extremes:
    """One row for each moment and group: the keys at some positions, and extremes of others."""

    keys: tuple[int, ...]
    measures: tuple[tuple[int, Extreme], ...]

    def run(self, rows: Any) -> Any:
        """From a table of the moment and columns to one of `_weight`, keys and extremes."""
        names = rows.column_names
        groups = [names[0], *(names[1 + i] for i in self.keys)]
        wanted = [(names[1 + i], _FUNCTIONS[extreme]) for i, extreme in self.measures]
        found = rows.group_by(groups, use_threads=False).aggregate(list(dict.fromkeys(wanted)))
        columns = [found.column(name) for name in groups]
        columns += [found.column(f"{name}_{function}") for name, function in wanted]
        return pa.Table.from_arrays(columns, names=[WEIGHT, *map(str, range(len(columns) - 1))])
