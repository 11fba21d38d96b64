"""Views that are defined by recursion: what is kept of the definition, and naive evaluation of it.

A `Loop` is a set of relations, each given by a query in which all of them may occur. It is stored
with each of the views that it defines, so that Spark can evaluate it from scratch, every query
again and again until nothing changes, as the reference against which a view is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from rekindle.errors import DefinitionError, iteration_limit

LIMIT = 10_000
"""How many iterations a recursion may take unless its user says otherwise."""


@dataclass(frozen=True, slots=True)
class Loop:
    """Relations by name, the query of each, and which of them the view is."""

    names: tuple[str, ...]
    queries: tuple[str, ...]
    output: int
    limit: int

    def to_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "queries": list(self.queries),
            "output": self.output,
            "limit": self.limit,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Loop | None:
        if data is None:
            return None
        return cls(tuple(data["names"]), tuple(data["queries"]), data["output"], data["limit"])


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """A relation that begins as `initial` and becomes `step` of itself until nothing changes."""

    initial: DataFrame
    step: Callable[[DataFrame], DataFrame]
    iterations: int


def fixpoint(
    initial: DataFrame, step: Callable[[DataFrame], DataFrame], *, iterations: int = LIMIT
) -> Fixpoint:
    """The definition of a view by iteration, for `db.create_view`.

    `step` is called once, to say what it computes of a relation; the relation may grow, shrink or
    be replaced. A transaction after which it takes more than so many iterations is undone.
    """
    if iterations < 1:
        raise DefinitionError("a fixpoint needs at least 1 iteration")
    return Fixpoint(initial, step, iterations)


Evaluate = Callable[[str, Mapping[str, pa.Table]], pa.Table]
"""A query's rows, given what the relations hold now."""


def fixed_point(loop: Loop, first: Mapping[str, pa.Table], evaluate: Evaluate) -> pa.Table:
    """Every query again, from the `first` rows on, until all give what they gave before."""
    values = dict(first)
    for _ in range(loop.limit + 1):
        after = {
            name: evaluate(query, values)
            for name, query in zip(loop.names, loop.queries, strict=True)
        }
        if all(_same(values[name], table) for name, table in after.items()):
            return values[loop.names[loop.output]]
        values = after
    raise iteration_limit(loop.names, loop.limit)


def _same(one: pa.Table, other: pa.Table) -> bool:
    return len(one) == len(other) and _bag(one) == _bag(other)


def _bag(table: pa.Table) -> Counter[str]:
    return Counter(repr(row) for row in table.to_pylist())
