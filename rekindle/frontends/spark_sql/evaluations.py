"""Python functions over rows: what Catalyst has taken out of expressions to run in Python.

An evaluation is a generator that gives one row for each row: the results of the functions.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field

from rekindle.calculus.schema import Field, Schema
from rekindle.frontends.spark_sql.jvm import Catalyst, JavaObject, items, simple_name, type_text


@dataclass(frozen=True, slots=True)
class CatalystEvaluation:
    """The results of Python functions of a row, appended to it."""

    text: str
    schema: Schema
    node: str
    """The class of the plan node: BatchEvalPython or ArrowEvalPython."""
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
        build = catalyst.class_(f"org.apache.spark.sql.catalyst.plans.logical.{self.node}")
        if self.node == "ArrowEvalPython":
            return build(functions, results, rows, self.kind)
        return build(functions, results, rows)


def evaluation(
    catalyst: Catalyst, plan: JavaObject, inputs: tuple[JavaObject, ...]
) -> CatalystEvaluation:
    """The evaluation of an `ArrowEvalPython` or `BatchEvalPython` node."""
    node = simple_name(plan)
    functions, results = items(plan.udfs()), items(plan.resultAttrs())
    read = {a.exprId().id() for f in functions for a in items(f.references().toSeq())}
    digest = hashlib.sha256()
    for function in functions:
        # The function itself is part of its identity: two may have one name.
        digest.update(str(function.func().command().mkString(",")).encode())
        digest.update(str(catalyst.bind(function, inputs).sql()).encode())
    digest.update("|".join(type_text(a.dataType()) for a in inputs).encode())
    return CatalystEvaluation(
        text=f"python:{digest.hexdigest()[:20]}",
        schema=Schema(tuple(Field(str(a.name()), type_text(a.dataType()), True) for a in results)),
        node=node,
        kind=int(plan.evalType()) if node == "ArrowEvalPython" else 0,
        references=frozenset(i for i, a in enumerate(inputs) if a.exprId().id() in read),
        display=", ".join(str(f.sql()) for f in functions),
        expressions=tuple(functions),
        results=tuple(results),
        inputs=inputs,
    )
