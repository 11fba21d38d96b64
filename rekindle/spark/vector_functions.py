"""Functions on Arrow columns that mean what Spark's mean, where Arrow's own would not.

Spark orders NaN above every number and takes it for equal to itself; a condition that is NULL takes
no branch; a NULL is in no list. Everything here can be pickled: Spark tasks run it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from rekindle.traces.arrays import single_chunk

LONG_DIGITS = 18
"""Decimals of so many digits have an unscaled value that is a 64-bit integer."""
MOST_WIDE_DIGITS = 76
_EXACT_IN_DOUBLE = 2**53
_EXACT_POWERS = 22
"""Powers of ten up to this one are doubles."""


def compared(name: str, *, floats: bool) -> Callable[[Any, Any], Any]:
    """The comparison that Catalyst calls `name`, of two columns of one type."""
    if name == "EqualNullSafe":
        return partial(_null_safe, compared("EqualTo", floats=floats))
    return _OF_FLOATS[name] if floats else _COMPARISONS[name]


def _null_safe(equal: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
    """`<=>`: two NULLs are equal, and nothing is NULL."""
    both = pc.and_(pc.is_null(left), pc.is_null(right))
    return pc.or_(both, pc.fill_null(equal(left, right), False))


def _equal(left: Any, right: Any) -> Any:
    return pc.or_(pc.equal(left, right), pc.and_(pc.is_nan(left), pc.is_nan(right)))


def _less(left: Any, right: Any) -> Any:
    above = pc.and_(pc.is_nan(right), pc.invert(pc.is_nan(left)))
    return pc.or_(pc.less(left, right), above)


def _less_equal(left: Any, right: Any) -> Any:
    return pc.invert(_less(right, left))


def _greater(left: Any, right: Any) -> Any:
    return _less(right, left)


def _greater_equal(left: Any, right: Any) -> Any:
    return pc.invert(_less(left, right))


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": pc.equal,
    "LessThan": pc.less,
    "LessThanOrEqual": pc.less_equal,
    "GreaterThan": pc.greater,
    "GreaterThanOrEqual": pc.greater_equal,
}
_OF_FLOATS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": _equal,
    "LessThan": _less,
    "LessThanOrEqual": _less_equal,
    "GreaterThan": _greater,
    "GreaterThanOrEqual": _greater_equal,
}
COMPARISONS = (*_COMPARISONS, "EqualNullSafe")


def are_same(*parts: Any) -> Any:
    """Pairs of columns, one after the other, that are equal in all; NULL is equal to NULL."""
    found = [_null_safe(pc.equal, *pair) for pair in zip(parts[::2], parts[1::2], strict=True)]
    return reduce(pc.and_, found)


def row_of(type_: pa.StructType, *values: Any) -> Any:
    """Rows of some values; what is the same in all rows is repeated."""
    rows = next((len(value) for value in values if not isinstance(value, pa.Scalar)), None)
    if rows is None:
        raise pa.ArrowInvalid("a constant row is Spark's to make")
    arrays = []
    for value, field in zip(values, type_, strict=True):
        array = pa.repeat(value, rows) if isinstance(value, pa.Scalar) else single_chunk(value)
        arrays.append(array if array.type == field.type else array.cast(field.type))
    return pa.StructArray.from_arrays(arrays, fields=list(type_))


def field_of(position: int, rows: Any) -> Any:
    """A field of rows: NULL where the row is."""
    return pc.struct_field(rows, [position])


def same_rows(left: Any, right: Any) -> Any:
    """`<=>` of rows: NULLs are equal to each other, also inside."""
    if not pa.types.is_struct(left.type):
        return _null_safe(pc.equal, left, right)
    places = range(left.type.num_fields)
    pairs = [same_rows(field_of(i, left), field_of(i, right)) for i in places]
    return reduce(pc.and_, pairs, pc.equal(pc.is_null(left), pc.is_null(right)))


def equal_rows(left: Any, right: Any) -> Any:
    """`=` of rows: NULL where one of them is, while NULLs inside are equal to each other."""
    missing = pc.or_(pc.is_null(left), pc.is_null(right))
    return pc.if_else(missing, pa.scalar(None, pa.bool_()), same_rows(left, right))


OF_ROWS: dict[str, Callable[[Any, Any], Any]] = {
    "EqualTo": equal_rows,
    "EqualNullSafe": same_rows,
}


def chosen(*parts: Any) -> Any:
    """`CASE`: conditions and values by turns, and the value where no condition holds."""
    *branches, result = parts
    for condition, value in reversed(list(zip(branches[::2], branches[1::2], strict=True))):
        result = pc.if_else(pc.fill_null(condition, False), value, result)
    return result


def is_one_of(values: pa.Array, column: Any) -> Any:
    """`IN` a list without NULLs: NULL for a NULL."""
    found = pc.is_in(column, value_set=values)
    return pc.if_else(pc.is_valid(column), found, pa.scalar(None, pa.bool_()))


def is_like(pattern: str, column: Any) -> Any:
    """`LIKE` a pattern without escapes."""
    return pc.match_like(column, pattern)


def part_of_text(start: int, stop: int, column: Any) -> Any:
    """Some characters of a text, from `start` up to `stop`."""
    return pc.utf8_slice_codeunits(column, start=start, stop=stop)


def begins(pattern: str, column: Any) -> Any:
    """Texts that begin with another."""
    return pc.starts_with(column, pattern)


def ends(pattern: str, column: Any) -> Any:
    """Texts that end with another."""
    return pc.ends_with(column, pattern)


def contains(pattern: str, column: Any) -> Any:
    """Texts that have another inside."""
    return pc.match_substring(column, pattern)


def year_of(column: Any) -> Any:
    """The year of a date."""
    return pc.cast(pc.year(column), pa.int32())


def converted(type_: pa.DataType, column: Any) -> Any:
    """Numbers as a type that holds them; a whole number that no float equals, as the nearest."""
    return pc.cast(column, type_, safe=False)


def narrowed_product(
    left: pa.DataType, right: pa.DataType, result: pa.DataType, one: Any, other: Any
) -> Any:
    """The product of decimals of fewer digits than their types have; fails on any of more."""
    return pc.cast(pc.multiply(pc.cast(one, left), pc.cast(other, right)), result)


def rounded(type_: pa.DataType, column: Any) -> Any:
    """Decimals as ones of fewer digits, a half away from zero; fails on any that is too large."""
    before = column.type
    if before.scale > type_.scale:
        # A digit more: rounding may need it.
        room = min(before.precision + 1, MOST_WIDE_DIGITS)
        column = pc.cast(column, pa.decimal256(room, before.scale))
        column = pc.round(column, ndigits=type_.scale, round_mode="half_towards_infinity")
    return pc.cast(column, type_)


def divided_decimals(
    dividend: pa.DataType, divisor: pa.DataType, result: pa.DataType, left: Any, right: Any
) -> Any:
    """A quotient of decimals; fails where a divisor is zero or has too many digits.

    Arrow cuts it off after more digits than the result has, which leaves every half a half.
    """
    return rounded(result, pc.divide(pc.cast(left, dividend), pc.cast(right, divisor)))


def divided_decimals_or_null(
    dividend: pa.DataType, divisor: pa.DataType, result: pa.DataType, left: Any, right: Any
) -> Any:
    """The same, but NULL where the divisor is zero."""
    return divided_decimals(dividend, divisor, result, left, _unless_zero(right))


def divided_floats(left: Any, right: Any) -> Any:
    """A quotient of floats; fails where the divisor is zero."""
    return pc.divide_checked(left, right)


def divided_floats_or_null(left: Any, right: Any) -> Any:
    """The same, but NULL where the divisor is zero."""
    return pc.divide(left, _unless_zero(right))


def _unless_zero(column: Any) -> Any:
    zero, nothing = (pa.scalar(value, column.type) for value in (0, None))
    return pc.if_else(pc.equal(column, zero), nothing, column)


def present(column: Any) -> Any:
    """The column, which fails if anything is missing in it."""
    if _array(column).null_count:
        raise pa.ArrowInvalid("a sum that left its type is Spark's to judge")
    return column


def unchanged(column: Any) -> Any:
    """The column."""
    return column


def as_long(column: Any) -> Any:
    """Whole numbers, dates and times as 64-bit integers."""
    column = _array(column)
    if pa.types.is_timestamp(column.type):
        return column.view(pa.int64())
    return (column.view(pa.int32()) if pa.types.is_date32(column.type) else column).cast(pa.int64())


def unscaled(column: Any) -> Any:
    """Decimals of at most 18 digits as whole numbers of their last digit."""
    column = _array(column)
    return _with_nulls(column, _halves(column)[0])


def as_doubles(column: Any) -> Any:
    """Decimals as the nearest doubles; fails on any whose digits or scale a double does not hold.

    A quotient of two doubles is the double nearest to it.
    """
    column = _array(column)
    low, high = _halves(column)
    exact = (high == low >> np.int64(63)) & (np.abs(low) < _EXACT_IN_DOUBLE)
    if column.type.scale > _EXACT_POWERS or not (exact | _missing(column)).all():
        raise pa.ArrowInvalid("decimals of many digits are made doubles by Spark")
    return _with_nulls(column, low.astype(np.float64) / 10.0**column.type.scale)


def prefix_of_decimals(column: Any) -> Any:
    """Spark's sort prefix of decimals with many digits before the point: that of doubles."""
    return prefix_of_floats(as_doubles(column))


