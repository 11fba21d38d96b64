"""What a user gives for a view that is defined by iteration: a first relation, and a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame

from rekindle.errors import DefinitionError
from rekindle.frontends.iteration import LIMIT


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
