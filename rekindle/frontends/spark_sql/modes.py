"""The mode of Spark as a measure of the calculus, where an order decides between frequent values.

Spark counts the values in a hash map of Java objects. Its counts are those of groups of values for
types whose objects are equal when the values are: not for doubles, where −0.0 is not 0.0, nor for
binaries, where no two objects are equal, nor inside arrays, structs and maps. Those are left to
Spark, and so are texts with a collation.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rekindle.aggregates import AggregateFunction
from rekindle.calculus.terms import Measure
from rekindle.catalyst.bodies import CatalystAggregate, aggregate
from rekindle.catalyst.jvm import Catalyst, JavaObject, is_collated, option, simple_name, type_of
from rekindle.catalyst.numbering import nulls_last
from rekindle.frontends.spark_sql.ordering import prefix

if TYPE_CHECKING:
    from rekindle.frontends.spark_sql.translate import Translator

_AGGREGATES = "org.apache.spark.sql.catalyst.expressions.aggregate"
_COUNTED = (
    "BooleanType",
    "ByteType",
    "ShortType",
    "IntegerType",
    "LongType",
    "DecimalType",
    "DateType",
    "TimestampType",
    "TimestampNTZType",
    "YearMonthIntervalType",
    "DayTimeIntervalType",
    "StringType",
)


def is_counted_mode(call: JavaObject) -> bool:
    """Is this a mode that the numbers of its values decide?"""
    function = call.aggregateFunction()
    if simple_name(function) != "Mode" or call.isDistinct():
        return False
    type_ = function.child().dataType()
    counted = simple_name(type_) in _COUNTED and not is_collated(type_)
    return counted and option(function.reverseOpt()) is not None


def mode(
    translator: Translator,
    call: JavaObject,
    value: JavaObject,
    inputs: Sequence[JavaObject],
    name: str,
) -> Measure:
    """The mode of a value, which is NULL where it is not to be counted."""
    catalyst = translator.catalyst
    function = call.aggregateFunction()
    # Spark takes the greatest by the number of rows, and then by the reverse of the order.
    is_least = bool(option(function.reverseOpt()))
    meaning = AggregateFunction.MODE if is_least else AggregateFunction.MODE_DESCENDING
    order = nulls_last(catalyst, value, "Ascending" if is_least else "Descending")
    step = catalyst.expression("If")(
        catalyst.expression("IsNull")(value), catalyst.literal("0L"), catalyst.literal("-1L")
    )
    finish = _of_counted(catalyst, type_of(value), is_least)
    return Measure(
        name=name,
        function=meaning,
        arguments=(translator.scalar(value, inputs), translator.scalar(step, inputs)),
        type=type_of(function),
        nullable=True,
        text=finish.text,
        finish=finish,
        order=translator.scalar(prefix(catalyst, order), inputs),
    )


def _of_counted(catalyst: Catalyst, type_: str, is_least: bool) -> CatalystAggregate:
    """The mode of values that are there once, with the negative numbers of their rows."""
    value, number = given = [catalyst.attribute("value", type_), catalyst.attribute("n", "bigint")]
    kind, first = (
        ("MinBy", number)
        if is_least
        else ("MaxBy", catalyst.expression("UnaryMinus")(number, False))
    )
    parts = [catalyst.literal("'n'"), first, catalyst.literal("'value'"), value]
    both = catalyst.expression("CreateNamedStruct")(catalyst.seq(parts))
    function = catalyst.class_(f"{_AGGREGATES}.{kind}")(value, both)
    return aggregate(catalyst, catalyst.call(function), given)
