"""Python functions over rows: what Catalyst has taken out of expressions to run in Python.

An evaluation is a generator that gives one row for each row: the results of the functions. A table
function gives any number of rows for each (`table_functions`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.cloudpickle import loads

from rekindle.calculus.schema import Field, Schema
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    id_of,
    ids_read,
    items,
    position,
    simple_name,
    type_of,
)
from rekindle.errors import UndeterminedError


@dataclass(frozen=True, slots=True)
class CatalystEvaluation:
    """The results of Python functions of a row, appended to it."""

    text: str
    schema: Schema
    node: str
    """The class of the plan node: BatchEvalPython, ArrowEvalPython, or either with UDTF after."""
    kind: int
    """PySpark's number of how the functions are called."""
    references: frozenset[int] = field(compare=False)
    display: str = field(compare=False)
    expressions: tuple[JavaObject, ...] = field(compare=False, repr=False)
    results: tuple[JavaObject, ...] = field(compare=False, repr=False)
    inputs: tuple[JavaObject, ...] = field(compare=False, repr=False)

    def plan(self, catalyst: Catalyst, rows: JavaObject) -> JavaObject:
        """The plan node over a plan of `inputs` and possibly more columns."""
        functions, results = catalyst.seq(self.expressions), catalyst.seq(self.results)
        if self.node.endswith("UDTF"):
            # The optimiser makes the node that runs it; the analyser would not let it pass.
            (function,) = self.expressions
            none, nothing = catalyst.none(), catalyst.seq(())
            return catalyst.plan("Generate")(function, nothing, False, none, results, rows)
        build = catalyst.class_(f"org.apache.spark.sql.catalyst.plans.logical.{self.node}")
        kind = [self.kind] if self.node.startswith("Arrow") else []
        return build(functions, results, rows, *kind)


def functions_of(plan: JavaObject) -> list[JavaObject]:
    """The Python functions that a plan node runs."""
    return [plan.udtf()] if _is_udtf(plan) else items(plan.udfs())


def refuse_random(functions: Sequence[JavaObject]) -> None:
    """Raise unless Python functions are declared to be functions of their arguments."""
    for function in functions:
        if function.deterministic():
            continue
        declared = "; .asDeterministic() declares that it is one" if _is_udtf(function) else ""
        raise UndeterminedError(
            f"the function {function.name()} is not deterministic",
            detail=position(function),
            hint="a materialized view must be a function of its tables" + declared,
        )


def unpickled(function: JavaObject) -> Any:
    """What was written in Python: the class of a table function, another with its result type."""
    command = str(function.func().command().mkString(",")).split(",")
    found = loads(bytes(int(byte) & 255 for byte in command))
    return getattr(found, "value", found)


def _is_udtf(node: JavaObject) -> bool:
    """Is this a table function, or a plan node that runs one?"""
    return simple_name(node).endswith("UDTF")


def evaluation(
    catalyst: Catalyst, plan: JavaObject, inputs: tuple[JavaObject, ...]
) -> CatalystEvaluation:
    """The evaluation of a plan node that runs Python functions."""
    node = simple_name(plan)
    functions, results = functions_of(plan), items(plan.resultAttrs())
    read = set().union(*map(ids_read, functions))
    digest = hashlib.sha256()
    for function in functions:
        # The function itself is part of its identity: two may have one name.
        digest.update(str(function.func().command().mkString(",")).encode())
        digest.update(str(catalyst.bind(function, inputs).sql()).encode())
    digest.update("|".join(type_of(a) for a in inputs).encode())
    return CatalystEvaluation(
        text=f"python:{digest.hexdigest()[:20]}",
        schema=Schema(tuple(Field(str(a.name()), type_of(a), True) for a in results)),
        node=node,
        kind=int(plan.evalType()) if node.startswith("Arrow") else 0,
        references=frozenset(i for i, a in enumerate(inputs) if id_of(a) in read),
        display=", ".join(str(f.sql()) for f in functions),
        expressions=tuple(functions),
        results=tuple(results),
        inputs=inputs,
    )
