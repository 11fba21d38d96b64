"""A view that is defined by a query in Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.shapes import record, text


@dataclass(frozen=True, slots=True)
class SqlDefinition(Definition):
    """The query as the user wrote it, and which of its flat parts it is, if it is one.

    The parts of a query that collects elements by group are its top, called "", and the dictionary
    of each column that is collected, called as the column is.
    """

    kind: ClassVar[str] = "sql"
    words: ClassVar[str] = "SQL text"

    query: str
    part: str | None = None

    @property
    def is_of_part(self) -> bool:
        return self.part is not None

    @property
    def queries(self) -> tuple[str, ...]:
        return (self.query,)

    def text(self, view: ViewFacts) -> str:
        return view.created_as(self.query)

    def to_json(self) -> dict[str, Any]:
        return {"query": self.query, **({} if self.part is None else {"part": self.part})}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["query"], data.get("part"))

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


_SHAPE = record({"part": text}, kind=text, query=text)
