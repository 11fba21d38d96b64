"""A view that is defined by a query in Spark SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.shapes import record, text


@dataclass(frozen=True, slots=True)
class SqlDefinition(Definition):
    """The query as the user wrote it."""

    kind: ClassVar[str] = "sql"
    words: ClassVar[str] = "SQL text"

    query: str

    @property
    def queries(self) -> tuple[str, ...]:
        return (self.query,)

    def text(self, view: ViewFacts) -> str:
        return view.created_as(self.query)

    def to_json(self) -> dict[str, Any]:
        return {"query": self.query}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["query"])

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


_SHAPE = record(kind=text, query=text)
