"""Aggregate functions of Spark as measures of the calculus.

Spark computes a declarative aggregate in a buffer and a last expression over that buffer. The
linear ones keep only the last expression: the ring value maintained under inserts and deletes is
turned into Spark's buffer, and Spark's own `evaluateExpression` makes the result, so NULLs,
rounding and ANSI errors are Spark's. Minima and maxima read the first row of their group in an
ordered trace, and percentiles those at the ranks that decide them; every other aggregate is
computed by Spark from the rows of the touched groups.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from typing import TYPE_CHECKING

from rekindle.aggregates import AggregateFunction, linear_call, ordered_call
from rekindle.aggregates.base import AS_IT_IS, SparkForm
from rekindle.algebra.ring_sums import StoredSum
from rekindle.calculus.scalars import Literal, Scalar
from rekindle.calculus.terms import Measure, Values
from rekindle.catalyst.bodies import aggregate
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    id_of,
    ids_read,
    is_collated,
    items,
    option,
    position,
    simple_name,
    type_of,
)
from rekindle.catalyst.numbering import nulls_last
from rekindle.catalyst.ring_sums import CatalystRingSum, carried
from rekindle.catalyst.scalars import CatalystScalar, scalar
from rekindle.errors import UndeterminedError
from rekindle.frontends.spark_sql.modes import is_counted_mode, mode
from rekindle.frontends.spark_sql.ordering import has_exact_prefix, prefix

if TYPE_CHECKING:
    from rekindle.frontends.spark_sql.translate import Translator

_AGGREGATES = "org.apache.spark.sql.catalyst.expressions.aggregate"

PICKING = ("First", "Last", "AnyValue")
"""Aggregates that take any row of the group unless something else makes them deterministic."""


def measure_of(
    translator: Translator,
    call: JavaObject,
    inputs: Sequence[JavaObject],
    name: str,
    keys: Sequence[JavaObject],
) -> Measure:
    """The measure of one `AggregateExpression` over groups by the expressions `keys`."""
    function = call.aggregateFunction()
    types = [type_of(child) for child in items(function.children())]
    linear = linear_call(simple_name(function), types, _evaluation_mode(function))
    if linear is not None:
        return _linear(translator, call, inputs, name, *linear)
    stored = carried(function)
    if stored is not None and option(call.filter()) is None and not call.isDistinct():
        return _in_ring(translator, call, inputs, name, stored)
    if is_counted_mode(call):
        value = _filtered(translator, call, function.child())
        return mode(translator, call, value, inputs, name)
    return whole_of(translator, call, inputs, name, keys)


def whole_of(
    translator: Translator,
    call: JavaObject,
    inputs: Sequence[JavaObject],
    name: str,
    keys: Sequence[JavaObject],
) -> Measure:
    """The measure as a function of all rows of a group, which Spark computes."""
    function = call.aggregateFunction()
    kind = simple_name(function)
    if kind in PICKING:
        return _picked(translator, call, inputs, name, keys)
    if kind.startswith("Kll"):
        raise _refusal(
            f"the aggregate {call.sql()}",
            call,
            "which values such a sketch keeps is drawn at random and not determined by the rows; "
            "percentile and approx_percentile are",
        )
    if kind in ("Sum", "Average") and _may_overflow(function):
        raise _refusal(
            f"the aggregate {call.sql()}",
            call,
            "Spark gives NULL if a sum of some of the rows is out of range, and which are summed "
            "up first is not determined; cast the argument to a decimal of at most 28 digits",
        )
    order = None
    meaning = AggregateFunction.OTHER
    if _is_quantile(call):
        return _quantile(translator, call, inputs, name)
    ordered_by = ordered_call(kind)
    if ordered_by is not None:
        meaning, direction = ordered_by
        by = _filtered(translator, call, items(function.children())[-1])
        ordered = nulls_last(translator.catalyst, by, direction)
        order = translator.scalar(prefix(translator.catalyst, ordered), inputs)
    return _opaque(translator, call, inputs, name, meaning, order)


def _linear(
    translator: Translator,
    call: JavaObject,
    inputs: Sequence[JavaObject],
    name: str,
    meaning: AggregateFunction,
    form: SparkForm,
) -> Measure:
    catalyst = translator.catalyst
    function = call.aggregateFunction()
    kind = simple_name(function)
    children = [c for c in items(function.children()) if not _constant_count(kind, c)]
    if option(call.filter()) is not None and not children:
        children = [catalyst.literal("1")]
    children = [_filtered(translator, call, _told_apart(catalyst, call, c)) for c in children]
    if form.arguments is not None:
        children = [children[i] for i in form.arguments]
    finish = _finish(catalyst, function, form)
    return Measure(
        name=name,
        function=meaning,
        arguments=tuple(translator.scalar(child, inputs) for child in children),
        type=type_of(function),
        nullable=bool(function.nullable()),
        text=f"{kind}/{_evaluation_mode(function)}:{finish.text}",
        finish=finish,
        values=_values(call),
    )


def _may_overflow(function: JavaObject) -> bool:
    """Can a try_sum or try_avg be NULL or not, depending on the order of the rows?

    A sum of whole numbers of up to 32 bits has 64, one of decimals ten digits more than they have:
    more than 10⁹ rows would have to be there. Doubles become infinite, and no error.
    """
    if _evaluation_mode(function) != "TRY":
        return False
    type_ = type_of(function.child())
    if type_.startswith("decimal"):
        return int(function.child().dataType().precision()) > _MOST_SUMMED_DIGITS
    if type_ == "bigint":
        return simple_name(function) == "Sum"
    return type_.startswith("interval")


_MOST_SUMMED_DIGITS = 28
"""So many digits may decimals have whose sum has ten more."""


def _finish(catalyst: Catalyst, function: JavaObject, form: SparkForm) -> CatalystScalar:
    """Spark's last step, from its buffers."""
    buffers = items(function.aggBufferAttributes())
    result = function.evaluateExpression()
    if form.buffers is not None:
        kept: dict[int, JavaObject] = {}
        for buffer, place in zip(buffers, form.buffers, strict=True):
            kept.setdefault(place, buffer)
        same = {id_of(b): kept[i] for b, i in zip(buffers, form.buffers, strict=True)}
        result = catalyst.rebased(result, same)
        buffers = [kept[i] for i in sorted(kept)]
    return scalar(catalyst, result, buffers)


