"""Catalyst expressions of many shapes as functions on Arrow columns.

Columns, rows of them and their fields, comparisons, logic, arithmetic that is exact or rounds as
the JVM does, `CASE`, `IN` and plain tests of texts mean the same in Arrow as in Spark, NULLs
included. A call costs microseconds
where the way to the JVM costs milliseconds, and Spark tasks that read Arrow files need no JVM for
them at all. An expression of any other shape is Spark's alone, and so is one that fails: where
Arrow reports an overflow, the stage is run again by Spark, which raises its own error.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from rekindle.catalyst.jvm import (
    JavaObject,
    id_of,
    items,
    option,
    simple_name,
    type_of,
    type_text,
)
from rekindle.catalyst.types import arrow_type, data_type, schema_of
from rekindle.spark import vector_functions as functions

Columns: TypeAlias = Sequence[Any]
Vector: TypeAlias = Callable[[Columns], Any]
"""From the columns of some rows to a value for each of them, or to one scalar for all."""

Digits: TypeAlias = tuple[int, int]
"""Precision and scale of a decimal."""
_MOST_DIGITS = 38

WHOLE = ("tinyint", "smallint", "int", "bigint")
FLOATS = ("float", "double")
_PLAIN = frozenset(("boolean", *WHOLE, "string", "date", "timestamp"))
_DECIMAL = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_ARITHMETIC = {
    "Add": (pc.add_checked, pc.add),
    "Subtract": (pc.subtract_checked, pc.subtract),
    "Multiply": (pc.multiply_checked, pc.multiply),
}
"""Of whole numbers, which fail beyond their type, and of others, which do not."""
_LOGIC = {"And": pc.and_kleene, "Or": pc.or_kleene}
_TEXTS = {
    "StartsWith": functions.begins,
    "EndsWith": functions.ends,
    "Contains": functions.contains,
}
_ROW = "CreateNamedStruct"
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""How many digits a decimal has that takes every whole number of a type."""


def is_compared(type_: str) -> bool:
    """Whether Arrow compares values of a type as Spark does, equal ones being the same bytes."""
    return type_ in _PLAIN or _decimal(type_) is not None


def has_equal_bytes(type_: str) -> bool:
    """The same, also of structs of such types."""
    fields = _fields(type_)
    return all(map(has_equal_bytes, fields)) if fields else is_compared(type_)


def _is_carried(type_: str) -> bool:
    """Is a type one whose values Arrow holds as Spark's columns come, also within structs?"""
    fields = _fields(type_)
    return all(map(_is_carried, fields)) if fields else type_ in FLOATS or is_compared(type_)


def _fields(type_: str) -> list[str]:
    """The types of the fields of a struct; none of any other type."""
    struct = data_type(type_) if type_.lower().startswith("struct<") else None
    return list(schema_of(struct).types) if isinstance(struct, StructType) else []


_DEEPEST = 40
"""So many operators may be nested in an expression that is evaluated on columns."""


