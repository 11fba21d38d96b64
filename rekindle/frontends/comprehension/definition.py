"""A view, or a part of one, that is defined by a comprehension."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.shapes import list_of, record, row_of, text, truth, whole

Bag: TypeAlias = tuple[str, int, bool]
"""The path to a level, the elements of its largest bag, and whether its bags stay in their rows."""


@dataclass(frozen=True, slots=True)
class ComprehensionDefinition(Definition):
    """The comprehension as the user wrote it, and the flat queries whose sum the rows are.

    Each query counts so many times, less than 0 to be taken away. A view that is kept in parts has
    none of its own.
    """

    kind: ClassVar[str] = "comprehension"
    words: ClassVar[str] = "a comprehension"

    written: str
    summands: tuple[tuple[int, str], ...] = ()
    functions: tuple[str, ...] = ()
    """The named functions that it uses, also through others."""
    bags: tuple[Bag, ...] = ()
    """Of a view that keeps small bags in their rows: what its levels were like when it was made."""

    @property
    def is_of_part(self) -> bool:
        return bool(self.summands)

    @property
    def queries(self) -> tuple[str, ...]:
        return tuple(query for _, query in self.summands)

    def text(self, view: ViewFacts) -> str:
        return view.created_as(self.written)

    def to_json(self) -> dict[str, Any]:
        return {
            "written": self.written,
            "summands": [list(each) for each in self.summands],
            **({"functions": list(self.functions)} if self.functions else {}),
            **({"bags": [list(each) for each in self.bags]} if self.bags else {}),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        summands = tuple((count, query) for count, query in data["summands"])
        bags = tuple((path, size, kept) for path, size, kept in data.get("bags", ()))
        return cls(data["written"], summands, tuple(data.get("functions", ())), bags)

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


_SHAPE = record(
    {"functions": list_of(text), "bags": list_of(row_of(text, whole(0), truth))},
    kind=text,
    written=text,
    summands=list_of(row_of(whole(-1000, 1000), text)),
)
