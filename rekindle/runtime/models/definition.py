"""The view of a model: what it predicts, from what, and the query of the sums that are kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeAlias

from rekindle.frontends.dataframes.definition import FrameDefinition
from rekindle.frontends.definition import Definition, ViewFacts
from rekindle.frontends.spark_sql.definition import SqlDefinition
from rekindle.runtime.models.model import KINDS, ModelSpec
from rekindle.shapes import list_of, map_of, number, one_of, optional, record, text, whole

SumsDefinition: TypeAlias = SqlDefinition | FrameDefinition


@dataclass(frozen=True, slots=True)
class ModelDefinition(Definition):
    """The model, and the query of its sums: SQL over the model's query, or a DataFrame."""

    kind: ClassVar[str] = "model"
    words: ClassVar[str] = "a model"

    spec: ModelSpec
    sums: SumsDefinition

    @property
    def queries(self) -> tuple[str, ...]:
        return (*self.sums.queries, *filter(None, [self.spec.query]))

    @property
    def plans(self) -> tuple[str, ...]:
        return self.sums.plans

    @property
    def is_text(self) -> bool:
        return self.sums.is_text

    def text(self, view: ViewFacts) -> str:
        spec = self.spec
        over = ", ".join(view.sources)
        rows = repr(spec.query.strip()) if spec.query else f"<a DataFrame over {over}>"
        said: dict[str, object] = {
            "label": spec.label,
            "features": list(spec.features),
            "kind": spec.kind,
        }
        if spec.kind == "ridge":
            said["penalty"] = spec.penalty
        if spec.degree != 1:
            said["degree"] = spec.degree
        if spec.categorical:
            said["categorical"] = list(spec.categorical)
        given = ", ".join(f"{word}={value!r}" for word, value in said.items() if value is not None)
        return f"db.create_model({view.name!r}, {rows}, {given})"

    def to_json(self) -> dict[str, Any]:
        sums = {"kind": self.sums.kind, **self.sums.to_json()}
        return {"spec": self.spec.to_json(), "sums": sums}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        sums = data["sums"]
        kept = FrameDefinition if sums["kind"] == FrameDefinition.kind else SqlDefinition
        return cls(ModelSpec.from_json(data["spec"]), kept.from_json(sums))

    @staticmethod
    def check(value: Any, place: str) -> None:
        _SHAPE(value, place)


SPEC = record(
    {
        "degree": whole(1, 2),
        "categorical": list_of(text),
        "query": text,
        "centres": map_of(number),
    },
    label=optional(text),
    features=list_of(text),
    kind=one_of(*KINDS),
    penalty=number,
)
"""The stored form of a specification; early databases lack some of it."""


def _sums(value: Any, place: str) -> None:
    is_frame = isinstance(value, dict) and value.get("kind") == FrameDefinition.kind
    (FrameDefinition if is_frame else SqlDefinition).check(value, place)


_SHAPE = record(kind=text, spec=SPEC, sums=_sums)
