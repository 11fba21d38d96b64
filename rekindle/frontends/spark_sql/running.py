"""Window functions over all rows up to the current one, going on from the row before a change.

    F(x₁ … xₙ xₙ₊₁ …) = G(F(x₁ … xₙ), xₙ₊₁ …)

The value on the last row before a change stands for all rows up to it. It is put in front of the
rows from the change on as one more row, and Spark computes G with its own functions: a sum begins
with the sum so far, so floating point numbers are added in the same order as without, and an
overflow is met at the same row; a minimum begins with the least so far. A count is a sum of ones.
An average is made of a sum and a count, which are kept beside it. The rank of a row is that among
the rows from the change on, and as much more as there were rows before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from rekindle.calculus.terms import Distance
from rekindle.catalyst.jvm import (
    Catalyst,
    JavaObject,
    id_of,
    items,
    simple_name,
    type_of,
    type_text,
)
from rekindle.frontends.spark_sql.reaches import function_of

_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


class Continued(NamedTuple):
    """Functions with those that are needed to go on, and all of them once more, going on."""

    named: list[JavaObject]
    moment: JavaObject
    going_on: list[JavaObject]
    rows: int
    """Which of the functions counts the rows so far."""


def continued(catalyst: Catalyst, named: Sequence[JavaObject], ties: Distance) -> Continued:
    """Named window expressions, in a form that can go on; level rows are told apart or not."""
    moment = catalyst.attribute("moment", "bigint")
    builder = _Builder(catalyst, moment, ties)
    found: list[JavaObject] = [*named, builder.named(builder.row_count(named[0].child()))]
    going_on: list[JavaObject] = []
    averages: dict[int, tuple[JavaObject, JavaObject]] = {}
    for i, each in enumerate(named):
        if simple_name(function_of(each.child())) == "Average":
            averages[i] = tuple(map(builder.named, builder.sum_and_count(each.child())))
            found += averages[i]
    for i, each in enumerate(found):
        if i in averages:
            going_on.append(builder.average(each, *averages[i]))
        else:
            going_on.append(builder.going_on(each, found[len(named)].toAttribute()))
    return Continued(found, moment, going_on, len(named))


@dataclass(frozen=True, slots=True)
class _Builder:
    catalyst: Catalyst
    moment: JavaObject
    ties: Distance

    def named(self, expression: JavaObject) -> JavaObject:
        return self.catalyst.named(expression, "running")

    def row_count(self, like: JavaObject) -> JavaObject:
        """How many rows there are up to this one, and up to those level with it."""
        frame = self._frame("RowFrame" if self.ties is Distance.ROWS else "RangeFrame")
        ones = self.catalyst.seq([self.catalyst.literal("1")])
        return self._over(self._aggregate("Count")(ones), like.windowSpec(), frame)

    def sum_and_count(self, window: JavaObject) -> tuple[JavaObject, JavaObject]:
        """What an average is made of."""
        average, spec = function_of(window), window.windowSpec()
        total, _ = items(average.aggBufferAttributes())
        child = self.catalyst.cast(average.child(), total.dataType())
        if simple_name(total.dataType()) == "DecimalType":
            child = average.child()
        counted = self.catalyst.seq([average.child()])
        return (
            self._over(self._aggregate("Sum")(child), spec),
            self._over(self._aggregate("Count")(counted), spec),
        )

    def average(self, named: JavaObject, total: JavaObject, count: JavaObject) -> JavaObject:
        """An average from a sum and a count that go on: Spark's own last step."""
        average = function_of(named.child())
        buffers = [id_of(a) for a in items(average.aggBufferAttributes())]
        values = [self.going_on(each, each.toAttribute()) for each in (total, count)]
        return self.catalyst.rebased(
            average.evaluateExpression(), dict(zip(buffers, values, strict=True))
        )

    def going_on(self, named: JavaObject, rows: JavaObject) -> JavaObject:
        """A function that begins with its own value in the row of moment 0, which has `rows`."""
        catalyst, window, before = self.catalyst, named.child(), named.toAttribute()
        function, spec = function_of(window), window.windowSpec()
        bigint, result = catalyst.data_type("bigint"), function.dataType()
        match simple_name(function):
            case "Count":
                one = self._one_if_counted(items(function.children()))
                return self._over(self._aggregate("Sum")(self._first(before, one)), spec)
            case "RowNumber":
                so_far = self._first(catalyst.cast(before, bigint), catalyst.literal("1L"))
                return catalyst.cast(self._over(self._aggregate("Sum")(so_far), spec), result)
            case "Rank":
                return self._later(window, rows)
            case "DenseRank":
                return self._later(window, before)
            case "Sum":
                value = self._first(before, catalyst.cast(function.child(), result))
                total = self._over(function.withNewChildren(catalyst.seq([value])), spec)
                # The sum of sums of decimals has a wider type.
                same = type_of(total) == type_text(result)
                return total if same else catalyst.cast(total, result)
            case "NthValue":
                value = self._first(before, function.input())
                first = self._aggregate("First")(value, function.ignoreNulls())
                return self._over(first, spec)
            case _:
                value = self._first(before, function.children().head())
                return self._over(function.withNewChildren(catalyst.seq([value])), spec)

    def _later(self, window: JavaObject, ranked: JavaObject) -> JavaObject:
        """A rank in which the first row counts for as many as it says."""
        catalyst = self.catalyst
        bigint = catalyst.data_type("bigint")
        given = self._first(catalyst.cast(ranked, bigint), catalyst.null(bigint))
        first = self._over(self._aggregate("Max")(given), window.windowSpec())
        more = catalyst.expression("Subtract")(first, catalyst.literal("1L"))
        none = catalyst.literal("0L")
        more = catalyst.expression("Coalesce")(catalyst.seq([more, none]))
        rank = catalyst.expression("Add")(catalyst.cast(window, bigint), more)
        return catalyst.cast(rank, catalyst.data_type("int"))

    def _first(self, before: JavaObject, otherwise: JavaObject) -> JavaObject:
        """In the row of moment 0 the value so far, in others another."""
        expression = self.catalyst.expression
        is_first = expression("EqualTo")(self.moment, self.catalyst.literal("0L"))
        return expression("If")(is_first, before, otherwise)

    def _one_if_counted(self, arguments: Sequence[JavaObject]) -> JavaObject:
        catalyst = self.catalyst
        nullable = [a for a in arguments if a.nullable()]
        present = catalyst.conjunction(map(catalyst.expression("IsNotNull"), nullable))
        one, none = catalyst.literal("1L"), catalyst.literal("0L")
        return one if present is None else catalyst.expression("If")(present, one, none)

    def _over(
        self, function: JavaObject, spec: JavaObject, frame: JavaObject | None = None
    ) -> JavaObject:
        """An aggregate over the frame of a window, or over another in its order."""
        if frame is not None:
            definition = self.catalyst.expression("WindowSpecDefinition")
            spec = definition(spec.partitionSpec(), spec.orderSpec(), frame)
        return self.catalyst.expression("WindowExpression")(function.toAggregateExpression(), spec)

    def _frame(self, kind: str) -> JavaObject:
        catalyst = self.catalyst
        return catalyst.expression("SpecifiedWindowFrame")(
            *(catalyst.module(f"{_EXPRESSIONS}.{name}") for name in (kind, *_SO_FAR))
        )

    def _aggregate(self, name: str) -> JavaObject:
        return self.catalyst.expression(f"aggregate.{name}")


_SO_FAR = ("UnboundedPreceding", "CurrentRow")
