"""A view that is defined by iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.calculus.terms import Bound
from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.shapes import (
    ShapeError,
    anything,
    list_of,
    one_of,
    record,
    row_of,
    text,
    whole,
)


@dataclass(frozen=True, slots=True)
class Iterated:
    """Relations that are iterated together, by what the step calls them, and how long.

    The steps of those that `tell` give a boolean column more: whether the iteration goes on.
    """

    names: tuple[str, ...]
    limit: int
    bound: Bound = Bound.ERROR
    tell: tuple[int, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """What all had at first is written as it was, and more only where there is more."""
        more = {
            "together": list(self.names[1:]),
            "bound": self.bound.value if self.bound is Bound.RESULT else "",
            "tell": list(self.tell),
        }
        written = {name: value for name, value in more.items() if value}
        return {"iterated": self.names[0], "limit": self.limit, **written}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        names = (data["iterated"], *data.get("together", ()))
        bound = Bound(data.get("bound", Bound.ERROR.value))
        return cls(names, data["limit"], bound, tuple(data.get("tell", ())))


@dataclass(frozen=True, slots=True)
class Nested:
    """A fixpoint inside the step of another: what is iterated, and what each relation of it gives.

    `around` has those of the iterated relations around it that it depends on.
    """

    iterated: Iterated
    results: tuple[str, ...]
    around: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        results, around = list(self.results), list(self.around)
        return {**self.iterated.to_json(), "results": results, "around": around}

    @classmethod
    def from_json(cls, data: Any) -> Self:
        if isinstance(data, dict):
            results, around = tuple(data["results"]), tuple(data["around"])
            return cls(Iterated.from_json(data), results, around)
        iterated, result, limit, around = data
        return cls(Iterated((iterated,), limit), (result,), tuple(around))


@dataclass(frozen=True, slots=True)
class FixpointDefinition(Definition):
    """The plans of the first relations and of the step, then those of each nested fixpoint."""

    kind: ClassVar[str] = "fixpoint"
    words: ClassVar[str] = "a fixpoint of DataFrame functions"

    plan: str
    iterated: Iterated
    output: int = 0
    """Which of the relations the view is."""
    nested: tuple[Nested, ...] = ()

    @property
    def plans(self) -> tuple[str, ...]:
        return (self.plan,)

    @property
    def is_text(self) -> bool:
        return False

    @property
    def is_recursive(self) -> bool:
        return True

    def text(self, view: ViewFacts) -> str:
        limit = f"of at most {self.iterated.limit} iterations"
        if self.iterated.bound is Bound.RESULT:
            limit = f"after at most {self.iterated.limit} iterations"
        return view.described(f"is a fixpoint of DataFrame functions over {view.over}, {limit}")

    def to_json(self) -> dict[str, Any]:
        output = {"output": self.output} if self.output else {}
        nested = [each.to_json() for each in self.nested]
        return {"plan": self.plan, **self.iterated.to_json(), **output, "nested": nested}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        nested = tuple(map(Nested.from_json, data["nested"]))
        return cls(data["plan"], Iterated.from_json(data), data.get("output", 0), nested)

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)
        _check_places(value, value.get("output", 0), place)
        for i, nested in enumerate(value["nested"]):
            where = f"{place}.nested[{i}]"
            if isinstance(nested, dict):
                _NESTED(nested, where)
                _check_places(nested, len(nested["results"]) - 1, where)
            else:
                _EARLY_NESTED(nested, where)


def _check_places(value: Mapping[str, Any], output: int, place: str) -> None:
    """Raise unless what is said of relations is said of some that there are."""
    last = len(value.get("together", ()))
    for number in (output, *value.get("tell", ())):
        if not 0 <= number <= last:
            raise ShapeError(f"{place}: there is no relation {number}")


_LATER = {
    "together": list_of(text),
    "bound": one_of(*(bound.value for bound in Bound)),
    "tell": list_of(whole(0)),
}
_EARLY_NESTED = row_of(text, text, whole(1), list_of(text))
_NESTED = record(_LATER, iterated=text, limit=whole(1), results=list_of(text), around=list_of(text))
_SHAPE = record(
    {**_LATER, "output": whole(0)},
    kind=text,
    plan=text,
    iterated=text,
    limit=whole(1),
    nested=list_of(anything),
)
