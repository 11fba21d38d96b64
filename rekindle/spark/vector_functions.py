"""Functions on Arrow columns that mean what Spark's mean, where Arrow's own would not.

Spark orders NaN above every number and takes it for equal to itself; a condition that is NULL takes
no branch; a NULL is in no list. Everything here can be pickled: Spark tasks run it too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


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


def narrowed_product(left: pa.DataType, right: pa.DataType, one: Any, other: Any) -> Any:
    """The product of decimals of fewer digits than their types have; fails on any of more."""
    return pc.multiply(pc.cast(one, left), pc.cast(other, right))


def applied(function: Callable[..., Any], operands: Sequence[Any], columns: Any) -> Any:
    """A function of what operands make of the columns."""
    return function(*(operand(columns) for operand in operands))


def taken(position: int, columns: Sequence[Any]) -> Any:
    """The column at a position."""
    return columns[position]


def constant(scalar: pa.Scalar, columns: Sequence[Any]) -> Any:
    """The same value for every row."""
    return scalar
