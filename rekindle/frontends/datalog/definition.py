"""A view that is a relation of a Datalog program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.shapes import ShapeError, list_of, record, text, truth, whole


@dataclass(frozen=True, slots=True)
class DatalogDefinition(Definition):
    """The program, and the query of each relation that the view is defined together with.

    `output` is the view's own place among them. Relations that are recursive need each other, or
    themselves; any other stands alone.
    """

    kind: ClassVar[str] = "datalog"
    words: ClassVar[str] = "Datalog"

    program: str
    """As the user wrote it; early databases do not say."""
    names: tuple[str, ...]
    bodies: tuple[str, ...]
    output: int
    limit: int
    recursive: bool

    def __post_init__(self) -> None:
        alone = self.recursive or len(self.names) == 1
        if not (self.output < len(self.names) == len(self.bodies) and alone):
            raise ShapeError("a relation of a Datalog program lacks its query")

    @property
    def query(self) -> str:
        """The query of the view."""
        return self.bodies[self.output]

    @property
    def queries(self) -> tuple[str, ...]:
        return self.bodies

    @property
    def is_recursive(self) -> bool:
        return self.recursive

    def text(self, view: ViewFacts) -> str:
        if self.program:
            return f"DATALOG\n{self.program.strip()}"
        parts = zip(self.names, self.bodies, strict=True)
        rules = "\n".join(f"{name}: {' '.join(query.split())}" for name, query in parts)
        return view.described(f"is {self.names[self.output]} of the recursion\n{rules}")

    def to_json(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "names": list(self.names),
            "queries": list(self.bodies),
            "output": self.output,
            "limit": self.limit,
            "recursive": self.recursive,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(
            data["program"],
            tuple(data["names"]),
            tuple(data["queries"]),
            data["output"],
            data["limit"],
            data["recursive"],
        )

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


_SHAPE = record(
    kind=text,
    program=text,
    names=list_of(text),
    queries=list_of(text),
    output=whole(0, 100_000),
    limit=whole(1),
    recursive=truth,
)