def _told_apart(catalyst: Catalyst, call: JavaObject, argument: JavaObject) -> JavaObject:
    """An argument of which DISTINCT values are wanted: -0.0 is none beside 0.0."""
    return catalyst.with_one_zero(argument) if call.isDistinct() else argument


def _in_ring(
    translator: Translator,
    call: JavaObject,
    inputs: Sequence[JavaObject],
    name: str,
    stored: StoredSum,
) -> Measure:
    catalyst = translator.catalyst
    function = call.aggregateFunction()
    type_ = type_of(function)
    result = catalyst.attribute("result", type_)
    plain = scalar(catalyst, result, [result])
    digest = hashlib.sha256(stored.text.encode()).hexdigest()[:20]
    shown = {f.name: getattr(plain, f.name) for f in fields(plain)}
    return Measure(
        name=name,
        function=AggregateFunction.RING,
        arguments=tuple(translator.scalar(child, inputs) for child in items(function.children())),
        type=type_,
        nullable=bool(function.nullable()),
        text=f"ring:{digest}",
        finish=CatalystRingSum(**shown, sum=stored.text),
    )


def _opaque(
    translator: Translator,
    call: JavaObject,
    inputs: Sequence[JavaObject],
    name: str,
    meaning: AggregateFunction,
    order: Scalar | None,
) -> Measure:
    """An aggregate that Spark computes from a group's rows: its arguments become columns."""
    catalyst = translator.catalyst
    function = call.aggregateFunction()
    arguments: list[Scalar] = []
    attributes: list[JavaObject] = []

    def column(expression: JavaObject) -> JavaObject:
        if expression.foldable():
            return expression
        if simple_name(expression) == "SortOrder":
            return expression.withNewChildren(catalyst.seq([column(expression.child())]))
        expression = _told_apart(catalyst, call, expression)
        # A NULL struct has NULL fields in Arrow, also those that are never NULL otherwise.
        loose = expression.dataType().asNullable()
        if not loose.equals(expression.dataType()):
            expression = catalyst.cast(expression, loose)
        arguments.append(translator.scalar(expression, inputs))
        attributes.append(catalyst.attribute(f"argument{len(attributes)}", type_of(expression)))
        return attributes[-1]

    moved = function.withNewChildren(catalyst.seq([column(c) for c in items(function.children())]))
    condition = option(call.filter())
    kept = catalyst.none() if condition is None else catalyst.some(column(condition))
    complete = catalyst.module(f"{_AGGREGATES}.Complete")
    # Which values are alike is then for their collation to say, not for their identity.
    by_spark = bool(call.isDistinct()) and any(is_collated(a.dataType()) for a in attributes)
    expression = catalyst.class_(f"{_AGGREGATES}.AggregateExpression")(
        moved, complete, by_spark, kept, call.resultId()
    )
    finish = aggregate(catalyst, expression, attributes)
    return Measure(
        name=name,
        function=meaning,
        arguments=tuple(arguments),
        type=type_of(function),
        nullable=bool(function.nullable()),
        text=finish.text,
        finish=finish,
        values=_values(call) if order is None and not by_spark else Values.ALL,
        order=order,
    )


