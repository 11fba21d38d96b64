"""A view that is defined by iteration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.shapes import list_of, record, row_of, text, whole


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
class FixpointDefinition(Definition):
    """The plans of the first relation and of the step, then those of each nested fixpoint."""

    kind: ClassVar[str] = "fixpoint"
    words: ClassVar[str] = "a fixpoint of DataFrame functions"

    plan: str
    iterated: str
    """What the step calls the relation that it gets."""
    limit: int
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
        return view.described(
            f"is a fixpoint of DataFrame functions over {view.over}, "
            f"of at most {self.limit} iterations"
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "plan": self.plan,
            "iterated": self.iterated,
            "limit": self.limit,
            "nested": [[n.iterated, n.result, n.limit, list(n.around)] for n in self.nested],
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        nested = tuple(
            Nested(iterated, result, limit, tuple(around))
            for iterated, result, limit, around in data["nested"]
        )
        return cls(data["plan"], data["iterated"], data["limit"], nested)

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


_SHAPE = record(
    kind=text,
    plan=text,
    iterated=text,
    limit=whole(1),
    nested=list_of(row_of(text, text, whole(1), list_of(text))),
)
