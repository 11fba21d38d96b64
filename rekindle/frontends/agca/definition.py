"""A view that is defined by a query in AGCA, the calculus of aggregates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.frontends.definition import Definition, ViewFacts, noted
from rekindle.shapes import record, text


@dataclass(frozen=True, slots=True)
class AgcaDefinition(Definition):
    """The query as the user wrote it, and the SQL that it is over the columns of that day.

    An atom of the calculus names every column of its table, and a table may get more.
    """

    kind: ClassVar[str] = "agca"
    words: ClassVar[str] = "AGCA"

    written: str
    query: str

    @property
    def queries(self) -> tuple[str, ...]:
        return (self.query,)

    def text(self, view: ViewFacts) -> str:
        note = noted(f"written in AGCA: {self.written.strip()}")
        return f"{note}\n{view.created_as(self.query)}"

    def to_json(self) -> dict[str, Any]:
        return {"written": self.written, "query": self.query}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["written"], data["query"])

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


_SHAPE = record(kind=text, written=text, query=text)
