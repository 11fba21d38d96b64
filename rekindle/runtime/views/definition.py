"""The definitions that a view of the catalog can have: one class of each front end, as a sum.

Databases of early versions have one record for all of them, with optional fields; it is read here
and no longer written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias, get_args

from rekindle.frontends.agca.definition import AgcaDefinition
from rekindle.frontends.comprehension.definition import ComprehensionDefinition
from rekindle.frontends.dataframes.definition import FrameDefinition
from rekindle.frontends.datalog.definition import DatalogDefinition
from rekindle.frontends.fixpoints.definition import FixpointDefinition
from rekindle.frontends.iteration import LIMIT
from rekindle.frontends.mrql.definition import MrqlDefinition
from rekindle.frontends.spark_sql.definition import SqlDefinition
from rekindle.runtime.models.definition import SPEC, ModelDefinition, SumsDefinition
from rekindle.runtime.models.model import ModelSpec
from rekindle.shapes import (
    Shape,
    ShapeError,
    list_of,
    optional,
    record,
    row_of,
    text,
    whole,
)

ViewDefinition: TypeAlias = (
    SqlDefinition
    | FrameDefinition
    | FixpointDefinition
    | AgcaDefinition
    | ComprehensionDefinition
    | DatalogDefinition
    | MrqlDefinition
    | ModelDefinition
)

_KINDS: Mapping[str, type[ViewDefinition]] = {each.kind: each for each in get_args(ViewDefinition)}


def definition_to_json(definition: ViewDefinition) -> dict[str, Any]:
    return {"kind": definition.kind, **definition.to_json()}


def definition_from_json(data: Mapping[str, Any]) -> ViewDefinition:
    return _KINDS[data["kind"]].from_json(data)


def check_definition(value: Any, place: str) -> None:
    """Raise `ShapeError` unless a value is the stored form of a definition."""
    kind = value.get("kind") if isinstance(value, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        raise ShapeError(f"{place}: expected a definition, one of {', '.join(_KINDS)}")
    _KINDS[kind].check(value, place)


# ---- early databases -----------------------------------------------------------------------------

_LANGUAGES = ("agca", "datalog")
"""What early views have among the user's words, besides options: texts in other languages."""

_LOOP = record(
    {"nested": list_of(row_of(text, text, whole(1), list_of(text)))},
    names=list_of(text),
    queries=list_of(text),
    output=whole(0, 100_000),
    limit=whole(1),
)
EARLY: Mapping[str, Shape] = {
    "sql": optional(text),
    "plan": optional(text),
    "loop": optional(_LOOP),
    "model": optional(SPEC),
}
"""The fields of an early view that are its definition; later ones of the early may be missing."""


def early_definition(data: Mapping[str, Any]) -> ViewDefinition:
    """The definition of a view of an early database."""
    sql, plan, loop = data["sql"], data["plan"], data.get("loop")
    said = data.get("said", {})
    if data.get("model") is not None:
        return ModelDefinition(ModelSpec.from_json(data["model"]), _sums(sql, plan))
    if loop is not None and plan is not None:
        (iterated,) = loop["names"]
        whole_ = {"plan": plan, "iterated": iterated, "nested": (), **loop}
        return FixpointDefinition.from_json(whole_)
    program = said.get("datalog", "")
    if loop is not None:
        return DatalogDefinition.from_json({**loop, "program": program, "recursive": True})
    if sql is not None and program:
        return DatalogDefinition(program, (data["name"],), (sql,), 0, LIMIT, recursive=False)
    if sql is not None and "agca" in said:
        return AgcaDefinition(said["agca"], sql)
    return _sums(sql, plan)


def _sums(sql: str | None, plan: str | None) -> SumsDefinition:
    if sql is not None:
        return SqlDefinition(sql)
    if plan is None:
        raise ShapeError("a view has neither a query nor a plan")
    return FrameDefinition(plan)


def options_said(said: Mapping[str, str]) -> dict[str, str]:
    """The options and the comment among what early databases keep of the user's words."""
    return {name: word for name, word in said.items() if name not in _LANGUAGES}
