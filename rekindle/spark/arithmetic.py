"""Arithmetic of view trees by Spark: scalars taken apart, payloads multiplied and added.

Whole numbers are bigint inside a tree: they add and multiply exactly, or fail as Spark fails, or
wrap around where the session says so, which distributes too. Decimals keep their scale; a product
whose scale Spark would cut is not made. Doubles are doubles and round at every product, which is
for users of sums who do not mind, as a regression does not; others take `ExactArithmetic`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import reduce
from operator import and_

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from rekindle.calculus.scalars import Column, Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import AggregateFunction, Measure
from rekindle.catalyst.jvm import Catalyst, JavaObject, analysed_plan, id_of, items, simple_name
from rekindle.catalyst.scalars import CatalystScalar, scalar
from rekindle.catalyst.types import data_type
from rekindle.columns import column_name
from rekindle.errors import RekindleError
from rekindle.frontends.spark_sql.aggregates import measure_of
from rekindle.frontends.spark_sql.translate import Translator
from rekindle.incremental.policies.arithmetic import Operation, Shape
from rekindle.spark.vectors import WHOLE

_OPERATIONS = {
    "Multiply": Operation.PRODUCT,
    "Add": Operation.SUM,
    "Subtract": Operation.DIFFERENCE,
    "And": Operation.CONJUNCTION,
    "EqualTo": Operation.EQUALITY,
}
_LOGICAL = ("And", "EqualTo")


class SparkArithmetic:
    """Makes scalars and measures of one session."""

    def __init__(self, catalyst: Catalyst, translator: Translator) -> None:
        self._catalyst = catalyst
        self._translator = translator

    def shape(self, given: Scalar) -> Shape | None:
        """The operation at the root, if it gives no NULL for numbers, and rounds only doubles."""
        if not isinstance(given, CatalystScalar):
            return None
        kind = simple_name(given.expression)
        if kind not in _OPERATIONS:
            return None
        left, right = (
            self._translator.scalar(operand, given.inputs)
            for operand in (given.expression.left(), given.expression.right())
        )
        exact = kind in _LOGICAL or _is_exact(kind, given.type, left.type, right.type)
        return Shape(_OPERATIONS[kind], left, right) if exact or given.type == "double" else None

    def obstacle(self, given: Scalar) -> str:
        """What is rounded, or that it is no sum or product."""
        if isinstance(given, CatalystScalar) and simple_name(given.expression) in _OPERATIONS:
            if given.type == "float":
                return (
                    "Spark rounds it to the 24 bits of a float in every row; "
                    "cast its operands to double"
                )
            return f"Spark may round it to its type {given.type}"
        return "it is no product, sum or difference"

    def distributes(self, given: Scalar) -> bool:
        """Whoever takes rounded products takes these too."""
        return True

    def present(self, value: Scalar, schema: Schema) -> Scalar:
        """1 or 0."""
        return self.made([value], schema, lambda v: F.isnotnull(v).cast("bigint"))

    def or_zero(self, value: Scalar, schema: Schema) -> Scalar:
        """The value or zero, whole numbers as bigint."""
        type_ = _payload_type(value.type)
        return self.made([value], schema, lambda v: F.coalesce(v.cast(type_), _zero(type_)))

    def product(self, factors: Sequence[Scalar], schema: Schema) -> Scalar | None:
        """The product, unless Spark would cut its scale."""

        def multiplied(first: SparkColumn, *rest: SparkColumn) -> SparkColumn:
            for factor in rest:
                first = first * factor
            return first

        found = self.made(factors, schema, multiplied)
        scales = [_scale(factor.type) for factor in factors]
        return found if _scale(found.type) == sum(scales) else None

    def widened(self, payload: Scalar, schema: Schema) -> Scalar:
        """Whole numbers as bigint, decimals with all digits that there are."""
        type_ = _summed_type(payload.type)
        if payload.type == type_:
            return payload
        return self.made([payload], schema, lambda v: v.cast(type_))

    def signed_sum(self, summands: Sequence[tuple[int, Scalar]], schema: Schema) -> Scalar:
        """Spark's sum of the payloads."""

        def added(*columns: SparkColumn) -> SparkColumn:
            total: SparkColumn | None = None
            for (sign, summand), column in zip(summands, columns, strict=True):
                known = F.coalesce(column, _zero(summand.type))
                signed = known if sign > 0 else -known
                total = signed if total is None else total + signed
            assert total is not None
            return total

        return self.made([summand for _, summand in summands], schema, added)

    def partial_sum(self, name: str, payload: Scalar) -> Measure:
        """Spark's sum of a payload, kept as a linear accumulator."""
        return replace(self._measure(name, payload.type, F.sum), arguments=(payload,))

    def total(self, name: str, summands: Sequence[tuple[int, Scalar]]) -> Measure | None:
        """None: every sum is a number."""
        return None

    def row_count(self, name: str) -> Measure:
        """count(*)."""
        return self._measure(name, "int", lambda _: F.count(F.lit(1)))

    def finished(self, measure: Measure, values: Sequence[Scalar], schema: Schema) -> Scalar:
        """Spark's own last expression over the buffers that the values amount to."""
        finish = measure.finish
        if not isinstance(finish, CatalystScalar):
            raise RekindleError(f"Spark cannot finish the aggregate {measure.name}")
        attributes = self._attributes(schema)
        replaced = {}
        for buffer in finish.inputs:
            type_ = str(buffer.dataType().catalogString())
            build = _buffer(str(buffer.name()), type_, measure.function)
            made = build(*self._columns(values, attributes))
            (replaced[id_of(buffer)],) = self._catalyst.analysed([made], attributes)
        expression = self._catalyst.rebased(finish.expression, replaced)
        found = scalar(self._catalyst, expression, attributes)
        return replace(found, type=measure.type, nullable=measure.nullable)

    def positive(self, counts: Sequence[Scalar], schema: Schema) -> Scalar:
        """A conjunction of comparisons."""

        def all_positive(*columns: SparkColumn) -> SparkColumn:
            return reduce(and_, (column > F.lit(0).cast("bigint") for column in columns))

        return self.made(counts, schema, all_positive)

    def equal(self, left: Scalar, right: Scalar, schema: Schema) -> Scalar:
        """SQL's =."""
        return self.made([left, right], schema, lambda a, b: a == b)

    # ---- expressions -----------------------------------------------------------------------

    def made(
        self, operands: Sequence[Scalar], schema: Schema, build: Callable[..., SparkColumn]
    ) -> CatalystScalar:
        """What Spark's functions build from scalars over rows of a schema."""
        attributes = self._attributes(schema)
        made = build(*self._columns(operands, attributes))
        (expression,) = self._catalyst.analysed([made], attributes)
        return scalar(self._catalyst, expression, attributes)

    def _attributes(self, schema: Schema) -> list[JavaObject]:
        fields = enumerate(schema)
        return [self._catalyst.attribute(column_name(i), f.type) for i, f in fields]

    def _columns(
        self, operands: Sequence[Scalar], attributes: Sequence[JavaObject]
    ) -> list[SparkColumn]:
        column_of = self._catalyst.class_("org.apache.spark.sql.classic.ExpressionUtils").column
        found = []
        for operand in operands:
            match operand:
                case Column():
                    expression = attributes[operand.position]
                case CatalystScalar():
                    moved = {
                        id_of(before): after
                        for before, after in zip(operand.inputs, attributes, strict=False)
                    }
                    expression = self._catalyst.rebased(operand.expression, moved)
                case _:
                    raise RekindleError(f"Spark cannot evaluate the scalar {operand.text}")
            found.append(SparkColumn(column_of(expression)))
        return found

    def _measure(
        self, name: str, type_: str, build: Callable[[SparkColumn], SparkColumn]
    ) -> Measure:
        """A measure of one column of the type."""
        attribute = self._catalyst.attribute("payload", type_)
        (column,) = self._columns([Column(0, type_)], [attribute])
        frame = self._catalyst.of_attributes([attribute]).agg(build(column).alias("made"))
        plan = analysed_plan(frame)
        call = items(plan.aggregateExpressions())[0].child()
        return measure_of(self._translator, call, [attribute], name, [])