def _is_quantile(call: JavaObject) -> bool:
    """Is this the percentile of values, each as often as it is there, that 64 bits tell apart?"""
    function = call.aggregateFunction()
    if simple_name(function) != "Percentile" or call.isDistinct():
        return False
    once = function.frequencyExpression()
    return bool(once.foldable()) and once.eval(None) == 1 and has_exact_prefix(function.child())


def _quantile(
    translator: Translator, call: JavaObject, inputs: Sequence[JavaObject], name: str
) -> Measure:
    """A percentile by the ranks that decide it, of rows that say how many rows they stand for."""
    catalyst = translator.catalyst
    function = call.aggregateFunction()
    value = _filtered(translator, call, function.child())
    direction = "Descending" if function.reverse() else "Ascending"
    order = prefix(catalyst, nulls_last(catalyst, value, direction))
    given = [catalyst.attribute("value", type_of(value)), catalyst.attribute("rows", "bigint")]
    moved = function.withNewChildren(
        catalyst.seq([given[0], function.percentageExpression(), given[1]])
    )
    finish = aggregate(catalyst, catalyst.call(moved), given)
    fractions = function.percentageExpression().eval(None)
    return Measure(
        name=name,
        function=AggregateFunction.OTHER,
        arguments=(translator.scalar(value, inputs), Literal(1, "bigint")),
        type=type_of(function),
        nullable=True,
        text=finish.text,
        finish=finish,
        order=translator.scalar(order, inputs),
        fractions=(
            (fractions,) if isinstance(fractions, float) else tuple(fractions.toDoubleArray())
        ),
    )


def _picked(
    translator: Translator,
    call: JavaObject,
    inputs: Sequence[JavaObject],
    name: str,
    keys: Sequence[JavaObject],
) -> Measure:
    """first, last and any_value, where all rows of the group agree on the value.

    They do when the value is a function of the keys. Catalyst also writes first(x) FILTER (WHERE
    gid = 0) when it rewrites several DISTINCT aggregates; only one row of the group passes.
    """
    catalyst = translator.catalyst
    function = call.aggregateFunction()
    condition = option(call.filter())
    grouped = {id_of(key) for key in keys if simple_name(key) == "AttributeReference"}
    read = ids_read(function)
    if read <= grouped:
        return _opaque(translator, call, inputs, name, AggregateFunction.OTHER, None)
    if condition is None or not _is_rewritten_distinct(translator, condition):
        raise _refusal(
            f"the aggregate {call.sql()}",
            call,
            "which row it takes is not determined by the rows of the tables; "
            "min_by and max_by say which",
        )
    passes = catalyst.expression("If")(condition, catalyst.literal("0L"), catalyst.literal("1L"))
    order = translator.scalar(passes, inputs)
    return _opaque(translator, call, inputs, name, AggregateFunction.LEAST, order)


def _is_rewritten_distinct(translator: Translator, condition: JavaObject) -> bool:
    """Is it about the number of a copy, which Catalyst calls gid, as users may call a column?"""
    return (
        simple_name(condition) == "EqualTo"
        and simple_name(condition.left()) == "AttributeReference"
        and id_of(condition.left()) in translator.numbered
    )


def _filtered(translator: Translator, call: JavaObject, child: JavaObject) -> JavaObject:
    """The argument where the call's FILTER is true, else NULL, which aggregates skip."""
    condition = option(call.filter())
    if condition is None:
        return child
    catalyst = translator.catalyst
    return catalyst.expression("If")(condition, child, catalyst.null(child.dataType()))


def _values(call: JavaObject) -> Values:
    return Values.DISTINCT if call.isDistinct() else Values.ALL


def row_count(catalyst: Catalyst) -> Measure:
    """count(*)."""
    module = catalyst.class_(f"{_AGGREGATES}.Count")
    function = module(catalyst.seq([catalyst.literal("1")]))
    finish = _finish(catalyst, function, AS_IT_IS)
    return Measure(
        name="count",
        function=AggregateFunction.COUNT,
        arguments=(),
        type="bigint",
        nullable=False,
        text=f"Count/:{finish.text}",
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


def _constant_count(kind: str, child: JavaObject) -> bool:
    """`count(*)` reads as `count(1)`: a constant that is never NULL counts every row."""
    return kind == "Count" and bool(child.foldable()) and not bool(child.nullable())


def _refusal(words: str, call: JavaObject, reason: str) -> UndeterminedError:
    where = position(call, call.aggregateFunction())
    return UndeterminedError(
        f"{words} is not maintained incrementally yet",
        detail=reason + (f"; at {where} of the view's query" if where else ""),
        hint="see docs/reference.md for what can stand in a materialized view",
    )
