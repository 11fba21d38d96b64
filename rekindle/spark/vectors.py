"""Catalyst expressions of a few shapes as functions on Arrow columns.

Columns, comparisons, logic and arithmetic mean the same in Arrow as in Spark, NULLs
included, and a call costs microseconds where the way to the JVM costs milliseconds. An expression
of any other shape is Spark's alone, and so is one that fails: where Arrow reports an overflow, the
stage is run again by Spark, which raises its own error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from rekindle.frontends.spark_sql.jvm import JavaObject, items, simple_name, type_text
from rekindle.spark.types import arrow_type, data_type

Columns: TypeAlias = Sequence[Any]
Vector: TypeAlias = Callable[[Columns], Any]
"""From the columns of some rows to a value for each of them, or to one scalar for all."""

COMPARED = frozenset(
    ("boolean", "tinyint", "smallint", "int", "bigint", "string", "date", "timestamp")
)
"""Types whose values Arrow compares as Spark does; it does not for zeros and NaNs of floats."""
WHOLE = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
_COMPARISONS = {
    "EqualTo": pc.equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
}
_ARITHMETIC = {
    "Add": (pc.add_checked, pc.add),
    "Subtract": (pc.subtract_checked, pc.subtract),
    "Multiply": (pc.multiply_checked, pc.multiply),
}
"""Of whole numbers, which fail beyond their type, and of floats, which do not."""
_LOGIC = {"And": pc.and_kleene, "Or": pc.or_kleene}


class Vectors:
    """Compiles expressions over the columns that some attributes name."""

    def __init__(self, attributes: Sequence[JavaObject]) -> None:
        self._attributes = attributes

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {int(a.exprId().id()): i for i, a in enumerate(self._attributes)}

    def vector(self, expression: JavaObject) -> Vector | None:
        """The expression as a function of columns, if it has such a shape."""
        for position, attribute in enumerate(self._attributes):
            if attribute is expression:
                return _taken(position)
        match simple_name(expression):
            case "AttributeReference":
                position = self._positions.get(int(expression.exprId().id()), -1)
                return None if position < 0 else _taken(position)
            case "Literal":
                return _literal(expression)
            case "IsNotNull":
                return self._applied(pc.is_valid, expression.child())
            case "IsNull":
                return self._applied(pc.is_null, expression.child())
            case "Not":
                return self._applied(pc.invert, expression.child())
            case "BitwiseNot":
                return self._applied(pc.bit_wise_not, expression.child())
            case "Cast":
                return self._widened(expression, expression.dataType())
            case "SortPrefix":
                return self._widened(expression.child(), expression.dataType())
            case "Greatest":
                return self._together(pc.max_element_wise, expression, WHOLE)
            case "Coalesce":
                return self._together(pc.coalesce, expression, (*WHOLE, *FLOATS))
            case name if name in _LOGIC:
                return self._applied(_LOGIC[name], expression.left(), expression.right())
            case name if name in _COMPARISONS:
                if not self._same(expression, COMPARED):
                    return None
                return self._applied(_COMPARISONS[name], expression.left(), expression.right())
            case name if name in _ARITHMETIC:
                whole, rounded = _ARITHMETIC[name]
                if self._same(expression, WHOLE) and expression.failOnError():
                    return self._applied(whole, expression.left(), expression.right())
                if self._same(expression, FLOATS):
                    return self._applied(rounded, expression.left(), expression.right())
        return None

    @staticmethod
    def _same(expression: JavaObject, types: Sequence[str] | frozenset[str]) -> bool:
        left, right = (
            type_text(expression.left().dataType()),
            type_text(expression.right().dataType()),
        )
        return left == right and left in types

    def _applied(self, function: Callable[..., Any], *operands: JavaObject) -> Vector | None:
        vectors = [self.vector(operand) for operand in operands]
        known = [found for found in vectors if found is not None]
        if len(known) < len(vectors):
            return None
        return lambda columns: function(*(found(columns) for found in known))

    def _widened(self, parent: JavaObject, target: JavaObject) -> Vector | None:
        """The one child of an expression, whole numbers, as numbers of more bits or as floats."""
        before, after = type_text(parent.child().dataType()), type_text(target)
        if before not in WHOLE or after not in (*WHOLE[WHOLE.index(before) :], *FLOATS):
            return None
        wider = arrow_type(data_type(after))
        # A whole number that no float equals becomes the nearest one, as in the JVM.
        return self._applied(lambda column: pc.cast(column, wider, safe=False), parent.child())

    def _together(
        self, function: Callable[..., Any], expression: JavaObject, types: Sequence[str]
    ) -> Vector | None:
        """A function of several numbers of some types."""
        operands = items(expression.children())
        if any(type_text(operand.dataType()) not in types for operand in operands):
            return None
        return self._applied(function, *operands)


def _taken(position: int) -> Vector:
    return lambda columns: columns[position]


def _literal(literal: JavaObject) -> Vector | None:
    type_ = type_text(literal.dataType())
    value = literal.value()
    if type_ == "string":
        value = None if value is None else str(value)
    elif type_ not in ("boolean", "date", *WHOLE, *FLOATS):
        return None
    scalar = pa.scalar(value, arrow_type(data_type(type_)))
    return lambda columns: scalar
