"""What a user gives for a view that is defined by iteration: first relations, and a step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from pyspark.sql import DataFrame

from rekindle.calculus.terms import Bound
from rekindle.errors import DefinitionError
from rekindle.frontends.iteration import LIMIT

Step: TypeAlias = Callable[..., Any]
"""From DataFrames to the DataFrame, or the fixpoint, that the iteration goes to.

That of one relation gets it; that of several gets them by their names and gives a dict.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Iteration:
    """Relations that begin as `initial` and become what `step` makes of them, all at once.

    They do until nothing changes, or no row of what the step gives has true in its column
    `while_any`, or, where the limit is a result, so many times.
    """

    initial: Mapping[str, DataFrame]
    """By name; a relation that is alone has the name ''."""
    step: Step
    limit: int
    bound: Bound
    while_any: str | None

    @property
    def is_alone(self) -> bool:
        return "" in self.initial

    def after(self, frames: Mapping[str, DataFrame], words: str) -> dict[str, object]:
        """What the step gives of DataFrames, for each relation."""
        if self.is_alone:
            return {"": self.step(frames[""])}
        given = self.step(**frames)
        if not isinstance(given, Mapping) or given.keys() != self.initial.keys():
            names = ", ".join(map(repr, self.initial))
            found = (
                f"a dict of {', '.join(map(repr, given)) or 'nothing'}"
                if isinstance(given, Mapping)
                else f"a {type(given).__name__}"
            )
            raise DefinitionError(
                f"the step of '{words}' gives {found}",
                hint=f"return a dict with what each of {names} becomes",
            )
        return {name: given[name] for name in self.initial}


@dataclass(frozen=True, slots=True, eq=False)
class Fixpoint:
    """What one of the relations of an iteration becomes."""

    iteration: Iteration
    name: str | None
    """None as long as it is not said which of several."""

    def __getitem__(self, name: str) -> Fixpoint:
        """The same iteration, of which another relation is wanted."""
        known = self.iteration.initial
        if self.iteration.is_alone or name not in known:
            names = ", ".join(repr(each) for each in known if each)
            raise DefinitionError(
                f"the fixpoint has no relation {name!r}",
                hint=f"it has {names}" if names else "it is of one relation, which has no name",
            )
        return replace(self, name=name)

    @property
    def relation(self) -> str:
        """The name of the relation that is wanted."""
        if self.name is None:
            names = list(self.iteration.initial)
            raise DefinitionError(
                f"a fixpoint of several relations: {', '.join(map(repr, names))}",
                hint=f"say which of them is wanted, as in fixpoint(...)[{names[0]!r}]",
            )
        return self.name

    @property
    def initial(self) -> DataFrame:
        return self.iteration.initial[self.relation]

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


def fixpoint(
    initial: DataFrame | Mapping[str, DataFrame],
    step: Step,
    *,
    iterations: int | None = None,
    limit: int | None = None,
    while_any: str | None = None,
) -> Fixpoint:
    """The definition of a view by iteration, for `db.create_view`.

    `step` is called once, to say what it computes of a relation; the relation may grow, shrink or
    be replaced. A step may use another fixpoint, of its relation or within its own step:
    `fixpoint(...).dataframe()`.

    The iteration ends when nothing changes any more. A transaction after which that takes more than
    so many `iterations` (10,000) is undone. With a `limit` it ends after so many steps at the
    latest, and what the relation is then is the result. `while_any` names a boolean column that the
    step gives besides those of the relation: it ends after the first step that gives no row which
    has true there, too.

    Several relations are a dict, which the step gets by name and gives again:
    `fixpoint({"a": ..., "b": ...}, lambda a, b: {"a": ..., "b": ...})["a"]` is one of them.
    """
    if iterations is not None and limit is not None:
        raise DefinitionError(
            "a fixpoint has both 'iterations' and a 'limit'",
            detail="'iterations' is how many it may take, 'limit' how many it takes at most",
            hint="leave out one of them",
        )
    for words, number in (("iterations", iterations), ("limit", limit)):
        whole = isinstance(number, int) and not isinstance(number, bool)
        if number is not None and (not whole or number < 1):
            raise DefinitionError(
                f"a fixpoint needs at least 1 iteration, and '{words}' is {number!r}"
            )
    if not callable(step):
        raise DefinitionError(
            f"the step of a fixpoint is a function of DataFrames, not a {type(step).__name__}"
        )
    if while_any is not None and not isinstance(while_any, str):
        raise DefinitionError(f"while_any is the name of a column, not {while_any!r}")
    frames = dict(initial) if isinstance(initial, Mapping) else {"": initial}
    if not frames:
        raise DefinitionError("a fixpoint of no relations", hint="give a DataFrame for each name")
    for name, frame in frames.items():
        _check_first(name, frame, isinstance(initial, Mapping))
    if limit is not None:
        iteration = Iteration(frames, step, limit, Bound.RESULT, while_any)
    else:
        iteration = Iteration(frames, step, iterations or LIMIT, Bound.ERROR, while_any)
    return Fixpoint(iteration, None if isinstance(initial, Mapping) else "")


def _check_first(name: str, frame: object, is_named: bool) -> None:
    if is_named and not (isinstance(name, str) and name.isidentifier()):
        raise DefinitionError(
            f"{name!r} cannot be the name of a relation of a fixpoint",
            hint="the step gets the relations by name: use names of Python's arguments",
        )
    if not isinstance(frame, DataFrame):
        raise DefinitionError(
            f"a fixpoint begins with a DataFrame, not with a {type(frame).__name__}",
            detail=f"the relation {name!r}" if is_named else "",
            hint="inside a step, rekindle.fixpoint(...).dataframe() is what another one gives",
        )
