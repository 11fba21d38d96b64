"""A view that is defined by a query in MRQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.frontends.mrql.loops import LOOPS, Loop
from rekindle.shapes import list_of, record, row_of, text


@dataclass(frozen=True, slots=True)
class MrqlDefinition(Definition):
    """The query as the user wrote it, the definitions that it uses, and the SQL that both are.

    A row of a table is a record of all its columns, and a table may get more.
    """

    kind: ClassVar[str] = "mrql"
    words: ClassVar[str] = "MRQL"

    written: str
    definitions: str
    query: str
    sources: tuple[tuple[str, str], ...] = ()
    """The tables that stand for what it asks for by `source` and `stream`."""
    loops: tuple[Loop, ...] = ()
    """The recursions whose ends the query reads."""

    @property
    def queries(self) -> tuple[str, ...]:
        return (self.query, *(text for each in self.loops for text in each.texts))

    @property
    def is_recursive(self) -> bool:
        return bool(self.loops)

    @property
    def script(self) -> str:
        """The definitions and the query as one script."""
        return f"{self.definitions}\n{self.written}" if self.definitions else self.written

    def text(self, view: ViewFacts) -> str:
        if self.definitions or ";" in self.written.strip().rstrip(";"):
            return view.described(f"is defined in MRQL by\n{self.script.strip()}")
        return view.created_as(f"MRQL {self.written.strip().rstrip(';')}")

    def to_json(self) -> dict[str, Any]:
        return {
            "written": self.written,
            "definitions": self.definitions,
            "query": self.query,
            **({"sources": [list(each) for each in self.sources]} if self.sources else {}),
            **({"loops": [each.to_json() for each in self.loops]} if self.loops else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        sources = tuple((asked, table) for asked, table in data.get("sources", ()))
        loops = tuple(map(Loop.from_json, data.get("loops", ())))
        return cls(data["written"], data["definitions"], data["query"], sources, loops)

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


_SHAPE = record(
    {"sources": list_of(row_of(text, text)), "loops": LOOPS},
    kind=text,
    written=text,
    definitions=text,
    query=text,
)