def prefix_of_floats(column: Any) -> Any:
    """Spark's sort prefix of floats: bits that, read without a sign, ascend with the numbers."""
    column = _array(column)
    values = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
    values = np.where(np.isnan(values), np.nan, np.where(values == 0, 0.0, values))
    bits = values.view(np.int64)
    return _with_nulls(column, bits ^ (bits >> np.int64(63) | np.int64(-(2**63))))


def _array(value: Any) -> Any:
    """A column as one array; a value for all rows is left to Spark."""
    if isinstance(value, pa.Scalar):
        raise pa.ArrowInvalid("a constant is Spark's to convert")
    return single_chunk(value)


def _halves(column: Any) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """The low and the high halves of decimals."""
    words = np.frombuffer(column.buffers()[1], dtype=np.int64).reshape(-1, 2)
    words = words[column.offset : column.offset + len(column)]
    return words[:, 0], words[:, 1]


def _missing(column: Any) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = column.is_null().to_numpy(zero_copy_only=False)
    return found


def _with_nulls(column: Any, values: npt.NDArray[Any]) -> Any:
    """The values, NULL where the column is."""
    mask = _missing(column) if column.null_count else None
    return pa.array(values, mask=mask, from_pandas=False)


def applied(function: Callable[..., Any], operands: Sequence[Any], columns: Any) -> Any:
    """A function of what operands make of the columns."""
    return function(*(operand(columns) for operand in operands))


def taken(position: int, columns: Sequence[Any]) -> Any:
    """The column at a position."""
    return columns[position]


def constant(scalar: pa.Scalar, columns: Sequence[Any]) -> Any:
    """The same value for every row."""
    return scalar
