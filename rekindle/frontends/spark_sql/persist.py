"""Catalyst scalars as text, so that a view's term can be kept and read back.

An expression and its attributes are serialised by Java together, which keeps their ids consistent.
The form is bound to Spark's version; a view that has SQL text is translated anew after an upgrade.
"""

from __future__ import annotations

import base64
import json

from rekindle.calculus.schema import Field, Schema
from rekindle.errors import RekindleError
from rekindle.frontends.spark_sql.jvm import Catalyst
from rekindle.frontends.spark_sql.scalars import CatalystGenerator, CatalystScalar


def dump(catalyst: Catalyst, value: object) -> str:
    """The text of a scalar or generator."""
    if not isinstance(value, CatalystScalar | CatalystGenerator):
        raise RekindleError(f"cannot keep a {type(value).__name__} in the catalog")
    java = catalyst.serialise([value.expression, *value.inputs])
    common = {
        "text": value.text,
        "references": sorted(value.references),
        "display": value.display,
        "java": base64.b64encode(java).decode(),
    }
    if isinstance(value, CatalystScalar):
        return json.dumps({**common, "type": value.type, "nullable": value.nullable})
    fields = [[f.name, f.type, f.nullable] for f in value.schema]
    return json.dumps({**common, "schema": fields, "outer": value.outer})


def load(catalyst: Catalyst, text: str) -> CatalystScalar | CatalystGenerator:
    """The scalar or generator of a text."""
    data = json.loads(text)
    expression, *inputs = catalyst.deserialise(base64.b64decode(data["java"]))
    references = frozenset(data["references"])
    if "schema" in data:
        return CatalystGenerator(
            text=data["text"],
            schema=Schema(tuple(Field(*field) for field in data["schema"])),
            outer=data["outer"],
            references=references,
            display=data["display"],
            expression=expression,
            inputs=tuple(inputs),
        )
    return CatalystScalar(
        text=data["text"],
        type=data["type"],
        nullable=data["nullable"],
        references=references,
        display=data["display"],
        expression=expression,
        inputs=tuple(inputs),
    )
