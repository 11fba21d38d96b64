"""A view that is defined by a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.shapes import record, text


@dataclass(frozen=True, slots=True)
class FrameDefinition(Definition):
    """The analysed plan, with markers in place of tables (`plans.py`), in Java's form.

    That form is bound to the version of Spark, so the term cannot be read again by another one.
    """

    kind: ClassVar[str] = "frame"
    words: ClassVar[str] = "a DataFrame"

    plan: str

    @property
    def plans(self) -> tuple[str, ...]:
        return (self.plan,)

    @property
    def is_text(self) -> bool:
        return False

    def text(self, view: ViewFacts) -> str:
        return view.described(f"is defined by a DataFrame over {view.over}")

    def to_json(self) -> dict[str, Any]:
        return {"plan": self.plan}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["plan"])

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


_SHAPE = record(kind=text, plan=text)
