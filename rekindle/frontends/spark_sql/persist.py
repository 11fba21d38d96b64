"""Catalyst's parts of a term as text, so that a view's term can be kept and read back.

The expressions of an object and its attributes are serialised by Java together, which keeps their
ids consistent. The form is bound to Spark's version; a view that has SQL text is translated anew
after an upgrade.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from rekindle.calculus.polynomials import Polynomials
from rekindle.calculus.relation import Relation
from rekindle.calculus.schema import Field, Schema
from rekindle.errors import RekindleError
from rekindle.frontends.spark_sql.bodies import (
    CatalystAggregate,
    CatalystCogroupMap,
    CatalystGroupMap,
    CatalystPicking,
    CatalystRunning,
    CatalystTop,
    CatalystWindow,
)
from rekindle.frontends.spark_sql.evaluations import CatalystEvaluation
from rekindle.frontends.spark_sql.jvm import Catalyst, JavaObject
from rekindle.frontends.spark_sql.ring_sums import CatalystRingSum
from rekindle.frontends.spark_sql.scalars import CatalystGenerator, CatalystScalar


@dataclass(frozen=True, slots=True)
class _Form:
    """The fields of a class that hold one Java object, and those that hold several."""

    kind: type[Any]
    single: tuple[str, ...]
    several: tuple[str, ...]


_FORMS: Mapping[str, _Form] = {
    "scalar": _Form(CatalystScalar, ("expression",), ("inputs",)),
    "ring sum": _Form(CatalystRingSum, ("expression",), ("inputs",)),
    "generator": _Form(CatalystGenerator, ("expression",), ("inputs",)),
    "evaluation": _Form(CatalystEvaluation, (), ("expressions", "results", "inputs")),
    "aggregate": _Form(CatalystAggregate, ("expression",), ("inputs",)),
    "window": _Form(CatalystWindow, (), ("expressions", "order", "inputs")),
    "picking": _Form(CatalystPicking, (), ("expressions", "order", "inputs", "total")),
    "running": _Form(CatalystRunning, ("moment",), ("expressions", "order", "inputs", "going_on")),
    "group map": _Form(CatalystGroupMap, ("function",), ("columns", "order", "inputs")),
    "cogroup map": _Form(
        CatalystCogroupMap,
        ("function",),
        ("columns", "order", "inputs", "other_columns", "other_order"),
    ),
    "top": _Form(CatalystTop, ("rank",), ("order", "inputs")),
}


def dump(catalyst: Catalyst, value: object) -> str:
    """The text of an opaque part of a term."""
    if isinstance(value, Relation):
        return json.dumps({"relation": base64.b64encode(value.data).decode()})
    if isinstance(value, Polynomials):
        return json.dumps({"polynomials": value.monomials})
    for name, form in _FORMS.items():
        if type(value) is form.kind:
            return _dump(catalyst, name, form, value)
    raise RekindleError(f"cannot keep a {type(value).__name__} in the catalog")


def load(catalyst: Catalyst, text: str) -> object:
    """The part of a term that a text stands for."""
    data = json.loads(text)
    if "relation" in data:
        return Relation(base64.b64decode(data["relation"]))
    if "polynomials" in data:
        return Polynomials(
            tuple(tuple((i, element) for i, element in each) for each in data["polynomials"])
        )
    form = _FORMS[data["form"]]
    objects = catalyst.deserialise(base64.b64decode(data["java"]))
    values: dict[str, Any] = {name: objects.pop(0) for name in form.single}
    for name, length in zip(form.several, data["lengths"], strict=True):
        values[name], objects = tuple(objects[:length]), objects[length:]
    plain = data["plain"]
    if "schema" in plain:
        plain["schema"] = Schema(tuple(Field(*field) for field in plain["schema"]))
    if "references" in plain:
        plain["references"] = frozenset(plain["references"])
    return form.kind(**plain, **values)


def _dump(catalyst: Catalyst, name: str, form: _Form, value: object) -> str:
    objects: list[JavaObject] = [getattr(value, field) for field in form.single]
    several = [getattr(value, field) for field in form.several]
    for group in several:
        objects += group
    plain = {
        field.name: _plain(getattr(value, field.name))
        for field in fields(form.kind)
        if field.name not in (*form.single, *form.several)
    }
    return json.dumps(
        {
            "form": name,
            "plain": plain,
            "lengths": [len(group) for group in several],
            "java": base64.b64encode(catalyst.serialise(objects)).decode(),
        }
    )


def _plain(value: object) -> object:
    match value:
        case Schema():
            return [[f.name, f.type, f.nullable] for f in value]
        case frozenset():
            return sorted(value)
    return value
