"""Arithmetic of view trees by Spark in which doubles are not rounded.

A payload of doubles is a double, NULL standing for zero, or a list of factors that are not
multiplied out yet (`algebra.exact_sums`); Spark appends lists, and kernels multiply and add.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from rekindle.algebra.exact_sums import BITS, FACTORS, NUMBER, ROUNDED, ExactSum
from rekindle.algebra.exact_sums import WHOLE as WHOLE_FACTOR
from rekindle.calculus.scalars import Scalar
from rekindle.calculus.schema import Schema
from rekindle.calculus.terms import AggregateFunction, Measure
from rekindle.spark.arithmetic import SparkArithmetic
from rekindle.spark.vectors import FLOATS, WHOLE

_INEXACT = (*FLOATS, FACTORS)


class ExactArithmetic(SparkArithmetic):
    """Makes scalars and measures of one session, none of which rounds but the last."""

    def distributes(self, given: Scalar) -> bool:
        """Not where infinities are."""
        return given.type not in FLOATS

    def or_zero(self, value: Scalar, schema: Schema) -> Scalar:
        """The value or zero; a double as it is."""
        if value.type not in FLOATS:
            return super().or_zero(value, schema)
        return self.made([value], schema, lambda v: _double(value.type, v))

    def product(self, factors: Sequence[Scalar], schema: Schema) -> Scalar | None:
        """The product, or a list of the factors if doubles are among them."""
        types = [factor.type for factor in factors]
        if not any(type_ in _INEXACT for type_ in types):
            return super().product(factors, schema)
        if not all(type_ in (*_INEXACT, *WHOLE) for type_ in types):
            return None

        def appended(*columns: SparkColumn) -> SparkColumn:
            return F.concat(*map(_listed, types, columns))

        return self.made(factors, schema, appended)

    def widened(self, payload: Scalar, schema: Schema) -> Scalar:
        """Doubles as lists of factors."""
        if payload.type not in FLOATS:
            return payload if payload.type == FACTORS else super().widened(payload, schema)
        return self.made([payload], schema, lambda v: _listed(payload.type, v))

    def partial_sum(self, name: str, payload: Scalar) -> Measure:
        """Of doubles a list of one factor, the exact sum."""
        if payload.type not in _INEXACT:
            return super().partial_sum(name, payload)
        return _measure(name, (payload,), ExactSum((1,), FACTORS))

    def total(self, name: str, summands: Sequence[tuple[int, Scalar]]) -> Measure | None:
        """Of doubles the double nearest to the exact sum."""
        if not all(summand.type in _INEXACT for _, summand in summands):
            return None
        signs = tuple(sign for sign, _ in summands)
        return _measure(name, tuple(each for _, each in summands), ExactSum(signs, ROUNDED))


def _measure(name: str, arguments: tuple[Scalar, ...], sum_: ExactSum) -> Measure:
    return Measure(
        name,
        AggregateFunction.EXACT_SUM,
        arguments,
        sum_.gives,
        nullable=False,
        text=sum_.text,
        finish=sum_,
    )


def _listed(type_: str, column: SparkColumn) -> SparkColumn:
    """A payload as a list of factors."""
    if type_ == FACTORS:
        return column
    if type_ in FLOATS:
        return F.when(column.isNotNull(), F.array(F.lit(NUMBER), _double(type_, column)))
    number = column.cast("bigint")
    high, low = F.shiftright(number, BITS), number.bitwiseAND(F.lit(2**BITS - 1))
    return F.array(F.lit(WHOLE_FACTOR), high.cast(ROUNDED), low.cast(ROUNDED))


def _double(type_: str, column: SparkColumn) -> SparkColumn:
    return column if type_ == ROUNDED else column.cast(ROUNDED)