class Vectors:
    """Compiles expressions over the columns that some attributes name."""

    def __init__(self, attributes: Sequence[JavaObject]) -> None:
        self._attributes = attributes
        self._depth = 0

    @cached_property
    def _positions(self) -> dict[int, int]:
        return {id_of(a): i for i, a in enumerate(self._attributes)}

    def vector(self, expression: JavaObject) -> Vector | None:
        """The expression as a function of columns, if it has such a shape and is not too deep.

        Vectors call each other as the operators of the expression do; deep ones are Spark's.
        """
        if self._depth == _DEEPEST:
            return None
        self._depth += 1
        try:
            return self._vector(expression)
        finally:
            self._depth -= 1

    def _vector(self, expression: JavaObject) -> Vector | None:
        for position, attribute in enumerate(self._attributes):
            if attribute is expression:
                return partial(functions.taken, position)
        match simple_name(expression):
            case "AttributeReference":
                position = self._positions.get(id_of(expression), -1)
                return None if position < 0 else partial(functions.taken, position)
            case "Literal":
                scalar = _scalar(expression.value(), type_of(expression))
                return None if scalar is None else partial(functions.constant, scalar)
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
                return self._prefix(expression.child().child())
            case "TryEval":
                # Where anything fails, Spark evaluates the whole stage again.
                return self.vector(expression.child())
            case "BitwiseXor":
                return self._applied(pc.bit_wise_xor, expression.left(), expression.right())
            case "CheckOverflowInSum":
                return self._sum(expression)
            case "DecimalDivideWithOverflowCheck":
                return self._average(expression)
            case "Greatest":
                return self._together(pc.max_element_wise, expression, WHOLE)
            case "CreateNamedStruct":
                return self._row(expression)
            case "GetStructField":
                if not _is_carried(type_of(expression)):
                    return None
                field = partial(functions.field_of, int(expression.ordinal()))
                return self._applied(field, expression.child())
            case "Coalesce":
                return self._together(pc.coalesce, expression, (*WHOLE, *FLOATS))
            case "CaseWhen":
                return self._case(expression)
            case "If":
                return self._applied(functions.chosen, *items(expression.children()))
            case "In" | "InSet" as name:
                return self._listed(name, expression)
            case "Year":
                return self._of_type("date", functions.year_of, expression.child())
            case "Like":
                return self._like(expression)
            case "Substring":
                return self._substring(expression)
            case name if name in _TEXTS:
                return self._tested(_TEXTS[name], expression)
            case name if name in _LOGIC:
                return self._applied(_LOGIC[name], expression.left(), expression.right())
            case name if name in functions.COMPARISONS:
                return self._compared(name, expression)
            case name if name in _ARITHMETIC:
                return self._computed(*_ARITHMETIC[name], expression)
            case "Divide":
                return self._divided(expression)
        return None

    def _applied(self, function: Callable[..., Any], *operands: JavaObject) -> Vector | None:
        vectors = [self.vector(operand) for operand in operands]
        known = [found for found in vectors if found is not None]
        if len(known) < len(vectors):
            return None
        return partial(functions.applied, function, known)

    def _of_type(
        self, type_: str, function: Callable[[Any], Any], operand: JavaObject
    ) -> Vector | None:
        if type_of(operand) != type_:
            return None
        return self._applied(function, operand)

    def _compared(self, name: str, expression: JavaObject) -> Vector | None:
        if all(simple_name(e) == _ROW for e in (expression.left(), expression.right())):
            return self._same_rows(expression) if name == "EqualTo" else None
        type_ = _common(expression)
        if _fields(type_) and has_equal_bytes(type_) and name in functions.OF_ROWS:
            return self._applied(functions.OF_ROWS[name], expression.left(), expression.right())
        if type_ not in FLOATS and not is_compared(type_):
            return None
        function = functions.compared(name, floats=type_ in FLOATS)
        return self._applied(function, expression.left(), expression.right())

    def _same_rows(self, expression: JavaObject) -> Vector | None:
        """Two rows are equal where all of their fields are, NULL being equal to NULL."""
        both = [items(row.valExprs()) for row in (expression.left(), expression.right())]
        pairs = list(zip(*both, strict=True))
        types = [[type_of(field) for field in pair] for pair in pairs]
        if not all(one == other and is_compared(one) for one, other in types):
            return None
        return self._applied(functions.are_same, *(field for pair in pairs for field in pair))

    def _row(self, expression: JavaObject) -> Vector | None:
        values = items(expression.valExprs())
        if not all(_is_carried(type_of(value)) for value in values):
            return None
        type_ = arrow_type(data_type(type_of(expression)))
        return self._applied(partial(functions.row_of, type_), *values)

    def _divided(self, expression: JavaObject) -> Vector | None:
        checked, operands = expression.failOnError(), (expression.left(), expression.right())
        if _common(expression) in FLOATS:
            floats = functions.divided_floats if checked else functions.divided_floats_or_null
            return self._applied(floats, *operands)
        decimals = functions.divided_decimals if checked else functions.divided_decimals_or_null
        function = _quotient(decimals, expression)
        return None if function is None else self._applied(function, *operands)

    def _average(self, expression: JavaObject) -> Vector | None:
        """A sum of decimals, NULL if it left its type, by a count, which may be zero."""
        function = _quotient(functions.divided_decimals_or_null, expression)
        total, count = self.vector(expression.left()), self.vector(expression.right())
        if function is None or total is None or count is None:
            return None
        if not expression.nullOnOverflow():
            total = partial(functions.applied, functions.present, [total])
        return partial(functions.applied, function, [total, count])

    def _sum(self, expression: JavaObject) -> Vector | None:
        """A sum that has the type it is checked for: NULL if it left it."""
        if type_of(expression.child()) != type_of(expression):
            return None
        function = functions.unchanged if expression.nullOnOverflow() else functions.present
        return self._applied(function, expression.child())

    def _prefix(self, operand: JavaObject) -> Vector | None:
        """Spark's sort prefix: 64 bits of a value, in the order of the values."""
        type_ = type_of(operand)
        digits = _decimal(type_)
        if type_ in (*WHOLE, "date", "timestamp", "timestamp_ntz"):
            return self._applied(functions.as_long, operand)
        if digits is not None and digits[0] <= functions.LONG_DIGITS:
            return self._applied(functions.unscaled, operand)
        if digits is not None and digits[0] - digits[1] > functions.LONG_DIGITS:
            return self._applied(functions.prefix_of_decimals, operand)
        if type_ in FLOATS:
            return self._applied(functions.prefix_of_floats, operand)
        return None

    def _computed(
        self, checked: Callable[..., Any], plain: Callable[..., Any], expression: JavaObject
    ) -> Vector | None:
        """Sums, differences, products: of decimals, if their type holds every possible result."""
        operands = expression.left(), expression.right()
        type_ = _common(expression)
        if type_ in WHOLE:
            return self._applied(checked, *operands) if expression.failOnError() else None
        if type_ in FLOATS:
            return self._applied(plain, *operands)
        types = [_decimal(type_of(part)) for part in (*operands, expression)]
        known = [found for found in types if found is not None]
        function = _of_decimals(plain, *known) if len(known) == len(types) else None
        return None if function is None else self._applied(function, *operands)

    def _widened(self, parent: JavaObject, target: JavaObject) -> Vector | None:
        """The one child of an expression as numbers of another type.

        Where a type does not hold all of them, those that it does not hold are Spark's to judge.
        """
        before, after = type_of(parent.child()), type_text(target)
        type_ = arrow_type(data_type(after))
        if _holds(after, before):
            return self._applied(partial(functions.converted, type_), parent.child())
        if _decimal(before) is not None and after == "double":
            return self._applied(functions.as_doubles, parent.child())
        if _decimal(before) is not None and _decimal(after) is not None:
            return self._applied(partial(functions.rounded, type_), parent.child())
        return None

    def _together(
        self, function: Callable[..., Any], expression: JavaObject, types: Sequence[str]
    ) -> Vector | None:
        """A function of several numbers of some types."""
        operands = items(expression.children())
        if any(type_of(operand) not in types for operand in operands):
            return None
        return self._applied(function, *operands)

    def _case(self, expression: JavaObject) -> Vector | None:
        parts = [part for each in items(expression.branches()) for part in (each._1(), each._2())]
        otherwise = option(expression.elseValue())
        type_ = arrow_type(data_type(type_of(expression)))
        if otherwise is not None:
            return self._applied(functions.chosen, *parts, otherwise)
        nothing = pa.scalar(None, type_)
        return self._applied(partial(_chosen_or, nothing), *parts)

    def _listed(self, name: str, expression: JavaObject) -> Vector | None:
        """A test whether a value is one of a list of constants."""
        if name == "In":
            operand, listed = expression.value(), items(expression.list())
            if any(simple_name(each) != "Literal" for each in listed):
                return None
            values = [each.value() for each in listed]
        else:
            operand, values = expression.child(), items(expression.hset().toSeq())
        type_ = type_of(operand)
        if type_ not in (*WHOLE, "string", "date"):
            return None
        scalars = [_scalar(value, type_) for value in values]
        if any(scalar is None or not scalar.is_valid for scalar in scalars):
            return None
        listed_values = pa.array(
            [scalar.as_py() for scalar in scalars if scalar is not None],
            arrow_type(data_type(type_)),
        )
        return self._applied(partial(functions.is_one_of, listed_values), operand)

    def _tested(self, function: Callable[[str, Any], Any], expression: JavaObject) -> Vector | None:
        """A test of a text against a constant one."""
        text = _text(expression.right())
        if text is None:
            return None
        return self._of_type("string", partial(function, text), expression.left())

    def _like(self, expression: JavaObject) -> Vector | None:
        pattern = _text(expression.right())
        if pattern is None or "\\" in pattern or str(expression.escapeChar()) != "\\":
            return None
        return self._of_type("string", partial(functions.is_like, pattern), expression.left())

    def _substring(self, expression: JavaObject) -> Vector | None:
        bounds = [expression.pos(), expression.len()]
        if any(simple_name(bound) != "Literal" or bound.value() is None for bound in bounds):
            return None
        start, length = (int(bound.value()) for bound in bounds)
        if start < 1 or length < 0:
            return None
        cut = partial(functions.part_of_text, start - 1, start - 1 + length)
        return self._of_type("string", cut, expression.str())