def _buffer(name: str, type_: str, function: AggregateFunction) -> Callable[..., SparkColumn]:
    """A buffer of Spark's aggregate from the number of values and their sum."""

    def build(count: SparkColumn, total: SparkColumn | None = None) -> SparkColumn:
        number = F.coalesce(count, F.lit(0).cast("bigint"))
        match name:
            case "count":
                return number.cast(type_)
            case "isEmpty":
                return number == 0
        assert total is not None
        known = F.coalesce(total.cast(type_), _zero(type_))
        # An average divides by the count; a sum of nothing is NULL.
        return known if function is AggregateFunction.AVERAGE else F.when(number > 0, known)

    return build


def _zero(type_: str) -> SparkColumn:
    return F.lit(0).cast(type_)


def _payload_type(type_: str) -> str:
    return "bigint" if type_ in WHOLE else type_


def _summed_type(type_: str) -> str:
    parsed = data_type(type_)
    if isinstance(parsed, DecimalType):
        return f"decimal(38,{parsed.scale})"
    return _payload_type(type_)


def _scale(type_: str) -> int:
    parsed = data_type(type_)
    return parsed.scale if isinstance(parsed, DecimalType) else 0


def _is_exact(kind: str, result: str, left: str, right: str) -> bool:
    """Are a product, a sum or a difference of these types never rounded?"""
    if result in WHOLE:
        return True
    if not result.startswith("decimal"):
        return False
    scales = _scale(left), _scale(right)
    return _scale(result) == (sum(scales) if kind == "Multiply" else max(scales))
