"""What an aggregate is: Spark's names for it, its ring, its lift, its last step, its exactness.

A *linear* aggregate maps each row of a group into a ring, adds up, and takes a last step. It has
the map twice: in Python, for the interpreter, and on Arrow columns, as an accumulator. Its law is
that both give the same, whatever was inserted and deleted on the way to the rows that are there.

Any other aggregate is a function of the rows of its group, of which the first in some order may be
enough.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar, Protocol, TypeAlias

from rekindle.aggregates.accumulators import Accumulator
from rekindle.errors import DefinitionError

Arguments: TypeAlias = tuple[Any, ...]
"""The values of an aggregate's arguments on one row."""
Members: TypeAlias = Sequence[tuple[Arguments, int, int]]
"""The rows of a group: arguments, the row's weight, and how many rows each stands for."""
Buffers: TypeAlias = Sequence[Any]
"""The Arrow types of Spark's aggregation buffer; none where the last step is not Spark's."""


class Typed(Protocol):
    """An argument."""

    @property
    def type(self) -> str: ...


class Use(Protocol):
    """One use of an aggregate in a view: a measure, as far as an aggregate asks."""

    @property
    def name(self) -> str: ...

    @property
    def arguments(self) -> Sequence[Typed]: ...

    @property
    def text(self) -> str: ...

    @property
    def finish(self) -> object: ...


class Exactness(Enum):
    """How the result stands to the one that exact arithmetic over the present rows gives."""

    EXACT = "exact"
    """The ring value is exact; only the last step rounds, once."""
    ROUNDED_PRODUCTS = "rounded products"
    """Products of doubles in one row are rounded; their sum is exact."""
    AS_GIVEN = "as given"
    """As exact as a user's ring is."""


@dataclass(frozen=True, slots=True)
class SparkForm:
    """How to read a call of one of Spark's classes."""

    arguments: tuple[int, ...] | None = None
    """The places of the arguments among Spark's; as they are if not given."""
    buffers: tuple[int, ...] | None = None
    """Of each buffer of Spark's the place among those of the accumulator, if not its own: Spark has
    some of them twice."""


AS_IT_IS = SparkForm()


def called(*names: str, form: SparkForm = AS_IT_IS) -> dict[str, SparkForm]:
    """Names of Spark's classes that are read alike."""
    return dict.fromkeys(names, form)


class LinearAggregate(ABC):
    """A linear map of the rows of a group into a ring, up to a last step."""

    tag: ClassVar[str]
    """The word that is stored for it."""
    calls: ClassVar[Mapping[str, SparkForm]] = {}
    """The names of Spark's classes that are this aggregate."""
    exactness: ClassVar[Exactness] = Exactness.EXACT
    sums: ClassVar[int] = 0
    """How many sums the ring value has besides the number of rows."""
    is_mergeable: ClassVar[bool] = False
    """Is its ring value a number of rows and sums over them, or such a sum alone?"""

    def takes(self, types: Sequence[str], mode: str) -> bool:
        """Is a call with arguments of these types, that overflows in this mode, linear?"""
        return True

    def total(self, use: Use, members: Members) -> tuple[Any, ...]:
        """The ring value of a group's rows: how many have no NULL argument, and sums over them."""
        return added_up(self.lifted, self.sums, members)

    def lifted(self, *arguments: Any) -> tuple[Any, ...]:
        """What one row adds to the sums."""
        return ()

    def result(self, use: Use, value: tuple[Any, ...]) -> Any:
        """The last step: the use's own if it has one, else the usual one."""
        if use.finish is None:
            return self.finished(*value)
        if not callable(use.finish):
            raise DefinitionError(f"the last step of '{use.name}' is one that only Spark can do")
        return use.finish(value)

    def finished(self, count: int, *sums: Any) -> Any:
        """The usual last step, from the ring value."""
        raise DefinitionError(f"{self.tag} has no last step of its own")

    @abstractmethod
    def accumulator(self, use: Use, inputs: tuple[str, ...], buffers: Buffers) -> Accumulator:
        """The same map on Arrow columns, of the columns `inputs` into Spark's `buffers`."""


class GroupAggregate(ABC):
    """A function of the rows of a group."""

    tag: ClassVar[str]
    calls: ClassVar[tuple[str, ...]] = ()
    """The names of Spark's classes whose result the first rows decide, by their last argument."""
    direction: ClassVar[str] = "Ascending"
    """Spark's word for the order in which they are first."""

    @abstractmethod
    def of_rows(self, use: Use, rows: Sequence[Arguments]) -> Any:
        """The result for rows without a NULL argument."""


def added_up(
    lifted: Callable[..., tuple[Any, ...]], sums: int, members: Members
) -> tuple[Any, ...]:
    """How many rows have no NULL argument, and the sums of what they are lifted to."""
    total: tuple[Any, ...] = (0,) * (1 + sums)
    for arguments, weight, stands in members:
        if None not in arguments:
            row = (stands, *lifted(*arguments))
            total = tuple(t + weight * c for t, c in zip(total, row, strict=True))
    return total
