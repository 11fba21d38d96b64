"""Aggregate functions of Spark as measures of the calculus.

Spark computes a declarative aggregate in a buffer and a last expression over that buffer. The
linear ones keep only the last expression: the ring value maintained under inserts and deletes is
turned into Spark's buffer, and Spark's own `evaluateExpression` makes the result, so NULLs,
rounding and ANSI errors are Spark's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rekindle.calculus.terms import AggregateFunction, Measure
from rekindle.errors import UnsupportedError
from rekindle.frontends.spark_sql.jvm import (
    JavaObject,
    items,
    option,
    position,
    simple_name,
    type_text,
)
from rekindle.frontends.spark_sql.scalars import scalar

if TYPE_CHECKING:
    from rekindle.frontends.spark_sql.translate import Translator

FUNCTIONS = {
    "Count": AggregateFunction.COUNT,
    "Sum": AggregateFunction.SUM,
    "Average": AggregateFunction.AVERAGE,
    "VariancePop": AggregateFunction.MOMENTS,
    "VarianceSamp": AggregateFunction.MOMENTS,
    "StddevPop": AggregateFunction.MOMENTS,
    "StddevSamp": AggregateFunction.MOMENTS,
    "CovPopulation": AggregateFunction.COMOMENTS,
    "CovSample": AggregateFunction.COMOMENTS,
    "Corr": AggregateFunction.COMOMENTS,
    "Min": AggregateFunction.ALL,
    "Max": AggregateFunction.ANY,
}
"""Spark's class of an aggregate, and the linear function behind it.

The least of booleans is true when all are, the greatest when any is; Min and Max of other types
are not linear.
"""

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")


def measure_of(
    translator: Translator, call: JavaObject, inputs: Sequence[JavaObject], name: str
) -> Measure:
    """The measure of one `AggregateExpression`; refuses what is not linear."""
    function = call.aggregateFunction()
    kind = simple_name(function)
    words = f"the aggregate {call.sql()}"
    if kind not in FUNCTIONS:
        raise _refusal(words, call, "only linear aggregates are maintained yet")
    if call.isDistinct():
        raise _refusal(words, call, "DISTINCT inside an aggregate is not linear")
    children = [c for c in items(function.children()) if not _constant_count(kind, c)]
    types = [type_text(child.dataType()) for child in children]
    if kind in ("Min", "Max") and types != ["boolean"]:
        raise _refusal(words, call, "min and max are linear over booleans only")
    if kind in ("Sum", "Average") and not types[0].startswith(_NUMBERS):
        raise _refusal(words, call, f"sums of {types[0]} are not maintained yet")
    if _evaluation_mode(function) == "TRY":
        raise _refusal(words, call, "try_sum and try_avg are not maintained yet")
    condition = option(call.filter())
    if condition is not None:
        catalyst = translator.catalyst
        if not children:
            children = [catalyst.literal("1")]
        children = [
            catalyst.expression("If")(condition, child, catalyst.null(child.dataType()))
            for child in children
        ]
    buffers = items(function.aggBufferAttributes())
    finish = scalar(translator.catalyst, function.evaluateExpression(), buffers)
    return Measure(
        name=name,
        function=FUNCTIONS[kind],
        arguments=tuple(translator.scalar(child, inputs) for child in children),
        type=type_text(function.dataType()),
        nullable=bool(function.nullable()),
        text=f"{kind}/{_evaluation_mode(function)}:{finish.text}",
        finish=finish,
    )


def _evaluation_mode(function: JavaObject) -> str:
    """ANSI, LEGACY or TRY for the functions that can overflow, else nothing."""
    match simple_name(function):
        case "Sum":
            return str(function.evalContext().evalMode())
        case "Average":
            return str(function.evalMode())
    return ""


def wraps_around(measure: Measure) -> bool:
    """Does an integer sum beyond its type wrap around, as it does with ANSI mode off?"""
    return measure.text.startswith("Sum/LEGACY")


def _constant_count(kind: str, child: JavaObject) -> bool:
    """`count(*)` reads as `count(1)`: a constant that is never NULL counts every row."""
    return kind == "Count" and bool(child.foldable()) and not bool(child.nullable())


def _refusal(words: str, call: JavaObject, reason: str) -> UnsupportedError:
    where = position(call, call.aggregateFunction())
    return UnsupportedError(
        f"{words} is not maintained incrementally yet",
        detail=reason + (f"; at {where} of the view's query" if where else ""),
        hint="see docs/reference.md for what can stand in a materialized view",
    )