def _of_decimals(
    function: Callable[..., Any], left: Digits, right: Digits, result: Digits
) -> Callable[..., Any] | None:
    """The function on decimals, if it gives exactly the wanted type.

    A product may have more digits than there are. Its longer factor is then taken to have as few as
    leave room, which nearly every number has.
    """
    arrays = [pa.array([], pa.decimal128(*digits)) for digits in (left, right)]
    with suppress(pa.ArrowInvalid):
        return function if function(*arrays).type == pa.decimal128(*result) else None
    room = _MOST_DIGITS - 1 - min(left[0], right[0])
    if function is not pc.multiply or result != (_MOST_DIGITS, left[1] + right[1]):
        return None
    if room <= max(left[1], right[1]):
        return None
    one, other = (pa.decimal128(min(digits[0], room), digits[1]) for digits in (left, right))
    return partial(functions.narrowed_product, one, other, pa.decimal128(*result))


def _quotient(
    function: Callable[..., Any], expression: JavaObject
) -> Callable[[Any, Any], Any] | None:
    """A quotient of decimals, rounded to the type of the result.

    The dividend is given digits after the point, so that Arrow's quotient has more of them than the
    result, and the divisor is taken to have as few digits as leave room for them.
    """
    types = [expression.left(), expression.right(), expression]
    digits = [_decimal(type_of(each)) for each in types]
    left, right, result = digits
    if left is None or right is None or result is None:
        return None
    more = max(0, result[1] + right[1] - left[1] - right[0])
    few = min(right[0], functions.MOST_WIDE_DIGITS - 1 - left[0] - more)
    if few <= right[1]:
        return None
    dividend, divisor = pa.decimal256(left[0] + more, left[1] + more), pa.decimal256(few, right[1])
    given = pc.divide(pa.array([], dividend), pa.array([], divisor)).type
    if given.scale <= result[1]:
        return None
    return partial(function, dividend, divisor, pa.decimal128(*result))


