"""Views that are defined by recursion: what is kept of the definition, and naive evaluation of it.

A `Loop` is a set of relations, each given by a query in which all of them may occur. It is stored
with each of the views that it defines, so that Spark can evaluate it from scratch, every query
again and again until nothing changes, as the reference against which a view is checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from rekindle.errors import DefinitionError, iteration_limit

LIMIT = 10_000
"""How many iterations a recursion may take unless its user says otherwise."""


@dataclass(frozen=True, slots=True)
class Nested:
    """A fixpoint inside the step of another: what is iterated, what it gives, and its bound.

    `around` has those of the iterated relations around it that it depends on.
    """

    iterated: str
    result: str
    limit: int
    around: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Loop:
    """Relations by name, the query of each, and which of them the view is.

    A fixpoint of functions has no queries, and may have others `nested` in its step.
    """

    names: tuple[str, ...]
    queries: tuple[str, ...]
    output: int
    limit: int
    nested: tuple[Nested, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "names": list(self.names),
            "queries": list(self.queries),
            "output": self.output,
            "limit": self.limit,
            "nested": [[n.iterated, n.result, n.limit, list(n.around)] for n in self.nested],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any] | None) -> Loop | None:
        if data is None:
            return None
        nested = tuple(
            Nested(iterated, result, limit, tuple(around))
            for iterated, result, limit, around in data.get("nested", ())
        )
        names, queries = tuple(data["names"]), tuple(data["queries"])
        return cls(names, queries, data["output"], data["limit"], nested)


@dataclass(frozen=True, slots=True)
class Fixpoint:
    """A relation that begins as `initial` and becomes `step` of itself until nothing changes."""

    initial: DataFrame
    step: Step
    iterations: int

    def dataframe(self) -> DataFrame:
        """What the relation becomes, inside the step of another fixpoint.

        The outer iteration goes on when this one has come to its end, which it does anew at every
        iteration of the outer one.
        """
        reader = _READER.get()
        if reader is None:
            raise DefinitionError(
                "a fixpoint is read as a DataFrame outside of the step of another one",
                hint="create a view by it, db.create_view(name, rekindle.fixpoint(...)), and read "
                "that: db.table(name)",
            )
        return reader(self)


Step: TypeAlias = Callable[[DataFrame], "DataFrame | Fixpoint"]
Reader: TypeAlias = Callable[[Fixpoint], DataFrame]
_READER: ContextVar[Reader | None] = ContextVar("reader", default=None)


@contextmanager
def read_by(reader: Reader) -> Iterator[None]:
    """Let `reader` say what fixpoints are as DataFrames, for as long as a step is called."""
    token = _READER.set(reader)
    try:
        yield
    finally:
        _READER.reset(token)


def fixpoint(initial: DataFrame, step: Step, *, iterations: int = LIMIT) -> Fixpoint:
    """The definition of a view by iteration, for `db.create_view`.

    `step` is called once, to say what it computes of a relation; the relation may grow, shrink or
    be replaced. A transaction after which it takes more than so many iterations is undone. A step
    may use another fixpoint, of its relation or within its own step: `fixpoint(...).dataframe()`.
    """
    if iterations < 1:
        raise DefinitionError("a fixpoint needs at least 1 iteration")
    if not isinstance(initial, DataFrame):
        raise DefinitionError(
            f"a fixpoint begins with a DataFrame, not with a {type(initial).__name__}",
            hint="inside a step, rekindle.fixpoint(...).dataframe() is what another one gives",
        )
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
