"""Catalyst's parts of a term as text, so that a view's term can be kept and read back.

The expressions of an object and its attributes are serialised by Java together, which keeps their
ids consistent. The form is bound to Spark's version; a view that has SQL text is translated anew
after an upgrade.

Reading needs someone who turns bytes into objects: `stored_objects.read_listed` for a database of
unknown origin, `Catalyst.deserialise` for what is trusted. Forms that are functions written in
Python are for the latter only.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import pyarrow as pa

from rekindle.algebra.exact_sums import FACTORS, ROUNDED, ExactSum
from rekindle.algebra.polynomials import Polynomials
from rekindle.calculus.relation import Relation
from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.bodies import (
    CatalystAggregate,
    CatalystCogroupMap,
    CatalystGroupMap,
    CatalystPicking,
    CatalystRunning,
    CatalystTop,
    CatalystWindow,
)
from rekindle.catalyst.evaluations import CatalystEvaluation
from rekindle.catalyst.jvm import Catalyst, JavaObject
from rekindle.catalyst.ring_sums import CatalystRingSum
from rekindle.catalyst.scalars import CatalystGenerator, CatalystScalar
from rekindle.catalyst.stored_objects import decoded
from rekindle.errors import RekindleError, untrusted
from rekindle.shapes import (
    Shape,
    ShapeError,
    list_of,
    number,
    one_of,
    optional,
    read_json,
    record,
    row_of,
    text,
    truth,
    whole,
)

Reader: TypeAlias = Callable[[bytes], list[JavaObject]]
"""Turns bytes into the objects that they stand for, or refuses to."""


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
    if isinstance(value, ExactSum):
        return json.dumps({"exact sum": {"signs": value.signs, "gives": value.gives}})
    for name, form in _FORMS.items():
        if type(value) is form.kind:
            return _dump(catalyst, name, form, value)
    raise RekindleError(f"cannot keep a {type(value).__name__} in the catalog")


def load(stored: str, read: Reader) -> object:
    """The part of a term that a text stands for; raises `ShapeError` if it stands for none."""
    data = read_json(stored, _part)
    if "relation" in data:
        return _relation(decoded(data["relation"]))
    if "polynomials" in data:
        return Polynomials(
            tuple(tuple((i, element) for i, element in each) for each in data["polynomials"])
        )
    if "exact sum" in data:
        return ExactSum(tuple(data["exact sum"]["signs"]), data["exact sum"]["gives"])
    form = _FORMS[data["form"]]
    objects = read(decoded(data["java"]))
    if len(objects) != len(form.single) + sum(data["lengths"]):
        raise ShapeError(f"java: {len(objects)} objects, which is not what 'lengths' says")
    values: dict[str, Any] = {name: objects.pop(0) for name in form.single}
    for name, length in zip(form.several, data["lengths"], strict=True):
        values[name], objects = tuple(objects[:length]), objects[length:]
    plain = data["plain"]
    if "schema" in plain:
        plain["schema"] = Schema(tuple(Field(*field) for field in plain["schema"]))
    if "references" in plain:
        if any(each >= len(values["inputs"]) for each in plain["references"]):
            raise ShapeError("plain.references: there are fewer inputs")
        plain["references"] = frozenset(plain["references"])
    return form.kind(**plain, **values)


def _relation(data: bytes) -> Relation:
    """Constant rows; what Arrow does not say of itself is checked before anyone reads it."""
    found = Relation(data)
    try:
        found.table.validate(full=True)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise ShapeError(f"relation: {str(error)[:200]}") from error
    return found


def refuse_python(stored: str) -> None:
    """Raise `UntrustedError` if a text stands for a function written in Python."""
    form = read_json(stored, _part).get("form")
    if form in _PYTHON:
        raise untrusted("a stored function is not loaded", f"it calls Python functions ({form})")


_PYTHON = ("ring sum", "evaluation", "group map", "cogroup map")
_POSITION = whole(0, 2**31)
_COLUMN = row_of(text, text, truth)
_PLAIN: Mapping[str, Shape] = {
    "str": text,
    "int": whole(),
    "bool": truth,
    "float": number,
    "str | None": optional(text),
    "int | None": optional(whole()),
    "Schema": list_of(_COLUMN),
    "frozenset[int]": list_of(_POSITION),
}
"""What JSON has in place of a field of a type."""


def _part(value: Any, place: str) -> None:
    """The form of a part of a term."""
    if not isinstance(value, dict):
        raise ShapeError("a part of a term is an object")
    if "relation" in value:
        record(relation=text)(value, place)
    elif "polynomials" in value:
        factor = row_of(_POSITION, optional(_POSITION))
        record(polynomials=list_of(list_of(factor)))(value, place)
    elif "exact sum" in value:
        shape = record(signs=list_of(whole(-1, 1)), gives=one_of(FACTORS, ROUNDED))
        record(**{"exact sum": shape})(value, place)
    else:
        name = value.get("form")
        if not isinstance(name, str) or name not in _FORMS:
            raise ShapeError(f"form: {str(name)[:40]!r} is not known")
        form = _FORMS[name]
        lengths = row_of(*(_POSITION for _ in form.several))
        plain = {f.name: _PLAIN[str(f.type)] for f in _plain_fields(form)}
        shape = record(form=text, plain=record(**plain), lengths=lengths, java=text)
        shape(value, place)


def _plain_fields(form: _Form) -> list[Any]:
    """The fields of a form that hold no Java objects."""
    return [f for f in fields(form.kind) if f.name not in (*form.single, *form.several)]


def _dump(catalyst: Catalyst, name: str, form: _Form, value: object) -> str:
    objects: list[JavaObject] = [getattr(value, field) for field in form.single]
    several = [getattr(value, field) for field in form.several]
    for group in several:
        objects += group
    plain = {field.name: _plain(getattr(value, field.name)) for field in _plain_fields(form)}
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