def _chosen_or(otherwise: pa.Scalar, *parts: Any) -> Any:
    return functions.chosen(*parts, otherwise)


def _common(expression: JavaObject) -> str:
    """The type of both operands; an empty text if they differ."""
    left = type_of(expression.left())
    return left if left == type_of(expression.right()) else ""


def _decimal(type_: str) -> Digits | None:
    """The digits of a decimal."""
    found = _DECIMAL.fullmatch(type_)
    return None if found is None else (int(found[1]), int(found[2]))


def _holds(wide: str, narrow: str) -> bool:
    """Whether a cast from one type to another cannot fail, and rounds as the JVM does."""
    if narrow in WHOLE and wide in (*WHOLE[WHOLE.index(narrow) :], *FLOATS):
        return True
    target = _decimal(wide)
    if target is None:
        return False
    source = _decimal(narrow) or ((_DIGITS[narrow], 0) if narrow in WHOLE else None)
    if source is None:
        return False
    return target[1] >= source[1] and target[0] - target[1] >= source[0] - source[1]


def _scalar(value: Any, type_: str) -> pa.Scalar | None:
    """A constant of Spark's; None for types that are not known here."""
    known = _decimal(type_)
    if known is not None:
        number = None if value is None else Decimal(str(value))
        return pa.scalar(number, pa.decimal128(*known))
    if type_ == "string":
        return pa.scalar(None if value is None else str(value), pa.string())
    if type_ not in ("boolean", "date", *WHOLE, *FLOATS):
        return None
    return pa.scalar(value, arrow_type(data_type(type_)))


def _text(expression: JavaObject) -> str | None:
    """The text of a constant."""
    if simple_name(expression) != "Literal" or type_of(expression) != "string":
        return None
    value = expression.value()
    return None if value is None else str(value)
